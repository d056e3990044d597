//! Places of a film at which its clock runs on without frames.

use crate::nut::TimeBase;

/// Gaps that are remembered. A film of a variable rate has more, and says nothing with them.
const MAX_GAPS: usize = 64;

/// Frames that a gap has room for at least, the one before it counted. Of pulldown that is left to players some frames are
/// shown for one and a half.
const LONG: f64 = 1.75;

/// Gaps of a stream without counters that say something: one with more has a variable rate.
const FEW_GAPS: usize = 8;

/// Two neighbours that are further apart than frames are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gap {
    /// Number of the second one.
    pub(crate) frame: usize,
    /// When both are shown, in seconds.
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// The gaps of a film.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// Seconds of a frame.
    frame: f64,
    last: Option<f64>,
    frames: usize,
    pub(crate) found: Vec<Gap>,
}

impl Gaps {
    /// The first one of a film that has few.
    pub(crate) fn rare(&self) -> Option<Gap> {
        self.found.first().filter(|_| self.found.len() <= FEW_GAPS).copied()
    }

    /// Of frames that are `frame` seconds apart.
    pub(crate) fn of(frame: f64) -> Self {
        Gaps { frame, ..Gaps::default() }
    }

    /// The next frame is shown at `pts`.
    pub(crate) fn add(&mut self, pts: i64, clock: TimeBase) {
        let to = clock.seconds(pts);
        let from = self.last.filter(|from| to - from > LONG * self.frame && self.found.len() < MAX_GAPS);
        self.found.extend(from.map(|from| Gap { frame: self.frames, from, to }));
        (self.last, self.frames) = (Some(to), self.frames + 1);
    }
}
