//! When frames are saved: arithmetic without a clock.

use std::time::Duration;

/// Share of the time that the work may wait for checkpoints, and what is no matter in any case.
const MAX_WAIT: u32 = 20;
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// How fast the frames of a piece come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Seconds of a frame of the piece before.
    before: f64,
    /// Frames of this piece that came.
    frames: u32,
    /// From the first of them to the last.
    took: Duration,
}

impl Pace {
    /// The pace of the next piece, of which nothing is known yet.
    pub(super) fn next_piece(self) -> Self {
        let before = if self.frames > 1 { self.of_this_piece() } else { self.before };
        Pace { before, ..Pace::default() }
    }

    /// A frame came, so long after the first one of the piece.
    pub(super) fn frame(&mut self, since_first: Duration) {
        self.frames += 1;
        self.took = since_first;
    }

    fn of_this_piece(self) -> f64 {
        self.took.as_secs_f64() / f64::from(self.frames.saturating_sub(1).max(1))
    }

    /// Whether so many frames take so long that they are worth saving. Without a second frame nobody knows. An encoder takes
    /// its first frames at once, however slow it is, so the piece before counts as well.
    pub(super) fn is_worth_saving(self, frames: usize, every: Duration) -> bool {
        if self.frames < 2 && self.before <= 0.0 {
            return true;
        }
        let each = if self.frames < 2 { self.before } else { self.of_this_piece().max(self.before) };
        each * frames as f64 >= every.as_secs_f64()
    }
}

/// Whether work that waited so long for checkpoints waits too much.
pub(super) fn is_too_slow(waited: Duration, worked: Duration) -> bool {
    waited > worked / MAX_WAIT + SHORT_WAIT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace after frames that took so long each.
    fn pace(before: Pace, seconds: f64, frames: u32) -> Pace {
        let mut pace = before.next_piece();
        (0..frames).for_each(|i| pace.frame(Duration::from_secs_f64(seconds * f64::from(i))));
        pace
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn frames_are_saved_if_all_of_them_take_a_minute() {
        let new = Pace::default();
        for (seconds, frames, worth) in
            [(0.2, 250, false), (0.25, 250, true), (5.0, 11, false), (5.0, 12, true)]
        {
            assert_eq!(pace(new, seconds, 6).is_worth_saving(frames, MINUTE), worth, "{seconds} {frames}");
        }
        // The first frame says nothing, and what is to be saved at once always is.
        assert!(
            pace(new, 0.01, 1).is_worth_saving(1, MINUTE) && pace(new, 0.01, 0).is_worth_saving(1, MINUTE)
        );
        assert!(pace(new, 0.0, 9).is_worth_saving(250, Duration::ZERO));
    }

    #[test]
    fn an_encoder_that_takes_its_first_frames_at_once_is_known_from_the_piece_before() {
        let slow = pace(Pace::default(), 0.5, 250);
        assert!(pace(slow, 0.01, 5).is_worth_saving(245, MINUTE));
        assert!(pace(slow, 0.01, 0).is_worth_saving(250, MINUTE));
        // A machine that has become faster is believed with the next piece.
        let fast = pace(slow, 0.01, 250);
        assert!(!pace(fast, 0.01, 5).is_worth_saving(245, MINUTE));
        // A piece of one frame says nothing.
        assert!(pace(pace(slow, 0.01, 1), 0.01, 5).is_worth_saving(245, MINUTE));
    }

    #[test]
    fn work_waits_for_a_twentieth_of_its_time_at_most() {
        let seconds = Duration::from_secs;
        assert!(!is_too_slow(seconds(1), seconds(0)) && is_too_slow(seconds(2), seconds(10)));
        assert!(!is_too_slow(seconds(6), seconds(100)) && is_too_slow(seconds(7), seconds(100)));
    }
}
