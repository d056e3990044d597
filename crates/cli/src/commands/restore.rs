//! `remaster restore`.

use remaster::{Machine, Outcome, prepare};
use serde_json::json;

use super::{check_stdout, film, worker};
use crate::args::RestoreArgs;
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
    let mut show = Show::new(args.progress.mode, out, interrupt);
    if let Some(warning) = args.how.compat.warning() {
        out.say(format_args!("warning: {warning}"));
    }
    let prepared = prepare(args.request(), &Machine::this(), control, &mut |event| show.event(event))?;
    match prepared.run(&worker(), &mut |event| show.event(event))? {
        Outcome::Restored(outcome) => {
            let summary = show.finish();
            film::conclude(&outcome, &summary, args.progress.mode, out);
        }
        Outcome::Skipped { output } => {
            let (input, output) = (args.input.display().to_string(), output.display().to_string());
            let report = json!({ "input": input, "output": output, "skipped": true });
            out.conclude(&report, || {
                format!("{output} is done already, with the same input and settings; use -y to make it again")
            });
        }
    }
    Ok(())
}
