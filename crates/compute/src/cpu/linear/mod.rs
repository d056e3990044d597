//! Linear layers: blocks of pixels by panels of weights, on the matrix kernels of the convolution.
//!
//! An item is a block of pixels and some of the output channels. Its pixels are copied once into a part of
//! the second-level cache, in the kernel's format; then panel after panel passes by, a chunk of input
//! channels at a time that stays in the first-level cache while all pixels of the block use it.
//!
//! Pixels know nothing of rows and frames: a value is the sum over chunks in order, each chunk summed
//! channel by channel, so no cut changes a bit. Chunks follow from the kernel alone.
#![expect(unsafe_code, reason = "threads write disjoint pixels of one tensor")]

mod tiles;

use std::ops::Range;

use super::Cpu;
use super::conv::pack::{Packed, Packing, Variant};
use super::kernels::product::{Product, Tap};
use super::kernels::rows::{Finish, Normalize};
use super::path::CpuPath;
use super::scratch::{Layout, Own, Piece};
use super::simd::{Isa, prefetch, run};
use crate::cancel::CancelToken;
use crate::dtype::DType;
use crate::error::Result;
use crate::host::Pixels;
use crate::ops::{LinearDesc, LinearWork};

/// Input channels multiplied at a time. In a first-level cache of 48 KiB a chunk of a panel then leaves room for
/// the pixels that are multiplied and the next ones: it takes 24 KiB of f32.
const CHUNK: usize = 192;

/// Bytes of pixels a thread holds: the larger part of a second-level cache of 2 MiB.
const HELD: usize = 1280 << 10;

/// Most pixels of a block: whole register blocks of every instruction set.
const ROWS: usize = 96;

/// Output channels whose sums wait together: a few whole lines of the output. If the pixels of a block do not
/// fit, they are read once per group, so that groups get larger.
const GROUP: usize = 128;
const LARGE_GROUP: usize = 1024;

/// Bytes of scratch of one layer.
pub(super) fn scratch_bytes(work: &LinearWork, path: CpuPath, threads: usize) -> u64 {
    match Packing::linear(work.cin, work.cout, work.dtype, path).variant {
        Variant::Amx => tiles::TilesPlan::new(work, path).private.per_thread(threads),
        _ => LinearPlan::new(work, path).private.per_thread(threads),
    }
}

/// Few blocks are cut across as well, so that all threads have work to the end: how many shares, and the groups of
/// output channels of each.
fn shares(blocks: usize, groups: usize, threads: usize) -> (usize, usize) {
    let shares = (4 * threads).div_ceil(blocks.max(1)).clamp(1, groups.max(1));
    (shares, groups.div_ceil(shares))
}

/// Sizes of the blocks and scratch of one layer.
struct LinearPlan {
    packing: Packing,
    /// Pixels of a block, whole register blocks.
    rows: usize,
    /// Pixels of a register block.
    block: usize,
    /// Input channels held at a time, whole chunks.
    section: usize,
    /// Panels whose sums wait together, and the values between two pixels of them.
    group: usize,
    sums_step: usize,
    private: Layout,
    /// Chunk by chunk, in it register block by register block. That is the order in which they are
    /// used, so that one stream is read and the next values are asked for in time.
    held: Piece<f32>,
    /// One pixel on its way there.
    line: Piece<f32>,
    /// One chunk of a 16-bit panel, widened.
    wide: Piece<f32>,
    sums: Piece<f32>,
}

impl LinearPlan {
    fn new(work: &LinearWork, path: CpuPath) -> Self {
        let packing = Packing::linear(work.cin, work.cout, work.dtype, path);
        let block = path.isa.rows();
        let pixels = pixels(work);
        let rows = pixels.div_ceil(pixels.div_ceil(ROWS).max(1)).next_multiple_of(block).max(block);
        let sections = (work.cin * ROWS * 4).div_ceil(HELD).max(1);
        let section = work.cin.div_ceil(sections).next_multiple_of(CHUNK).max(CHUNK);
        let channels = section.min(work.cin);
        let group = if section < work.cin { LARGE_GROUP } else { GROUP } / packing.panel;
        let group = group.min(packing.panels).max(1);
        let sums_step = group * packing.panel + 16;
        let widened = packing.stored_as != DType::F32;
        let mut private = Layout::default();
        LinearPlan {
            held: private.take(rows * channels),
            line: private.take(channels),
            wide: private.take(if widened { CHUNK.min(work.cin) * packing.panel } else { 0 }),
            sums: private.take(rows * sums_step),
            packing,
            rows,
            block,
            section,
            group,
            sums_step,
            private,
        }
    }
}

impl Cpu {
    pub(super) fn linear_now(&self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        match Packing::linear(work.cin, work.cout, work.dtype, self.path).variant {
            Variant::Amx => self.linear_tiles(d, work)?,
            _ => self.linear_vectors(d, work)?,
        }
        d.sums.as_ref().map_or(Ok(()), |sums| self.row_sums_now(&sums.of(&d.output)))
    }

    fn linear_vectors(&self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        let plan = LinearPlan::new(work, self.path);
        let cut = [plan.rows, plan.packing.panels, plan.group];
        self.linear_items(d, work, (&plan, &plan.private), cut, |job, panels| job.run(panels))
    }

    /// Runs the items of a layer that is cut into blocks of `rows` pixels and shares of whole groups of panels.
    fn linear_items<P: Sync>(
        &self,
        d: &LinearDesc<'_>,
        work: &LinearWork,
        (plan, private): (&P, &Layout),
        [rows, panels, group]: [usize; 3],
        run: impl Fn(&Job<'_, P>, Range<usize>) + Sync,
    ) -> Result<()> {
        const OP: &str = "linear";
        let scratch = self.scratch(OP, private)?;
        let weight = Packed::of(&self.host, OP, d.weight, self.path)?;
        let input = Flat::new(self.host.pixels(OP, "input", &d.input)?, work.cin);
        let output = Flat::new(self.host.pixels(OP, "output", &d.output)?, work.cout);
        let pixels = pixels(work);
        let blocks = pixels.div_ceil(rows);
        let (shares, share) = shares(blocks, panels.div_ceil(group), self.pool.threads());
        let share = share * group;
        self.pool.run(blocks * shares, |thread, item| {
            let first = item / shares * rows;
            let job = Job {
                isa: self.path.isa,
                plan,
                weight: &weight,
                input: &input,
                output: &output,
                accumulate: d.accumulate,
                own: scratch.own(thread),
                pixels: first..(first + rows).min(pixels),
                cancel: self.pool.cancel(),
            };
            run(&job, item % shares * share..((item % shares + 1) * share).min(panels));
        });
        Ok(())
    }
}

/// Pixels of a layer.
fn pixels(work: &LinearWork) -> usize {
    work.t * work.rows.len() * work.w
}

/// The pixels of a view, numbered through all its frames: those of one frame follow each other in memory.
struct Flat {
    pixels: Pixels,
    channels: usize,
    per_frame: usize,
}

impl Flat {
    fn new(pixels: Pixels, channels: usize) -> Self {
        Flat { per_frame: pixels.rows * pixels.row / channels.max(1), pixels, channels }
    }

    /// Runs of pixels of one frame: the address of the first, and which of the asked-for ones they are.
    fn runs(&self, wanted: Range<usize>) -> impl Iterator<Item = (*mut u8, Range<usize>)> {
        let mut next = wanted.start;
        std::iter::from_fn(move || {
            (next < wanted.end).then(|| {
                let (frame, skip) = (next / self.per_frame, next % self.per_frame);
                let n = (self.per_frame - skip).min(wanted.end - next);
                let start = self.pixels.row_ptr(frame, self.pixels.first_row);
                let run = next - wanted.start..next - wanted.start + n;
                next += n;
                (start.wrapping_add(skip * self.channels * self.pixels.dtype.bytes()), run)
            })
        })
    }
}

/// One item: a block of pixels and some panels on one thread.
struct Job<'a, P> {
    isa: Isa,
    plan: &'a P,
    weight: &'a Packed<'a>,
    input: &'a Flat,
    output: &'a Flat,
    accumulate: bool,
    own: Own<'a>,
    pixels: Range<usize>,
    cancel: &'a CancelToken,
}

impl<P> Job<'_, P> {
    /// Bias, residual and rounding of some output channels of some pixels. `sums` are those of the first pixel, with
    /// `sums_step` values between two pixels.
    fn finish_pixels(
        &self,
        pixels: Range<usize>,
        channels: Range<usize>,
        sums: *const f32,
        sums_step: usize,
    ) {
        let dtype = self.output.pixels.dtype;
        for (out, run_of) in self.output.runs(pixels) {
            let finish = Finish {
                sums: sums.wrapping_add(run_of.start * sums_step),
                sums_step,
                pixels: run_of.len(),
                channels: channels.len(),
                bias: &self.weight.bias(0)[channels.clone()],
                point: None,
                edge: None,
                accumulate: self.accumulate,
                slopes: None,
                out: out.wrapping_add(channels.start * dtype.bytes()),
                out_step: self.output.channels,
                dtype,
                totals: &mut [],
                squares: &mut [],
            };
            run(self.isa, finish);
        }
    }
}

impl Job<'_, LinearPlan> {
    fn run(&self, panels: Range<usize>) {
        let LinearPlan { section, group, packing, .. } = *self.plan;
        if packing.cin == 0 {
            // SAFETY: a piece of this thread.
            unsafe { self.own.piece(self.plan.sums) }.fill(0.0);
        }
        for first in panels.clone().step_by(group) {
            let group = first..(first + group).min(panels.end);
            for start in (0..packing.cin).step_by(section) {
                if self.cancel.is_cancelled() {
                    return;
                }
                let channels = start..(start + section).min(packing.cin);
                // A block that fits whole stays.
                if section < packing.cin || first == panels.start {
                    self.hold(channels.clone());
                }
                for panel in group.clone() {
                    let place = (panel - group.start) * packing.panel;
                    self.multiply(panel, channels.clone(), place);
                }
            }
            self.finish(group);
        }
    }

    /// Copies some channels of the block's pixels, widened: a register block by channels.
    fn hold(&self, channels: Range<usize>) {
        let block = self.plan.block;
        // SAFETY: pieces of this thread.
        let (held, line) = unsafe { (self.own.piece(self.plan.held), self.own.piece(self.plan.line)) };
        let stored = self.input.pixels.dtype;
        for (from, run_of) in self.input.runs(self.pixels.clone()) {
            for (i, row) in run_of.enumerate() {
                let start = (i * self.input.channels + channels.start) * stored.bytes();
                let normalize = Normalize {
                    from: (from.wrapping_add(start), stored),
                    to: (line.as_mut_ptr().cast(), DType::F32),
                    to_step: channels.len(),
                    pixels: 1,
                    channels: channels.len(),
                    affine: None,
                };
                run(self.isa, normalize);
                for (n, values) in line[..channels.len()].chunks(CHUNK).enumerate() {
                    let start = self.held_at(n * CHUNK, values.len(), row) + row % block;
                    let to = held[start..].iter_mut().step_by(block);
                    to.zip(values).for_each(|(to, value)| *to = *value);
                }
            }
        }
    }

    /// Number of the first held value of the register block that holds pixel `row`, in the chunk of `n` channels
    /// that starts at `start`.
    fn held_at(&self, start: usize, n: usize, row: usize) -> usize {
        start * self.plan.rows + row / self.plan.block * self.plan.block * n
    }

    /// Adds the products of some channels to the sums of one panel, or sets them if they are the first.
    fn multiply(&self, panel: usize, channels: Range<usize>, place: usize) {
        let LinearPlan { packing, block, sums_step, .. } = *self.plan;
        // SAFETY: pieces of this thread.
        let (held, wide, sums) = unsafe {
            (self.own.piece(self.plan.held), self.own.piece(self.plan.wide), self.own.piece(self.plan.sums))
        };
        let line = packing.panel * packing.stored_as.bytes();
        let weights = |panel: usize, channel: usize| {
            self.weight.main.wrapping_add(panel * packing.panel_bytes() + channel * line)
        };
        for start in channels.clone().step_by(CHUNK) {
            let k = CHUNK.min(channels.end - start);
            let from = weights(panel, start);
            // Weights come from far away once per block of pixels: each register block asks for a part of those
            // that follow.
            let next = match start + k < channels.end {
                true => weights(panel, start + k),
                false => weights(panel + 1, channels.start),
            };
            let part = (k * line).div_ceil(self.pixels.len().div_ceil(block)).next_multiple_of(64);
            let b = match packing.stored_as {
                DType::F32 => from.cast(),
                stored => {
                    let widen = Normalize {
                        from: (from, stored),
                        to: (wide.as_mut_ptr().cast(), DType::F32),
                        to_step: packing.panel,
                        pixels: k,
                        channels: packing.panel,
                        affine: None,
                    };
                    run(self.isa, widen);
                    wide.as_ptr()
                }
            };
            for row in (0..self.pixels.len()).step_by(block) {
                let held = held.as_ptr().wrapping_add(self.held_at(start - channels.start, k, row));
                prefetch(next.wrapping_add(row / block * part), part);
                let product = Product {
                    a: held,
                    a_step: 1,
                    a_channel: block,
                    rows: block,
                    taps: &[Tap { a: 0, b: 0 }],
                    k,
                    b,
                    b_step: packing.panel,
                    vectors: packing.panel / self.isa.lanes(),
                    out: sums.as_mut_ptr().wrapping_add(row * sums_step + place),
                    out_step: sums_step,
                    keep: start > 0,
                };
                run(self.isa, product);
            }
        }
    }

    /// Bias, residual and rounding of a group of panels.
    fn finish(&self, panels: Range<usize>) {
        let LinearPlan { packing, sums_step, .. } = *self.plan;
        // SAFETY: a piece of this thread.
        let sums = unsafe { self.own.piece(self.plan.sums) };
        let first = panels.start * packing.panel;
        let channels = first..(panels.end * packing.panel).min(packing.cout);
        self.finish_pixels(self.pixels.clone(), channels, sums.as_ptr(), sums_step);
    }
}
