//! `remaster batch`.

use remaster::numbers::count;
use remaster::{BatchOutcome, Machine};

use super::worker;
use crate::args::BatchArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &BatchArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    args.how.compat.refuse()?;
    if let Some(warning) = args.how.compat.warning() {
        out.say(format_args!("warning: {warning}"));
    }
    if let Some(until) = args.local.until {
        control.stop_at(until);
    }
    // Stdout is for the document of all films.
    let one = out.of_one();
    let mut show = Show::new(args.progress.mode, &one, interrupt);
    let outcome = remaster::batch(&args.request(), &Machine::this(), control, &worker(), &mut |event| {
        show.event(event)
    })?;
    drop(show);
    out.conclude(&outcome, || {
        let BatchOutcome { films, done, skipped, failed, .. } = &outcome;
        format!("{}: {done} restored, {skipped} skipped, {failed} failed", count(films.len(), "film"))
    });
    Ok(outcome.check()?)
}
