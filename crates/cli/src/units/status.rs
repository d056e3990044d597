//! `remaster unit status`: what is done of a plan.

use std::collections::BTreeMap;

use remaster_store::Commit;
use serde::Serialize;

use super::args::UnitStatusArgs;
use super::local::adopted;
use super::{make, store};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::numbers::{count, grouped};
use crate::output::Output;

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    plan: String,
    units: u32,
    /// Units that are restored.
    done: Vec<u32>,
    /// Units that are not.
    missing: Vec<u32>,
    /// Units that could not be restored: they have the frames of the input.
    left: Vec<u32>,
    frames: usize,
    /// Frames that are in the store, also those of units that are not done.
    frames_done: usize,
}

pub(crate) fn run(args: &UnitStatusArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let (journal, plan) = make::open(store(&args.plan)?)?;
    let units = journal.plan().units();
    // What is damaged is not done.
    let there: BTreeMap<u32, Commit> =
        journal.commits()?.whole.into_iter().map(|commit| (commit.unit, commit)).collect();
    let mut report = Report {
        plan: args.plan.to_string_lossy().into_owned(),
        units,
        done: Vec::new(),
        missing: Vec::new(),
        left: Vec::new(),
        frames: plan.frames,
        frames_done: 0,
    };
    for unit in 0..units {
        if cancel.is_cancelled() {
            return Err(CliError::Interrupted);
        }
        let frames = plan.unit(unit)?.unit.frames().len();
        let (list, reached) = match there.get(&unit) {
            Some(commit) if commit.left => (&mut report.left, frames),
            Some(_) => (&mut report.done, frames),
            None => (&mut report.missing, adopted(&journal, unit, frames)?),
        };
        list.push(unit);
        report.frames_done += reached;
    }
    out.result(&report, || {
        let Report { done, missing, left, .. } = &report;
        let mut text = format!(
            "{} of {} done, {} of {}\n",
            grouped(done.len()),
            count(units as usize, "unit"),
            grouped(report.frames_done),
            count(report.frames, "frame"),
        );
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

/// `0-3,7`: as `--index` takes it.
pub(super) fn ranges(units: &[u32]) -> String {
    let mut parts: Vec<[u32; 2]> = Vec::new();
    for unit in units {
        match parts.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(*unit) => *last = *unit,
            _ => parts.push([*unit; 2]),
        }
    }
    let text = |[first, last]: &[u32; 2]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_listed_as_they_are_typed() {
        for (units, text) in [(&[][..], ""), (&[5], "5"), (&[0, 1, 2, 3, 7], "0-3,7"), (&[1, 3, 4], "1,3-4")]
        {
            assert_eq!(ranges(units), text);
        }
    }
}
