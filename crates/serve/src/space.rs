//! Room on the disk for what arrives: uploads, and films from addresses. All of it shares one account, so that many at the same
//! time leave as much for the work as one does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remaster_disk::free_space;

/// Bytes of the disk that stay free for the work and the results.
const RESERVE: u64 = 1 << 30;

/// Bytes that are reserved at a time: as many as were written already, between these. A client that sends little holds little.
const STEPS: [u64; 2] = [1 << 20, 64 << 20];

/// How much may be written, by everything that arrives together.
pub(crate) struct Space {
    free: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Bytes that are reserved and not written yet.
    reserved: Mutex<u64>,
}

impl Space {
    /// The space of the disk that a folder is on.
    pub(crate) fn of(folder: &Path) -> Arc<Self> {
        let folder: PathBuf = folder.to_owned();
        Self::with(move || free_space(&folder))
    }

    fn with(free: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Space { free: Box::new(free), reserved: Mutex::default() })
    }

    /// Bytes that may arrive now; `None` where the system does not say.
    pub(crate) fn room(&self) -> Option<u64> {
        self.room_beside(*self.lock())
    }

    fn room_beside(&self, reserved: u64) -> Option<u64> {
        (self.free)().map(|free| free.saturating_sub(RESERVE).saturating_sub(reserved))
    }

    /// A share of the space, empty at first.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { space: Arc::clone(self), reserved: 0, written: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The space of one file that arrives. What was reserved and not written is given back when this is dropped.
pub(crate) struct Share {
    space: Arc<Space>,
    reserved: u64,
    written: u64,
}

impl Share {
    /// Writes bytes, if there is room for them ([`io::ErrorKind::StorageFull`]).
    pub(crate) fn write(&mut self, file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.reserve(length)?;
        let written = file.write_all(bytes);
        // Also after an error: some of them may be on the disk.
        self.written += length;
        self.reserved -= length;
        *self.space.lock() -= length;
        written
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        let Some(missing) = length.checked_sub(self.reserved).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let mut reserved = self.space.lock();
        let room = self.space.room_beside(*reserved).unwrap_or(u64::MAX);
        if room < missing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let step = missing.max(self.written.clamp(STEPS[0], STEPS[1])).min(room);
        *reserved += step;
        self.reserved += step;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.space.lock() -= self.reserved;
    }
}

/// A file that is written within a share.
pub(crate) struct Within<'a, W> {
    pub(crate) file: &'a mut W,
    pub(crate) share: Share,
}

impl<W: Write> Write for Within<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.share.write(self.file, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const MIB: usize = 1 << 20;

    /// A disk with so much room beside the reserve, and what was written to it.
    fn disk(room: usize) -> (Arc<Space>, Arc<AtomicU64>) {
        let used = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&used);
        (Space::with(move || Some((RESERVE + room as u64).saturating_sub(seen.load(Ordering::SeqCst)))), used)
    }

    struct File(Arc<AtomicU64>);

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn many_that_arrive_together_leave_the_reserve_free() {
        let (space, used) = disk(100 * MIB);
        let mut shares: Vec<Share> = (0..20).map(|_| space.share()).collect();
        let mut full = 0;
        while full < shares.len() {
            full = 0;
            for share in &mut shares {
                full += usize::from(share.write(&mut File(Arc::clone(&used)), &[0; 100_000]).is_err());
            }
            assert!(used.load(Ordering::SeqCst) <= 100 * MIB as u64);
        }
        // All of it was of use: what one cannot take another can.
        assert!(used.load(Ordering::SeqCst) > 98 * MIB as u64, "{used:?}");
        drop(shares);
        assert_eq!(*space.lock(), 0);
    }

    #[test]
    fn a_share_that_is_dropped_gives_its_room_back() {
        let (space, used) = disk(10 * MIB);
        let mut share = space.share();
        share.write(&mut File(Arc::clone(&used)), &vec![0; 6 * MIB]).unwrap();
        share.write(&mut File(Arc::clone(&used)), &[0]).unwrap();
        assert_eq!(space.room(), Some(0), "the rest is reserved");
        assert!(space.share().write(&mut File(Arc::clone(&used)), &vec![0; 2 * MIB]).is_err());
        drop(share);
        assert_eq!(space.room(), Some(4 * MIB as u64 - 1));
        assert!(space.share().write(&mut File(used), &vec![0; 2 * MIB]).is_ok());
    }

    #[test]
    fn a_client_that_sends_little_holds_little() {
        let (space, used) = disk(1000 * MIB);
        let mut shares: Vec<Share> = (0..500).map(|_| space.share()).collect();
        for share in &mut shares {
            share.write(&mut File(Arc::clone(&used)), &[0; 100]).unwrap();
        }
        assert!(space.room() > Some(490 * MIB as u64));
    }

    #[test]
    fn without_a_word_from_the_system_everything_may_be_written() {
        let space = Space::with(|| None);
        assert!(space.room().is_none() && space.share().write(&mut Vec::new(), &vec![0; 9 * MIB]).is_ok());
    }
}
