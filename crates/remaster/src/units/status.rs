//! What is done of a plan.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use remaster_store::Commit;
use serde::Serialize;

use super::todo::adopted;
use super::{make, store};
use crate::control::Control;
use crate::error::Error;
use crate::machine::host::Machine;

/// What is done of a plan.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct UnitsStatus {
    /// Where the plan is.
    pub plan: String,
    /// All of them.
    pub units: u32,
    /// Units that are restored.
    pub done: Vec<u32>,
    /// Units that are not.
    pub missing: Vec<u32>,
    /// Units that could not be restored: they have the frames of the input.
    pub left: Vec<u32>,
    /// Of the film.
    pub frames: usize,
    /// Frames that are in the store, also those of units that are not done.
    pub frames_done: usize,
}

/// Looks at what is done of the plan in this folder or at this URL.
pub fn status(plan_at: &OsStr, machine: &Machine, control: &Control) -> Result<UnitsStatus, Error> {
    let (journal, plan) = make::open(store(plan_at, machine)?)?;
    let units = journal.plan().units();
    // What is damaged is not done.
    let there: BTreeMap<u32, Commit> =
        journal.commits()?.whole.into_iter().map(|commit| (commit.unit, commit)).collect();
    let name = plan_at.to_string_lossy().into_owned();
    let mut status = UnitsStatus { plan: name, units, frames: plan.frames, ..UnitsStatus::default() };
    for unit in 0..units {
        control.check()?;
        let frames = plan.unit(unit)?.unit.frames().len();
        let (list, reached) = match there.get(&unit) {
            Some(commit) if commit.left => (&mut status.left, frames),
            Some(_) => (&mut status.done, frames),
            None => (&mut status.missing, adopted(&journal, &plan, unit)?),
        };
        list.push(unit);
        status.frames_done += reached;
    }
    Ok(status)
}

/// `0-3,7`: as `--index` takes it.
pub fn ranges(units: &[u32]) -> String {
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
