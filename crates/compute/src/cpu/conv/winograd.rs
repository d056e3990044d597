//! Products in the transformed domain of Winograd, and the way there and back.
#![expect(unsafe_code, reason = "patches, tiles and sums are pieces of one buffer")]

use std::ops::Range;

use super::job::{Ahead, Block, Job};
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
        let Plan { program, blocks, ring, room, .. } = self.plan;
        let (tiles_y, tiles_x) = self.tile_counts(block);
        // SAFETY: pieces of this thread.
        let (patch, out) = unsafe { (self.own.piece(room.patch), self.own.piece(room.transformed)) };
        let slot_len = blocks.tiles * program.cin;
        let kernel = winograd::TransformInput {
            patch: patch.as_ptr().cast(),
            pitch: ring.columns,
            channels: program.cin,
            tiles_y,
            tiles_x,
            out: out.as_mut_ptr().wrapping_add(slot * slot_len),
            plane: ring.frames * slot_len,
        };
        run(self.isa, kernel);
    }

    /// Products of some frames in the transformed domain, where time taps add up.
    pub(super) fn multiply_tiles(&self, block: &Block, frames: &[Frame], panels: Range<usize>, ahead: Ahead) {
        let Plan { program, packing, blocks, ring, room, .. } = self.plan;
        let group = blocks.group;
        // SAFETY: pieces of this thread.
        let (from, products) = unsafe { (self.own.piece(room.transformed), self.own.piece(room.products)) };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let rows = (tiles_y * tiles_x).next_multiple_of(self.isa.rows());
        let slot_len = blocks.tiles * program.cin;
        let plane = blocks.tiles * group;
        let tap = |newest, t| Tap {
            a: (self.slot(newest, program.depth - 1 - t) * slot_len) as isize,
            b: t * packing.matrix_bytes / 4,
        };
        for point in 0..winograd::POINTS {
            let row = |point: usize| point * self.rows.len() / winograd::POINTS;
            (row(point)..row(point + 1)).for_each(|row| self.expect(ahead, row));
            for (i, frame) in frames.iter().enumerate() {
                let taps: [Tap; MAX_DEPTH] =
                    std::array::from_fn(|t| tap(frame.newest, t.min(program.depth - 1)));
                let out = (i * winograd::POINTS + point) * plane;
                for panel in panels.clone() {
                    let b = point * packing.plane_bytes() + panel * packing.panel_bytes();
                    let product = Product {
                        a: from.as_ptr().wrapping_add(point * ring.frames * slot_len),
                        a_step: program.cin,
                        a_channel: 1,
                        rows,
                        taps: &taps[..program.depth],
                        k: program.cin,
                        b: self.operands.weight.main.wrapping_add(b).cast(),
                        b_step: packing.panel,
                        vectors: packing.vectors(panel, self.isa.lanes()),
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
        let Plan { blocks, room, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (products, sums) = unsafe { (self.own.piece(room.products), self.own.piece(room.sums)) };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let plane = blocks.tiles * blocks.group;
        let kernel = winograd::TransformOutput {
            products: products.as_ptr().wrapping_add(i * winograd::POINTS * plane),
            plane,
            width: blocks.group,
            tiles_y,
            tiles_x,
            out: sums.as_mut_ptr(),
            pitch: blocks.padded,
        };
        run(self.isa, kernel);
    }
}
