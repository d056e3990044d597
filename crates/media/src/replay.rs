//! A pipe that is read twice: what the first reader got is kept in a file, and a second one reads it there.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::child::Stop;
use crate::error::MediaError;

/// How often a waiting reader looks whether it should stop.
const TICK: Duration = Duration::from_millis(20);

/// Reads `input` and keeps every byte. Dropping it before the end is an error for the second reader, as soon as that
/// needs a byte that was not read yet.
pub struct Replay<R> {
    input: R,
    kept: Arc<Kept>,
    limit: u64,
    folder: PathBuf,
}

/// Reads what a [`Replay`] has read, from the start, and waits for it where it has to.
pub struct Again {
    kept: Arc<Kept>,
    at: u64,
    stop: Stop,
}

/// What both share. The file has no name: it is gone with both of them, however the process ends.
struct Kept {
    file: File,
    progress: Mutex<Progress>,
    more: Condvar,
}

struct Progress {
    /// Bytes in the file.
    bytes: u64,
    end: Option<End>,
}

enum End {
    /// All of the input is in the file.
    Complete,
    /// The first reader failed, in its words.
    Failed(String),
}

impl Kept {
    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.more.notify_all();
    }
}

impl<R: Read> Replay<R> {
    /// Both readers. At most `limit` bytes are kept, in a file in `folder` that has no name. Waiting ends with `stop`.
    pub fn new(input: R, folder: &Path, limit: u64, stop: Stop) -> Result<(Self, Again), MediaError> {
        let file = remaster_disk::unnamed(folder).map_err(|e| unkept(folder, e))?;
        let progress = Mutex::new(Progress { bytes: 0, end: None });
        let kept = Arc::new(Kept { file, progress, more: Condvar::new() });
        let again = Again { kept: Arc::clone(&kept), at: 0, stop };
        Ok((Replay { input, kept, limit, folder: folder.to_owned() }, again))
    }

    fn failed(&self, error: io::Error) -> io::Error {
        let words = error.to_string();
        self.kept.update(|p| p.end = p.end.take().or(Some(End::Failed(words))));
        error
    }
}

/// Bytes could not be kept.
fn unkept(folder: &Path, source: io::Error) -> MediaError {
    match MediaError::writing(&folder.join("-"), source) {
        MediaError::Io { source, .. } => {
            MediaError::Io { doing: format!("keep the input in {}", folder.display()), source }
        }
        error => error,
    }
}

impl<R: Read> Read for Replay<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let n = match self.input.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(self.failed(e)),
            Ok(n) => n,
        };
        if n == 0 {
            self.kept.update(|p| p.end = p.end.take().or(Some(End::Complete)));
            return Ok(0);
        }
        // Only this reader changes the length.
        let at = self.kept.progress.lock().unwrap_or_else(PoisonError::into_inner).bytes;
        let end = at.saturating_add(n as u64);
        if end > self.limit {
            return Err(self.failed(io::Error::other(MediaError::ReplayFull { limit: self.limit })));
        }
        let written = remaster_disk::write_at(&self.kept.file, &buffer[..n], at);
        written.map_err(|e| self.failed(io::Error::other(unkept(&self.folder, e))))?;
        self.kept.update(|p| p.bytes = end);
        Ok(n)
    }
}

impl<R> Drop for Replay<R> {
    fn drop(&mut self) {
        let early = || End::Failed("the first reading ended early".into());
        self.kept.update(|p| p.end = p.end.take().or_else(|| Some(early())));
    }
}

impl Again {
    /// Bytes that can be read from `at` on: waits until there are some. 0 at the end.
    fn available(&self) -> Result<u64, MediaError> {
        let mut progress = self.kept.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stop.is_stopped() {
                return Err(MediaError::Cancelled);
            }
            if progress.bytes > self.at {
                return Ok(progress.bytes - self.at);
            }
            match &progress.end {
                Some(End::Complete) => return Ok(0),
                Some(End::Failed(reason)) => {
                    return Err(MediaError::ReplayBroken { reason: reason.clone() });
                }
                None => {}
            }
            let waited = self.kept.more.wait_timeout(progress, TICK);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Read for Again {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let there = self.available().map_err(io::Error::other)?;
        let n = buffer.len().min(usize::try_from(there).unwrap_or(usize::MAX));
        remaster_disk::read_at(&self.kept.file, &mut buffer[..n], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Gives its bytes in odd pieces with a pause now and then, and fails at the end if it should.
    struct Slow {
        bytes: Cursor<Vec<u8>>,
        calls: usize,
        fails: bool,
    }

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(13) {
                thread::sleep(Duration::from_millis(2));
            }
            let most = buffer.len().min(1 + self.calls * 97 % 5000);
            match self.bytes.read(&mut buffer[..most])? {
                0 if self.fails => Err(io::Error::other("the cable is out")),
                n => Ok(n),
            }
        }
    }

    fn slow(bytes: usize, fails: bool) -> (Vec<u8>, Slow) {
        let all: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        (all.clone(), Slow { bytes: Cursor::new(all), calls: 0, fails })
    }

    fn ours(error: io::Error) -> MediaError {
        MediaError::reading("read", error)
    }

    #[test]
    fn a_second_reader_gets_the_same_bytes_while_the_first_still_reads() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [0, 1, 300_000] {
            let (all, input) = slow(bytes, false);
            let (mut tee, mut again) =
                Replay::new(input, folder.path(), bytes as u64, Stop::never()).unwrap();
            let second = thread::spawn(move || {
                let mut got = Vec::new();
                again.read_to_end(&mut got).map(|_| got)
            });
            let mut first = Vec::new();
            tee.read_to_end(&mut first).unwrap();
            drop(tee);
            assert!(first == all && second.join().unwrap().unwrap() == all, "{bytes} bytes");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has a name");
    }

    #[test]
    fn a_second_reader_may_come_when_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (all, input) = slow(50_000, false);
        let (mut tee, mut again) = Replay::new(input, folder.path(), u64::MAX, Stop::never()).unwrap();
        io::copy(&mut tee, &mut io::sink()).unwrap();
        drop(tee);
        let mut got = Vec::new();
        again.read_to_end(&mut got).unwrap();
        assert!(got == all);
        assert_eq!(again.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn an_error_of_the_first_reader_ends_the_second_behind_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let (all, input) = slow(50_000, true);
        let (mut tee, mut again) = Replay::new(input, folder.path(), u64::MAX, Stop::never()).unwrap();
        let second = thread::spawn(move || {
            let mut got = Vec::new();
            let error = again.read_to_end(&mut got).unwrap_err();
            (got, ours(error))
        });
        let error = ours(io::copy(&mut tee, &mut io::sink()).unwrap_err());
        assert!(matches!(error, MediaError::Io { .. }), "{error}");
        let (got, error) = second.join().unwrap();
        assert!(got == all);
        assert!(matches!(&error, MediaError::ReplayBroken { reason } if reason.contains("cable")), "{error}");
    }

    #[test]
    fn the_limit_is_an_error_for_both_and_nothing_beyond_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (_, input) = slow(50_000, false);
        let (mut tee, mut again) = Replay::new(input, folder.path(), 49_999, Stop::never()).unwrap();
        let error = ours(io::copy(&mut tee, &mut io::sink()).unwrap_err());
        assert!(matches!(error, MediaError::ReplayFull { limit: 49_999 }), "{error}");
        let mut got = Vec::new();
        let error = ours(again.read_to_end(&mut got).unwrap_err());
        assert!(matches!(&error, MediaError::ReplayBroken { reason } if reason.contains("49999")), "{error}");
        assert!(got.len() < 50_000);
    }

    #[test]
    fn a_first_reader_that_is_dropped_is_no_end() {
        let folder = tempfile::tempdir().unwrap();
        let (all, input) = slow(50_000, false);
        let (mut tee, mut again) = Replay::new(input, folder.path(), u64::MAX, Stop::never()).unwrap();
        let mut some = vec![0; 10_000];
        tee.read_exact(&mut some).unwrap();
        drop(tee);
        let mut got = vec![0; 10_000];
        again.read_exact(&mut got).unwrap();
        assert!(got == all[..10_000]);
        let error = ours(again.read_to_end(&mut Vec::new()).unwrap_err());
        assert!(matches!(error, MediaError::ReplayBroken { .. }), "{error}");
    }

    #[test]
    fn a_reader_that_waits_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&asked);
        let stop = Stop::when(move || stop.load(Ordering::Relaxed));
        let (_tee, mut again) = Replay::new(io::empty(), folder.path(), 10, stop).unwrap();
        let second = thread::spawn(move || ours(again.read(&mut [0; 4]).unwrap_err()));
        thread::sleep(Duration::from_millis(50));
        asked.store(true, Ordering::Relaxed);
        let error = second.join().unwrap();
        assert!(matches!(error, MediaError::Cancelled), "{error}");
    }
}
