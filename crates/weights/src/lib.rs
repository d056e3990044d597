//! Checkpoints for the networks of Remaster.
//!
//! * [`Checkpoint`]: a safetensors or GGUF file or one of PyTorch, checked before anything is believed;
//! * [`identify`]: what a checkpoint is, from names and shapes;
//! * [`check`]: what a network would get from it, tensor by tensor, as a [`LoadReport`];
//! * [`open_vae`], [`open_dit`], [`open_upscaler`]: all of that for a network, and the values as [`CheckpointParams`];
//!   [`vae_from_bytes`], [`dit_from_bytes`], [`upscaler_from_bytes`]: the same for a file in memory;
//! * [`TextEmbedding`]: what conditions a diffusion transformer;
//! * [`FormulaParams`]: weights that are a pure function of their name, for tests and benchmarks;
//! * [`published`]: which of the public files one is, by its hash;
//! * [`read_tensors`], [`write_tensors`]: f32 tensors in and out of files.
//!
//! A file is judged by its content, never by its name. Nothing here uses the network.
//!
//! ```
//! use remaster_weights::{Checkpoint, Kind, identify};
//!
//! let header = br#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
//! let mut file = (header.len() as u64).to_le_bytes().to_vec();
//! file.extend(header);
//! file.extend([0x00, 0x3c, 0x00, 0xc0]);
//!
//! let checkpoint = Checkpoint::from_bytes(file)?;
//! let mut values = [0.0; 2];
//! let a = checkpoint.get("a").ok_or("no tensor a")?;
//! checkpoint.read_f32(a, 0, &mut values)?;
//! assert_eq!(values, [1.0, -2.0]);
//! assert_eq!(identify(&checkpoint).kind, Kind::Unknown);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod checkpoint;
mod dit;
mod embedding;
mod error;
mod float8;
mod formula;
mod gguf;
mod hash;
mod header;
mod identify;
mod layers;
mod load;

mod names;
mod near;
mod pickle;
mod pickle_reader;
mod published;
mod report;
mod scale;
mod size_doubt;
mod sniff;
mod storage;
mod stored;
mod tensorfile;
mod torch;
mod upscaler;
mod zip;

pub use checkpoint::{Checkpoint, Format};
pub use dit::{DitDoubt, POSITIVE, check_dit};
pub use embedding::{EmbeddingError, MAX_TEXT_ROWS, TextEmbedding};
pub use error::{CheckpointError, LayerFault, LoadError, ReadError, TensorFault};
pub use formula::{
    Checksum, FormulaError, FormulaParams, checksum, fill_formula, fill_uniform, formula_value, uniform,
};
pub use hash::{sha256_hex, sha256_in_pieces, sha256_of_bytes};
pub use header::{MAX_HEADER, MAX_METADATA, MAX_RANK, TensorInfo};
pub use identify::{Identity, Kind, VaeDoubt, identify};
pub use load::{
    CheckpointParams, dit_from_bytes, open_dit, open_upscaler, open_vae, upscaler_from_bytes, vae_from_bytes,
};
pub use pickle::PickleFault;
pub use published::{Model, PUBLISHED, Published, published};
pub use report::{Applied, LoadReport, Missing, Warning, WrongDtype, WrongShape, check};
pub use scale::{LATENT_SCALE, LatentScaleError};
pub use size_doubt::SizeDoubt;
pub use stored::{Block, StoredDtype};
pub use tensorfile::{NamedTensor, TensorFileError, parse_tensors, read_tensors, write_tensors};
pub use torch::TorchFault;
pub use upscaler::{Upscaler, UpscalerDoubt, check_upscaler};
pub use zip::ZipFault;
