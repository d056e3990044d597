//! The length of a wait.

use std::time::{Duration, Instant};

/// Measures a wait that is polled. Some systems' clocks run on while the machine sleeps, and sleep does not count: each poll
/// adds no more than a limit.
pub(crate) struct Waited {
    waited: Duration,
    looked: Instant,
    most: Duration,
}

impl Waited {
    /// A wait that begins now, with `most` as the limit.
    pub(crate) fn new(most: Duration) -> Self {
        Waited { waited: Duration::ZERO, looked: Instant::now(), most }
    }

    /// Polls: the length so far.
    pub(crate) fn look(&mut self) -> Duration {
        self.passed(self.looked.elapsed())
    }

    fn passed(&mut self, time: Duration) -> Duration {
        self.looked += time;
        self.waited += time.min(self.most);
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_of_sleep_is_no_wait() {
        let mut waited = Waited::new(Duration::from_secs(1));
        for _ in 0..10 {
            waited.passed(Duration::from_millis(100));
        }
        assert_eq!(waited.passed(Duration::from_secs(8 * 3600)), Duration::from_secs(2));
    }
}
