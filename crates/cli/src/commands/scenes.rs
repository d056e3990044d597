//! `remaster scenes`.

use remaster::numbers::count;

use crate::args::ScenesArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &ScenesArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let shots = show.run(args.request())?;
    let _ = show.finish();
    match &args.output {
        Some(path) if !out.is_json() => out.conclude(&(), || {
            let frames = usize::try_from(shots.frames().unwrap_or(0)).unwrap_or(usize::MAX);
            let (shots, frames) = (count(shots.starts().len(), "shot"), count(frames, "frame"));
            format!("wrote {}: {shots} in {frames}", path.display())
        }),
        _ => out.raw(shots.to_json().as_bytes()),
    }
    Ok(())
}
