//! Convolutions: a block of rows at a time, columns in blocks that fit a cache, frames rolling through.
//!
//! An item is a block of grid rows. For each block of columns the input frames pass through a ring of
//! normalised patches (for Winograd: of transformed ones); as soon as an output frame has all its taps it
//! is multiplied, finished and stored. Nothing larger than a patch is ever held, each input value is
//! normalised about once, and the sums for the next normalisation fall out on the way.
//!
//! Blocks lie at fixed columns; how many rows an item has may change with the cut and the thread count,
//! but no sum crosses a row.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

mod direct;
mod finish;
mod job;
pub(crate) mod pack;
mod patch;
mod plan;
pub(crate) mod program;
mod tiles;
mod winograd;

use self::job::Job;
use self::pack::{Packed, Variant};
pub(super) use self::plan::Plan;
use self::program::Program;
use super::Cpu;
use super::kernels::amx;
use super::kernels::rows::{Affine, Normalize};
use super::scratch::Scratch;
use super::simd::run;
use crate::error::Result;
use crate::host::Pixels;
use crate::ops::{ConvDesc, ConvWork, UpsampleDesc, UpsampleWork};
use crate::tensor::View;

/// Operands of one convolution as addresses.
struct Operands<'a> {
    input: Pixels,
    carried: Option<Pixels>,
    output: Pixels,
    /// Add to the output.
    accumulate: bool,
    shortcut: Option<(Pixels, Packed<'a>)>,
    pairs: Option<Pixels>,
    weight: Packed<'a>,
    /// Scale and shift of all input frames, and whether SiLU follows.
    affine: Option<Affine<'a>>,
}

impl Operands<'_> {
    /// Frame `v` of `prefix ++ input`: whose it is, its number there, and its normalisation.
    fn frame(&self, program: &Program, v: usize) -> (Pixels, usize, Option<Affine<'_>>) {
        let t = match (v.checked_sub(program.prefix), &self.carried) {
            (Some(t), _) => t,
            (None, None) => 0,
            (None, Some(tail)) => return (*tail, v, None),
        };
        let channels = t * program.cin..(t + 1) * program.cin;
        (self.input, t, self.affine.map(|a| a.of(channels)))
    }
}

impl Cpu {
    pub(super) fn conv_now(&self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        self.convolve("conv", d, &Plan::conv(work, self.path, self.pool.threads()))
    }

    pub(super) fn upsample_now(&self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<()> {
        self.convolve("upsample", &d.as_conv(), &Plan::upsample(work, self.path, self.pool.threads()))
    }

    fn convolve(&self, op: &'static str, d: &ConvDesc<'_>, plan: &Plan) -> Result<()> {
        let room = &plan.room;
        let scratch = Scratch::new(&self.host, op, &room.shared, &room.private, self.pool.threads())?;
        // SAFETY: written here by one thread, only read by the threads below.
        let (scale, shift) = unsafe { (scratch.shared(room.scale), scratch.shared(room.shift)) };
        if let Some(p) = &d.prologue {
            self.fill_coefficients(&p.stats, p.affine, scale, shift)?;
        }
        let pixels = |what, view: Option<&View<'_>>| view.map(|v| self.host.pixels(op, what, v)).transpose();
        let operands = Operands {
            input: self.host.pixels(op, "input", &d.input)?,
            carried: pixels("carried tail", d.carried.as_ref())?,
            output: self.host.pixels(op, "output", &d.output)?,
            accumulate: d.accumulate,
            shortcut: match &d.shortcut {
                Some(s) => {
                    let input = self.host.pixels(op, "shortcut", &s.input)?;
                    Some((input, Packed::of(&self.host, op, s.weight, self.path)?))
                }
                None => None,
            },
            pairs: pixels("row sums", d.sums.as_ref().map(|s| &s.output))?,
            weight: Packed::of(&self.host, op, d.weight, self.path)?,
            affine: d.prologue.as_ref().map(|p| Affine { scale, shift, silu: p.silu }),
        };
        let carry = pixels("new tail", d.carry.as_ref())?;
        self.make(plan, &operands, carry, &scratch);
        Ok(())
    }

    /// The last frames of `prefix ++ input`, for the slice that follows.
    fn fill_tail(&self, program: &Program, operands: &Operands<'_>, carry: Pixels) {
        // A clip's first slice may have fewer frames than the tail: its first frame stands for those before.
        let first = (program.prefix + program.t_in) as isize - program.tail as isize;
        self.pool.run(carry.rows, |_, item| {
            let y = carry.first_row + item;
            // Oldest first: in the place of the old tail, a frame is then read before it is written.
            for frame in 0..program.tail {
                let (from, t, affine) = operands.frame(program, (first + frame as isize).max(0) as usize);
                let normalize = Normalize {
                    from: (from.row_ptr(t, y), program.dtype),
                    to: (carry.row_ptr(frame, y), program.dtype),
                    to_step: program.cin,
                    pixels: program.w_in,
                    channels: program.cin,
                    affine,
                };
                run(self.path.isa, normalize);
            }
        });
    }

    /// Makes the output, then leaves the tail for the next slice: it may lie where the old one was.
    fn make(&self, plan: &Plan, operands: &Operands<'_>, carry: Option<Pixels>, scratch: &Scratch) {
        let grid = plan.grid_rows();
        let first = grid.start / plan.blocks.item_rows;
        let items = grid.end.div_ceil(plan.blocks.item_rows).saturating_sub(first);
        self.pool.run(items, |thread, item| {
            let top = (first + item) * plan.blocks.item_rows;
            // Tiles of Winograd start at even rows.
            let start = top.max(grid.start) & !usize::from(plan.packing.variant == Variant::Winograd);
            let rows = start..(top + plan.blocks.item_rows).min(grid.end);
            let tiles = (plan.packing.variant == Variant::Amx).then(amx::Tiles::new);
            let (isa, own, cancel) = (self.path.isa, scratch.own(thread), self.pool.cancel());
            Job { isa, plan, operands, own, rows, tiles, cancel }.run();
        });
        if let Some(carry) = carry {
            self.fill_tail(&plan.program, operands, carry);
        }
    }
}
