//! Where the latents of a unit are, and what is read for them.

use std::ops::Range;

use remaster_colour::alpha::AlphaKind;
use remaster_plan::{LookBack, Needs, ShotRange, Windows};

use super::{Unit, UnitShot};
use crate::error::RestoreError;
use crate::finish::Pool;

/// What is left to do of a shot.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its number in the unit.
    pub(super) shot: usize,
    /// Frames that are still to be made.
    pub(super) range: ShotRange,
    /// What these take.
    pub(super) needs: Needs,
    /// Where its shot begins in the film.
    pub(super) start: usize,
    pub(super) alpha: Option<AlphaKind>,
    /// Number in the unit of the first latent that these need.
    place: usize,
}

impl Item {
    /// Number in the unit of a latent of the shot.
    pub(super) fn place(&self, latent: usize) -> usize {
        self.place + latent - self.needs.encoded.start
    }

    /// Numbers of all that it needs.
    pub(super) fn places(&self) -> Range<usize> {
        self.place..self.place + self.needs.encoded.len()
    }
}

/// What is left of a unit. Latents are numbered through all of the unit, wherever a run begins.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Shots with frames that are still to be made.
    pub(super) items: Vec<Item>,
    /// The latents that they need.
    pub(super) places: Range<usize>,
}

impl Layout {
    /// Of a unit from a frame of the film on.
    pub(super) fn new(
        unit: &Unit,
        from: usize,
        windows: &Windows,
        pool: Pool,
        back: LookBack,
    ) -> Result<Self, RestoreError> {
        unit.check()?;
        let all = unit.frames();
        if !all.contains(&from) {
            return Err(RestoreError::Outside { frame: from, first: all.start, end: all.end });
        }
        let (mut items, mut next): (Vec<Item>, usize) = (Vec::new(), 0);
        for (i, shot) in unit.shots.iter().enumerate() {
            check_ends(shot, windows, pool)?;
            let needs = shot.range.needs(windows, back);
            let (place, first) = (next, needs.encoded.start);
            next += needs.encoded.len();
            if shot.end() <= from {
                continue;
            }
            if shot.first < from {
                check_start(shot, from, windows, pool)?;
            }
            let range = shot.range.from(from.saturating_sub(shot.shot_start()));
            let needs = if range == shot.range { needs } else { range.needs(windows, back) };
            let place = place + needs.encoded.start - first;
            items.push(Item { shot: i, range, needs, start: shot.shot_start(), alpha: shot.alpha, place });
        }
        let start = items.first().map_or(next, |item| item.place);
        Ok(Layout { items, places: start..next })
    }

    /// What is read to encode the latents from number `place` on. Shots whose frames follow one another are read at once.
    pub(super) fn readings(&self, place: usize, back: LookBack) -> Vec<Reading<'_>> {
        let left = self.items.iter().filter(|item| item.places().end > place);
        left.map(|item| {
            let from = item.needs.encoded.start + place.saturating_sub(item.place);
            let (first, frames) = item.needs.again(from, back);
            Reading { item, first, frames, from }
        })
        .collect()
    }
}

/// Frames that are read for latents of a shot.
#[derive(Clone, Debug)]
pub(super) struct Reading<'a> {
    pub(super) item: &'a Item,
    /// The first latent that they give.
    pub(super) first: usize,
    /// Frames of the shot.
    pub(super) frames: Range<usize>,
    /// The first latent that is wanted.
    pub(super) from: usize,
}

impl Reading<'_> {
    /// The frames in the film.
    pub(super) fn film(&self) -> Range<usize> {
        self.item.start + self.frames.start..self.item.start + self.frames.end
    }

    /// Whether another one can be read behind it at once: a cut lies between them, and nothing else.
    pub(super) fn is_followed_by(&self, next: &Reading<'_>) -> bool {
        self.frames.end == self.item.range.shot
            && next.frames.start == 0
            && self.film().end == next.film().start
    }
}

/// A range begins and ends where windows begin; a pool of whole shots has no ranges.
fn check_ends(shot: &UnitShot, windows: &Windows, pool: Pool) -> Result<(), RestoreError> {
    let made = &shot.range.made;
    if made.start > 0 {
        check_start(shot, shot.first, windows, pool)?;
    }
    if made.end < shot.range.shot {
        check_start(shot, shot.end(), windows, pool)?;
    }
    Ok(())
}

/// Whether a piece can start with this frame of a shot, which is not its first.
fn check_start(shot: &UnitShot, frame: usize, windows: &Windows, pool: Pool) -> Result<(), RestoreError> {
    match pool {
        Pool::Shot => Err(RestoreError::Divided { frame }),
        Pool::Frame | Pool::Window if shot.can_start(frame, windows) => Ok(()),
        Pool::Frame | Pool::Window => Err(RestoreError::Piece { frame, start: shot.shot_start() }),
    }
}
