//! The spill file: a store on disk with a thread of its own, so that reading and writing overlap with
//! computing. Every row has a checksum; what comes back damaged is an error, not a picture.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use remaster_compute::{Arena, ComputeError, TensorStore};
use remaster_disk::{forget_pages, free_space, read_at, write_at};

use crate::error::EngineError;

/// Bytes that may wait for the disk or be read ahead. The next stripe and the last one at 4K.
pub(crate) const QUEUE: u64 = 64 << 20;

/// A file without a name: it is gone with the process, however that ends.
pub struct SpillFile {
    arena: Arena,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    limit: usize,
}

struct Shared {
    file: File,
    desk: Mutex<Desk>,
    /// Something changed on the desk.
    changed: Condvar,
}

/// What the two threads tell each other.
#[derive(Default)]
struct Desk {
    queue: VecDeque<Request>,
    /// What the disk thread is busy with.
    busy: Option<Range<u64>>,
    /// The read that is under way was overtaken by a write.
    stale: bool,
    /// What was read, by offset: how many bytes were asked for, and what came of it.
    ready: BTreeMap<u64, (usize, Result<Vec<u8>, Failure>)>,
    /// Bytes in the queue and in `ready`.
    waiting: usize,
    checksums: BTreeMap<u64, u32>,
    failed: Option<Failure>,
    closed: bool,
}

enum Request {
    Write { at: u64, row: usize, bytes: Vec<u8> },
    Read { at: u64, row: usize, bytes: usize },
}

#[derive(Clone)]
enum Failure {
    Io(&'static str, String),
    Damaged(u64),
}

impl From<Failure> for ComputeError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(action, reason) => ComputeError::Store { action, reason },
            Failure::Damaged(offset) => ComputeError::Corrupt { offset },
        }
    }
}

impl SpillFile {
    /// A file of up to `cap` bytes in `folder`. Refused if the disk has less room.
    pub fn create(folder: &Path, cap: u64) -> Result<Self, EngineError> {
        let failed =
            |reason: String| EngineError::Spill { folder: folder.display().to_string(), bytes: cap, reason };
        let file = remaster_disk::unnamed(folder).map_err(|e| failed(e.to_string()))?;
        if let Some(free) = free_space(folder).filter(|free| *free < cap) {
            return Err(failed(format!("{free} bytes are free")));
        }
        Self::over(file, cap).map_err(|e| failed(e.to_string()))
    }

    /// On a file that is open for reading and writing.
    pub fn over(file: File, cap: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { file, desk: Mutex::default(), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("spill".into()).spawn(move || worker.work())?;
        Ok(SpillFile {
            arena: Arena::new("spill file", cap),
            shared,
            thread: Some(thread),
            limit: QUEUE as usize,
        })
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let mut desk = self.shared.desk();
        // Nobody will read what is still waiting.
        desk.queue.clear();
        desk.closed = true;
        drop(desk);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl TensorStore for SpillFile {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn write(&mut self, at: u64, row: usize, bytes: &[u8]) -> Result<(), ComputeError> {
        let mut desk = self.shared.desk();
        desk.forget(at..at + bytes.len() as u64);
        while desk.failed.is_none() && !desk.queue.is_empty() && desk.waiting + bytes.len() > self.limit {
            desk = self.shared.wait(desk);
        }
        if let Some(failure) = &desk.failed {
            return Err(failure.clone().into());
        }
        desk.waiting += bytes.len();
        desk.queue.push_back(Request::Write { at, row, bytes: bytes.to_vec() });
        self.shared.changed.notify_all();
        Ok(())
    }

    fn read(&mut self, at: u64, row: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        let mut desk = self.shared.desk();
        if !desk.expects(at, out.len()) {
            desk.forget(at..at + out.len() as u64);
            desk.waiting += out.len();
            desk.queue.push_back(Request::Read { at, row, bytes: out.len() });
            self.shared.changed.notify_all();
        }
        loop {
            if let Some(failure) = &desk.failed {
                return Err(failure.clone().into());
            }
            if let Some((bytes, result)) = desk.ready.remove(&at) {
                desk.waiting -= bytes;
                self.shared.changed.notify_all();
                out.copy_from_slice(&result?);
                return Ok(());
            }
            desk = self.shared.wait(desk);
        }
    }

    fn will_read(&mut self, at: u64, row: usize, bytes: usize) {
        let mut desk = self.shared.desk();
        if desk.waiting + bytes <= self.limit && !desk.expects(at, bytes) {
            desk.forget(at..at + bytes as u64);
            desk.waiting += bytes;
            desk.queue.push_back(Request::Read { at, row, bytes });
            self.shared.changed.notify_all();
        }
    }
}

impl Desk {
    /// Whether exactly these bytes were read or are being read.
    fn expects(&self, at: u64, bytes: usize) -> bool {
        let range = at..at + bytes as u64;
        let queued = self.queue.iter().any(|r| matches!(r, Request::Read { .. }) && r.range() == range);
        let ready = self.ready.get(&at).is_some_and(|(n, _)| *n == bytes);
        ready || queued || (self.busy.as_ref() == Some(&range) && !self.stale)
    }

    /// Drops what was read ahead and overlaps `range`: it is about to be out of date, or of another size.
    fn forget(&mut self, range: Range<u64>) {
        let overlaps = |r: &Range<u64>| r.start < range.end && range.start < r.end;
        let mut freed = 0;
        self.queue.retain(|request| {
            let drop = matches!(request, Request::Read { .. }) && overlaps(&request.range());
            freed += if drop { request.bytes() } else { 0 };
            !drop
        });
        self.ready.retain(|at, (bytes, _)| {
            let drop = overlaps(&(*at..*at + *bytes as u64));
            freed += if drop { *bytes } else { 0 };
            !drop
        });
        self.waiting -= freed;
        self.stale |= self.busy.as_ref().is_some_and(overlaps);
    }
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Write { bytes, .. } => bytes.len(),
            Request::Read { bytes, .. } => *bytes,
        }
    }

    fn range(&self) -> Range<u64> {
        let (Request::Write { at, .. } | Request::Read { at, .. }) = self;
        *at..*at + self.bytes() as u64
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing panics while the desk is held.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, desk: MutexGuard<'a, Desk>) -> MutexGuard<'a, Desk> {
        self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk thread: requests in order, until closed.
    fn work(&self) {
        let mut desk = self.desk();
        loop {
            let Some(request) = desk.queue.pop_front() else {
                if desk.closed {
                    return;
                }
                desk = self.wait(desk);
                continue;
            };
            desk.busy = matches!(request, Request::Read { .. }).then(|| request.range());
            desk.stale = false;
            match request {
                Request::Write { at, row, bytes } => {
                    drop(desk);
                    let sums: Vec<u32> = bytes.chunks(row.max(1)).map(crc32fast::hash).collect();
                    let result = write_at(&self.file, &bytes, at);
                    forget_pages(&self.file, at, bytes.len());
                    desk = self.desk();
                    desk.waiting -= bytes.len();
                    // Checksums of what lay there before go with it.
                    let end = at + bytes.len() as u64;
                    let old: Vec<u64> = desk.checksums.range(at..end).map(|(k, _)| *k).collect();
                    old.iter().for_each(|k| {
                        desk.checksums.remove(k);
                    });
                    for (i, sum) in sums.into_iter().enumerate() {
                        desk.checksums.insert(at + (i * row) as u64, sum);
                    }
                    if let Err(error) = result {
                        desk.failed = Some(Failure::Io("write", error.to_string()));
                    }
                }
                Request::Read { at, row, bytes } => {
                    let expected: Vec<Option<u32>> = (0..bytes)
                        .step_by(row.max(1))
                        .map(|i| desk.checksums.get(&(at + i as u64)).copied())
                        .collect();
                    drop(desk);
                    let mut data = vec![0; bytes];
                    let result = match read_at(&self.file, &mut data, at) {
                        Err(error) => Err(Failure::Io("read", error.to_string())),
                        Ok(()) => {
                            let wrong = data
                                .chunks(row.max(1))
                                .zip(&expected)
                                .position(|(row, sum)| *sum != Some(crc32fast::hash(row)));
                            match wrong {
                                Some(i) => Err(Failure::Damaged(at + (i * row) as u64)),
                                None => Ok(data),
                            }
                        }
                    };
                    forget_pages(&self.file, at, bytes);
                    desk = self.desk();
                    if desk.stale {
                        desk.waiting -= bytes;
                    } else {
                        desk.ready.insert(at, (bytes, result));
                    }
                }
            }
            desk.busy = None;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(seed: u8) -> Vec<u8> {
        (0..4096u32).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    #[test]
    fn what_is_written_comes_back_also_when_it_was_read_ahead_and_changed() {
        let mut file = SpillFile::create(Path::new("/tmp"), 1 << 20).unwrap();
        for round in 0..50u8 {
            for (at, seed) in [(0, round), (4096, round ^ 7), (8192, 3)] {
                file.write(at, 1024, &rows(seed)).unwrap();
            }
            file.will_read(4096, 1024, 4096);
            file.write(4096, 1024, &rows(round ^ 99)).unwrap();
            let mut out = vec![0; 4096];
            file.read(4096, 1024, &mut out).unwrap();
            assert_eq!(out, rows(round ^ 99), "round {round}");
            // Another cut of the same rows.
            file.will_read(1024, 1024, 2048);
            let mut part = vec![0; 2048];
            file.read(1024, 1024, &mut part).unwrap();
            assert_eq!(part, rows(round)[1024..3072]);
        }
    }

    #[test]
    fn a_read_ahead_that_failed_does_not_fail_the_read_after_the_rows_were_written() {
        let mut file = SpillFile::over(tempfile::tempfile().unwrap(), 1 << 20).unwrap();
        let mut out = vec![0; 4096];
        for round in 0..20u8 {
            let at = u64::from(round) * 4096;
            // Rows that were never written: reading them ahead must fail.
            file.will_read(at, 1024, 4096);
            while file.shared.desk().ready.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(file.shared.desk().waiting, 4096, "round {round}");
            file.write(at, 1024, &rows(round)).unwrap();
            file.read(at, 1024, &mut out).unwrap();
            assert_eq!(out, rows(round), "round {round}");
            assert_eq!(file.shared.desk().waiting, 0, "round {round}");
        }
        // Another cut of rows whose read-ahead failed.
        file.will_read(1 << 19, 1024, 4096);
        assert!(file.read(1 << 19, 1024, &mut out[..1024]).is_err());
        assert!(file.read(0, 1024, &mut out).is_ok());
    }

    #[test]
    fn damage_and_a_full_disk_are_typed_errors() {
        let inner = tempfile::tempfile().unwrap();
        let mut file = SpillFile::over(inner.try_clone().unwrap(), 1 << 20).unwrap();
        file.write(0, 1024, &rows(1)).unwrap();
        let mut out = vec![0; 4096];
        file.read(0, 1024, &mut out).unwrap();
        write_at(&inner, &[1, 2, 3], 1030).unwrap();
        assert!(matches!(file.read(0, 1024, &mut out), Err(ComputeError::Corrupt { offset: 1024 })));
        drop(file);

        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut file = SpillFile::over(full, 1 << 20).unwrap();
        let error = loop {
            if let Err(error) = file.write(0, 1024, &rows(1)) {
                break error;
            }
        };
        assert!(matches!(error, ComputeError::Store { action: "write", .. }), "{error}");
        assert!(matches!(SpillFile::create(Path::new("/tmp"), u64::MAX), Err(EngineError::Spill { .. })));
    }
}
