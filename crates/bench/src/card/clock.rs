//! The time that `--minutes` allows, and what may still be begun.

use std::time::{Duration, Instant};

use remaster_compute::CancelToken;

/// Work under way is cancelled this long before the time is up, or at three quarters of a short time: batches on the
/// device have to end first.
const END: Duration = Duration::from_secs(5);

/// Runs from the start of the command.
pub(crate) struct Clock {
    start: Instant,
    /// When nothing may run any more.
    end: Duration,
    /// Cancelled then.
    pub(crate) token: CancelToken,
}

impl Clock {
    pub(crate) fn new(limit: Duration) -> Self {
        let end = limit.saturating_sub(END).max(limit * 3 / 4);
        let token = CancelToken::default();
        let ends = token.clone();
        let wait = move || {
            std::thread::sleep(end);
            ends.cancel();
        };
        // Without the thread the estimates alone keep the time.
        drop(std::thread::Builder::new().name("clock".into()).spawn(wait));
        Clock { start: Instant::now(), end, token }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Seconds until this share of the time is used up; negative when it is.
    pub(crate) fn left(&self, share: f64) -> f64 {
        share * self.end.as_secs_f64() - self.seconds()
    }
}
