//! Units that are not done, and what is done of them.

use remaster_store::Journal;
use remaster_units::FilmPlan;

use crate::error::Error;

/// A unit that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Todo {
    pub(super) unit: u32,
    pub(super) frames: usize,
    /// Of these, frames in pieces that an earlier attempt finished.
    pub(super) adopted: usize,
}

impl Todo {
    pub(super) fn new(journal: &Journal, plan: &FilmPlan, unit: u32) -> Result<Self, Error> {
        let frames = frames_of(plan, unit);
        Ok(Todo { unit, frames, adopted: adopted(journal, unit, frames)? })
    }
}

/// Frames of a unit.
pub(super) fn frames_of(plan: &FilmPlan, unit: u32) -> usize {
    plan.unit(unit).map_or(0, |unit| unit.unit.frames().len())
}

/// Frames of a unit that are in finished pieces.
pub(super) fn adopted(journal: &Journal, unit: u32, frames: usize) -> Result<usize, Error> {
    let kept: u64 = journal.pieces(unit)?.whole.values().map(|piece| piece.frames).sum();
    Ok(usize::try_from(kept).unwrap_or(frames).min(frames))
}
