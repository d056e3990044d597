//! `remaster redecode`.

use std::path::Path;

use remaster::RedecodeOutcome;

use super::{check_stdout, conclude, film};
use crate::args::RedecodeArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Summed;
use crate::show::Show;

pub(crate) fn run(args: &RedecodeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request = args.request();
    check_stdout(request.output.as_deref(), out)?;
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let outcome = &show.run(request)?;
    let summary = &show.finish();
    let RedecodeOutcome { output, frames, shots, width, height, .. } = outcome;
    let text = || film::ended(output, *frames, shots, [*width, *height], summary, out);
    conclude(&Summed { outcome, summary }, text, Path::new(output), args.progress.mode, out);
    Ok(())
}
