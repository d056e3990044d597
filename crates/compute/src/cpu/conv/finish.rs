//! Sums on their way out: bias, residual, PReLU, rounding, and the row sums of the next normalisation.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use std::ops::Range;

use super::job::{Block, Job};
use super::plan::Plan;
use super::program::Phase;
use crate::cpu::kernels::rows::Finish;
use crate::cpu::norm::not_below_zero;
use crate::cpu::simd::run;

impl Job<'_> {
    /// Bias, residual, PReLU, rounding and row sums of a group of output channels of one phase.
    pub(super) fn finish(
        &self,
        block: &Block,
        t: usize,
        phase: &Phase,
        panels: Range<usize>,
        totals: &mut [f64],
    ) {
        let Plan { program, packing, groups, blocks, room, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (sums, channel_sums) = unsafe { (self.own.piece(room.sums), self.own.piece(room.channel_sums)) };
        let (factor, cout) = (program.factor, program.cout);
        let first = panels.start * packing.panel;
        let channels = (panels.len() * packing.panel).min(cout - first);
        let bytes = program.dtype.bytes();
        let weight = &self.operands.weight;
        let bias = |i: usize| &weight.bias(i)[first..first + channels];
        let point = self.operands.shortcut.as_ref().map(|(_, w)| &w.bias(0)[first..first + channels]);
        // An upsampler has no slopes, and more rows of bias.
        let slopes = (packing.biases == 2).then(|| bias(1));
        let at_side = [0, program.w_grid - 1][phase.x];
        for (r, g) in self.rows.clone().enumerate() {
            let y = g * factor + phase.y;
            if !program.rows.contains(&y) {
                continue;
            }
            let outside = factor == 2 && g == [0, program.h_grid - 1][phase.y];
            let row = phase.bias + 2 * usize::from(outside);
            let edge =
                (factor == 2).then(|| at_side.checked_sub(block.left)).flatten().filter(|x| *x < block.width);
            let place = ((block.left * factor + phase.x) * cout + first) * bytes;
            let (total, square) = match groups {
                0 => (&mut [][..], &mut [][..]),
                _ => channel_sums.split_at_mut(blocks.group),
            };
            let finish = Finish {
                sums: sums.as_ptr().wrapping_add(r * blocks.padded * blocks.group),
                sums_step: blocks.group,
                pixels: block.width,
                channels,
                bias: bias(row),
                point,
                edge: edge.map(|x| (x, bias(row + 1))),
                accumulate: self.operands.accumulate,
                slopes,
                out: self.operands.output.row_ptr(t, y).wrapping_add(place),
                out_step: factor * cout,
                dtype: program.dtype,
                totals: total,
                squares: square,
            };
            run(self.isa, finish);
            if *groups > 0 {
                let wide = cout / groups;
                let out = self.total_place(t, y);
                for c in 0..channels {
                    let pair = out + (first + c) / wide * 2;
                    totals[pair] += channel_sums[c];
                    totals[pair + 1] += channel_sums[blocks.group + c];
                }
            }
        }
    }

    /// Where the sums of an output row start in `totals`.
    fn total_place(&self, t: usize, y: usize) -> usize {
        let factor = self.plan.program.factor;
        (t * self.plan.blocks.item_rows * factor + y - self.rows.start * factor) * self.plan.groups * 2
    }

    /// Sums of whole rows to means and squared distances.
    pub(super) fn write_pairs(&self, totals: &[f64]) {
        let Some(pairs) = &self.operands.pairs else { return };
        let Plan { program, groups, .. } = self.plan;
        let count = (program.w_grid * program.factor * (program.cout / groups)) as f64;
        let rows = self.rows.start * program.factor..self.rows.end * program.factor;
        for t in 0..program.frames.len() {
            for y in rows.clone().filter(|y| program.rows.contains(y)) {
                let from = &totals[self.total_place(t, y)..][..2 * groups];
                // SAFETY: a row of f32 pairs that is this item's own.
                let out =
                    unsafe { std::slice::from_raw_parts_mut(pairs.row_ptr(t, y).cast::<f32>(), pairs.row) };
                for (out, from) in out.chunks_exact_mut(2).zip(from.chunks_exact(2)) {
                    let mean = from[0] / count;
                    out[0] = mean as f32;
                    out[1] = not_below_zero(from[1] - from[0] * mean) as f32;
                }
            }
        }
    }
}
