//! Linear layers over the `gemm` crate.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::matmul::{Matrix, matmul};
use super::scratch::{Layout, Piece, Scratch, total};
use super::{Cpu, weight_parts};
use crate::error::ComputeError;
use crate::ops::{LinearDesc, LinearWork, RowSumsDesc};

/// Pixels in one product, as whole rows: fixed by the frame's size, so that `m` never depends on the cut.
const BLOCK_PIXELS: usize = 128;

pub(super) struct LinearPlan {
    private: Layout,
    block_rows: usize,
    input: Piece<f32>,
    output: Piece<f32>,
    row: Piece<f32>,
}

impl LinearPlan {
    pub(super) fn new(work: &LinearWork) -> Self {
        let block_rows = (BLOCK_PIXELS / work.w.max(1)).clamp(1, work.h.max(1));
        let mut private = Layout::default();
        LinearPlan {
            input: private.take(block_rows * work.w * work.cin),
            output: private.take(block_rows * work.w * work.cout),
            row: private.take(work.w * work.cout),
            private,
            block_rows,
        }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&Layout::default(), &self.private, threads)
    }
}

impl Cpu {
    pub(super) fn linear_now(&self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<(), ComputeError> {
        const OP: &str = "linear";
        let plan = LinearPlan::new(work);
        let scratch = Scratch::new(&self.host, OP, &Layout::default(), &plan.private, self.pool.threads())?;
        let (matrix, bias) = weight_parts(&self.host, d.weight)?;
        let input = self.host.pixels(OP, "input", &d.input)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        let (first, last) = (work.rows.start / plan.block_rows, work.rows.end.div_ceil(plan.block_rows));
        let blocks = last - first;
        self.pool.run(work.t * blocks, |thread, item| {
            let (t, top) = (item / blocks, (first + item % blocks) * plan.block_rows);
            let rows = top.max(work.rows.start)..(top + plan.block_rows).min(work.rows.end);
            // SAFETY: pieces of this thread; output rows of this item's own; operands are not written.
            unsafe {
                let from = scratch.private(thread, plan.input);
                let sums = scratch.private(thread, plan.output);
                for (r, line) in from.chunks_exact_mut(work.w * work.cin).enumerate() {
                    if input.has_row(top + r) { input.load(t, top + r, line) } else { line.fill(0.0) }
                }
                let dims = [plan.block_rows * work.w, work.cout, work.cin];
                let matrix = Matrix::rows(matrix, work.cout);
                matmul(dims, sums, work.cout, false, Matrix::rows(from, work.cin), matrix);
                for y in rows {
                    let row = scratch.private(thread, plan.row);
                    let sums = &sums[(y - top) * row.len()..(y - top + 1) * row.len()];
                    if d.accumulate {
                        output.load(t, y, row)
                    } else {
                        row.fill(0.0)
                    }
                    for (pixel, sums) in row.chunks_exact_mut(work.cout).zip(sums.chunks_exact(work.cout)) {
                        pixel.iter_mut().zip(sums).zip(bias).for_each(|((r, s), b)| *r += s + b);
                    }
                    output.store(t, y, row);
                }
            }
        });
        drop(scratch);
        match &d.sums {
            None => Ok(()),
            Some(s) => self.row_sums_now(&RowSumsDesc {
                input: d.output.clone(),
                groups: s.groups,
                output: s.output.clone(),
            }),
        }
    }
}
