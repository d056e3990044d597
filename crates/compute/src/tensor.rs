//! Activations: `[t, h, w, c]`, channels last, rows contiguous.

use std::ops::Range;

use crate::arena::Buffer;
use crate::dtype::DType;
use crate::error::{Result, ensure};

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
    /// Gives a buffer its meaning, if it holds as many bytes and the rows lie in the frame.
    pub(crate) fn new(buffer: Buffer, dtype: DType, shape: Shape, band: Band) -> Result<Self> {
        let last = band.first.saturating_add(shape.h);
        ensure(last <= band.height, "alloc", "last row", last, band.height)?;
        let bytes = shape.bytes(dtype);
        ensure(buffer.bytes() >= bytes, "alloc", "bytes", buffer.bytes(), bytes)?;
        Ok(Tensor { buffer, dtype, shape, band })
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

/// Some frames and some rows of a tensor. Rows are absolute numbers in the frame. A view never reaches beyond
/// its tensor: `unsafe` code rests on that.
#[derive(Clone, Debug)]
pub struct View<'a> {
    tensor: &'a Tensor,
    frames: Range<usize>,
    rows: Range<usize>,
}

/// What `range` and `whole` have in common; empty if nothing.
fn within(range: Range<usize>, whole: &Range<usize>) -> Range<usize> {
    let start = range.start.clamp(whole.start, whole.end);
    start..range.end.clamp(start, whole.end)
}

impl<'a> View<'a> {
    /// Narrows to frames `range` of this view. Frames that it does not have are left out; the op that is given
    /// too few says so.
    pub fn frames(self, range: Range<usize>) -> Self {
        let first = self.frames.start;
        let frames = within(first.saturating_add(range.start)..first.saturating_add(range.end), &self.frames);
        View { frames, ..self }
    }

    /// Narrows to the absolute rows `range`. Rows that it does not have are left out, as in `frames`.
    pub fn rows(self, range: Range<usize>) -> Self {
        View { rows: within(range, &self.rows), ..self }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;

    fn tensor(bytes: u64, shape: Shape, band: Band) -> Result<Tensor> {
        Tensor::new(Arena::new("test", 1 << 20).alloc(bytes).unwrap(), DType::F32, shape, band)
    }

    /// Not by a debug assertion: a release build has none.
    #[test]
    fn a_view_stays_inside_its_tensor_whatever_is_asked_for() {
        let tensor = tensor(4 * 60, Shape::new(3, 5, 2, 2), Band { first: 10, height: 20 }).unwrap();
        let ends = [0, 1, 2, 3, 9, 10, 11, 14, 15, 16, usize::MAX - 1, usize::MAX];
        for (a, b) in ends.iter().flat_map(|a| ends.map(|b| (*a, b))) {
            let view = tensor.view().frames(1..3).frames(a..b).rows(a..b);
            let (frames, rows) = (view.first_frame()..view.first_frame() + view.shape().t, view.row_range());
            assert!(
                frames.start >= 1 && frames.end <= 3 && frames.start <= frames.end,
                "{a}..{b}: {frames:?}"
            );
            assert!(rows.start >= 10 && rows.end <= 15 && rows.start <= rows.end, "{a}..{b}: {rows:?}");
        }
        assert_eq!(tensor.view().frames(1..2).rows(11..13).shape(), Shape::new(1, 2, 2, 2));
    }

    #[test]
    fn a_tensor_beyond_its_buffer_or_its_frame_is_refused() {
        let shape = Shape::new(1, 2, 3, 4);
        assert!(tensor(96, shape, Band { first: 0, height: 2 }).is_ok());
        assert!(tensor(92, shape, Band { first: 0, height: 2 }).is_err());
        assert!(tensor(96, shape, Band { first: 1, height: 2 }).is_err());
        assert!(tensor(96, shape, Band { first: usize::MAX, height: 2 }).is_err());
        let huge = Shape::new(usize::MAX, usize::MAX, 3, 4);
        assert!(tensor(96, huge, Band { first: 0, height: usize::MAX }).is_err());
    }
}
