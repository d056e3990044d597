//! Pixels on their way in: normalised into the ring, and those of a shortcut beside it.
#![expect(unsafe_code, reason = "patches are pieces of one buffer")]

use super::job::{Ahead, Block, Job};
use super::pack::Variant;
use super::plan::Plan;
use crate::cpu::kernels::amx;
use crate::cpu::kernels::rows::Normalize;
use crate::cpu::simd::{prefetch, run};
use crate::dtype::DType;

impl Job<'_> {
    /// Normalises frame `v` of the block into the ring.
    pub(super) fn take_in(&self, block: &Block, v: usize) {
        let Plan { program, packing, ring, room, .. } = self.plan;
        let wino = packing.variant == Variant::Winograd;
        let slot = v % ring.frames;
        let (from, t, affine) = self.operands.frame(program, v);
        // SAFETY: a piece of this thread.
        let patch = unsafe { self.own.piece(room.patch) };
        let dtype = if packing.variant == Variant::Amx { DType::Bf16 } else { DType::F32 };
        let start = if wino { 0 } else { slot * ring.patch * dtype.bytes() };
        let base = patch.as_mut_ptr().cast::<u8>();
        let origin = [self.rows.start * program.stride[0], block.left * program.stride[1]];
        let line = ring.columns * ring.pixel * dtype.bytes();
        let x0 = origin[1] as isize - program.before[1] as isize;
        let first = x0.max(0) as usize;
        let last = ((x0 + ring.columns as isize).max(0) as usize).min(program.w_in);
        for r in 0..self.needed_rows() {
            let y = (origin[0] + r).wrapping_sub(program.before[0]);
            // SAFETY: inside the patch: `r` and `line` are below what it was made for.
            let to = unsafe { base.add(start + r * line) };
            if !program.readable.contains(&y) || first >= last {
                // SAFETY: one line of the patch.
                unsafe { std::ptr::write_bytes(to, 0, line) };
                continue;
            }
            let step = ring.pixel * dtype.bytes();
            let left = (first as isize - x0) as usize * step;
            let right = left + (last - first) * step;
            // SAFETY: parts of one line of the patch.
            unsafe {
                std::ptr::write_bytes(to, 0, left);
                std::ptr::write_bytes(to.add(right), 0, line - right);
                if ring.pixel != program.cin {
                    std::ptr::write_bytes(to.add(left), 0, right - left);
                }
            }
            let start = first * program.cin * program.dtype.bytes();
            let normalize = Normalize {
                from: (from.row_ptr(t, y).wrapping_add(start), program.dtype),
                to: (to.wrapping_add(left), dtype),
                to_step: ring.pixel,
                pixels: last - first,
                channels: program.cin,
                affine,
            };
            run(self.isa, normalize);
        }
        if wino {
            self.transform(block, slot);
        }
    }

    /// Asks for the part of what `take_in` reads next that belongs to row `row` of the item: a row of a block is a page or so,
    /// too short for the machine to guess what follows.
    pub(super) fn expect(&self, ahead: Ahead, row: usize) {
        let Some((block, v)) = ahead else { return };
        let Plan { program, ring, .. } = self.plan;
        let (from, t, _) = self.operands.frame(program, v);
        let (needed, rows) = (self.needed_rows(), self.rows.len());
        for r in row * needed / rows..(row + 1) * needed / rows {
            let y = (self.rows.start * program.stride[0] + r).wrapping_sub(program.before[0]);
            if program.readable.contains(&y) {
                let first = (block.left * program.stride[1]).saturating_sub(program.before[1]);
                let pixel = program.cin * program.dtype.bytes();
                let columns = ring.columns.min(program.w_in.saturating_sub(first));
                prefetch(from.row_ptr(t, y).wrapping_add(first * pixel), columns * pixel);
            }
        }
    }

    /// Rows of the input that the rows of this item need.
    fn needed_rows(&self) -> usize {
        let Plan { program, packing, ring, .. } = self.plan;
        let needed = (self.rows.len() - 1) * program.stride[0] + program.window[0];
        let wino = packing.variant == Variant::Winograd;
        (if wino { needed.next_multiple_of(2) } else { needed }).min(ring.rows)
    }

    /// Pixels of the shortcut's input for one output frame, as its kernel wants them.
    pub(super) fn take_shortcut(&self, block: &Block, t: usize) {
        let Some((input, weight)) = &self.operands.shortcut else { return };
        let cin = weight.packing.cin;
        let amx = weight.packing.variant == Variant::Amx;
        let (dtype, pixel) =
            if amx { (DType::Bf16, cin.next_multiple_of(amx::STEP)) } else { (DType::F32, cin) };
        // SAFETY: a piece of this thread.
        let extra = unsafe { self.own.piece(self.plan.room.extra) };
        if pixel != cin {
            extra.fill(0);
        }
        let stored = self.plan.program.dtype;
        for (r, y) in self.rows.clone().enumerate() {
            if !self.plan.program.rows.contains(&y) {
                continue;
            }
            let place = r * self.plan.blocks.padded * pixel * dtype.bytes();
            let normalize = Normalize {
                from: (input.row_ptr(t, y).wrapping_add(block.left * cin * stored.bytes()), stored),
                to: (extra.as_mut_ptr().cast::<u8>().wrapping_add(place), dtype),
                to_step: pixel,
                pixels: block.width,
                channels: cin,
                affine: None,
            };
            run(self.isa, normalize);
        }
    }
}
