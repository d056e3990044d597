//! Units of a film: some whole shots, or a range of a long one, restored apart from the rest, to the same bits.

mod cut;
mod encode;
mod keeper;
mod layout;
mod run;
mod spec;
mod transform;

use std::ops::Range;

use remaster_colour::alpha::AlphaKind;
use remaster_plan::{LookBack, ShotRange, Windows};
use serde::{Deserialize, Serialize};

pub use cut::units_of;
pub(crate) use keeper::CHUNK;
pub use keeper::Checkpoint;
pub(crate) use run::in_chunks;
pub use run::{Opener, UnitWork};
pub use spec::UnitError;

use spec::UnitSpec;

/// A range of a shot of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitShot {
    /// Which frames of the shot.
    pub range: ShotRange,
    /// Number of the first one in the film.
    pub first: usize,
    /// Of what kind the alpha of the whole shot is.
    pub alpha: Option<AlphaKind>,
}

impl UnitShot {
    /// Where its shot begins in the film.
    fn shot_start(&self) -> usize {
        self.first.saturating_sub(self.range.made.start)
    }

    /// The frame of the film behind its last one.
    fn end(&self) -> usize {
        self.first.saturating_add(self.range.made.len())
    }
}

/// A unit of a film. In files it is checked when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UnitSpec", into = "UnitSpec")]
pub struct Unit {
    /// Frames that follow one another without a gap: whole shots, or ranges.
    pub shots: Vec<UnitShot>,
}

impl Unit {
    /// The frames of the film that it makes.
    pub fn frames(&self) -> Range<usize> {
        let start = self.shots.first().map_or(0, |shot| shot.first);
        start..self.shots.last().map_or(start, UnitShot::end)
    }

    /// The frames of the film that it reads, with those from which the state of the networks is made.
    pub fn read(&self, windows: &Windows, back: LookBack) -> Range<usize> {
        let mut all = self.frames();
        for shot in &self.shots {
            let read = shot.range.needs(windows, back).read;
            all.start = all.start.min(shot.shot_start().saturating_add(read.start));
            all.end = all.end.max(shot.shot_start().saturating_add(read.end));
        }
        all
    }

    /// Latents that wait at the same time.
    pub fn latents(&self, windows: &Windows, back: LookBack) -> usize {
        let each = self.shots.iter().map(|shot| shot.range.needs(windows, back).encoded.len());
        each.fold(0, usize::saturating_add)
    }
}
