//! Who waits for a download: told what happens, and asked whether to go on.

use std::time::{Duration, Instant};

use crate::error::HubError;
use crate::settings::{Event, Stop};

pub(crate) struct Caller<'a> {
    pub(crate) events: &'a mut dyn FnMut(Event<'_>),
    pub(crate) stop: &'a Stop,
}

impl Caller<'_> {
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        (self.events)(event);
    }

    /// An error once cancellation was requested.
    pub(crate) fn going_on(&self) -> Result<(), HubError> {
        if (self.stop)() { Err(HubError::Cancelled) } else { Ok(()) }
    }

    /// Sleeps, and wakes up on cancellation.
    pub(crate) fn sleep(&self, wait: Duration) -> Result<(), HubError> {
        let until = Instant::now() + wait;
        loop {
            self.going_on()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}
