//! A safetensors file, mapped read-only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use memmap2::Mmap;
use remaster_compute::dtype::decode;

use crate::error::{CheckpointError, ReadError};
use crate::header::{Header, TensorInfo, parse};
use crate::sniff::header_len;

/// A checkpoint. Its header is checked in full when it is opened; values are read when asked for.
pub struct Checkpoint {
    storage: Storage,
    header: Header,
}

enum Storage {
    Map(Mmap),
    Bytes(Cow<'static, [u8]>),
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Map(map) => map,
            Storage::Bytes(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({} tensors, {} bytes)", self.header.tensors.len(), self.len_bytes())
    }
}

impl Checkpoint {
    /// Maps the file at `path`. While it is open the file must not be changed in place: values would
    /// change with it, and a file made shorter ends the program when a lost page is read.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
        // Asked before opening: opening a pipe waits for a writer.
        let about = std::fs::metadata(path).map_err(failed)?;
        if !about.is_file() {
            return Err(CheckpointError::NotAFile { path: path.to_owned() });
        }
        if about.len() == 0 {
            return Err(CheckpointError::Empty);
        }
        let file = File::open(path).map_err(failed)?;
        #[expect(unsafe_code, reason = "a 13 GB checkpoint is mapped, not copied")]
        // SAFETY: the map is private and read-only, and its bytes are only ever copied out as numbers or
        // parsed as text that is checked; that nobody changes the file is documented above.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Self::new(Storage::Map(map))
    }

    /// A checkpoint in memory.
    pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, CheckpointError> {
        Self::new(Storage::Bytes(bytes.into()))
    }

    fn new(storage: Storage) -> Result<Self, CheckpointError> {
        let file = storage.bytes();
        let length = header_len(file)?;
        let header = parse(&file[8..8 + length], file.len())?;
        Ok(Checkpoint { storage, header })
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
        self.storage.bytes().len() as u64
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
        let stored = self.storage.bytes().get(tensor.bytes());
        let stored = stored.and_then(|all| all.get(skip..skip + take));
        decode(dtype, stored.ok_or_else(|| ReadError::Foreign { name: name() })?, out);
        Ok(())
    }

    /// Tells the system that the pages of `tensor` are not needed for now. They come back from the file
    /// when they are read again. Does nothing for a checkpoint in memory.
    pub fn release(&self, tensor: &TensorInfo) {
        let range = tensor.bytes();
        #[cfg(unix)]
        if let Storage::Map(map) = &self.storage
            && range.start < range.end
            && range.end <= map.len()
        {
            #[expect(unsafe_code, reason = "dropping clean pages is not in memmap2's safe list")]
            // SAFETY: the map is private, read-only and of a file, so none of its pages is dirty and each
            // reads the same after it was dropped. The range is inside the map.
            let done = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
            // Only a hint: when the system refuses it, the pages stay.
            drop(done);
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
