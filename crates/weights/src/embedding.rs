//! The text embedding that conditions a diffusion transformer: rows of a fixed prompt, never computed here.
//!
//! It comes from ComfyUI's checkpoints, from a safetensors file, or from the published `pos_emb.pt`. That one is a zip of
//! PyTorch: its pickle is never run. The members' places, sizes and checksums are checked, and the values are read from
//! the one member that holds them. The embedding's width must be the network's, which gives the number of rows.

use std::path::{Path, PathBuf};

use remaster_compute::DType;
use remaster_compute::dtype::decode;
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::dit::POSITIVE;
use crate::error::{CheckpointError, ReadError, clip};
use crate::hash::sha256_of_bytes;
use crate::header::TensorInfo;
use crate::names::Names;
use crate::storage::Storage;
use crate::zip::{Archive, LOCAL, Member};

/// Most rows accepted. The published embedding has 58.
pub const MAX_TEXT_ROWS: usize = 4096;

/// Largest embedding file of PyTorch that is read. The published one has 595,100 bytes.
const MAX_ZIP: u64 = 64 << 20;

/// SHA-256 of the values of the published `pos_emb.pt`.
const POS_EMB: &str = "92ff754e036702f20f1782b0f5327c3d120aac6370ddc2ef0cdfdb06988f70ab";
/// SHA-256 of the values of the published `neg_emb.pt`, which belongs to guidance that the one step does not use.
const NEG_EMB: &str = "f7279b7df52f3eb2e290019528c9794a5d02999c804f02f44a2e2a0d029c5410";

/// Rows of a text embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEmbedding {
    /// Number of rows: tokens of the prompt.
    pub rows: usize,
    /// Channels of a row.
    pub width: usize,
    /// The values, row after row.
    pub values: Vec<f32>,
    /// Whether it is the published one, by its hash; `None` where that was not asked.
    pub published: Option<bool>,
}

/// Why a text embedding cannot be used.
#[derive(Debug, Error)]
pub enum EmbeddingError {
    /// The file itself.
    #[error("cannot use {} as a text embedding", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: CheckpointError,
    },
    /// Its values cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The checkpoint has none.
    #[error(
        "the checkpoint has no text embedding; use `pos_emb.pt` or a file of ComfyUI, which has one inside"
    )]
    Absent,
    /// No tensor, or several.
    #[error("{} has {count} tensors; a text embedding is a file with one", path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// Tensors in it.
        count: usize,
    },
    /// Another shape.
    #[error("the text embedding `{name}` is {shape:?}, expected [1 to {max}, {width}]", max = MAX_TEXT_ROWS)]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Width of the network's text.
        width: usize,
    },
    /// Values that are no numbers.
    #[error("the text embedding contains NaN or infinite values; download it again")]
    NotFinite,
    /// A zip that is not laid out as PyTorch lays out one tensor.
    #[error(
        "{} is not a text embedding as PyTorch saves one: {reason}; use the published `pos_emb.pt`", path.display()
    )]
    Zip {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The embedding of the other prompt.
    #[error("{} is the negative embedding; use `pos_emb.pt`", path.display())]
    Negative {
        /// The file.
        path: PathBuf,
    },
}

impl TextEmbedding {
    /// The embedding inside a checkpoint, for a network whose text has `width` channels.
    pub fn of_checkpoint(checkpoint: &Checkpoint, width: usize) -> Result<Self, EmbeddingError> {
        let tensor = Names::of(checkpoint).get(POSITIVE).ok_or(EmbeddingError::Absent)?;
        Self::of_tensor(checkpoint, tensor, width)
    }

    /// The embedding in the file at `path`: `pos_emb.pt`, a safetensors file with one tensor, or a checkpoint of ComfyUI.
    pub fn open(path: &Path, width: usize) -> Result<Self, EmbeddingError> {
        let file = |source| EmbeddingError::File { path: path.to_owned(), source };
        let storage = Storage::open(path).map_err(file)?;
        let mut head = Vec::new();
        let length = storage.len().min(4) as usize;
        if storage.header(0, length, &mut head).map_err(file)? == LOCAL {
            return zipped(path, &storage, width);
        }
        let checkpoint = Checkpoint::open(path).map_err(file)?;
        if checkpoint.get(POSITIVE).is_some() {
            return Self::of_checkpoint(&checkpoint, width);
        }
        let count = checkpoint.tensors().len();
        match checkpoint.tensors().next() {
            Some(tensor) if count == 1 => Self::of_tensor(&checkpoint, tensor, width),
            _ => Err(EmbeddingError::Count { path: path.to_owned(), count }),
        }
    }

    fn of_tensor(checkpoint: &Checkpoint, tensor: &TensorInfo, width: usize) -> Result<Self, EmbeddingError> {
        if !matches!(tensor.shape(), [1..=MAX_TEXT_ROWS, columns] if *columns == width) {
            let (name, shape) = (clip(tensor.name()), tensor.shape().to_vec());
            return Err(EmbeddingError::Shape { name, shape, width });
        }
        Self::finite(checkpoint.values(tensor)?, width, None)
    }

    fn finite(values: Vec<f32>, width: usize, published: Option<bool>) -> Result<Self, EmbeddingError> {
        if values.iter().any(|v| !v.is_finite()) {
            return Err(EmbeddingError::NotFinite);
        }
        Ok(TextEmbedding { rows: values.len() / width.max(1), width, values, published })
    }
}

/// Most members accepted. PyTorch writes five to eight for one tensor.
const MAX_MEMBERS: usize = 16;

fn zipped(path: &Path, storage: &Storage, width: usize) -> Result<TextEmbedding, EmbeddingError> {
    let bad = |reason: String| EmbeddingError::Zip { path: path.to_owned(), reason };
    let told = |error| match error {
        CheckpointError::Torch { fault } => bad(fault.to_string()),
        source => EmbeddingError::File { path: path.to_owned(), source },
    };
    if storage.len() > MAX_ZIP {
        return Err(bad(format!("{} bytes, but the limit is {MAX_ZIP}", storage.len())));
    }
    let archive = Archive::open(storage, MAX_MEMBERS).map_err(told)?;
    let [pickle, payload] = parts(&archive).map_err(&bad)?;
    let (mut word, mut buffer) = (Vec::new(), Vec::new());
    // The pickle is only searched for the word, never run.
    if !has(pickle.read(storage, &mut buffer).map_err(told)?, b"torch\nBFloat16Storage\n") {
        return Err(bad("its tensor is not BF16".to_owned()));
    }
    for member in archive.members().iter().filter(|m| m.name.ends_with("/byteorder")) {
        if member.read(storage, &mut word).map_err(told)? != b"little" {
            return Err(bad("its tensor is not little-endian".to_owned()));
        }
    }
    let payload = payload.read(storage, &mut buffer).map_err(told)?;
    let row = width.saturating_mul(2);
    if row == 0
        || payload.is_empty()
        || !payload.len().is_multiple_of(row)
        || payload.len() / row > MAX_TEXT_ROWS
    {
        return Err(bad(format!("{} bytes of values are not rows of {width} BF16 values", payload.len())));
    }
    let hash = sha256_of_bytes(payload);
    if hash == NEG_EMB {
        return Err(EmbeddingError::Negative { path: path.to_owned() });
    }
    let mut values = vec![0.0; payload.len() / 2];
    decode(DType::Bf16, payload, &mut values);
    TextEmbedding::finite(values, width, Some(hash == POS_EMB))
}

/// The pickle and the values of a zip that holds one tensor.
fn parts(archive: &Archive) -> Result<[&Member; 2], String> {
    let find = |suffix: &str| {
        let mut found = archive.members().iter().filter(|m| m.name.ends_with(suffix));
        match (found.next(), found.next()) {
            (Some(member), None) => Ok(member),
            (None, _) => Err(format!("it has no member `*{suffix}`")),
            _ => Err(format!("it has several members `*{suffix}`")),
        }
    };
    if archive.members().iter().filter(|m| m.name.contains("/data/")).count() != 1 {
        return Err("it holds more than one tensor".to_owned());
    }
    Ok([find("/data.pkl")?, find("/data/0")?])
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|at| at == word)
}
