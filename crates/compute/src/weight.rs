//! Weights: named, prepared by the backend in its own layout, loaded and evicted on demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arena::Buffer;
use crate::dtype::DType;
use crate::error::{ComputeError, SourceError};

/// What a weight is for. `dtype` is the precision of the multiplied values; biases and norms stay f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightSpec {
    /// A 3-D convolution with bias; kernel values in the order `[cout, cin, kt, kh, kw]`.
    Conv {
        /// Input channels.
        cin: usize,
        /// Output channels.
        cout: usize,
        /// Taps in time, down and across.
        kernel: [usize; 3],
        /// Precision of the kernel.
        dtype: DType,
    },
    /// A linear layer with bias; values in the order `[cout, cin]`.
    Linear {
        /// Input width.
        cin: usize,
        /// Output width.
        cout: usize,
        /// Precision of the matrix.
        dtype: DType,
    },
    /// Scale and shift of a normalisation.
    Norm {
        /// Channels.
        channels: usize,
    },
}

impl WeightSpec {
    /// Number of values of the main part: kernel, matrix or scale.
    pub fn main_len(&self) -> usize {
        match *self {
            WeightSpec::Conv { cin, cout, kernel, .. } => cout * cin * kernel.iter().product::<usize>(),
            WeightSpec::Linear { cin, cout, .. } => cin * cout,
            WeightSpec::Norm { channels } => channels,
        }
    }

    /// Number of values of the bias or shift.
    pub fn bias_len(&self) -> usize {
        match *self {
            WeightSpec::Conv { cout, .. } | WeightSpec::Linear { cout, .. } => cout,
            WeightSpec::Norm { channels } => channels,
        }
    }
}

/// The two tensors a weight is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Kernel, matrix or scale.
    Main,
    /// Bias or shift.
    Bias,
}

/// Where the values of a weight come from. Read in pieces, so that preparing a weight needs no second
/// copy of it, and again after every eviction.
pub trait WeightSource: Send + Sync {
    /// Fills `out` with the values from flat index `start` on, in the order `WeightSpec` names.
    fn read(&self, part: Part, start: usize, out: &mut [f32]) -> Result<(), SourceError>;
}

/// A weight of the network. Clones share one residency.
#[derive(Clone)]
pub struct Weight(Arc<Inner>);

struct Inner {
    name: String,
    spec: WeightSpec,
    source: Arc<dyn WeightSource>,
    resident: Mutex<Option<Buffer>>,
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Weight({}, {:?})", self.0.name, self.0.spec)
    }
}

impl Weight {
    /// Names a weight; nothing is read until a backend loads it.
    pub fn new(name: impl Into<String>, spec: WeightSpec, source: Arc<dyn WeightSource>) -> Self {
        Weight(Arc::new(Inner { name: name.into(), spec, source, resident: Mutex::new(None) }))
    }

    /// Name in the checkpoint, without the last part.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for.
    pub fn spec(&self) -> WeightSpec {
        self.0.spec
    }

    /// Reads values of one part; see `WeightSource`.
    pub fn read(&self, part: Part, start: usize, out: &mut [f32]) -> Result<(), ComputeError> {
        let failed = |source| ComputeError::Source { name: self.0.name.clone(), source };
        self.0.source.read(part, start, out).map_err(failed)
    }

    /// Whether a backend holds it.
    pub fn is_resident(&self) -> bool {
        self.slot().is_some()
    }

    /// The backend's prepared form.
    pub fn buffer(&self) -> Result<Buffer, ComputeError> {
        self.slot().clone().ok_or_else(|| ComputeError::NotResident { name: self.0.name.clone() })
    }

    /// Sets or clears the backend's prepared form.
    pub fn set_buffer(&self, buffer: Option<Buffer>) {
        *self.slot() = buffer;
    }

    fn slot(&self) -> MutexGuard<'_, Option<Buffer>> {
        // Nothing panics while the slot is held.
        self.0.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
