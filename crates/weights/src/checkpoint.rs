//! A checkpoint file. Its values are read at their place when they are asked for; nothing is mapped, so a file that
//! is cut or changed during a run is an error and not a signal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use remaster_compute::DType;
use remaster_compute::dtype::decode;

use crate::error::{CheckpointError, ReadError};
use crate::float8::E4M3;
use crate::header::{Header, TensorInfo, parse};
use crate::sniff::{HEAD, Start, start_of};
use crate::storage::Storage;
use crate::stored::{Block, StoredDtype};
use crate::zip::Member;
use crate::{blocks, gguf, layers, torch};

/// Bytes read at a time: they are widened while they are still in a second-level cache.
const PIECE: usize = 256 << 10;

/// Most values of a block of any format.
const LARGEST_BLOCK: usize = 256;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Safetensors.
    Safetensors,
    /// GGUF.
    Gguf,
    /// What `torch.save` writes.
    PyTorch,
}

impl Format {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
            Format::PyTorch => "pytorch",
        }
    }
}

/// A checkpoint. Its header is checked in full when it is opened; values are read when asked for.
pub struct Checkpoint {
    storage: Storage,
    format: Format,
    header: Header,
    /// Those with values, where the format has checksums.
    members: Vec<Member>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({} tensors, {} bytes)", self.header.tensors.len(), self.len_bytes())
    }
}

impl Checkpoint {
    /// Opens the file at `path`. If it changes while it is open, the next read is an error that names it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::of(Storage::open(path)?)
    }

    /// A checkpoint in memory.
    pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, CheckpointError> {
        Self::of(Storage::Bytes(bytes.into()))
    }

    fn of(storage: Storage) -> Result<Self, CheckpointError> {
        let bytes = storage.len();
        let (mut head, mut json) = (Vec::new(), Vec::new());
        let head = storage.header(0, usize::try_from(bytes).map_or(HEAD, |n| n.min(HEAD)), &mut head)?;
        let mut members = Vec::new();
        let (format, header) = match start_of(head, bytes)? {
            Start::Gguf => (Format::Gguf, gguf::parse(&storage)?),
            // At most the whole file, and at most the largest header that is accepted.
            Start::Safetensors(length) => {
                let json = storage.header(8, length, &mut json)?;
                let mut header = parse(json, usize::try_from(bytes).unwrap_or(usize::MAX))?;
                layers::find(&mut header, &storage)?;
                (Format::Safetensors, header)
            }
            Start::Zip { starts_so } => {
                let header;
                (header, members) = torch::parse(&storage, starts_so)?;
                (Format::PyTorch, header)
            }
        };
        Ok(Checkpoint { storage, format, header, members })
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Every tensor, in the order of the data.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.header.tensors.iter()
    }

    /// The tensor called `name` in the file.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.header.index(name).map(|i| &self.header.tensors[i])
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Size of the file.
    pub fn len_bytes(&self) -> u64 {
        self.storage.len()
    }

    /// Holds all values against the checksums of the file. Those of PyTorch have some; of others nothing is read.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        self.members.iter().try_for_each(|member| member.verify(&self.storage))
    }

    /// All values of `tensor`. A format that is not read is refused before memory for it is asked for.
    pub fn values(&self, tensor: &TensorInfo) -> Result<Vec<f32>, ReadError> {
        self.read_f32(tensor, 0, &mut [])?;
        let mut values = vec![0.0; tensor.elements()];
        self.read_f32(tensor, 0, &mut values)?;
        Ok(values)
    }

    /// Fills `out` with the values of `tensor` from flat index `start` on. Floats are widened exactly, quantised values
    /// by the formula of their format in f32.
    pub fn read_f32(&self, tensor: &TensorInfo, start: usize, out: &mut [f32]) -> Result<(), ReadError> {
        let name = || tensor.name().to_owned();
        if !tensor.dtype().is_readable() {
            return Err(ReadError::Dtype { name: name(), dtype: tensor.dtype() });
        }
        let (count, elements) = (out.len(), tensor.elements());
        if start.checked_add(count).is_none_or(|end| end > elements) {
            return Err(ReadError::Range { name: name(), start, count, elements });
        }
        let block = tensor.layer.as_ref().map_or(tensor.dtype().block(), |layer| layer.block(tensor.dtype()));
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < count {
            let (at, left) = (start + done, count - done);
            let skip = at % block.values;
            if skip > 0 || left < block.values {
                // A part of a block: all of it is widened and the part copied.
                let mut whole = [0.0; LARGEST_BLOCK];
                let whole = &mut whole[..block.values];
                self.widen(tensor, block, at - skip, whole, &mut buffer)?;
                let length = (block.values - skip).min(left);
                out[done..done + length].copy_from_slice(&whole[skip..skip + length]);
                done += length;
            } else {
                let length = (left / block.values).min(PIECE / block.bytes) * block.values;
                self.widen(tensor, block, at, &mut out[done..done + length], &mut buffer)?;
                done += length;
            }
        }
        Ok(())
    }

    /// Widens whole blocks from value `first` on.
    fn widen(
        &self,
        tensor: &TensorInfo,
        block: Block,
        first: usize,
        out: &mut [f32],
        buffer: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        // No product overflows: the whole tensor is bytes of a file.
        let (skip, length) = (first / block.values * block.bytes, out.len() / block.values * block.bytes);
        let bytes = self.storage.read(tensor.name(), tensor.bytes.start + skip, length, buffer)?;
        if let Some(layer) = &tensor.layer {
            return layer.widen(&self.storage, tensor.name(), first, bytes, out);
        }
        match tensor.dtype() {
            StoredDtype::F32 => decode(DType::F32, bytes, out),
            StoredDtype::F16 => decode(DType::F16, bytes, out),
            StoredDtype::Bf16 => decode(DType::Bf16, bytes, out),
            StoredDtype::F8E4M3 => {
                out.iter_mut().zip(bytes).for_each(|(v, code)| *v = E4M3[usize::from(*code)]);
            }
            dtype => blocks::decode(dtype, bytes, out),
        }
        Ok(())
    }
}
