//! Golden files: safetensors with inputs and the outputs the original gave.

use std::collections::BTreeMap;
use std::path::Path;

use remaster_compute::{HostTensor, Shape};
use remaster_engine::EngineError;
use remaster_model::vae::VaeConfig;
use remaster_plan::Tiling;
use remaster_weights::{NamedTensor, parse_tensors, read_tensors};
use thiserror::Error;

use crate::DoctorError;

/// A golden file that cannot be used.
#[derive(Debug, Error)]
pub enum GoldenError {
    /// Not readable.
    #[error("golden `{name}` cannot be read: {reason}")]
    Unreadable {
        /// File name without its ending.
        name: String,
        /// What the reader said.
        reason: String,
    },
    /// A tensor is missing.
    #[error("golden `{name}` has no tensor `{tensor}`")]
    Missing {
        /// File name without its ending.
        name: String,
        /// What was looked for.
        tensor: String,
    },
    /// It holds nothing that the network makes: passing it would prove nothing.
    #[error("golden `{name}` has no tensor that can be compared")]
    Nothing {
        /// File name without its ending.
        name: String,
    },
    /// A tensor has an unexpected shape or name.
    #[error("golden `{name}`: tensor `{tensor}` has an unexpected shape {shape:?}")]
    Shape {
        /// File name without its ending.
        name: String,
        /// Which one.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
}

/// Inputs and outputs of one run of the original.
#[derive(Clone, Debug)]
pub struct Golden {
    /// File name without its ending; says which network (`tiny_` or `full_`) and what was run.
    pub name: String,
    tensors: BTreeMap<String, NamedTensor>,
}

impl Golden {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, GoldenError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::new(name, read_tensors(path))
    }

    /// Reads bytes.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, GoldenError> {
        Self::new(name.to_owned(), parse_tensors(bytes.to_vec()))
    }

    fn new(name: String, read: Result<Vec<NamedTensor>, impl ToString>) -> Result<Self, GoldenError> {
        match read {
            Ok(all) => Ok(Golden { name, tensors: all.into_iter().map(|t| (t.name.clone(), t)).collect() }),
            Err(reason) => Err(GoldenError::Unreadable { name, reason: reason.to_string() }),
        }
    }

    /// Which network it is from.
    pub fn config(&self) -> VaeConfig {
        if self.name.starts_with("full") { VaeConfig::full() } else { VaeConfig::tiny() }
    }

    /// Whether it holds single modules instead of the whole network.
    pub fn is_module(&self) -> bool {
        self.name.contains("_mod_")
    }

    /// The tiles of a tiled run, which a golden does not hold: they are known by name.
    pub(crate) fn tiling(&self) -> Option<Tiling> {
        let (tile, overlap) = match self.name.as_str() {
            "tiny_tiled_5x112x144" => ([64, 64], [16, 16]),
            "tiny_tiled_odd_1x104x120" => ([64, 72], [20, 24]),
            "tiny_tiled_sliced_9x48x64" => ([32, 32], [16, 16]),
            "tiny_tiled_image_96x72" => ([48, 40], [16, 8]),
            "full_tiled_5x80x96" => ([48, 48], [16, 16]),
            _ => return None,
        };
        Some(Tiling { tile, overlap })
    }

    /// Whether it is from the diffusion transformer.
    pub fn is_dit(&self) -> bool {
        self.name.starts_with("dit_")
    }

    /// A tensor as it is.
    pub(crate) fn tensor(&self, tensor: &str) -> Result<&NamedTensor, GoldenError> {
        let missing = || GoldenError::Missing { name: self.name.clone(), tensor: tensor.to_owned() };
        self.tensors.get(tensor).ok_or_else(missing)
    }

    /// An error for a tensor of another shape.
    pub(crate) fn misshapen(&self, tensor: &str) -> GoldenError {
        let shape = self.tensors.get(tensor).map(|t| t.shape.clone()).unwrap_or_default();
        GoldenError::Shape { name: self.name.clone(), tensor: tensor.to_owned(), shape }
    }

    /// An error of the backend.
    pub(crate) fn failed(&self, source: impl Into<EngineError>) -> DoctorError {
        DoctorError::Compute { golden: self.name.clone(), source: source.into() }
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A video `[1, c, t, h, w]`, or images `[t, c, h, w]`, as `[t, h, w, c]`.
    pub(crate) fn video(&self, tensor: &str) -> Result<HostTensor, GoldenError> {
        let found = self.tensor(tensor)?;
        match found.shape[..] {
            [1, c, t, h, w] => Ok(HostTensor::from_channels_first([c, t, h, w], &found.data)),
            [t, c, h, w] => {
                let frame = |data| HostTensor::from_channels_first([c, 1, h, w], data);
                let frames = found.data.chunks_exact((c * h * w).max(1)).map(frame);
                Ok(HostTensor { shape: Shape::new(t, h, w, c), data: frames.flat_map(|f| f.data).collect() })
            }
            _ => Err(self.misshapen(tensor)),
        }
    }
}
