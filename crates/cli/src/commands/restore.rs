//! `remaster restore`.

use remaster::{Machine, Outcome, Request, prepare};
use serde_json::json;

use super::{check_stdout, film, worker};
use crate::args::{ProgressMode, RestoreArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &RestoreArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    check_stdout(args.output.as_deref(), out)?;
    args.how.compat.refuse()?;
    if let Some(until) = args.local.until {
        control.stop_at(until);
    }
    if let Some(warning) = args.how.compat.warning() {
        out.say(format_args!("warning: {warning}"));
    }
    restore(args.request(), args.progress.mode, out, interrupt)
}

/// Restores a film and says what became of it.
pub(super) fn restore(
    request: Request,
    mode: ProgressMode,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let mut show = Show::new(mode, out, interrupt);
    let input = request.input.display().to_string();
    let prepared = prepare(request, &Machine::this(), interrupt.control(), &mut |event| show.event(event))?;
    match prepared.run(&worker(), &mut |event| show.event(event))? {
        Outcome::Restored(outcome) => {
            let summary = show.finish();
            film::conclude(&outcome, &summary, mode, out);
        }
        Outcome::Skipped { output, frames, .. } => {
            let output = output.display().to_string();
            let mut report = json!({ "input": input, "output": output, "skipped": true });
            if let Some(frames) = frames {
                report["frames"] = frames.into();
            }
            out.conclude(&report, || {
                format!("{output} is done already, with the same input and settings; use -y to make it again")
            });
        }
    }
    Ok(())
}
