//! How often something is tried again, and after which wait.

use std::time::Duration;

use crate::caller::Caller;
use crate::error::HubError;
use crate::settings::{Event, Limits};

/// How an attempt failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It may work next time.
    Passing {
        host: String,
        reason: String,
        /// What the server asks for.
        after: Option<Duration>,
    },
    /// It never will.
    Final(HubError),
}

impl From<HubError> for Fault {
    fn from(error: HubError) -> Self {
        Fault::Final(error)
    }
}

/// Attempts in a row that brought nothing new.
pub(crate) struct Tries<'a> {
    limits: &'a Limits,
    failed: u32,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Tries { limits, failed: 0 }
    }

    /// Something new came.
    pub(crate) fn progress(&mut self) {
        self.failed = 0;
    }

    /// Waits before the next attempt, or says that there is none.
    pub(crate) fn again(&mut self, fault: Fault, caller: &mut Caller<'_>) -> Result<(), HubError> {
        let (host, reason, after) = match fault {
            Fault::Final(error) => return Err(error),
            Fault::Passing { host, reason, after } => (host, reason, after),
        };
        self.failed += 1;
        if self.failed > self.limits.retries {
            return Err(HubError::Network { host, reason, tries: self.failed });
        }
        let doubled = self.limits.backoff.saturating_mul(1 << (self.failed - 1).min(16));
        let wait = after.unwrap_or(doubled).min(self.limits.longest_wait);
        caller.tell(Event::Retrying { reason: &reason, after: wait });
        caller.sleep(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::Stop;

    #[test]
    fn waits_double_up_to_a_limit_and_end_after_the_last_attempt() {
        let [backoff, longest_wait] = [2, 5].map(Duration::from_millis);
        let limits = Limits { retries: 3, backoff, longest_wait, ..Limits::default() };
        let mut tries = Tries::new(&limits);
        let mut waits = Vec::new();
        let fault = |after| Fault::Passing { host: "h".into(), reason: "r".into(), after };
        let (stop, stopped): (Stop, Stop) = (Arc::new(|| false), Arc::new(|| true));
        let mut note = |event: Event<'_>| {
            if let Event::Retrying { after, .. } = event {
                waits.push(after.as_millis());
            }
        };
        let mut caller = Caller { events: &mut note, stop: &stop };
        for after in [None, None, None] {
            tries.again(fault(after), &mut caller).unwrap();
        }
        let last = tries.again(fault(None), &mut caller).unwrap_err();
        assert!(matches!(last, HubError::Network { tries: 4, .. }), "{last}");
        tries.progress();
        tries.again(fault(Some(Duration::from_millis(1))), &mut caller).unwrap();
        assert_eq!(waits, [2, 4, 5, 1]);
        let caller = Caller { events: &mut |_| {}, stop: &stopped };
        assert!(matches!(caller.sleep(Duration::from_secs(9)), Err(HubError::Cancelled)));
    }
}
