//! The time that `--minutes` allows, and what may still be begun.

use std::time::{Duration, Instant};

use remaster_compute::CancelToken;

/// Work under way when the time is up is cancelled this long before, as batches on the device have to end first.
const END: Duration = Duration::from_secs(3);

/// Runs from the start of the command.
pub(super) struct Clock {
    start: Instant,
    limit: Duration,
    /// Cancelled when the time is up.
    pub(super) token: CancelToken,
}

impl Clock {
    pub(super) fn new(limit: Duration) -> Self {
        let token = CancelToken::default();
        let ends = token.clone();
        let wait = move || {
            std::thread::sleep(limit.saturating_sub(END));
            ends.cancel();
        };
        // Without the thread the estimates alone keep the time.
        drop(std::thread::Builder::new().name("clock".into()).spawn(wait));
        Clock { start: Instant::now(), limit, token }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Seconds until this share of the time is used up; negative when it is.
    pub(super) fn left(&self, share: f64) -> f64 {
        let end = self.limit.saturating_sub(END).as_secs_f64();
        share * end - self.seconds()
    }
}
