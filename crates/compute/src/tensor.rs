//! Activations: `[t, h, w, c]`, channels last, rows contiguous.

use std::ops::Range;

use crate::arena::Buffer;
use crate::dtype::DType;

/// Frames, rows, columns, channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Frames.
    pub t: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Channels.
    pub c: usize,
}

impl Shape {
    /// `[t, h, w, c]`.
    pub const fn new(t: usize, h: usize, w: usize, c: usize) -> Self {
        Shape { t, h, w, c }
    }

    /// Number of values; saturates instead of wrapping, so that an absurd size is refused by the arena.
    pub fn len(&self) -> usize {
        self.t.saturating_mul(self.h).saturating_mul(self.w).saturating_mul(self.c)
    }

    /// Whether there is no value at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes when stored as `dtype`.
    pub fn bytes(&self, dtype: DType) -> u64 {
        (self.len() as u64).saturating_mul(dtype.bytes() as u64)
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {}, {}, {}]", self.t, self.h, self.w, self.c)
    }
}

/// Which rows of a frame a tensor holds: its row 0 is row `first` of a frame of `height` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// Absolute number of the first row held.
    pub first: usize,
    /// Rows of the whole frame.
    pub height: usize,
}

/// A buffer with a meaning. Cloning shares the buffer.
#[derive(Clone, Debug)]
pub struct Tensor {
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
    band: Band,
}

impl Tensor {
    /// Gives a buffer its meaning; `buffer` holds at least `shape.bytes(dtype)` bytes.
    pub(crate) fn new(buffer: Buffer, dtype: DType, shape: Shape, band: Band) -> Self {
        debug_assert!(buffer.bytes() >= shape.bytes(dtype));
        debug_assert!(band.first + shape.h <= band.height);
        Tensor { buffer, dtype, shape, band }
    }

    /// The memory behind it.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Storage format.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// What is held (rows of the band only).
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Which rows of the frame are held.
    pub fn band(&self) -> Band {
        self.band
    }

    /// Everything that is held.
    pub fn view(&self) -> View<'_> {
        View { tensor: self, frames: 0..self.shape.t, rows: self.band.first..self.band.first + self.shape.h }
    }
}

/// Some frames and some rows of a tensor. Rows are absolute numbers in the frame.
#[derive(Clone, Debug)]
pub struct View<'a> {
    tensor: &'a Tensor,
    frames: Range<usize>,
    rows: Range<usize>,
}

impl<'a> View<'a> {
    /// Narrows to frames `range` of this view.
    pub fn frames(self, range: Range<usize>) -> Self {
        let start = self.frames.start + range.start;
        let end = self.frames.start + range.end;
        debug_assert!(end <= self.frames.end && start <= end);
        View { frames: start..end, ..self }
    }

    /// Narrows to the absolute rows `range`.
    pub fn rows(self, range: Range<usize>) -> Self {
        debug_assert!(range.start >= self.rows.start && range.end <= self.rows.end);
        View { rows: range, ..self }
    }

    /// The tensor looked at.
    pub fn tensor(&self) -> &'a Tensor {
        self.tensor
    }

    /// First frame of the tensor that is seen.
    pub fn first_frame(&self) -> usize {
        self.frames.start
    }

    /// Absolute rows that are seen.
    pub fn row_range(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Rows of the whole frame.
    pub fn height(&self) -> usize {
        self.tensor.band.height
    }

    /// Storage format.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype
    }

    /// Shape of what is seen.
    pub fn shape(&self) -> Shape {
        let Shape { w, c, .. } = self.tensor.shape;
        Shape::new(self.frames.len(), self.rows.len(), w, c)
    }

    /// Bytes of what is seen.
    pub fn bytes(&self) -> u64 {
        self.shape().bytes(self.dtype())
    }

    /// Whether all rows of the frame are seen.
    pub fn is_whole(&self) -> bool {
        self.rows == (0..self.height())
    }
}
