//! Time that does not pass while others have the machine.

use std::time::Duration;

/// Time that this thread spent on a CPU. Where the system does not say, time on the clock.
pub fn busy() -> Duration {
    match std::fs::read_to_string("/proc/thread-self/schedstat") {
        Ok(said) => {
            Duration::from_nanos(said.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default())
        }
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}
