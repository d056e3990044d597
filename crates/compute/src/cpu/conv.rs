//! Causal convolution as implicit GEMM over the `gemm` crate: works on every CPU.
//!
//! The input is normalised once into a padded f32 copy; then each tap of the kernel is a strided matrix
//! in it, and a block of output rows is the sum of `taps` products. Blocks lie at fixed absolute rows and
//! are computed whole even where only a part is wanted, so no result depends on how the frame is cut.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use std::ops::Range;

use super::matmul::{Matrix, matmul};
use super::norm;
use super::scratch::{Layout, Piece, Scratch, total};
use super::{Cpu, weight_parts};
use crate::error::ComputeError;
use crate::host::Pixels;
use crate::ops::{ConvDesc, ConvWork};

/// Output pixels a block aims for: enough to reuse the packed weights, little enough that the sums of
/// 512 channels (1 MiB) stay in a second-level cache.
const BLOCK_PIXELS: usize = 512;

/// Where everything lies. Depends on the layer and the rows asked for, never on who asks.
pub(super) struct ConvPlan {
    shared: Layout,
    private: Layout,
    /// Rows of output in a block. Depends on the size of the whole frame alone.
    block_rows: usize,
    /// Output rows covered by whole blocks.
    band: Range<usize>,
    /// Columns of the padded input.
    pitch: usize,
    /// Rows of the padded input.
    padded_rows: usize,
    scale: Piece<f32>,
    shift: Piece<f32>,
    padded: Piece<f32>,
    sums: Piece<f32>,
    row: Piece<f32>,
    in_row: Piece<f32>,
    shortcut_row: Piece<f32>,
    group_acc: Piece<f64>,
}

impl ConvPlan {
    pub(super) fn new(work: &ConvWork) -> Self {
        let block_rows = (BLOCK_PIXELS / work.w_out.max(1)).clamp(1, work.h_out.max(1));
        let band = work.rows.start / block_rows * block_rows..work.rows.end.next_multiple_of(block_rows);
        let pitch = work.padding.left + work.w_in + work.padding.right;
        let padded_rows = band.len().saturating_sub(1) * work.stride[1] + work.kernel[1];
        let frames = work.t_in + if work.continued { work.prefix } else { 0 };
        let (mut shared, mut private) = (Layout::default(), Layout::default());
        ConvPlan {
            scale: shared.take(work.t_in * work.cin),
            shift: shared.take(work.t_in * work.cin),
            padded: shared.take(frames * padded_rows * pitch * work.cin),
            sums: private.take(block_rows * pitch * work.cout),
            row: private.take(work.w_out * work.cout),
            in_row: private.take(work.w_in * work.cin),
            shortcut_row: private.take(work.shortcut.map_or(0, |c| work.w_out * c)),
            group_acc: norm::sum_scratch(&mut private, work.cout),
            shared,
            private,
            block_rows,
            band,
            pitch,
            padded_rows,
        }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&self.shared, &self.private, threads)
    }
}

/// Reads input frames after their prologue, and carried frames as they are.
struct Frames<'a> {
    input: Pixels,
    carried: Option<Pixels>,
    prefix: usize,
    /// Scale and shift per input frame and channel, and whether SiLU follows.
    prologue: Option<(&'a [f32], &'a [f32], bool)>,
    channels: usize,
}

impl Frames<'_> {
    /// One row of frame `frame` of `prefix ++ input`, rounded as if it had been stored.
    ///
    /// # Safety
    /// Input and tail are alive and not written meanwhile.
    unsafe fn load(&self, frame: usize, y: usize, row: &mut [f32]) {
        let t = match (frame.checked_sub(self.prefix), &self.carried) {
            (Some(t), _) => t,
            (None, None) => 0,
            (None, Some(tail)) => {
                // SAFETY: passed on to the caller.
                unsafe { tail.load(frame, y, row) };
                return;
            }
        };
        // SAFETY: passed on to the caller.
        unsafe { self.input.load(t, y, row) };
        if let Some((scale, shift, silu)) = self.prologue {
            let channels = t * self.channels..(t + 1) * self.channels;
            norm::apply(row, &scale[channels.clone()], &shift[channels], silu);
            self.input.dtype.round_all(row);
        }
    }
}

impl Cpu {
    pub(super) fn conv_now(&self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<(), ComputeError> {
        const OP: &str = "conv";
        let plan = ConvPlan::new(work);
        let scratch = Scratch::new(&self.host, OP, &plan.shared, &plan.private, self.pool.threads())?;
        // SAFETY: written here by one thread, only read by the threads below.
        let (scale, shift) = unsafe { (scratch.shared(plan.scale), scratch.shared(plan.shift)) };
        if let Some(p) = &d.prologue {
            self.fill_coefficients(&p.stats, p.affine, scale, shift)?;
        }
        let frames = Frames {
            input: self.host.pixels(OP, "input", &d.input)?,
            carried: d.carried.as_ref().map(|v| self.host.pixels(OP, "carried tail", v)).transpose()?,
            prefix: work.prefix,
            prologue: d.prologue.as_ref().map(|p| (&*scale, &*shift, p.silu)),
            channels: work.cin,
        };
        self.fill_padded(work, &plan, &scratch, &frames);
        if let Some(carry) = &d.carry {
            let carry = self.host.pixels(OP, "new tail", carry)?;
            self.fill_tail(work, &plan, &scratch, &frames, carry);
        }
        self.multiply(d, work, &plan, &scratch)
    }

    /// The padded copy: row 0 is the first row that output row `band.start` reaches. Rows outside the
    /// frame, and rows only unwanted parts of a block would need, are zero.
    fn fill_padded(&self, work: &ConvWork, plan: &ConvPlan, scratch: &Scratch, frames: &Frames<'_>) {
        // Copies of the first frame are not stored again: reading starts behind them.
        let skip = if work.continued { 0 } else { work.prefix };
        let stored = work.prefix + work.t_in - skip;
        let line = plan.pitch * work.cin;
        let wanted = work.input_rows();
        self.pool.run(stored * plan.padded_rows, |thread, item| {
            let (frame, r) = (item / plan.padded_rows, item % plan.padded_rows);
            let y = (plan.band.start * work.stride[1] + r).wrapping_sub(work.padding.top);
            // SAFETY: this item's own line of the padded copy; the row is this thread's own; operands are
            // alive and only outputs are written during an op.
            unsafe {
                let out = &mut scratch.shared(plan.padded)[item * line..(item + 1) * line];
                if wanted.contains(&y) {
                    let row = scratch.private(thread, plan.in_row);
                    frames.load(skip + frame, y, row);
                    let left = work.padding.left * work.cin;
                    out[..left].fill(0.0);
                    out[left..left + row.len()].copy_from_slice(row);
                    out[left + row.len()..].fill(0.0);
                } else {
                    out.fill(0.0);
                }
            }
        });
    }

    /// The last frames of `prefix ++ input`, for the slice that follows.
    fn fill_tail(
        &self,
        work: &ConvWork,
        plan: &ConvPlan,
        scratch: &Scratch,
        frames: &Frames<'_>,
        carry: Pixels,
    ) {
        let first = work.prefix + work.t_in - work.tail;
        self.pool.run(work.tail * carry.rows, |thread, item| {
            let (frame, y) = (item / carry.rows, carry.first_row + item % carry.rows);
            // SAFETY: the row is this thread's own, the tail row this item's own; operands are alive.
            unsafe {
                let row = scratch.private(thread, plan.in_row);
                frames.load(first + frame, y, row);
                carry.store(frame, y, row);
            }
        });
    }

    fn multiply(
        &self,
        d: &ConvDesc<'_>,
        work: &ConvWork,
        plan: &ConvPlan,
        scratch: &Scratch,
    ) -> Result<(), ComputeError> {
        const OP: &str = "conv";
        let (kernel, bias) = weight_parts(&self.host, d.weight)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        let residual = d.residual.as_ref().map(|v| self.host.pixels(OP, "residual", v)).transpose()?;
        let shortcut = match &d.shortcut {
            Some(s) => {
                Some((self.host.pixels(OP, "shortcut", &s.input)?, weight_parts(&self.host, s.weight)?))
            }
            None => None,
        };
        let pairs = d.sums.as_ref().map(|s| self.host.pixels(OP, "row sums", &s.output)).transpose()?;
        // SAFETY: written before; only read from here on.
        let padded = unsafe { &*scratch.shared(plan.padded) };
        let blocks = plan.band.len() / plan.block_rows;

        self.pool.run(work.t_out * blocks, |thread, item| {
            let (t, block) = (item / blocks, item % blocks);
            let first = plan.band.start + block * plan.block_rows;
            // SAFETY: pieces of this thread.
            let sums = unsafe { scratch.private(thread, plan.sums) };
            product(work, plan, padded, kernel, t, block, sums);
            for y in first.max(work.rows.start)..(first + plan.block_rows).min(work.rows.end) {
                let line = (y - first) * plan.pitch * work.cout;
                // SAFETY: pieces of this thread; output rows of this item's own; operands are not written.
                unsafe {
                    let row = scratch.private(thread, plan.row);
                    let sums = &mut sums[line..line + row.len()];
                    if let Some((input, (matrix, bias))) = &shortcut {
                        let from = scratch.private(thread, plan.shortcut_row);
                        input.load(t, y, from);
                        let c = input.row / work.w_out;
                        let dims = [work.w_out, work.cout, c];
                        matmul(
                            dims,
                            sums,
                            work.cout,
                            true,
                            Matrix::rows(from, c),
                            Matrix::rows(matrix, work.cout),
                        );
                        add_bias(sums, bias);
                    }
                    add_bias(sums, bias);
                    match &residual {
                        None => row.copy_from_slice(sums),
                        Some(residual) => {
                            residual.load(t, y, row);
                            row.iter_mut().zip(&*sums).for_each(|(r, s)| *r += s);
                        }
                    }
                    work.dtype.round_all(row);
                    output.store(t, y, row);
                    if let Some(pairs) = &pairs {
                        let out =
                            std::slice::from_raw_parts_mut(pairs.row_ptr(t, y).cast::<f32>(), pairs.row);
                        norm::sum_row(row, work.cout, scratch.private(thread, plan.group_acc), out);
                    }
                }
            }
        });
        Ok(())
    }
}

fn add_bias(values: &mut [f32], bias: &[f32]) {
    for pixel in values.chunks_exact_mut(bias.len()) {
        pixel.iter_mut().zip(bias).for_each(|(v, b)| *v += b);
    }
}

/// All taps of one block of output rows of output frame `t`, without bias; a row of `sums` is `pitch`
/// pixels, of which the first `w_out` mean something.
fn product(
    work: &ConvWork,
    plan: &ConvPlan,
    padded: &[f32],
    kernel: &[f32],
    t: usize,
    block: usize,
    sums: &mut [f32],
) {
    let (cin, cout) = (work.cin, work.cout);
    let [kt, kh, kw] = work.kernel;
    let skip = if work.continued { 0 } else { work.prefix };
    let line = plan.pitch * cin;
    for tap in 0..kt * kh * kw {
        let (dt, dy, dx) = (tap / (kh * kw), tap / kw % kh, tap % kw);
        let frame = (t * work.stride[0] + dt).saturating_sub(skip);
        let matrix = Matrix::rows(&kernel[tap * cin * cout..(tap + 1) * cin * cout], cout);
        let top = frame * plan.padded_rows + block * plan.block_rows * work.stride[1] + dy;
        if work.stride[1] == 1 && work.stride[2] == 1 {
            // Pixels of neighbouring rows follow each other at the same step, the padding between them
            // included: the whole block is one matrix.
            let m = (plan.block_rows - 1) * plan.pitch + work.w_out;
            let from = Matrix::rows(&padded[top * line + dx * cin..], cin);
            matmul([m, cout, cin], sums, cout, tap > 0, from, matrix);
        } else {
            for r in 0..plan.block_rows {
                let from = &padded[(top + r * work.stride[1]) * line + dx * cin..];
                let from = Matrix::rows(from, work.stride[2] * cin);
                let out = &mut sums[r * plan.pitch * cout..];
                matmul([work.w_out, cout, cin], out, cout, tap > 0, from, matrix);
            }
        }
    }
}
