//! Waiting for space on a full disk.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use remaster_compute::CancelToken;
use remaster_disk::free_space;
use remaster_media::MediaError;
use remaster_plan::bytes;
use remaster_units::UnitsError;

use crate::error::CliError;
use crate::progress::Progress;

/// How often a full disk is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Free space that must come back before it is worth trying again.
const ENOUGH: u64 = 1 << 20;

/// Disks that may be full, and how long that is waited for.
pub(super) struct Disks<'a> {
    pub(super) folders: Vec<PathBuf>,
    pub(super) wait: Duration,
    pub(super) cancel: &'a CancelToken,
}

impl Disks<'_> {
    /// Does some work, again whenever a disk was full and has space again.
    pub(super) fn waited_for<T>(
        &self,
        progress: &mut Progress,
        mut work: impl FnMut(&mut Progress) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let deadline = Instant::now().checked_add(self.wait);
        loop {
            let error = match work(progress).map_err(as_units) {
                Ok(done) => return Ok(done),
                Err(Ok(error)) if error.is_full() => error,
                Err(Ok(error)) if error.is_cancelled() => return Err(MediaError::Cancelled.into()),
                Err(Ok(error)) => return Err(error.into()),
                Err(Err(error)) => return Err(error),
            };
            let before: Vec<Option<u64>> = self.folders.iter().map(|folder| free_space(folder)).collect();
            if !self.wait.is_zero() {
                let least = before.iter().flatten().min().copied().unwrap_or(0);
                let minutes = self.wait.as_secs().div_ceil(60);
                progress.warn(format!(
                    "{error}; {} left; waiting up to {minutes} min for more, nothing is lost",
                    bytes(least)
                ));
            }
            while !self.has_more(&before) {
                if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    return Err(CliError::Full { source: error });
                }
                self.nap()?;
            }
            progress.warn("space is available again; resuming");
        }
    }

    /// Whether a disk has more free space than it had.
    fn has_more(&self, before: &[Option<u64>]) -> bool {
        self.folders.iter().zip(before).any(|(folder, before)| {
            let now = free_space(folder).zip(*before);
            now.is_some_and(|(now, before)| now >= before.saturating_add(ENOUGH))
        })
    }

    fn nap(&self) -> Result<(), CliError> {
        let until = Instant::now() + LOOK;
        while Instant::now() < until {
            if self.cancel.is_cancelled() {
                return Err(CliError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// What went wrong with units, if it was that.
fn as_units(error: CliError) -> Result<UnitsError, CliError> {
    match error {
        CliError::Media(error) => Ok(UnitsError::Media(error)),
        CliError::Restore(error) => Ok(UnitsError::Restore(error)),
        CliError::Units(error) => Ok(error),
        error => Err(error),
    }
}
