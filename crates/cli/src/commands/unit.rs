//! `remaster unit` and `remaster assemble`.

use remaster::Machine;
use remaster::numbers::{count, grouped};
use remaster::units::{self, UnitsStatus, ranges};

use super::{check_stdout, conclude};
use crate::args::{AssembleArgs, UnitRunArgs, UnitStatusArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &UnitRunArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let _hearing = match args.obey_stdin {
        true => Some(keys::obey(interrupt, Some(show.pause()))?),
        false => None,
    };
    let report = show.run(args.request())?;
    if report.tried {
        let _ = show.finish();
    }
    out.conclude(&report, || {
        let others = match report.elsewhere.len() {
            0 => String::new(),
            n => format!(", {} done already", count(n, "unit")),
        };
        let (units, frames) = (count(report.done.len(), "unit"), count(report.frames, "frame"));
        format!("did {units}{others}, {frames}, in {:.1} s", report.seconds)
    });
    Ok(())
}

pub(crate) fn status(args: &UnitStatusArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    let report = units::status(&args.plan, &Machine::this(), control)?;
    out.result(&report, || {
        let UnitsStatus { units, done, missing, left, .. } = &report;
        let (units, done) = (count(*units as usize, "unit"), grouped(done.len()));
        let (frames, frames_done) = (count(report.frames, "frame"), grouped(report.frames_done));
        let mut text = format!("{done} of {units} done, {frames_done} of {frames}\n");
        for (what, list) in [("missing", missing), ("not restored", left)] {
            if !list.is_empty() {
                text += &format!("  {what:12} {}\n", ranges(list));
            }
        }
        let plan = &report.plan;
        text + &match missing.as_slice() {
            [] => format!("join them with `remaster assemble --plan {plan} --input FILM -o OUTPUT`\n"),
            _ => format!(
                "do the missing ones with `remaster unit run --plan {plan} --input FILM --index missing`\n"
            ),
        }
    });
    Ok(())
}

pub(crate) fn assemble(args: &AssembleArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    check_stdout(Some(&args.output), out)?;
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let report = show.run(args.request())?;
    let _ = show.finish();
    let text = || {
        let (frames, units) = (count(report.frames, "frame"), count(report.units, "unit"));
        format!("wrote {}: {frames} of {units}, in {:.1} s", report.output, report.seconds)
    };
    conclude(&report, text, &args.output, args.progress.mode, out);
    Ok(())
}
