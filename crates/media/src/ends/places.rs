//! A few bytes here and there of a file that nobody vouches for.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::child::Stop;

/// Bytes that are read ahead: headers of neighbours, and not what lies between those of large chunks.
const AHEAD: usize = 4 << 10;

/// Reads between two looks at whether to stop.
const READS: u32 = 1 << 12;

/// What bytes are read from.
pub(crate) trait Seekable: Read + Seek {}
impl<T: Read + Seek> Seekable for T {}

/// A file that is read at any place. What lies behind its end is not there, which is no error; nor is there anything more
/// once somebody stops it.
pub(crate) struct Places {
    file: BufReader<Box<dyn Seekable>>,
    at: u64,
    length: u64,
    reads: u32,
    stop: Stop,
}

impl Places {
    /// Opens the regular file at `path`.
    pub(crate) fn open(path: &Path, stop: &Stop) -> io::Result<Self> {
        Places::open_ahead(path, stop, AHEAD)
    }

    /// The same, with so many bytes read ahead.
    pub(crate) fn open_ahead(path: &Path, stop: &Stop, ahead: usize) -> io::Result<Self> {
        let file = remaster_disk::read_named(path)?;
        let length = file.metadata()?.len();
        Ok(Places::of(Box::new(file), length, stop, ahead))
    }

    /// Of `length` bytes, of which so many are read ahead.
    pub(crate) fn of(from: Box<dyn Seekable>, length: u64, stop: &Stop, ahead: usize) -> Self {
        let file = BufReader::with_capacity(ahead, from);
        Places { file, at: 0, length, reads: 0, stop: stop.clone() }
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes from `at` on; `None` if they are not all there.
    pub(crate) fn bytes<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(at, &mut bytes).then_some(bytes)
    }

    /// Fills `out` with the bytes from `at` on; false if they are not all there.
    pub(crate) fn fill(&mut self, at: u64, out: &mut [u8]) -> bool {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.length) {
            return false;
        }
        self.reads = self.reads.wrapping_add(1);
        if self.reads.is_multiple_of(READS) && self.stop.is_stopped() {
            self.length = 0;
            return false;
        }
        let near = i64::try_from(i128::from(at) - i128::from(self.at)).ok();
        let moved = match near {
            Some(0) => Ok(()),
            Some(by) => self.file.seek_relative(by),
            None => self.file.seek(SeekFrom::Start(at)).map(drop),
        };
        // Where a read failed the position is unknown; the next one starts from nowhere near.
        self.at = u64::MAX;
        if moved.and_then(|()| self.file.read_exact(out)).is_err() {
            return false;
        }
        self.at = at + out.len() as u64;
        true
    }
}

/// A number of two, four or eight bytes, the lowest first.
macro_rules! little {
    ($name:ident, $kind:ty, $bytes:literal) => {
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $kind {
            let found = bytes.get(at..at + $bytes).and_then(|b| b.try_into().ok());
            found.map_or(0, <$kind>::from_le_bytes)
        }
    };
}

little!(u16_le, u16, 2);
little!(u32_le, u32, 4);
little!(u64_le, u64, 8);
