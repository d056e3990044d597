//! One item of a convolution: the loop over blocks of columns, frames, phases and groups of output channels.
#![expect(unsafe_code, reason = "scratch is handed to threads in pieces")]

use std::ops::Range;

use super::Operands;
use super::pack::Variant;
use super::plan::Plan;
use super::program::Frame;
use crate::cancel::CancelToken;
use crate::cpu::kernels::amx;
use crate::cpu::scratch::Own;
use crate::cpu::simd::Isa;

/// One item: a block of grid rows on one thread.
pub(super) struct Job<'a> {
    pub(super) isa: Isa,
    pub(super) plan: &'a Plan,
    pub(super) operands: &'a Operands<'a>,
    pub(super) own: Own<'a>,
    pub(super) rows: Range<usize>,
    pub(super) tiles: Option<amx::Tiles>,
    pub(super) cancel: &'a CancelToken,
}

/// What is read behind the products that are being made: a frame of a block.
pub(super) type Ahead = Option<(Block, usize)>;

/// A block of columns on its way through an item.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// First grid column and how many.
    pub(super) left: usize,
    pub(super) width: usize,
}

impl Job<'_> {
    pub(super) fn run(&self) {
        let Plan { program, .. } = self.plan;
        // SAFETY: a piece of this thread.
        let totals = unsafe { self.own.piece(self.plan.room.row_totals) };
        totals.fill(0.0);
        let at = |left: usize| Block { left, width: self.plan.blocks.columns.min(program.w_grid - left) };
        // Copies in front of a clip's first frame share its patch.
        let oldest = if program.continued { 0 } else { program.prefix };
        let last = program.frames.last().map_or(0, |f| f.newest);
        for left in (0..program.w_grid).step_by(self.plan.blocks.columns) {
            let block = at(left);
            let mut taken = oldest;
            for (n, frames) in program.frames.chunks(self.plan.blocks.together).enumerate() {
                let newest = frames.last().map_or(0, |f| f.newest);
                while taken <= newest {
                    if self.cancel.is_cancelled() {
                        return;
                    }
                    self.take_in(&block, taken);
                    taken += 1;
                }
                let behind = left + self.plan.blocks.columns;
                let ahead = match taken <= last {
                    true => Some((block, taken)),
                    false => (behind < program.w_grid).then(|| (at(behind), oldest)),
                };
                self.make(&block, n * self.plan.blocks.together, frames, ahead, totals);
            }
        }
        self.write_pairs(totals);
    }

    /// Place in the ring of frame `newest - back`.
    pub(super) fn slot(&self, newest: usize, back: usize) -> usize {
        let program = &self.plan.program;
        let v = newest.saturating_sub(back);
        let v = if program.continued { v } else { v.max(program.prefix) };
        v % self.plan.ring.frames
    }

    /// Some output frames: products, then finishing, a phase and a group of output channels at a time.
    fn make(&self, block: &Block, first: usize, frames: &[Frame], ahead: Ahead, totals: &mut [f64]) {
        let plan = self.plan;
        let mut ahead = ahead;
        let per_group = plan.blocks.group / plan.packing.panel;
        for (phase, panel) in (0..plan.program.factor.pow(2))
            .flat_map(|phase| (0..plan.packing.panels).step_by(per_group).map(move |panel| (phase, panel)))
        {
            let panels = panel..(panel + per_group).min(plan.packing.panels);
            if plan.packing.variant == Variant::Winograd {
                self.multiply_tiles(block, frames, panels.clone(), ahead.take());
            }
            // Frames of one kind share their weights: one after the other they find them in a cache.
            let kinds = 0..plan.program.kinds.len();
            let in_order = kinds.flat_map(|k| frames.iter().enumerate().filter(move |(_, f)| f.kind == k));
            for (i, frame) in in_order {
                if self.cancel.is_cancelled() {
                    return;
                }
                let phase = &plan.program.kinds[frame.kind][phase];
                if plan.shortcut.is_some() {
                    self.take_shortcut(block, first + i);
                }
                match plan.packing.variant {
                    Variant::Winograd => self.gather_tiles(block, i),
                    Variant::Direct => self.multiply(block, *frame, phase, panels.clone(), ahead.take()),
                    Variant::Amx => self.multiply_amx(*frame, phase, panels.clone(), ahead.take()),
                }
                if let Some((_, weight)) = &self.operands.shortcut
                    && plan.packing.variant != Variant::Amx
                {
                    self.add_shortcut(block, weight, panels.clone());
                }
                self.finish(block, first + i, phase, panels.clone(), totals);
            }
        }
    }
}
