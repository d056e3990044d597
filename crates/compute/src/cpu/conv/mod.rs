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

pub(crate) mod pack;
pub(crate) mod program;

use std::ops::Range;

use self::pack::{Packed, Packing, Variant};
use self::program::{Frame, Phase, Program};
use super::Cpu;
use super::kernels::product::{Product, Tap};
use super::kernels::rows::{Affine, Finish, Normalize};
use super::kernels::{amx, winograd};
use super::norm::not_below_zero;
use super::path::CpuPath;
use super::scratch::{Layout, Piece, Scratch, total};
use super::simd::{Isa, run};
use crate::dtype::DType;
use crate::error::ComputeError;
use crate::host::Pixels;
use crate::ops::{ConvDesc, ConvWork, RowSums, UpsampleDesc, UpsampleWork};

/// Output channels finished at a time: sums of a block then stay in the second-level cache.
const GROUP: usize = 128;

/// Weights of one panel used at a time in f32, in bytes: a part of a second-level cache, the rest is pixels.
const PANEL_CACHE: usize = 320 << 10;

/// Weights larger than this are read for several frames at a time: a second-level cache and a bit.
const HEAVY: usize = 4 << 20;

/// Frames a kernel can reach back and still be transformed.
const MAX_DEPTH: usize = 3;

/// Output frames made together then: a slice.
const TOGETHER: usize = 4;

/// Rows of an item: the fewest rounds of all threads, counting the halo that every item computes again.
fn item_rows(rows: usize, tallest: usize, threads: usize) -> usize {
    let cost = |n: usize| {
        let rounds = rows.div_ceil(n).div_ceil(threads.max(1));
        rounds as f64 * (n.min(rows.max(1)) as f64 + 0.8)
    };
    [16, 8, 4].into_iter().filter(|n| *n <= tallest).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(4)
}

/// Sizes of one convolution's blocks and scratch.
pub(super) struct Plan {
    program: Program,
    packing: Packing,
    shortcut: Option<Packing>,
    /// Grid rows of an item.
    item_rows: usize,
    /// Grid columns of a block. Decides the order of row sums, so it follows from the layer alone.
    columns: usize,
    /// Columns rounded up to whole register blocks.
    padded: usize,
    /// Rows and columns of a patch, and the values between its pixels.
    patch_rows: usize,
    patch_columns: usize,
    pixel: usize,
    /// Values of one patch.
    patch_len: usize,
    /// Output frames made together: weights that do not fit a cache are then read once for all of them.
    together: usize,
    /// Frames in the ring.
    ring: usize,
    /// Tiles of a block, rounded up to whole register blocks.
    tiles: usize,
    /// Channels of a group as stored in sums.
    group: usize,
    groups: usize,
    shared: Layout,
    private: Layout,
    scale: Piece<f32>,
    shift: Piece<f32>,
    /// f32 or bf16, as the kernel wants it.
    patch: Piece<u32>,
    extra: Piece<u32>,
    transformed: Piece<f32>,
    products: Piece<f32>,
    sums: Piece<f32>,
    channel_sums: Piece<f64>,
    row_totals: Piece<f64>,
}

impl Plan {
    pub(super) fn conv(work: &ConvWork, path: CpuPath, threads: usize) -> Self {
        let ConvWork { cin, cout, kernel, stride, dtype, .. } = *work;
        let packing = Packing::conv(cin, cout, kernel, stride, dtype, path);
        let shortcut = work.shortcut.map(|cin| Packing::conv(cin, cout, [1; 3], [1; 3], dtype, path));
        Self::new(Program::conv(work), packing, shortcut, work.groups, path, threads)
    }

    pub(super) fn upsample(work: &UpsampleWork, path: CpuPath, threads: usize) -> Self {
        let packing = Packing::upsample(work.cin, work.cout, work.time, work.dtype, path);
        Self::new(Program::upsample(work), packing, None, work.groups, path, threads)
    }

    fn new(
        program: Program,
        packing: Packing,
        shortcut: Option<Packing>,
        groups: usize,
        path: CpuPath,
        threads: usize,
    ) -> Self {
        let amx = packing.variant == Variant::Amx;
        let wino = packing.variant == Variant::Winograd;
        let block = if amx { 2 * amx::ROWS } else { path.isa.rows() };
        let columns = (if amx { 32 } else { 48 }).min(program.w_grid.next_multiple_of(2)).max(1);
        let padded = columns.next_multiple_of(block);
        let grid = grid_rows(&program);
        // Weights beyond a cache are worth reading once for several frames; patches then get less tall.
        let heavy = packing.main_bytes() > HEAVY;
        let together = if heavy { TOGETHER.min(program.frames.len()).max(1) } else { 1 };
        let item_rows = item_rows(grid.len(), if heavy && program.factor == 1 { 8 } else { 16 }, threads);
        let pixel = if amx { program.cin.next_multiple_of(amx::STEP) } else { program.cin };
        let (patch_rows, patch_columns) = if wino {
            (item_rows + 2, columns.next_multiple_of(2) + 2)
        } else {
            let span = |n: usize, i: usize| (n - 1) * program.stride[i] + program.window[i];
            (span(item_rows, 0), span(padded, 1))
        };
        let patch_len = patch_rows * patch_columns * pixel;
        let tiles = if wino { (item_rows / 2 * columns.div_ceil(2)).next_multiple_of(block) } else { 0 };
        // Frames a step of `together` output frames adds to what one needs.
        let newest = |i: usize| program.frames.get(i).map_or(0, |f| f.newest);
        let added = (0..program.frames.len())
            .step_by(together)
            .map(|i| newest((i + together).min(program.frames.len()) - 1) - newest(i));
        let ring = program.depth + added.max().unwrap_or(0);
        let patches = if wino { 1 } else { ring };
        let words = |values: usize| if amx { values.div_ceil(2) } else { values };
        // Sums of a group wait in the second-level cache beside its weights: heavy ones leave less room.
        let wanted = match (heavy, amx) {
            (false, _) => GROUP,
            (true, false) => GROUP / 2,
            (true, true) => packing.panel,
        };
        let group = (wanted / packing.panel).max(1).min(packing.panels) * packing.panel;
        let out_rows = item_rows * program.factor;
        let (mut shared, mut private) = (Layout::default(), Layout::default());
        let extra = shortcut
            .map_or(0, |s| item_rows * padded * if amx { s.cin.next_multiple_of(amx::STEP) } else { s.cin });
        Plan {
            scale: shared.take(program.t_in * program.cin),
            shift: shared.take(program.t_in * program.cin),
            patch: private.take(words(patches * patch_len)),
            extra: private.take(words(extra)),
            transformed: private.take(winograd::POINTS * ring * tiles * program.cin),
            products: private.take(together * winograd::POINTS * tiles * group),
            sums: private.take(item_rows * padded * group),
            channel_sums: private.take(2 * group),
            row_totals: private.take(2 * groups * out_rows * program.frames.len()),
            program,
            packing,
            shortcut,
            item_rows,
            columns,
            padded,
            patch_rows,
            patch_columns,
            pixel,
            patch_len,
            together,
            ring,
            tiles,
            group,
            groups,
            shared,
            private,
        }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&self.shared, &self.private, threads)
    }
}

/// Grid rows that hold the output rows.
fn grid_rows(program: &Program) -> Range<usize> {
    program.rows.start / program.factor..program.rows.end.div_ceil(program.factor)
}

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
        let affine = self.affine.map(|a| Affine {
            scale: &a.scale[channels.clone()],
            shift: &a.shift[channels],
            silu: a.silu,
        });
        (self.input, t, affine)
    }
}

impl Cpu {
    pub(super) fn conv_now(&self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<(), ComputeError> {
        const OP: &str = "conv";
        let plan = Plan::conv(work, self.path, self.pool.threads());
        let scratch = Scratch::new(&self.host, OP, &plan.shared, &plan.private, self.pool.threads())?;
        // SAFETY: written here by one thread, only read by the threads below.
        let (scale, shift) = unsafe { (scratch.shared(plan.scale), scratch.shared(plan.shift)) };
        if let Some(p) = &d.prologue {
            self.fill_coefficients(&p.stats, p.affine, scale, shift)?;
        }
        let pixels =
            |what, view: &Option<_>| view.as_ref().map(|v| self.host.pixels(OP, what, v)).transpose();
        let operands = Operands {
            input: self.host.pixels(OP, "input", &d.input)?,
            carried: pixels("carried tail", &d.carried)?,
            output: self.host.pixels(OP, "output", &d.output)?,
            accumulate: d.accumulate,
            shortcut: match &d.shortcut {
                Some(s) => {
                    let input = self.host.pixels(OP, "shortcut", &s.input)?;
                    Some((input, Packed::of(&self.host, OP, s.weight, self.path)?))
                }
                None => None,
            },
            pairs: pixels("row sums", &d.sums.as_ref().map(|s: &RowSums<'_>| s.output.clone()))?,
            weight: Packed::of(&self.host, OP, d.weight, self.path)?,
            affine: d.prologue.as_ref().map(|p| Affine { scale, shift, silu: p.silu }),
        };
        let carry = pixels("new tail", &d.carry)?;
        self.convolve(&plan, &operands, carry, &scratch);
        Ok(())
    }

    pub(super) fn upsample_now(&self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<(), ComputeError> {
        const OP: &str = "upsample";
        let plan = Plan::upsample(work, self.path, self.pool.threads());
        let scratch = Scratch::new(&self.host, OP, &plan.shared, &plan.private, self.pool.threads())?;
        let pixels =
            |what, view: &Option<_>| view.as_ref().map(|v| self.host.pixels(OP, what, v)).transpose();
        let operands = Operands {
            input: self.host.pixels(OP, "input", &d.input)?,
            carried: pixels("carried tail", &d.carried)?,
            output: self.host.pixels(OP, "output", &d.output)?,
            accumulate: false,
            shortcut: None,
            pairs: pixels("row sums", &d.sums.as_ref().map(|s: &RowSums<'_>| s.output.clone()))?,
            weight: Packed::of(&self.host, OP, d.weight, self.path)?,
            affine: None,
        };
        let carry = pixels("new tail", &d.carry)?;
        self.convolve(&plan, &operands, carry, &scratch);
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
                    from: from.row_ptr(t, y),
                    from_dtype: program.dtype,
                    to: carry.row_ptr(frame, y),
                    to_dtype: program.dtype,
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
    fn convolve(&self, plan: &Plan, operands: &Operands<'_>, carry: Option<Pixels>, scratch: &Scratch) {
        let grid = grid_rows(&plan.program);
        let first = grid.start / plan.item_rows;
        let items = grid.end.div_ceil(plan.item_rows).saturating_sub(first);
        self.pool.run(items, |thread, item| {
            let top = (first + item) * plan.item_rows;
            // Tiles of Winograd start at even rows.
            let start = top.max(grid.start) & !usize::from(plan.packing.variant == Variant::Winograd);
            let rows = start..(top + plan.item_rows).min(grid.end);
            let tiles = (plan.packing.variant == Variant::Amx).then(amx::Tiles::new);
            let job = Job { isa: self.path.isa, plan, operands, scratch, thread, rows, tiles };
            job.run(&|| self.pool.cancel().is_cancelled());
        });
        if let Some(carry) = carry {
            self.fill_tail(&plan.program, operands, carry);
        }
    }
}

/// One item: a block of grid rows on one thread.
struct Job<'a> {
    isa: Isa,
    plan: &'a Plan,
    operands: &'a Operands<'a>,
    scratch: &'a Scratch,
    thread: usize,
    rows: Range<usize>,
    tiles: Option<amx::Tiles>,
}

/// Pixels in the tile unit's format: bytes between rows and between pixels.
struct Source {
    a: *const u8,
    line: usize,
    step: usize,
}

/// A block of columns on its way through an item.
struct Block {
    /// First grid column and how many.
    left: usize,
    width: usize,
}

impl Job<'_> {
    fn run(&self, cancelled: &dyn Fn() -> bool) {
        let Plan { program, .. } = self.plan;
        // SAFETY: a piece of this thread.
        let totals = unsafe { self.scratch.private(self.thread, self.plan.row_totals) };
        totals.fill(0.0);
        for left in (0..program.w_grid).step_by(self.plan.columns) {
            let block = Block { left, width: self.plan.columns.min(program.w_grid - left) };
            // Copies in front of a clip's first frame share its patch.
            let mut taken = if program.continued { 0 } else { program.prefix };
            for (n, frames) in program.frames.chunks(self.plan.together).enumerate() {
                let newest = frames.last().map_or(0, |f| f.newest);
                while taken <= newest {
                    if cancelled() {
                        return;
                    }
                    self.take_in(&block, taken);
                    taken += 1;
                }
                self.make(&block, n * self.plan.together, frames, totals, cancelled);
            }
        }
        self.write_pairs(totals);
    }

    /// Place in the ring of frame `newest - back`.
    fn slot(&self, newest: usize, back: usize) -> usize {
        let program = &self.plan.program;
        let v = newest.saturating_sub(back);
        let v = if program.continued { v } else { v.max(program.prefix) };
        v % self.plan.ring
    }

    /// Normalises frame `v` of the block into the ring.
    fn take_in(&self, block: &Block, v: usize) {
        let Plan { program, packing, .. } = self.plan;
        let wino = packing.variant == Variant::Winograd;
        let slot = v % self.plan.ring;
        let (from, t, affine) = self.operands.frame(program, v);
        // SAFETY: a piece of this thread.
        let patch = unsafe { self.scratch.private(self.thread, self.plan.patch) };
        let dtype = if packing.variant == Variant::Amx { DType::Bf16 } else { DType::F32 };
        let start = if wino { 0 } else { slot * self.plan.patch_len * dtype.bytes() };
        let base = patch.as_mut_ptr().cast::<u8>();
        let origin = [self.rows.start * program.stride[0], block.left * program.stride[1]];
        let line = self.plan.patch_columns * self.plan.pixel * dtype.bytes();
        let x0 = origin[1] as isize - program.before[1] as isize;
        let first = x0.max(0) as usize;
        let last = ((x0 + self.plan.patch_columns as isize).max(0) as usize).min(program.w_in);
        let needed = (self.rows.len() - 1) * program.stride[0] + program.window[0];
        let needed = if wino { needed.next_multiple_of(2) } else { needed };
        for r in 0..needed.min(self.plan.patch_rows) {
            let y = (origin[0] + r).wrapping_sub(program.before[0]);
            // SAFETY: inside the patch: `r` and `line` are below what it was made for.
            let to = unsafe { base.add(start + r * line) };
            if !program.readable.contains(&y) || first >= last {
                // SAFETY: one line of the patch.
                unsafe { std::ptr::write_bytes(to, 0, line) };
                continue;
            }
            let step = self.plan.pixel * dtype.bytes();
            let left = (first as isize - x0) as usize * step;
            let right = left + (last - first) * step;
            // SAFETY: parts of one line of the patch.
            unsafe {
                std::ptr::write_bytes(to, 0, left);
                std::ptr::write_bytes(to.add(right), 0, line - right);
                if self.plan.pixel != program.cin {
                    std::ptr::write_bytes(to.add(left), 0, right - left);
                }
            }
            let normalize = Normalize {
                from: from.row_ptr(t, y).wrapping_add(first * program.cin * program.dtype.bytes()),
                from_dtype: program.dtype,
                to: to.wrapping_add(left),
                to_dtype: dtype,
                to_step: self.plan.pixel,
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

    fn tile_counts(&self, block: &Block) -> (usize, usize) {
        (self.rows.len().div_ceil(2), block.width.div_ceil(2))
    }

    fn transform(&self, block: &Block, slot: usize) {
        let plan = self.plan;
        let (tiles_y, tiles_x) = self.tile_counts(block);
        // SAFETY: pieces of this thread.
        let (patch, out) = unsafe {
            (
                self.scratch.private(self.thread, plan.patch),
                self.scratch.private(self.thread, plan.transformed),
            )
        };
        let slot_len = plan.tiles * plan.program.cin;
        let kernel = winograd::TransformInput {
            patch: patch.as_ptr().cast(),
            pitch: plan.patch_columns,
            channels: plan.program.cin,
            tiles_y,
            tiles_x,
            out: out.as_mut_ptr().wrapping_add(slot * slot_len),
            plane: plan.ring * slot_len,
        };
        run(self.isa, kernel);
    }

    /// Some output frames: products, then finishing, a phase and a group of output channels at a time.
    fn make(
        &self,
        block: &Block,
        first: usize,
        frames: &[Frame],
        totals: &mut [f64],
        cancelled: &dyn Fn() -> bool,
    ) {
        let plan = self.plan;
        let per_group = plan.group / plan.packing.panel;
        for (phase, panel) in (0..plan.program.factor.pow(2))
            .flat_map(|phase| (0..plan.packing.panels).step_by(per_group).map(move |panel| (phase, panel)))
        {
            let panels = panel..(panel + per_group).min(plan.packing.panels);
            if plan.packing.variant == Variant::Winograd {
                self.multiply_tiles(block, frames, panels.clone());
            }
            // Frames of one kind share their weights: one after the other they find them in a cache.
            let kinds = 0..plan.program.kinds.len();
            let in_order = kinds.flat_map(|k| frames.iter().enumerate().filter(move |(_, f)| f.kind == k));
            for (i, frame) in in_order {
                if cancelled() {
                    return;
                }
                let phase = &plan.program.kinds[frame.kind][phase];
                if plan.shortcut.is_some() {
                    self.take_shortcut(block, first + i);
                }
                match plan.packing.variant {
                    Variant::Winograd => self.gather_tiles(block, i),
                    Variant::Direct => self.multiply(block, *frame, phase, panels.clone()),
                    Variant::Amx => self.multiply_amx(*frame, phase, panels.clone()),
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

    fn multiply(&self, block: &Block, frame: Frame, phase: &Phase, panels: Range<usize>) {
        let Plan { program, packing, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (patch, sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.patch),
                self.scratch.private(self.thread, self.plan.sums),
            )
        };
        let line = self.plan.patch_columns * program.cin;
        let tap = |t: &program::GridTap| Tap {
            a: (self.slot(frame.newest, t.back) * self.plan.patch_len + t.dy * line + t.dx * program.cin)
                as isize,
            b: t.matrix * packing.matrix_bytes / 4,
        };
        let taps: Vec<Tap> = phase.taps.iter().map(tap).collect();
        let chunk = (PANEL_CACHE / packing.matrix_bytes).max(1);
        let block_rows = self.isa.rows();
        for panel in panels.clone() {
            for (n, taps) in taps.chunks(chunk).enumerate() {
                for r in 0..self.rows.len() {
                    let place =
                        r * self.plan.padded * self.plan.group + (panel - panels.start) * packing.panel;
                    let product = Product {
                        a: patch.as_ptr().cast::<f32>().wrapping_add(r * program.stride[0] * line),
                        a_step: program.stride[1] * program.cin,
                        a_channel: 1,
                        rows: block.width.next_multiple_of(block_rows),
                        taps,
                        k: program.cin,
                        b: self.operands.weight.main.wrapping_add(panel * packing.panel_bytes()).cast(),
                        b_step: packing.panel,
                        vectors: packing.panel / self.isa.lanes(),
                        out: sums.as_mut_ptr().wrapping_add(place),
                        out_step: self.plan.group,
                        keep: n > 0,
                    };
                    run(self.isa, product);
                }
            }
        }
    }

    /// Products of some frames in the transformed domain, where time taps add up.
    fn multiply_tiles(&self, block: &Block, frames: &[Frame], panels: Range<usize>) {
        let Plan { program, packing, group, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (from, products) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.transformed),
                self.scratch.private(self.thread, self.plan.products),
            )
        };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let rows = (tiles_y * tiles_x).next_multiple_of(self.isa.rows());
        let slot_len = self.plan.tiles * program.cin;
        let plane = self.plan.tiles * group;
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
                        a: from.as_ptr().wrapping_add(point * self.plan.ring * slot_len),
                        a_step: program.cin,
                        a_channel: 1,
                        rows,
                        taps: &taps[..program.depth],
                        k: program.cin,
                        b: self.operands.weight.main.wrapping_add(b).cast(),
                        b_step: packing.panel,
                        vectors: packing.panel / self.isa.lanes(),
                        out: products.as_mut_ptr().wrapping_add(out + (panel - panels.start) * packing.panel),
                        out_step: *group,
                        keep: false,
                    };
                    run(self.isa, product);
                }
            }
        }
    }

    /// Sums of frame `i` of those multiplied together.
    fn gather_tiles(&self, block: &Block, i: usize) {
        // SAFETY: pieces of this thread.
        let (products, sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.products),
                self.scratch.private(self.thread, self.plan.sums),
            )
        };
        let (tiles_y, tiles_x) = self.tile_counts(block);
        let plane = self.plan.tiles * self.plan.group;
        let kernel = winograd::TransformOutput {
            products: products.as_ptr().wrapping_add(i * winograd::POINTS * plane),
            plane,
            width: self.plan.group,
            tiles_y,
            tiles_x,
            out: sums.as_mut_ptr(),
            pitch: self.plan.padded,
        };
        run(self.isa, kernel);
    }

    fn multiply_amx(&self, frame: Frame, phase: &Phase, panels: Range<usize>) {
        let Plan { program, packing, .. } = self.plan;
        let Some(tiles) = &self.tiles else { return };
        // SAFETY: pieces of this thread.
        let (patch, extra, sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.patch),
                self.scratch.private(self.thread, self.plan.extra),
                self.scratch.private(self.thread, self.plan.sums),
            )
        };
        let pixel = 2 * self.plan.pixel;
        let line = self.plan.patch_columns * pixel;
        let tap = |t: &program::GridTap| Tap {
            a: (self.slot(frame.newest, t.back) * self.plan.patch_len * 2 + t.dy * line + t.dx * pixel)
                as isize,
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
            self.multiply_rows(tiles, &main, b, &taps, steps, out, false);
            if let Some((_, weight)) = &self.operands.shortcut {
                let pixel = 2 * weight.packing.cin.next_multiple_of(amx::STEP);
                let extra = Source { a: extra.as_ptr().cast(), line: self.plan.padded * pixel, step: pixel };
                let b = weight.main.wrapping_add(panel * weight.packing.panel_bytes());
                let n = weight.packing.cin.div_ceil(amx::STEP);
                self.multiply_rows(tiles, &extra, b, &[Tap { a: 0, b: 0 }], n, out, true);
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
    ) {
        let (half, group) = (amx::ROWS, self.plan.group);
        for r in 0..self.rows.len() {
            for x in (0..self.plan.padded).step_by(2 * half) {
                let a = from.a.wrapping_add(r * from.line + x * from.step);
                let out = out.wrapping_add((r * self.plan.padded + x) * group);
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

    /// Pixels of the shortcut's input for one output frame, as its kernel wants them.
    fn take_shortcut(&self, block: &Block, t: usize) {
        let Some((input, weight)) = &self.operands.shortcut else { return };
        let cin = weight.packing.cin;
        let amx = weight.packing.variant == Variant::Amx;
        let (dtype, pixel) =
            if amx { (DType::Bf16, cin.next_multiple_of(amx::STEP)) } else { (DType::F32, cin) };
        // SAFETY: a piece of this thread.
        let extra = unsafe { self.scratch.private(self.thread, self.plan.extra) };
        if pixel != cin {
            extra.fill(0);
        }
        let stored = self.plan.program.dtype;
        for (r, y) in self.rows.clone().enumerate() {
            if !self.plan.program.rows.contains(&y) {
                continue;
            }
            let to =
                extra.as_mut_ptr().cast::<u8>().wrapping_add(r * self.plan.padded * pixel * dtype.bytes());
            let normalize = Normalize {
                from: input.row_ptr(t, y).wrapping_add(block.left * cin * stored.bytes()),
                from_dtype: stored,
                to,
                to_dtype: dtype,
                to_step: pixel,
                pixels: block.width,
                channels: cin,
                affine: None,
            };
            run(self.isa, normalize);
        }
    }

    /// Adds the shortcut's products to finished sums.
    fn add_shortcut(&self, block: &Block, weight: &Packed<'_>, panels: Range<usize>) {
        // SAFETY: pieces of this thread.
        let (extra, sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.extra),
                self.scratch.private(self.thread, self.plan.sums),
            )
        };
        let Packing { cin, panel: width, .. } = weight.packing;
        let (padded, group) = (self.plan.padded, self.plan.group);
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
                    vectors: width / self.isa.lanes(),
                    out: sums.as_mut_ptr().wrapping_add(r * padded * group + (panel - panels.start) * width),
                    out_step: group,
                    keep: true,
                };
                run(self.isa, product);
            }
        }
    }

    /// Bias, residual, rounding and row sums of a group of output channels of one phase.
    fn finish(&self, block: &Block, t: usize, phase: &Phase, panels: Range<usize>, totals: &mut [f64]) {
        let Plan { program, packing, groups, .. } = self.plan;
        // SAFETY: pieces of this thread.
        let (sums, channel_sums) = unsafe {
            (
                self.scratch.private(self.thread, self.plan.sums),
                self.scratch.private(self.thread, self.plan.channel_sums),
            )
        };
        let (factor, cout) = (program.factor, program.cout);
        let first = panels.start * packing.panel;
        let channels = (panels.len() * packing.panel).min(cout - first);
        let bytes = program.dtype.bytes();
        let weight = &self.operands.weight;
        let bias = |i: usize| &weight.bias(i)[first..first + channels];
        let point = self.operands.shortcut.as_ref().map(|(_, w)| &w.bias(0)[first..first + channels]);
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
                _ => channel_sums.split_at_mut(self.plan.group),
            };
            let finish = Finish {
                sums: sums.as_ptr().wrapping_add(r * self.plan.padded * self.plan.group),
                sums_step: self.plan.group,
                pixels: block.width,
                channels,
                bias: bias(row),
                point,
                edge: edge.map(|x| (x, bias(row + 1))),
                accumulate: self.operands.accumulate,
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
                    totals[pair + 1] += channel_sums[self.plan.group + c];
                }
            }
        }
    }

    /// Where the sums of an output row start in `totals`.
    fn total_place(&self, t: usize, y: usize) -> usize {
        let factor = self.plan.program.factor;
        (t * self.plan.item_rows * factor + y - self.rows.start * factor) * self.plan.groups * 2
    }

    /// Sums of whole rows to means and squared distances.
    fn write_pairs(&self, totals: &[f64]) {
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
