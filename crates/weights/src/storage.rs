//! The bytes of a checkpoint: a file that is read at a place, or memory.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use remaster_disk::read_at;

use crate::error::{CheckpointError, ReadError};

pub(crate) enum Storage {
    File(Opened),
    Bytes(Cow<'static, [u8]>),
}

/// A file as it was when its header was read.
pub(crate) struct Opened {
    file: File,
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Opened {
    fn is_unchanged(&self, now: &Metadata) -> bool {
        now.len() == self.bytes && now.modified().ok() == self.modified
    }

    /// Fills `out` from byte `at` on, unless the file changed since it was opened.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let read = read_at(&self.file, out, at);
        // Asked afterwards: what was read before a change is good. A cut file also fails to be read.
        let path = || self.path.clone();
        match self.file.metadata() {
            Ok(now) if !self.is_unchanged(&now) => Err(ReadError::Changed { path: path() }),
            now => now.and(read).map_err(|e| ReadError::Io { path: path(), reason: e.to_string() }),
        }
    }
}

impl Storage {
    pub(crate) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(CheckpointError::NotAFile { path: path.to_owned() });
        }
        let file = remaster_disk::read_named(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let (bytes, modified) = (about.len(), about.modified().ok());
        Ok(Storage::File(Opened { file, path: path.to_owned(), bytes, modified }))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Storage::File(opened) => opened.bytes,
            Storage::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The `length` bytes from `at` on, while the file is being opened. The caller has held them against the length.
    pub(crate) fn header<'a>(
        &'a self,
        at: u64,
        length: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], CheckpointError> {
        match self {
            Storage::Bytes(bytes) => Ok(slice(bytes, at, length).unwrap_or_default()),
            Storage::File(opened) => {
                buffer.resize(length, 0);
                let read = read_at(&opened.file, buffer, at);
                read.map_err(|source: io::Error| CheckpointError::Io { path: opened.path.clone(), source })?;
                Ok(buffer)
            }
        }
    }

    /// The `length` bytes from `at` on. If there are not so many, the tensor `name` that asks is of another file. A file
    /// is read into `buffer`.
    pub(crate) fn read<'a>(
        &'a self,
        name: &str,
        at: usize,
        length: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ReadError> {
        let foreign = || ReadError::Foreign { name: name.to_owned() };
        match self {
            Storage::Bytes(bytes) => slice(bytes, at as u64, length).ok_or_else(foreign),
            Storage::File(opened) => {
                if (at as u64).checked_add(length as u64).is_none_or(|end| end > opened.bytes) {
                    return Err(foreign());
                }
                buffer.resize(length, 0);
                opened.read(at as u64, buffer)?;
                Ok(buffer)
            }
        }
    }
}

fn slice(bytes: &[u8], at: u64, length: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(length)?)
}
