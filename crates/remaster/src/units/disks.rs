//! Waiting for space on a full disk.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use remaster_media::MediaError;
use remaster_plan::bytes;
use remaster_units::UnitsError;

use crate::control::Control;
use crate::error::Error;
use crate::event::Reporter;
use crate::machine::host::Machine;
use crate::restore::Staged;

/// Poll interval for free space.
const LOOK: Duration = Duration::from_secs(2);

/// Free space that must come back before it is worth trying again.
const ENOUGH: u64 = 1 << 20;

/// Disks that may be full, and how long that is waited for.
pub(super) struct Disks {
    pub(super) folders: Vec<PathBuf>,
    pub(super) wait: Duration,
    pub(super) machine: Machine,
    pub(super) control: Control,
}

impl Disks {
    /// Disks of folders that a run writes to.
    pub(super) fn of<'a>(
        stage: &Staged,
        wait: Duration,
        folders: impl IntoIterator<Item = &'a Path>,
    ) -> Self {
        let folders = folders.into_iter().map(ToOwned::to_owned).collect();
        Disks { folders, wait, machine: stage.machine().clone(), control: stage.control.clone() }
    }

    /// Does some work, again whenever a disk was full and has space again.
    pub(super) fn waited_for<T>(
        &self,
        report: &Reporter<'_>,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now().checked_add(self.wait);
        let mut tried = false;
        loop {
            match work().map_err(as_units) {
                Ok(done) => return Ok(done),
                Err(Ok(error)) if error.is_full() => {}
                Err(Ok(error)) if error.is_cancelled() => return Err(MediaError::Cancelled.into()),
                Err(Ok(error)) => return Err(error.into()),
                Err(Err(error)) => return Err(error),
            }
            let before: Vec<Option<u64>> =
                self.folders.iter().map(|folder| self.machine.free_space(folder)).collect();
            if !self.wait.is_zero() {
                report.warn(self.notice(&before));
            }
            // Space that came between the failure and this look is none that is waited for: one more attempt finds out.
            let came = self.fullest(&before).is_some_and(|(free, _)| free >= ENOUGH);
            if came && !std::mem::replace(&mut tried, true) && !self.wait.is_zero() {
                self.nap()?;
                continue;
            }
            while !self.has_more(&before) {
                if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    let folder =
                        self.fullest(&before).map_or(PathBuf::new(), |(_, folder)| folder.to_owned());
                    return Err(Error::Full { folder });
                }
                self.nap()?;
            }
            tried = false;
            report.warn("space is available again; resuming");
        }
    }

    /// Where the least is free, and how much.
    fn fullest(&self, free: &[Option<u64>]) -> Option<(u64, &PathBuf)> {
        let known = self.folders.iter().zip(free).filter_map(|(folder, free)| Some(((*free)?, folder)));
        known.min().or_else(|| Some((0, self.folders.first()?)))
    }

    /// What is said before the wait: the fullest disk, and how long it may take.
    fn notice(&self, free: &[Option<u64>]) -> String {
        let wait = match self.wait.as_secs().div_ceil(60) {
            1 => "1 minute".into(),
            minutes => format!("{minutes} min"),
        };
        match self.fullest(free) {
            Some((free, folder)) => format!(
                "the disk of {} is full ({} left); waiting up to {wait}: free some space",
                folder.display(),
                whole(free)
            ),
            None => format!("the disk is full; waiting up to {wait}: free some space"),
        }
    }

    /// Whether a disk has more free space than it had.
    fn has_more(&self, before: &[Option<u64>]) -> bool {
        self.folders.iter().zip(before).any(|(folder, before)| {
            let now = self.machine.free_space(folder).zip(*before);
            now.is_some_and(|(now, before)| now >= before.saturating_add(ENOUGH))
        })
    }

    fn nap(&self) -> Result<(), Error> {
        let until = Instant::now() + LOOK;
        while Instant::now() < until {
            self.control.check()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Bytes in whole KiB below 1 MiB.
fn whole(n: u64) -> String {
    match n {
        0..1024 => format!("{n} bytes"),
        1024..0x10_0000 => format!("{} KiB", n >> 10),
        _ => bytes(n),
    }
}

/// What went wrong with units, if it was that.
fn as_units(error: Error) -> Result<UnitsError, Error> {
    match error {
        Error::Media(error) => Ok(UnitsError::Media(error)),
        Error::Restore(error) => Ok(UnitsError::Restore(error)),
        Error::Units(error) => Ok(error),
        Error::Write { path, source } if source.kind() == std::io::ErrorKind::StorageFull => {
            Ok(UnitsError::File { doing: "write", path, source })
        }
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_disk_is_named_with_what_is_left() {
        let folders = vec![PathBuf::from("/films"), PathBuf::from("/tmp")];
        let disks = Disks {
            folders,
            wait: Duration::from_secs(3600),
            machine: Machine::this(),
            control: Control::default(),
        };
        assert_eq!(
            disks.notice(&[Some(9 << 30), Some(84 << 10)]),
            "the disk of /tmp is full (84 KiB left); waiting up to 60 min: free some space"
        );
        assert!(disks.notice(&[None, Some(0)]).contains("/tmp is full (0 bytes left)"));
        assert!(disks.notice(&[None, None]).starts_with("the disk of /films is full"));
    }
}
