//! How a convolution is cut: the blocks that are multiplied, the ring of patches they come from, and the
//! scratch for both.

use std::ops::Range;

use super::pack::{Packing, Variant};
use super::program::Program;
use crate::cpu::kernels::{amx, winograd};
use crate::cpu::path::CpuPath;
use crate::cpu::scratch::{Layout, Piece, total};
use crate::ops::{ConvWork, UpsampleWork};

/// Output channels finished at a time: sums of a block then stay in the second-level cache.
const GROUP: usize = 128;

/// Weights larger than this are read for several frames at a time: a second-level cache and a bit.
const HEAVY: usize = 4 << 20;

/// Output frames made together then: a slice.
const TOGETHER: usize = 4;

/// Everything that is known before a convolution runs.
pub(in crate::cpu) struct Plan {
    pub(super) program: Program,
    pub(super) packing: Packing,
    pub(super) shortcut: Option<Packing>,
    /// Groups of the row sums; 0 for none.
    pub(super) groups: usize,
    pub(super) blocks: Blocks,
    pub(super) ring: Ring,
    pub(super) room: Room,
}

/// What is multiplied at a time.
pub(super) struct Blocks {
    /// Grid rows of an item.
    pub(super) item_rows: usize,
    /// Grid columns of a block. Decides the order of row sums, so it follows from the layer alone.
    pub(super) columns: usize,
    /// Columns rounded up to whole register blocks.
    pub(super) padded: usize,
    /// Winograd: tiles of a block, rounded up likewise.
    pub(super) tiles: usize,
    /// Output frames made together: weights that do not fit a cache are then read once for all of them.
    pub(super) together: usize,
    /// Output channels of a group as stored in sums.
    pub(super) group: usize,
}

/// The patches that blocks are multiplied from, one per frame.
pub(super) struct Ring {
    pub(super) frames: usize,
    /// Rows and columns of a patch, and the values between its pixels.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) pixel: usize,
    /// Values of one patch.
    pub(super) patch: usize,
}

/// Scratch.
pub(super) struct Room {
    pub(super) shared: Layout,
    pub(super) private: Layout,
    /// Normalisation of every input frame.
    pub(super) scale: Piece<f32>,
    pub(super) shift: Piece<f32>,
    /// f32 or bf16, as the kernel wants it; of the shortcut likewise.
    pub(super) patch: Piece<u32>,
    pub(super) extra: Piece<u32>,
    /// Winograd: the ring, and products before they are transformed back.
    pub(super) transformed: Piece<f32>,
    pub(super) products: Piece<f32>,
    pub(super) sums: Piece<f32>,
    pub(super) channel_sums: Piece<f64>,
    pub(super) row_totals: Piece<f64>,
}

impl Plan {
    pub(in crate::cpu) fn conv(work: &ConvWork, path: CpuPath, threads: usize) -> Self {
        let ConvWork { cin, cout, kernel, stride, dtype, slopes, .. } = *work;
        let packing = Packing::conv(cin, cout, kernel, stride, dtype, path).with_slopes(slopes);
        let shortcut = work.shortcut.map(|cin| Packing::conv(cin, cout, [1; 3], [1; 3], dtype, path));
        Self::new(Program::conv(work), packing, shortcut, work.groups, path, threads)
    }

    pub(in crate::cpu) fn upsample(work: &UpsampleWork, path: CpuPath, threads: usize) -> Self {
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
        let blocks = Blocks::new(&program, &packing, path, threads);
        let ring = Ring::new(&program, &packing, &blocks);
        let room = Room::new(&program, &packing, shortcut.as_ref(), groups, &blocks, &ring);
        Plan { program, packing, shortcut, groups, blocks, ring, room }
    }

    pub(in crate::cpu) fn bytes(&self, threads: usize) -> u64 {
        total(&self.room.shared, &self.room.private, threads)
    }

    /// Grid rows that hold the output rows.
    pub(super) fn grid_rows(&self) -> Range<usize> {
        grid_rows(&self.program)
    }
}

impl Blocks {
    fn new(program: &Program, packing: &Packing, path: CpuPath, threads: usize) -> Self {
        let amx = packing.variant == Variant::Amx;
        let block = if amx { 2 * amx::ROWS } else { path.isa.rows() };
        let columns = (if amx { 32 } else { 48 }).min(program.w_grid.next_multiple_of(2)).max(1);
        // Weights beyond a cache are worth reading once for several frames; patches then get less tall.
        let heavy = packing.main_bytes() > HEAVY;
        let tallest = if heavy && program.factor == 1 { 8 } else { 16 };
        let item_rows = item_rows(grid_rows(program).len(), tallest, threads);
        // Sums of a group wait in the second-level cache beside its weights: heavy ones leave less room.
        let wanted = match (heavy, amx) {
            (false, _) => GROUP,
            (true, false) => GROUP / 2,
            (true, true) => packing.panel,
        };
        Blocks {
            item_rows,
            columns,
            padded: columns.next_multiple_of(block),
            tiles: match packing.variant {
                Variant::Winograd => (item_rows / 2 * columns.div_ceil(2)).next_multiple_of(block),
                _ => 0,
            },
            together: if heavy { TOGETHER.min(program.frames.len()).max(1) } else { 1 },
            group: (wanted / packing.panel).max(1).min(packing.panels) * packing.panel,
        }
    }
}

impl Ring {
    fn new(program: &Program, packing: &Packing, blocks: &Blocks) -> Self {
        let pixel = packing.held(program.cin);
        let (rows, columns) = if packing.variant == Variant::Winograd {
            (blocks.item_rows + 2, blocks.columns.next_multiple_of(2) + 2)
        } else {
            let span = |n: usize, i: usize| (n - 1) * program.stride[i] + program.window[i];
            (span(blocks.item_rows, 0), span(blocks.padded, 1))
        };
        // Frames a step of `together` output frames adds to what one needs.
        let newest = |i: usize| program.frames.get(i).map_or(0, |f| f.newest);
        let together = blocks.together;
        let added = (0..program.frames.len())
            .step_by(together)
            .map(|i| newest((i + together).min(program.frames.len()) - 1) - newest(i));
        let frames = program.depth + added.max().unwrap_or(0);
        Ring { frames, rows, columns, pixel, patch: rows * columns * pixel }
    }
}

impl Room {
    fn new(
        program: &Program,
        packing: &Packing,
        shortcut: Option<&Packing>,
        groups: usize,
        blocks: &Blocks,
        ring: &Ring,
    ) -> Self {
        let words = |values: usize| if packing.variant == Variant::Amx { values.div_ceil(2) } else { values };
        // Transformed patches make the ring of Winograd.
        let patches = if packing.variant == Variant::Winograd { 1 } else { ring.frames };
        let extra = shortcut.map_or(0, |s| blocks.item_rows * blocks.padded * s.held(s.cin));
        let out_rows = blocks.item_rows * program.factor;
        let (mut shared, mut private) = (Layout::default(), Layout::default());
        Room {
            scale: shared.take(program.t_in * program.cin),
            shift: shared.take(program.t_in * program.cin),
            patch: private.take(words(patches * ring.patch)),
            extra: private.take(words(extra)),
            transformed: private.take(winograd::POINTS * ring.frames * blocks.tiles * program.cin),
            products: private.take(blocks.together * winograd::POINTS * blocks.tiles * blocks.group),
            sums: private.take(blocks.item_rows * blocks.padded * blocks.group),
            channel_sums: private.take(2 * blocks.group),
            row_totals: private.take(2 * groups * out_rows * program.frames.len()),
            shared,
            private,
        }
    }
}

fn grid_rows(program: &Program) -> Range<usize> {
    program.rows.start / program.factor..program.rows.end.div_ceil(program.factor)
}

/// Rows of an item: the fewest rounds of all threads, counting the halo that every item computes again.
fn item_rows(rows: usize, tallest: usize, threads: usize) -> usize {
    let cost = |n: usize| {
        let rounds = rows.div_ceil(n).div_ceil(threads.max(1));
        rounds as f64 * (n.min(rows.max(1)) as f64 + 0.8)
    };
    [16, 8, 4].into_iter().filter(|n| *n <= tallest).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(4)
}
