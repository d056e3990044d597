//! Products of bf16 tiles.
#![expect(unsafe_code, reason = "the tile unit reads and writes raw addresses inside checked buffers")]

use std::ops::Range;

use super::job::{Ahead, Job};
use super::plan::Plan;
use super::program::{Frame, GridTap, Phase};
use crate::cpu::kernels::amx;
use crate::cpu::kernels::product::Tap;

/// Pixels in the tile unit's format: bytes between rows and between pixels.
struct Source {
    a: *const u8,
    line: usize,
    step: usize,
}

impl Job<'_> {
    pub(super) fn multiply_amx(&self, frame: Frame, phase: &Phase, panels: Range<usize>, mut ahead: Ahead) {
        let Plan { program, packing, blocks, ring, room, .. } = self.plan;
        let Some(tiles) = &self.tiles else { return };
        // SAFETY: pieces of this thread.
        let (patch, extra, sums) =
            unsafe { (self.own.piece(room.patch), self.own.piece(room.extra), self.own.piece(room.sums)) };
        let pixel = 2 * ring.pixel;
        let line = ring.columns * pixel;
        let tap = |t: &GridTap| Tap {
            a: (self.slot(frame.newest, t.back) * ring.patch * 2 + t.dy * line + t.dx * pixel) as isize,
            b: t.matrix * packing.matrix_bytes,
        };
        let steps = program.cin.div_ceil(amx::STEP);
        let taps: Vec<Tap> = phase.taps.iter().map(tap).collect();
        let sums = sums.as_mut_ptr();
        let main = Source {
            a: patch.as_ptr().cast(),
            line: program.stride[0] * line,
            step: program.stride[1] * pixel,
        };
        for panel in panels.clone() {
            let out = sums.wrapping_add((panel - panels.start) * packing.panel);
            let b = self.operands.weight.main.wrapping_add(panel * packing.panel_bytes());
            self.multiply_rows(tiles, &main, b, &taps, steps, out, false, ahead.take());
            if let Some((_, weight)) = &self.operands.shortcut {
                let pixel = 2 * weight.packing.cin.next_multiple_of(amx::STEP);
                let extra = Source { a: extra.as_ptr().cast(), line: blocks.padded * pixel, step: pixel };
                let b = weight.main.wrapping_add(panel * weight.packing.panel_bytes());
                let n = weight.packing.cin.div_ceil(amx::STEP);
                self.multiply_rows(tiles, &extra, b, &[Tap { a: 0, b: 0 }], n, out, true, None);
            }
        }
    }

    /// One panel of every row of the block.
    fn multiply_rows(
        &self,
        tiles: &amx::Tiles,
        from: &Source,
        b: *const u8,
        taps: &[Tap],
        steps: usize,
        out: *mut f32,
        keep: bool,
        ahead: Ahead,
    ) {
        let (half, group) = (amx::ROWS, self.plan.blocks.group);
        for r in 0..self.rows.len() {
            self.expect(ahead, r);
            for x in (0..self.plan.blocks.padded).step_by(2 * half) {
                let a = from.a.wrapping_add(r * from.line + x * from.step);
                let out = out.wrapping_add((r * self.plan.blocks.padded + x) * group);
                let work = amx::Block {
                    a: [a, a.wrapping_add(half * from.step)],
                    a_step: from.step,
                    taps,
                    steps,
                    b,
                    out: [out, out.wrapping_add(half * group)],
                    out_step: group * 4,
                    keep,
                };
                // SAFETY: the variant is only chosen where the unit is available; patches, panels and sums
                // were laid out for these numbers.
                unsafe { tiles.run(&work) };
            }
        }
    }
}
