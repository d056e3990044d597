//! `remaster preview`.

use remaster::numbers::count;

use crate::args::PreviewArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &PreviewArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    args.how.compat.refuse()?;
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let made = show.run(args.request())?;
    let _ = show.finish();
    let frames = count(made.frames.len(), "frame");
    out.conclude(&made, || format!("wrote {}: {frames}, before and after", made.output));
    Ok(())
}
