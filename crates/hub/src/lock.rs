//! One process at a time downloads a file. The lock is the one that huggingface_hub takes, in the same place.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cache::open_own;
use crate::caller::Caller;
use crate::error::{self, HubError};
use crate::settings::Event;

/// How often to look whether it is free.
const STEP: Duration = Duration::from_millis(100);

/// Held while this lives. The file stays: removing it would let two processes lock two files of one name.
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it lets go of the lock")] File);

impl Lock {
    /// Waits for the lock at `path`, for `most` at most.
    pub(crate) fn take(path: &Path, most: Duration, caller: &mut Caller<'_>) -> Result<Self, HubError> {
        let file = open_own(path).map_err(error::write(path))?;
        let started = Instant::now();
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) if started.elapsed() >= most => {
                    return Err(HubError::Locked { path: path.to_owned(), seconds: most.as_secs() });
                }
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        caller.tell(Event::Waiting { most });
                        told = true;
                    }
                    caller.sleep(STEP.min(most))?;
                }
                // Some network file systems have no locks. Two downloads then spoil each other's bytes, which the hash
                // of the whole shows.
                Err(TryLockError::Error(_)) => return Ok(Lock(file)),
            }
        }
    }
}
