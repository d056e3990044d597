//! f32 tensors in a safetensors file: inputs, outputs and goldens.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use remaster_compute::DType;
use remaster_compute::dtype::encode;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::error::{CheckpointError, ReadError};
use crate::header::{MAX_HEADER, MAX_METADATA, MAX_RANK};

/// A tensor with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its name in the file.
    pub name: String,
    /// Its axes, the last one fastest.
    pub shape: Vec<usize>,
    /// Its values.
    pub data: Vec<f32>,
}

/// Why tensors cannot be read from or written to a file.
#[derive(Debug, Error)]
pub enum TensorFileError {
    /// The file is not usable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A tensor is not in a format that can be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A tensor's values do not fill its shape.
    #[error("tensor `{name}` has {values} values, which is not what shape {shape:?} needs")]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Number of its values.
        values: usize,
    },
    /// A name that cannot be used, or twice.
    #[error("tensor name `{name}` is used twice or reserved")]
    Name {
        /// The name.
        name: String,
    },
    /// More of something than readers accept.
    #[error("{count} {what}, at most {max} can be written")]
    TooMuch {
        /// What.
        what: &'static str,
        /// How many.
        count: usize,
        /// Most that can be written.
        max: usize,
    },
    /// The file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Every tensor of the file at `path`, in the order of its data. 16-bit floats are widened.
pub fn read_tensors(path: &Path) -> Result<Vec<NamedTensor>, TensorFileError> {
    tensors_of(&Checkpoint::open(path)?)
}

/// Every tensor of a file in memory; see `read_tensors`.
pub fn parse_tensors(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Vec<NamedTensor>, TensorFileError> {
    tensors_of(&Checkpoint::from_bytes(bytes)?)
}

fn tensors_of(file: &Checkpoint) -> Result<Vec<NamedTensor>, TensorFileError> {
    let read = |info| -> Result<NamedTensor, TensorFileError> {
        let data = file.values(info)?;
        Ok(NamedTensor { name: info.name().to_owned(), shape: info.shape().to_vec(), data })
    };
    file.tensors().map(read).collect()
}

/// Writes `tensors` as F32, in their order. The file appears whole or not at all: it is written beside
/// `path` and then renamed.
pub fn write_tensors(
    path: &Path,
    tensors: &[NamedTensor],
    metadata: &BTreeMap<String, String>,
) -> Result<(), TensorFileError> {
    check(tensors, metadata)?;
    let failed = |source| TensorFileError::Write { path: path.to_owned(), source };
    let header = header(tensors, metadata).map_err(|error| failed(error.into()))?;
    at_most("bytes of header", header.len(), MAX_HEADER)?;
    remaster_disk::write_whole(path, |file| write_all(file, &header, tensors)).map_err(failed)
}

fn write_all(file: &mut File, header: &[u8], tensors: &[NamedTensor]) -> io::Result<()> {
    const RUN: usize = 16384;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header)?;
    let mut bytes = vec![0; RUN * 4];
    for run in tensors.iter().flat_map(|tensor| tensor.data.chunks(RUN)) {
        let bytes = &mut bytes[..run.len() * 4];
        encode(DType::F32, run, bytes);
        out.write_all(bytes)?;
    }
    out.flush()
}

/// What is written must be what readers accept.
fn check(tensors: &[NamedTensor], metadata: &BTreeMap<String, String>) -> Result<(), TensorFileError> {
    let mut names = HashSet::new();
    for NamedTensor { name, shape, data } in tensors {
        if name == "__metadata__" || !names.insert(name) {
            return Err(TensorFileError::Name { name: name.clone() });
        }
        at_most("axes of a tensor", shape.len(), MAX_RANK)?;
        if shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)) != Some(data.len()) {
            let (name, shape) = (name.clone(), shape.clone());
            return Err(TensorFileError::Shape { name, shape, values: data.len() });
        }
    }
    at_most("metadata entries", metadata.len(), MAX_METADATA)
}

/// The header, padded so that the data starts at a multiple of eight bytes.
fn header(tensors: &[NamedTensor], metadata: &BTreeMap<String, String>) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_vec(&HeaderOf { tensors, metadata })?;
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok(json)
}

fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), TensorFileError> {
    if count > max { Err(TensorFileError::TooMuch { what, count, max }) } else { Ok(()) }
}

struct HeaderOf<'a> {
    tensors: &'a [NamedTensor],
    metadata: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Entry<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

impl Serialize for HeaderOf<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry("__metadata__", self.metadata)?;
        }
        let mut start = 0;
        for NamedTensor { name, shape, data } in self.tensors {
            let end = start + data.len() * 4;
            map.serialize_entry(name, &Entry { dtype: "F32", shape, data_offsets: [start, end] })?;
            start = end;
        }
        map.end()
    }
}
