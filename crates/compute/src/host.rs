//! Host memory behind an arena, shared by the backends that compute on the CPU.
#![expect(
    unsafe_code,
    reason = "one allocation is handed out in pieces whose borrows the compiler cannot see"
)]

use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use crate::arena::{Arena, Buffer};
use crate::dtype::{self, DType};
use crate::error::{ComputeError, Result, ensure};
use crate::store::{Extent, TensorStore};
use crate::tensor::View;

/// One zeroed block for the whole arena. The system commits its pages when they are first touched, so a
/// generous cap costs address space only.
#[derive(Debug)]
pub(crate) struct HostMemory {
    memory: Arc<MmapMut>,
    base: *mut u8,
    arena: Arena,
}

// SAFETY: the raw pointer is only the address of the block.
unsafe impl Send for HostMemory {}
// SAFETY: shared access hands out `Pixels` and raw pointers, whose use is guarded by their own contracts.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Memory for an arena of `cap` bytes.
    pub(crate) fn new(cap: u64) -> Result<Self> {
        let refused = || ComputeError::HostMemory { bytes: cap };
        let bytes = usize::try_from(cap).map_err(|_| refused())?.max(1);
        let mut memory = MmapOptions::new().len(bytes).map_anon().map_err(|_| refused())?;
        // Large pages where the system offers them: pixels of one column lie kilobytes apart, and looking
        // up small pages cost the direct convolution of 512 channels 5 % (0.80 to 0.84 of sgemm).
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        let base = memory.as_mut_ptr();
        Ok(HostMemory { memory: Arc::new(memory), base, arena: Arena::new("cpu", cap) })
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Keeps the memory where it is for as long as the result lives, also when the backend is gone.
    pub(crate) fn pin(&self) -> Pinned {
        Pinned(Arc::clone(&self.memory))
    }

    /// Address of a buffer of this arena.
    pub(crate) fn address(&self, op: &'static str, what: &'static str, b: &Buffer) -> Result<*mut u8> {
        if !b.is_from(&self.arena) {
            return Err(ComputeError::Foreign { op, what });
        }
        Ok(self.base.wrapping_add(b.offset() as usize))
    }

    /// A view as addresses.
    pub(crate) fn pixels(&self, op: &'static str, what: &'static str, v: &View<'_>) -> Result<Pixels> {
        let base = self.address(op, what, v.tensor().buffer())?;
        let whole = v.tensor().shape();
        let shape = v.shape();
        let row = whole.w * whole.c;
        let skip = v.first_frame() * whole.h + (v.row_range().start - v.tensor().band().first);
        Ok(Pixels {
            base: base.wrapping_add(skip * row * v.dtype().bytes()),
            dtype: v.dtype(),
            frames: shape.t,
            rows: shape.h,
            first_row: v.row_range().start,
            row,
            frame_stride: whole.h * row,
        })
    }

    /// All values of a view in `[t, h, w, c]` order.
    pub(crate) fn read_all(&self, op: &'static str, v: &View<'_>, out: &mut [f32]) -> Result<()> {
        ensure(out.len() == v.shape().len(), op, "values", out.len(), v.shape().len())?;
        let pixels = self.pixels(op, "input", v)?;
        if pixels.row > 0 {
            for (i, row) in out.chunks_exact_mut(pixels.row).enumerate() {
                // SAFETY: `&self` of a backend that runs ops one at a time: nothing writes meanwhile.
                unsafe { pixels.load(i / pixels.rows, pixels.first_row + i % pixels.rows, row) };
            }
        }
        Ok(())
    }

    /// The other way round.
    pub(crate) fn write_all(&mut self, op: &'static str, v: &View<'_>, from: &[f32]) -> Result<()> {
        ensure(from.len() == v.shape().len(), op, "values", from.len(), v.shape().len())?;
        let pixels = self.pixels(op, "output", v)?;
        if pixels.row > 0 {
            for (i, row) in from.chunks_exact(pixels.row).enumerate() {
                // SAFETY: `&mut self`: nothing else reads or writes.
                unsafe { pixels.store(i / pixels.rows, pixels.first_row + i % pixels.rows, row) };
            }
        }
        Ok(())
    }

    /// Rows from a store, as they are.
    pub(crate) fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: &View<'_>) -> Result<()> {
        for (t, bytes) in self.frames_of("fetch", at, to)?.enumerate() {
            from.read(at.start + t as u64 * at.frame, at.row, bytes)?;
        }
        Ok(())
    }

    /// The other way round.
    pub(crate) fn stow(&mut self, from: &View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()> {
        for (t, bytes) in self.frames_of("stow", at, from)?.enumerate() {
            to.write(at.start + t as u64 * at.frame, at.row, bytes)?;
        }
        Ok(())
    }

    /// The rows of a view, frame by frame.
    fn frames_of(
        &mut self,
        op: &'static str,
        at: Extent,
        view: &View<'_>,
    ) -> Result<impl Iterator<Item = &mut [u8]>> {
        let pixels = self.pixels(op, "tensor", view)?;
        let bytes = pixels.row * pixels.dtype.bytes();
        ensure(at.row == bytes, op, "bytes of a row", at.row, bytes)?;
        let frames = if pixels.rows == 0 { 0 } else { pixels.frames };
        Ok((0..frames).map(move |t| {
            let from = pixels.row_ptr(t, pixels.first_row);
            // SAFETY: rows of a view, which lies inside its tensor, which lies inside its buffer (`View`,
            // `Tensor::new`), which is of this memory (`address`); `&mut self` is held by the iterator, and frames
            // do not overlap.
            unsafe { std::slice::from_raw_parts_mut(from, pixels.rows * bytes) }
        }))
    }
}

/// See `HostMemory::pin`.
pub(crate) struct Pinned(#[expect(dead_code, reason = "held, never looked at")] Arc<MmapMut>);

/// A view of host memory as plain addresses, for use inside one op. Rows are absolute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixels {
    base: *mut u8,
    pub(crate) dtype: DType,
    pub(crate) frames: usize,
    pub(crate) rows: usize,
    pub(crate) first_row: usize,
    /// Values in a row.
    pub(crate) row: usize,
    frame_stride: usize,
}

// SAFETY: an address and numbers; every access is an unsafe call with its own contract.
unsafe impl Send for Pixels {}
// SAFETY: as above.
unsafe impl Sync for Pixels {}

impl Pixels {
    /// Address of the first value of a row. Inside the view, or the call panics.
    pub(crate) fn row_ptr(&self, frame: usize, row: usize) -> *mut u8 {
        assert!(frame < self.frames && row >= self.first_row && row - self.first_row < self.rows);
        let index = frame * self.frame_stride + (row - self.first_row) * self.row;
        self.base.wrapping_add(index * self.dtype.bytes())
    }

    /// Reads a row, widened to f32.
    ///
    /// # Safety
    /// Nobody writes the row meanwhile, and the buffer is alive.
    pub(crate) unsafe fn load(&self, frame: usize, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.row);
        let from = self.row_ptr(frame, row);
        // SAFETY: `row_ptr` checks that the row lies in the view, `View` keeps inside its tensor and `Tensor::new`
        // inside its buffer; the caller keeps it alive and unwritten.
        let bytes = unsafe { std::slice::from_raw_parts(from, self.row * self.dtype.bytes()) };
        dtype::decode(self.dtype, bytes, out);
    }

    /// Writes a row, rounded to the format.
    ///
    /// # Safety
    /// Nobody reads or writes the row meanwhile, and the buffer is alive.
    pub(crate) unsafe fn store(&self, frame: usize, row: usize, from: &[f32]) {
        assert_eq!(from.len(), self.row);
        let to = self.row_ptr(frame, row);
        // SAFETY: as in `load`, with the caller's promise that the row is ours alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, self.row * self.dtype.bytes()) };
        dtype::encode(self.dtype, from, bytes);
    }
}
