//! Units that are not done, and what is done of them.

use remaster_store::Journal;
use remaster_units::{FilmPlan, checkpoint};

use crate::error::Error;

/// A unit that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Todo {
    pub(super) unit: u32,
    pub(super) frames: usize,
    /// Of these, frames that an earlier attempt made: in finished pieces, and in checkpoints of the next one.
    pub(super) adopted: usize,
}

impl Todo {
    pub(super) fn new(journal: &Journal, plan: &FilmPlan, unit: u32) -> Result<Self, Error> {
        Ok(Todo { unit, frames: frames_of(plan, unit), adopted: adopted(journal, plan, unit)? })
    }
}

/// Frames of a unit.
pub(super) fn frames_of(plan: &FilmPlan, unit: u32) -> usize {
    plan.unit(unit).map_or(0, |unit| unit.unit.frames().len())
}

/// Frames of a unit that are in finished pieces and in checkpoints behind them.
pub(super) fn adopted(journal: &Journal, plan: &FilmPlan, unit: u32) -> Result<usize, Error> {
    let frames = plan.unit(unit)?.unit.frames();
    let found = journal.pieces(unit)?;
    let whole: u64 = found.whole.values().map(|piece| piece.frames).sum();
    let whole = usize::try_from(whole).unwrap_or(usize::MAX).min(frames.len());
    let next = frames.start + whole;
    Ok(whole + checkpoint::saved_frames(&found.others, next).min(frames.end - next))
}
