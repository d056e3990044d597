//! Products in the transformed domain of Winograd, and the way there and back.
#![expect(unsafe_code, reason = "patches, tiles and sums are pieces of one buffer")]

use std::ops::Range;

use super::job::{Block, Job};
use super::plan::Plan;
use super::program::Frame;
use crate::cpu::kernels::product::{Product, Tap};
use crate::cpu::kernels::winograd;
use crate::cpu::simd::run;

/// Frames a kernel can reach back and still be transformed.
const MAX_DEPTH: usize = 3;

impl Job<'_> {
    fn tile_counts(&self, block: &Block) -> (usize, usize) {
        (self.rows.len().div_ceil(2), block.width.div_ceil(2))
    }

    pub(super) fn transform(&self, block: &Block, slot: usize) {
        let plan = self.plan;
        let (tiles_y, tiles_x) = self.tile_counts(block);
        // SAFETY: pieces of this thread.
        let (patch, out) = unsafe {
            (
                self.scratch.private(self.thread, plan.room.patch),
                self.scratch.private(self.thread, plan.room.transformed),
            )
        };
        let slot_len = plan.blocks.tiles * plan.program.cin;
        let kernel = winograd::TransformInput {
            patch: patch.as_ptr().cast(),
            pitch: plan.ring.columns,
            channels: plan.program.cin,
            tiles_y,
            tiles_x,
            out: out.as_mut_ptr().wrapping_add(slot * slot_len),
            plane: plan.ring.frames * slot_len,
        };
        run(self.isa, kernel);
    }

    /// Products of some frames in the transformed domain, where time taps add up.
    pub(super) fn multiply_tiles(&self, block: &Block, frames: &[Frame], panels: Range<usize>) {
        let Plan { program, packing, .. } = self.plan;
        let group = self.plan.blocks.group;
        // SAFETY: pieces of this thread.
        let (from, products) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.room.transformed),
                self.scratch.private(self.thread, self.plan.room.products),
            )
        };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let rows = (tiles_y * tiles_x).next_multiple_of(self.isa.rows());
        let slot_len = self.plan.blocks.tiles * program.cin;
        let plane = self.plan.blocks.tiles * group;
        let tap = |newest, t| Tap {
            a: (self.slot(newest, program.depth - 1 - t) * slot_len) as isize,
            b: t * packing.matrix_bytes / 4,
        };
        for point in 0..winograd::POINTS {
            for (i, frame) in frames.iter().enumerate() {
                let taps: [Tap; MAX_DEPTH] =
                    std::array::from_fn(|t| tap(frame.newest, t.min(program.depth - 1)));
                let out = (i * winograd::POINTS + point) * plane;
                for panel in panels.clone() {
                    let b = point * packing.plane_bytes() + panel * packing.panel_bytes();
                    let product = Product {
                        a: from.as_ptr().wrapping_add(point * self.plan.ring.frames * slot_len),
                        a_step: program.cin,
                        a_channel: 1,
                        rows,
                        taps: &taps[..program.depth],
                        k: program.cin,
                        b: self.operands.weight.main.wrapping_add(b).cast(),
                        b_step: packing.panel,
                        vectors: packing.panel / self.isa.lanes(),
                        out: products.as_mut_ptr().wrapping_add(out + (panel - panels.start) * packing.panel),
                        out_step: group,
                        keep: false,
                    };
                    run(self.isa, product);
                }
            }
        }
    }

    /// Sums of frame `i` of those multiplied together.
    pub(super) fn gather_tiles(&self, block: &Block, i: usize) {
        // SAFETY: pieces of this thread.
        let (products, sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.room.products),
                self.scratch.private(self.thread, self.plan.room.sums),
            )
        };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let plane = self.plan.blocks.tiles * self.plan.blocks.group;
        let kernel = winograd::TransformOutput {
            products: products.as_ptr().wrapping_add(i * winograd::POINTS * plane),
            plane,
            width: self.plan.blocks.group,
            tiles_y,
            tiles_x,
            out: sums.as_mut_ptr(),
            pitch: self.plan.blocks.padded,
        };
        run(self.isa, kernel);
    }
}
