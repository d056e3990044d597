//! Weights: named, prepared by the backend in its own layout, loaded and evicted on demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arena::{Arena, Buffer};
use crate::dtype::DType;
use crate::error::{ComputeError, Result, SourceError};

/// What a weight is for. `dtype` is the precision of the multiplied values; biases, norms and vectors stay f32. A
/// convolution or linear layer without bias (see `WeightSource::has_bias`) is stored with zeros: 4 bytes per output
/// channel, and no kernel needs a second form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightSpec {
    /// A 3-D convolution; kernel values in the order `[cout, cin, kt, kh, kw]`.
    Conv {
        /// Input channels.
        cin: usize,
        /// Output channels.
        cout: usize,
        /// Taps in time, down and across.
        kernel: [usize; 3],
        /// Steps in time, down and across.
        stride: [usize; 3],
        /// Precision of the kernel.
        dtype: DType,
        /// PReLU behind it: a slope per output channel for what is below zero. The slopes follow the bias.
        slopes: bool,
    },
    /// An upsampler: the 3x3x3 convolution behind the shuffle, `[cout, cout, 3, 3, 3]` and bias, and a
    /// second pair of tensors for the 1x1x1 convolution in front of it, `[phases * cout, cin]` and bias.
    Upsample {
        /// Input channels.
        cin: usize,
        /// Output channels.
        cout: usize,
        /// Whether time doubles: 8 phases instead of 4.
        time: bool,
        /// Precision of the folded weights.
        dtype: DType,
    },
    /// A linear layer; values in the order `[cout, cin]`.
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
    /// Plain numbers in one tensor: a table of modulations, a scale without shift.
    Vector {
        /// How many.
        len: usize,
    },
}

impl WeightSpec {
    /// A convolution with steps of 1 and no PReLU, from and to so many channels.
    pub const fn conv([cin, cout]: [usize; 2], kernel: [usize; 3], dtype: DType) -> Self {
        WeightSpec::Conv { cin, cout, kernel, stride: [1; 3], dtype, slopes: false }
    }

    /// Number of values of the main part: kernel, matrix or scale.
    pub fn main_len(&self) -> usize {
        match *self {
            WeightSpec::Conv { cin, cout, kernel, .. } => cout * cin * kernel.iter().product::<usize>(),
            WeightSpec::Upsample { cout, .. } => cout * cout * 27,
            WeightSpec::Linear { cin, cout, .. } => cin * cout,
            WeightSpec::Norm { channels } => channels,
            WeightSpec::Vector { len } => len,
        }
    }

    /// Whether it is multiplied with a matrix, which is where its bytes and the time are.
    pub(crate) fn is_matrix(&self) -> bool {
        self.product().is_some()
    }

    /// Input and output channels and format of a layer that is multiplied.
    pub(crate) fn product(&self) -> Option<(usize, usize, DType)> {
        match *self {
            WeightSpec::Conv { cin, cout, dtype, .. }
            | WeightSpec::Upsample { cin, cout, dtype, .. }
            | WeightSpec::Linear { cin, cout, dtype } => Some((cin, cout, dtype)),
            WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => None,
        }
    }

    /// Whether PReLU follows.
    pub(crate) fn has_slopes(&self) -> bool {
        matches!(self, WeightSpec::Conv { slopes: true, .. })
    }

    /// Number of values of the bias or shift, slopes included.
    pub fn bias_len(&self) -> usize {
        match *self {
            WeightSpec::Norm { channels } => channels,
            _ => self.product().map_or(0, |(_, cout, _)| cout << usize::from(self.has_slopes())),
        }
    }
}

/// The tensors a weight is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightPart {
    /// Kernel, matrix, scale or vector.
    Main,
    /// Bias or shift; slopes behind it.
    Bias,
}

/// Where the values of a weight come from. Read in pieces, so that preparing a weight needs no second
/// copy of it, and again after every eviction.
pub trait WeightSource: Send + Sync {
    /// Fills `out` with the values from flat index `start` on, in the order `WeightSpec` names.
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError>;

    /// Whether there is a bias or shift. It is not read if there is none.
    fn has_bias(&self) -> bool {
        true
    }
}

fn read(of: &dyn WeightSource, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
    if part == WeightPart::Bias && !of.has_bias() {
        out.fill(0.0);
        return Ok(());
    }
    of.read(part, start, out)
}

/// A weight of the network. Each backend that loads it keeps its own prepared form here, under its arena: a meter,
/// a CPU and a GPU can hold one weight at the same time. Clones share these.
#[derive(Clone)]
pub struct Weight(Arc<Inner>);

struct Inner {
    name: String,
    spec: WeightSpec,
    source: Arc<dyn WeightSource>,
    /// Of an upsampler: its 1x1x1 convolution.
    upscale: Option<Arc<dyn WeightSource>>,
    section: Option<Arc<str>>,
    /// At most one per arena. What belongs to an arena that is gone counts for nothing.
    resident: Mutex<Vec<Buffer>>,
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Weight({}, {:?})", self.0.name, self.0.spec)
    }
}

impl Weight {
    /// Names a weight; nothing is read until a backend loads it.
    pub fn new(name: impl Into<String>, spec: WeightSpec, source: Arc<dyn WeightSource>) -> Self {
        Self::made_of(name.into(), spec, source, None)
    }

    /// An upsampler's weight: the 3x3x3 convolution and the 1x1x1 convolution in front of it.
    pub fn upsampler(
        name: impl Into<String>,
        spec: WeightSpec,
        source: Arc<dyn WeightSource>,
        upscale: Arc<dyn WeightSource>,
    ) -> Self {
        Self::made_of(name.into(), spec, source, Some(upscale))
    }

    fn made_of(
        name: String,
        spec: WeightSpec,
        source: Arc<dyn WeightSource>,
        upscale: Option<Arc<dyn WeightSource>>,
    ) -> Self {
        Weight(Arc::new(Inner { name, spec, source, upscale, section: None, resident: Mutex::default() }))
    }

    /// Puts a new weight into a section.
    pub fn in_section(mut self, section: Arc<str>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.section = Some(section);
        }
        self
    }

    /// Weights of one section are used again and again before those of the next one are. Streamed weights come and go
    /// by sections.
    pub fn section(&self) -> Option<&str> {
        self.0.section.as_deref()
    }

    /// Whether both names mean one weight.
    pub fn same_as(&self, other: &Weight) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
    pub fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<()> {
        let failed = |source| ComputeError::Source { name: self.0.name.clone(), source };
        read(self.0.source.as_ref(), part, start, out).map_err(failed)
    }

    /// Reads values of the 1x1x1 convolution of an upsampler.
    pub fn read_upscale(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<()> {
        let missing = || SourceError("it has no 1x1x1 convolution".into());
        let result =
            self.0.upscale.as_ref().ok_or_else(missing).and_then(|s| read(s.as_ref(), part, start, out));
        result.map_err(|source| ComputeError::Source { name: self.0.name.clone(), source })
    }

    /// Whether the backend of `arena` holds it.
    pub fn is_resident(&self, arena: &Arena) -> bool {
        self.resident().iter().any(|b| b.is_from(arena))
    }

    /// How many backends hold it now.
    pub fn holders(&self) -> usize {
        self.resident().iter().filter(|b| b.is_alive()).count()
    }

    /// The prepared form of the backend of `arena`.
    pub fn buffer(&self, arena: &Arena) -> Result<Buffer> {
        let found = self.resident().iter().find(|b| b.is_from(arena)).cloned();
        found.ok_or_else(|| ComputeError::NotResident { name: self.0.name.clone() })
    }

    /// Keeps the prepared form of one backend, in place of what it had.
    pub(crate) fn keep(&self, buffer: Buffer, arena: &Arena) {
        let mut resident = self.resident();
        resident.retain(|b| b.is_alive() && !b.is_from(arena));
        resident.push(buffer);
    }

    /// Gives back the prepared form of one backend.
    pub(crate) fn forget(&self, arena: &Arena) {
        self.resident().retain(|b| b.is_alive() && !b.is_from(arena));
    }

    fn resident(&self) -> MutexGuard<'_, Vec<Buffer>> {
        // Nothing panics while the list is held.
        self.0.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
