//! Ops that only move values: shuffle and copy.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::Cpu;
use super::scratch::{Layout, Piece, Shared};
use crate::error::{Result, ensure};
use crate::ops::ShuffleDesc;
use crate::tensor::{Shape, View};

/// Scratch of a copy: one row per thread.
pub(super) fn copy_layout(shape: Shape) -> (Layout, [Piece<f32>; 1]) {
    Layout::of([shape.w * shape.c])
}

impl Cpu {
    pub(super) fn shuffle_now(&self, d: &ShuffleDesc<'_>) -> Result<()> {
        let input = self.host.pixels("shuffle", "input", &d.input)?;
        let output = self.host.pixels("shuffle", "output", &d.output)?;
        let shape = d.output.shape();
        let [fz, fy, fx] = d.factors;
        let bytes = shape.c * d.output.dtype().bytes();
        let cell = fz * fy * fx * bytes;
        // Where time does not grow, the pixels that a pixel becomes in a row lie side by side.
        let together = if fz == 1 { fx } else { 1 };
        self.pool.run(shape.t * shape.h, |_, item| {
            let (t, y) = (item / shape.h, output.first_row + item % shape.h);
            let frame = if d.drop_second && t > 0 { t + 1 } else { t };
            let from = input.row_ptr(frame / fz, y / fy);
            let to = output.row_ptr(t, y);
            for x in (0..shape.w).step_by(together) {
                let phase = (y % fy * fx + x % fx) * fz + frame % fz;
                // SAFETY: source pixel and channel run lie inside the input row, the target inside the
                // output row (shapes checked by the descriptor), which is this item's own.
                unsafe {
                    let from = from.add(x / fx * cell + phase * bytes);
                    std::ptr::copy_nonoverlapping(from, to.add(x * bytes), together * bytes);
                }
            }
        });
        Ok(())
    }

    /// All values of a view in `[t, h, w, c]` order, by all threads: a frame of an upscaler is as large as the film's.
    pub(super) fn download_now(&self, from: &View<'_>, to: &mut [f32]) -> Result<()> {
        ensure(to.len() == from.shape().len(), "download", "values", to.len(), from.shape().len())?;
        let input = self.host.pixels("download", "input", from)?;
        let (rows, row) = (from.shape().t * input.rows, input.row);
        let to = Shared::new(to);
        self.pool.run(rows, |_, item| {
            // SAFETY: each row is one item's own, and all of them are as many values as were given; nothing writes the input.
            unsafe {
                let to = to.part(item * row, row);
                input.load(item / input.rows, input.first_row + item % input.rows, to);
            }
        });
        Ok(())
    }

    pub(super) fn copy_now(&self, from: &View<'_>, to: &View<'_>) -> Result<()> {
        let shape = from.shape();
        let (private, [row]) = copy_layout(shape);
        let scratch = self.scratch("copy", &private)?;
        let input = self.host.pixels("copy", "input", from)?;
        let output = self.host.pixels("copy", "output", to)?;
        self.pool.run(shape.t * shape.h, |thread, item| {
            let (t, y) = (item / shape.h, item % shape.h);
            // SAFETY: a piece of this thread; the input is not written, the output row is this item's own.
            unsafe {
                let row = scratch.own(thread).piece(row);
                input.load(t, input.first_row + y, row);
                output.store(t, output.first_row + y, row);
            }
        });
        Ok(())
    }
}
