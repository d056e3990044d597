//! Products of f32 vectors, tap by tap.
#![expect(unsafe_code, reason = "patches and sums are pieces of one buffer")]

use std::ops::Range;

use super::job::{Ahead, Block, Job};
use super::pack::{Packed, Packing};
use super::plan::Plan;
use super::program::{Frame, GridTap, Phase};
use crate::cpu::kernels::product::{Product, Tap};
use crate::cpu::simd::run;

/// Weights of one panel used at a time in f32, in bytes: a part of a second-level cache, the rest is pixels.
const PANEL_CACHE: usize = 320 << 10;

impl Job<'_> {
    pub(super) fn multiply(
        &self,
        block: &Block,
        frame: Frame,
        phase: &Phase,
        panels: Range<usize>,
        ahead: Ahead,
    ) {
        let Plan { program, packing, blocks, ring, room, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (patch, sums) = unsafe { (self.own.piece(room.patch), self.own.piece(room.sums)) };
        let line = ring.columns * program.cin;
        let tap = |t: &GridTap| Tap {
            a: (self.slot(frame.newest, t.back) * ring.patch + t.dy * line + t.dx * program.cin) as isize,
            b: t.matrix * packing.matrix_bytes / 4,
        };
        let taps: Vec<Tap> = phase.taps.iter().map(tap).collect();
        let chunk = (PANEL_CACHE / packing.matrix_bytes).max(1);
        let block_rows = self.isa.rows();
        for panel in panels.clone() {
            for (n, taps) in taps.chunks(chunk).enumerate() {
                for r in 0..self.rows.len() {
                    if panel == panels.start && n == 0 {
                        self.expect(ahead, r);
                    }
                    let place = r * blocks.padded * blocks.group + (panel - panels.start) * packing.panel;
                    let product = Product {
                        a: patch.as_ptr().cast::<f32>().wrapping_add(r * program.stride[0] * line),
                        a_step: program.stride[1] * program.cin,
                        a_channel: 1,
                        rows: block.width.next_multiple_of(block_rows),
                        taps,
                        k: program.cin,
                        b: self.operands.weight.main.wrapping_add(panel * packing.panel_bytes()).cast(),
                        b_step: packing.panel,
                        vectors: packing.vectors(panel, self.isa.lanes()),
                        out: sums.as_mut_ptr().wrapping_add(place),
                        out_step: blocks.group,
                        keep: n > 0,
                    };
                    run(self.isa, product);
                }
            }
        }
    }

    /// Adds the shortcut's products to finished sums.
    pub(super) fn add_shortcut(&self, block: &Block, weight: &Packed<'_>, panels: Range<usize>) {
        let Plan { blocks, room, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (extra, sums) = unsafe { (self.own.piece(room.extra), self.own.piece(room.sums)) };
        let Packing { cin, panel: width, .. } = weight.packing;
        let (padded, group) = (blocks.padded, blocks.group);
        for panel in panels.clone() {
            for r in 0..self.rows.len() {
                let product = Product {
                    a: extra.as_ptr().cast::<f32>().wrapping_add(r * padded * cin),
                    a_step: cin,
                    a_channel: 1,
                    rows: block.width.next_multiple_of(self.isa.rows()),
                    taps: &[Tap { a: 0, b: 0 }],
                    k: cin,
                    b: weight.main.wrapping_add(panel * weight.packing.panel_bytes()).cast(),
                    b_step: width,
                    vectors: weight.packing.vectors(panel, self.isa.lanes()),
                    out: sums.as_mut_ptr().wrapping_add(r * padded * group + (panel - panels.start) * width),
                    out_step: group,
                    keep: true,
                };
                run(self.isa, product);
            }
        }
    }
}
