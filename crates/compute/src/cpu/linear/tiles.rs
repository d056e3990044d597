//! Linear layers in bf16 on the tile unit.
//!
//! A block of pixels lies in the second-level cache as tiles, and panel after panel of weights passes by. A chunk
//! of a panel stays in the first-level cache while all pixels of the block pass: pixels are read around that
//! cache, so that a chunk can take nearly all of it. The longer a chunk, the less often sums go to memory and
//! come back. One thread, weights and pixels in the second-level cache, share of the unit's rate: 0.68 with
//! chunks of 256 channels and pixels through the first-level cache, 0.62 with 512; around it 0.62 and 0.78.
//!
//! Sums are f32 in memory as in the registers, so neither chunks nor sections change a bit.
#![expect(unsafe_code, reason = "threads write disjoint pixels of one tensor")]

use std::ops::Range;

use super::super::Cpu;
use super::super::conv::pack::Packing;
use super::super::kernels::amx;
use super::super::kernels::rows::Normalize;
use super::super::path::CpuPath;
use super::super::scratch::{Layout, Piece};
use super::super::simd::run;
use super::{Job, pixels};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::{LinearDesc, LinearWork};

/// Most input channels of a chunk: 40 KiB of weights in a first-level cache of 48 KiB.
const CHUNK: usize = 640;

/// Most pixels of a block. All weights are read once per block from the third-level cache; 192 pixels of 2560 channels
/// are 1 MB of the second.
const ROWS: usize = 192;

/// Bytes of pixels a thread holds, of a second-level cache of 2 MiB: half of 6912 channels, all of 3072.
const HELD: usize = 1296 << 10;

/// Panels whose sums wait for the next section of input channels: 4096 outputs, 3 MiB.
const GROUP: usize = 128;

/// Pixels of two tiles, the bytes of a pixel in a tile and of two tiles of a step.
const PAIR: usize = 2 * amx::ROWS;
const LINE: usize = 2 * amx::STEP;
const STEP_BYTES: usize = PAIR * LINE;

/// Sums of a pair of tiles of pixels by one panel: rows of a panel's width.
const SUMS: usize = PAIR * amx::PANEL;

/// Sizes of the blocks and scratch of one layer.
pub(super) struct TilesPlan {
    packing: Packing,
    /// Pixels of a block, whole pairs of tiles.
    rows: usize,
    /// Input channels held at a time, and those multiplied at a time: whole steps.
    section: usize,
    chunk: usize,
    /// Panels whose sums wait together.
    group: usize,
    pub(super) private: Layout,
    /// Chunk by chunk, pair by pair, step by step: the order in which tiles are read.
    held: Piece<u16>,
    /// Panel by panel, pair by pair.
    sums: Piece<f32>,
}

impl TilesPlan {
    pub(super) fn new(work: &LinearWork, path: CpuPath) -> Self {
        let packing = Packing::linear(work.cin, work.cout, work.dtype, path);
        let pixels = pixels(work);
        let rows = pixels.div_ceil(pixels.div_ceil(ROWS).max(1)).next_multiple_of(PAIR).max(PAIR);
        let even = |whole: usize, most: usize| {
            whole.div_ceil(whole.div_ceil(most).max(1)).next_multiple_of(amx::STEP).max(amx::STEP)
        };
        let section = even(work.cin, HELD / (2 * ROWS));
        let chunk = even(section, CHUNK);
        let group = if section < work.cin { GROUP.min(packing.panels).max(1) } else { 1 };
        let mut private = Layout::default();
        TilesPlan {
            held: private.take(rows * section),
            sums: private.take(group * rows * amx::PANEL),
            packing,
            rows,
            section,
            chunk,
            group,
            private,
        }
    }
}

impl Cpu {
    pub(super) fn linear_tiles(&self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        let plan = TilesPlan::new(work, self.path);
        let cut = [plan.rows, plan.packing.panels, 1];
        self.linear_items(d, work, (&plan, &plan.private), cut, |job, panels| {
            job.run(&amx::Tiles::new(), panels);
        })
    }
}

impl Job<'_, TilesPlan> {
    fn run(&self, tiles: &amx::Tiles, panels: Range<usize>) {
        let TilesPlan { section, group, packing, .. } = *self.plan;
        if packing.cin == 0 {
            // SAFETY: a piece of this thread.
            unsafe { self.own.piece(self.plan.sums) }.fill(0.0);
            panels.for_each(|panel| self.pairs().for_each(|pair| self.finish(panel, pair, 0)));
            return;
        }
        for first in panels.clone().step_by(group) {
            for start in (0..packing.cin).step_by(section) {
                if self.cancel.is_cancelled() {
                    return;
                }
                let channels = start..(start + section).min(packing.cin);
                // A block that fits whole stays.
                if section < packing.cin || first == panels.start {
                    self.hold(channels.clone());
                }
                for panel in first..(first + group).min(panels.end) {
                    self.multiply(tiles, panel, channels.clone(), panel - first);
                }
            }
        }
    }

    fn pairs(&self) -> Range<usize> {
        0..self.pixels.len().div_ceil(PAIR)
    }

    /// Copies some channels of the block's pixels into tiles.
    fn hold(&self, channels: Range<usize>) {
        let TilesPlan { rows, chunk, .. } = *self.plan;
        // SAFETY: a piece of this thread.
        let held = unsafe { self.own.piece(self.plan.held) };
        let base = held.as_mut_ptr().cast::<u8>();
        let stored = self.input.pixels.dtype;
        for (from, run_of) in self.input.runs(self.pixels.clone()) {
            for (i, row) in run_of.enumerate() {
                let from = from.wrapping_add(i * self.input.channels * stored.bytes());
                for start in channels.clone().step_by(chunk) {
                    let n = chunk.min(channels.end - start);
                    let (steps, rest) = (n / amx::STEP, n % amx::STEP);
                    let pair = row / PAIR * n.div_ceil(amx::STEP) * STEP_BYTES;
                    let to =
                        base.wrapping_add(2 * (start - channels.start) * rows + pair + row % PAIR * LINE);
                    // A step is like a pixel of its own: 32 channels, then the next tiles.
                    let step = |first: usize, pixels, n| Normalize {
                        from: (from.wrapping_add((start + first * amx::STEP) * stored.bytes()), stored),
                        to: (to.wrapping_add(first * STEP_BYTES), DType::Bf16),
                        to_step: PAIR * amx::STEP,
                        pixels,
                        channels: n,
                        affine: None,
                    };
                    run(self.isa, step(0, steps, amx::STEP));
                    if rest > 0 {
                        // SAFETY: one line of the last step's tiles. Zeros stay behind the last channel.
                        unsafe { std::ptr::write_bytes(to.add(steps * STEP_BYTES), 0, LINE) };
                        run(self.isa, step(steps, 1, rest));
                    }
                }
            }
        }
    }

    /// Adds the products of some channels to the sums of one panel, or sets them if they are the first. Behind
    /// the last ones the sums of each pair of tiles become output while they are at hand.
    fn multiply(&self, tiles: &amx::Tiles, panel: usize, channels: Range<usize>, waiting: usize) {
        let TilesPlan { packing, rows, chunk, .. } = *self.plan;
        // SAFETY: pieces of this thread.
        let (held, sums) = unsafe { (self.own.piece(self.plan.held), self.own.piece(self.plan.sums)) };
        let weights = |panel: usize, channel: usize| {
            let start = panel * packing.panel_bytes() + channel / amx::STEP * amx::STEP_BYTES;
            self.weight.main.wrapping_add(start)
        };
        let first_pair = waiting * rows / PAIR;
        for start in channels.clone().step_by(chunk) {
            let n = chunk.min(channels.end - start);
            let steps = n.div_ceil(amx::STEP);
            // The next chunk, or the first one of the next panel.
            let next = match start + n < channels.end {
                true => weights(panel, start + n),
                false => weights(panel + 1, channels.start),
            };
            let a = held.as_ptr().cast::<u8>().wrapping_add(2 * (start - channels.start) * rows);
            for pair in self.pairs() {
                let last = start + n == packing.cin;
                if last {
                    self.expect_output(tiles, panel, pair);
                }
                let out = sums.as_mut_ptr().wrapping_add((first_pair + pair) * SUMS);
                let block = amx::Streamed {
                    a: a.wrapping_add(pair * steps * STEP_BYTES),
                    steps,
                    b: weights(panel, start),
                    ahead: next.wrapping_add(pair * steps * amx::AHEAD_BYTES),
                    out: [out, out.wrapping_add(SUMS / 2)],
                    out_step: amx::PANEL * 4,
                    keep: start > 0,
                };
                // SAFETY: the variant is only chosen where the unit is available; pixels, panels and sums were
                // laid out for these numbers.
                unsafe { tiles.run_streamed(&block) };
                if last {
                    self.finish(panel, pair, first_pair);
                }
            }
        }
    }

    /// The pixels of one pair of tiles.
    fn pair_pixels(&self, pair: usize) -> Range<usize> {
        let first = self.pixels.start + pair * PAIR;
        first..(first + PAIR).min(self.pixels.end)
    }

    /// Asks for the lines of the output while tiles are multiplied: each is of a pixel of its own, and waiting
    /// for them shows (0.47 of the tile rate without, 0.50 with, in a bare loop on one thread).
    fn expect_output(&self, tiles: &amx::Tiles, panel: usize, pair: usize) {
        let size = self.output.pixels.dtype.bytes();
        for (out, run_of) in self.output.runs(self.pair_pixels(pair)) {
            let line = |i: usize| out.wrapping_add((i * self.output.channels + panel * amx::PANEL) * size);
            (0..run_of.len()).for_each(|i| tiles.expect_write(line(i)));
        }
    }

    /// Bias, residual and rounding of one panel and one pair of tiles.
    fn finish(&self, panel: usize, pair: usize, first_pair: usize) {
        // SAFETY: a piece of this thread.
        let sums = unsafe { self.own.piece(self.plan.sums) };
        let sums = sums.as_ptr().wrapping_add((first_pair + pair) * SUMS);
        let first = panel * amx::PANEL;
        let channels = first..(first + amx::PANEL).min(self.plan.packing.cout);
        self.finish_pixels(self.pair_pixels(pair), channels, sums, amx::PANEL);
    }
}
