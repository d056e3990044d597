//! A safetensors file. Its values are read at their place when they are asked for; nothing is mapped, so a file that
//! is cut or changed during a run is an error and not a signal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use remaster_compute::dtype::decode;
use remaster_disk::read_at;

use crate::error::{CheckpointError, ReadError};
use crate::header::{Header, TensorInfo, parse};
use crate::sniff::{HEAD, header_len};

/// Bytes read at a time: they are widened while they are still in a second-level cache.
const PIECE: usize = 256 << 10;

/// A checkpoint. Its header is checked in full when it is opened; values are read when asked for.
pub struct Checkpoint {
    storage: Storage,
    header: Header,
}

enum Storage {
    File(Opened),
    Bytes(Cow<'static, [u8]>),
}

/// A file as it was when its header was read.
struct Opened {
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

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({} tensors, {} bytes)", self.header.tensors.len(), self.len_bytes())
    }
}

impl Checkpoint {
    /// Opens the file at `path`. If it changes while it is open, the next read is an error that names it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
        // Asked before opening: opening a pipe waits for a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(CheckpointError::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let (bytes, modified) = (about.len(), about.modified().ok());
        let mut head = vec![0; usize::try_from(bytes).map_or(HEAD, |n| n.min(HEAD))];
        read_at(&file, &mut head, 0).map_err(failed)?;
        // At most the whole file, and at most the largest header that is accepted.
        let mut header = vec![0; header_len(&head, bytes)?];
        read_at(&file, &mut header, 8).map_err(failed)?;
        let header = parse(&header, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let opened = Opened { file, path: path.to_owned(), bytes, modified };
        Ok(Checkpoint { storage: Storage::File(opened), header })
    }

    /// A checkpoint in memory.
    pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, CheckpointError> {
        let bytes = bytes.into();
        let length = header_len(&bytes, bytes.len() as u64)?;
        let header = parse(&bytes[8..8 + length], bytes.len())?;
        Ok(Checkpoint { storage: Storage::Bytes(bytes), header })
    }

    /// Every tensor, in the order of the data.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.header.tensors.iter()
    }

    /// The tensor called `name` in the file.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        let tensor = |&i: &u32| &self.header.tensors[i as usize];
        let found = self.header.by_name.binary_search_by(|i| tensor(i).name().cmp(name)).ok()?;
        Some(tensor(&self.header.by_name[found]))
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Size of the file.
    pub fn len_bytes(&self) -> u64 {
        match &self.storage {
            Storage::File(opened) => opened.bytes,
            Storage::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `out` with the values of `tensor` from flat index `start` on. Widening is exact.
    pub fn read_f32(&self, tensor: &TensorInfo, start: usize, out: &mut [f32]) -> Result<(), ReadError> {
        let name = || tensor.name().to_owned();
        let Some(dtype) = tensor.dtype().readable() else {
            return Err(ReadError::Dtype { name: name(), dtype: tensor.dtype() });
        };
        let (count, elements) = (out.len(), tensor.elements());
        if start.checked_add(count).is_none_or(|end| end > elements) {
            return Err(ReadError::Range { name: name(), start, count, elements });
        }
        // Neither product overflows: the whole tensor is bytes of a file.
        let (skip, take) = (start * dtype.bytes(), count * dtype.bytes());
        let foreign = || ReadError::Foreign { name: name() };
        let range = tensor.bytes();
        match &self.storage {
            Storage::Bytes(bytes) => {
                let stored = bytes.get(range).and_then(|all| all.get(skip..skip + take));
                decode(dtype, stored.ok_or_else(foreign)?, out);
            }
            Storage::File(opened) => {
                if range.end as u64 > opened.bytes || take > range.len() {
                    return Err(foreign());
                }
                let mut piece = vec![0; take.min(PIECE)];
                let mut at = (range.start + skip) as u64;
                for values in out.chunks_mut(PIECE / dtype.bytes()) {
                    let bytes = &mut piece[..values.len() * dtype.bytes()];
                    opened.read(at, bytes)?;
                    decode(dtype, bytes, values);
                    at += bytes.len() as u64;
                }
            }
        }
        Ok(())
    }
}
