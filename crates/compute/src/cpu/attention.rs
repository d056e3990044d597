//! Attention with online softmax: scores exist for one block of queries and one block of keys at a time.
//!
//! Scores are kept as keys by queries. Keys are then rows and queries columns of one product, values
//! columns of the other, both on the kernel of the convolutions; and softmax runs over a column, many
//! queries in one vector, each adding up its keys in order.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

mod tiles;
mod windows;

use super::Cpu;
use super::kernels::product::{Product, Tap};
use super::path::CpuPath;
use super::scratch::{Layout, Own, Piece};
use super::simd::{Isa, Kernel, Simd, exp, round_as, run};
use crate::dtype::{self, DType};
use crate::error::Result;
use crate::host::Pixels;
use crate::ops::{AttentionDesc, AttentionWork};
use crate::tensor::View;
use tiles::{TilesBlock, TilesPlan};

/// Queries in a block: whole register blocks and whole panels on every instruction set. Blocks start at the first token
/// that is asked for: a query has the same bits wherever it is in its block.
const QUERIES: usize = 96;
/// Keys in a block: whole register blocks; with 512 channels 480 KiB of keys and as much of values.
const KEYS: usize = 240;
/// Whole register blocks of every instruction set: a multiple of 6 and 4 as well.
const ROWS: usize = Isa::Avx512.rows();

/// Which kernels look: both give each query the same bits wherever it is in its block.
enum Looks {
    Vectors(AttentionPlan),
    Tiles(TilesPlan),
}

impl Looks {
    fn new(width: usize, dtype: DType, path: CpuPath) -> Self {
        match dtype == DType::Bf16 && path.amx {
            true => Looks::Tiles(TilesPlan::new(width)),
            false => Looks::Vectors(AttentionPlan::new(width)),
        }
    }

    /// Queries of a block.
    fn queries(&self) -> usize {
        match self {
            Looks::Vectors(_) => QUERIES,
            Looks::Tiles(_) => tiles::QUERIES,
        }
    }

    /// Scratch of a thread.
    fn private(&self) -> &Layout {
        match self {
            Looks::Vectors(plan) => &plan.private,
            Looks::Tiles(plan) => &plan.private,
        }
    }
}

/// Bytes of scratch for heads of `width` channels.
pub(super) fn scratch_bytes(width: usize, dtype: DType, path: CpuPath, threads: usize) -> u64 {
    Looks::new(width, dtype, path).private().per_thread(threads)
}

struct AttentionPlan {
    private: Layout,
    query: Piece<f32>,
    scores: Piece<f32>,
    sums: Piece<f32>,
    top: Piece<f32>,
    total: Piece<f32>,
    wide: Piece<f32>,
}

impl AttentionPlan {
    /// For heads of `head` channels.
    fn new(head: usize) -> Self {
        let mut private = Layout::default();
        // Rows of values are read in whole panels.
        let width = head.next_multiple_of(MAX_PANEL);
        AttentionPlan {
            query: private.take(QUERIES * head),
            scores: private.take(KEYS * QUERIES),
            sums: private.take(QUERIES * width),
            top: private.take(QUERIES),
            total: private.take(QUERIES),
            // Keys, then values, of one block in f32.
            wide: private.take(KEYS * width),
            private,
        }
    }
}

/// Columns of the widest panel of any instruction set.
const MAX_PANEL: usize = Isa::Avx512.panel();

/// The tokens of a frame: rows of a view follow each other in memory.
#[derive(Clone, Copy)]
struct Tokens {
    pixels: Pixels,
    channels: usize,
    /// Number of the first token in the view.
    first: usize,
}

impl Tokens {
    fn new(pixels: Pixels, channels: usize) -> Self {
        Tokens { first: pixels.first_row * pixels.row / channels.max(1), pixels, channels }
    }

    /// Address of channel `from` of a token of the view.
    fn address(&self, frame: usize, token: usize, from: usize) -> *mut u8 {
        let start = ((token - self.first) * self.channels + from) * self.pixels.dtype.bytes();
        self.pixels.row_ptr(frame, self.pixels.first_row).wrapping_add(start)
    }

    /// Channels `[from, from + out.len())` of one token, widened.
    ///
    /// # Safety
    /// The token is in the view and nothing writes it meanwhile.
    unsafe fn load(&self, frame: usize, token: usize, from: usize, out: &mut [f32]) {
        let bytes = out.len() * self.pixels.dtype.bytes();
        // SAFETY: inside the frame of the view; the caller keeps it alive and unwritten.
        let slice = unsafe { std::slice::from_raw_parts(self.address(frame, token, from), bytes) };
        dtype::decode(self.pixels.dtype, slice, out);
    }

    /// Writes channels of one token.
    ///
    /// # Safety
    /// The token is in the view and nothing reads or writes it meanwhile.
    unsafe fn store(&self, frame: usize, token: usize, from: usize, values: &[f32]) {
        let bytes = values.len() * self.pixels.dtype.bytes();
        // SAFETY: as in `load`, and the token is ours alone.
        let slice = unsafe { std::slice::from_raw_parts_mut(self.address(frame, token, from), bytes) };
        dtype::encode(self.pixels.dtype, values, slice);
    }
}

/// Tokens of one frame that are looked at: some that lie next to each other, and behind them some common ones.
struct Sequence {
    tokens: Tokens,
    frame: usize,
    first: usize,
    len: usize,
    common: Option<Tokens>,
}

impl Sequence {
    /// Address of channel `from` of the token at a place of the sequence.
    fn address(&self, place: usize, from: usize) -> *const u8 {
        match (&self.common, place.checked_sub(self.len)) {
            (Some(common), Some(place)) => common.address(0, common.first + place, from),
            _ => self.tokens.address(self.frame, self.first + place, from),
        }
    }

    /// `n` tokens as rows of f32: their address and the values between two rows. In place if they are
    /// f32 and as many and as wide as whole register blocks need, else copied to `room`.
    ///
    /// # Safety
    /// The sequence has the tokens and nothing writes them meanwhile.
    unsafe fn rows(
        &self,
        start: usize,
        n: usize,
        from: usize,
        width: usize,
        room: &mut [f32],
    ) -> (*const f32, usize) {
        let plain = self.tokens.pixels.dtype == DType::F32 && n == KEYS && width.is_multiple_of(MAX_PANEL);
        if plain && start + n <= self.len {
            return (self.address(start, from).cast(), self.tokens.channels);
        }
        let step = width.next_multiple_of(MAX_PANEL);
        for (j, row) in room.chunks_exact_mut(step).enumerate().take(n.next_multiple_of(ROWS)) {
            row.fill(0.0);
            if j < n {
                let dtype = self.tokens.pixels.dtype;
                let address = self.address(start + j, from);
                // SAFETY: the caller's promise.
                let bytes = unsafe { std::slice::from_raw_parts(address, width * dtype.bytes()) };
                dtype::decode(dtype, bytes, &mut row[..width]);
            }
        }
        (room.as_ptr(), step)
    }
}

/// What one block of queries is about.
struct Block<'a> {
    keys: &'a Sequence,
    values: &'a Sequence,
    /// How many keys there are.
    count: usize,
    /// First channel of the head, and how many it has.
    from: usize,
    width: usize,
    scale: f32,
    dtype: DType,
}

impl Cpu {
    /// Runs one block of up to `QUERIES` queries. `query` loads one, if it is wanted; `seen` gets the results.
    ///
    /// # Safety
    /// The scratch is the calling thread's own and was laid out by `plan` for this width; the sequences have `count`
    /// tokens, which nothing writes.
    unsafe fn attend(
        &self,
        (own, plan): (Own<'_>, &AttentionPlan),
        block: &Block<'_>,
        query: impl Fn(usize, &mut [f32]) -> bool,
        mut seen: impl FnMut(usize, &[f32]),
    ) {
        let (width, isa) = (block.width, self.path.isa);
        let (columns, vectors) = (isa.panel(), isa.vectors());
        let step = width.next_multiple_of(MAX_PANEL);
        // SAFETY: pieces of this thread, laid out for these numbers; the caller's promise for the rest.
        unsafe {
            let (queries, scores) = (own.piece(plan.query), own.piece(plan.scores));
            let (sums, wide) = (own.piece(plan.sums), own.piece(plan.wide));
            let (top, total) = (own.piece(plan.top), own.piece(plan.total));
            let mut wanted = [false; QUERIES];
            // Queries as panels of columns, the scale already on them.
            for (i, wanted) in wanted.iter_mut().enumerate() {
                let line = &mut wide[..width];
                *wanted = query(i, line);
                if !*wanted {
                    line.fill(0.0);
                }
                let place = i / columns * columns * width + i % columns;
                for (c, value) in line.iter().enumerate() {
                    queries[place + c * columns] = value * block.scale;
                }
            }
            sums.fill(0.0);
            top.fill(f32::NEG_INFINITY);
            total.fill(0.0);
            for start in (0..block.count).step_by(KEYS) {
                if self.pool.cancel().is_cancelled() {
                    return;
                }
                let n = KEYS.min(block.count - start);
                let (a, a_step) = block.keys.rows(start, n, block.from, width, wide);
                for p in 0..QUERIES / columns {
                    let product = Product {
                        a,
                        a_step,
                        a_channel: 1,
                        rows: n.next_multiple_of(ROWS),
                        taps: &[Tap { a: 0, b: 0 }],
                        k: width,
                        b: queries.as_ptr().wrapping_add(p * columns * width),
                        b_step: columns,
                        vectors,
                        out: scores.as_mut_ptr().wrapping_add(p * columns),
                        out_step: QUERIES,
                        keep: false,
                    };
                    run(isa, product);
                }
                run(isa, Soften { scores, n, dtype: block.dtype, top, total, sums, step });
                let (b, b_step) = block.values.rows(start, n, block.from, width, wide);
                for p in 0..width.div_ceil(columns) {
                    let product = Product {
                        a: scores.as_ptr(),
                        a_step: 1,
                        a_channel: QUERIES,
                        rows: QUERIES,
                        taps: &[Tap { a: 0, b: 0 }],
                        k: n,
                        b: b.wrapping_add(p * columns),
                        b_step,
                        vectors,
                        out: sums.as_mut_ptr().wrapping_add(p * columns),
                        out_step: step,
                        keep: true,
                    };
                    run(isa, product);
                }
            }
            for (i, line) in sums.chunks_exact_mut(step).enumerate().filter(|(i, _)| wanted[*i]) {
                line.iter_mut().for_each(|s| *s /= total[i]);
                seen(i, &line[..width]);
            }
        }
    }

    /// Runs one block of `n` queries, whose addresses `query` knows. `seen` gets the results.
    ///
    /// # Safety
    /// As for `attend`; the queries are there and not written.
    unsafe fn look(
        &self,
        (own, looks): (Own<'_>, &Looks),
        block: &Block<'_>,
        n: usize,
        query: impl Fn(usize) -> *const u8,
        mut seen: impl FnMut(usize, &[f32]),
    ) {
        // SAFETY: the caller's promise; the tiles are available (`Looks::new`).
        unsafe {
            match looks {
                Looks::Vectors(plan) => {
                    let load = |i: usize, line: &mut [f32]| {
                        if i < n {
                            let bytes = line.len() * block.dtype.bytes();
                            dtype::decode(block.dtype, std::slice::from_raw_parts(query(i), bytes), line);
                        }
                        i < n
                    };
                    self.attend((own, plan), block, load, seen);
                }
                Looks::Tiles(plan) => {
                    let mut tiles = TilesBlock::new(self.path.isa, plan, own, n, query);
                    for first in (0..block.count).step_by(tiles::KEYS) {
                        if self.pool.cancel().is_cancelled() {
                            return;
                        }
                        let key = |j| block.keys.address(first + j, block.from);
                        let value = |j| block.values.address(first + j, block.from);
                        tiles.attend(tiles::KEYS.min(block.count - first), block.scale, key, value);
                    }
                    (0..n).for_each(|i| seen(i, tiles.result(i)));
                }
            }
        }
    }

    fn tokens(&self, op: &'static str, view: &View<'_>) -> Result<Tokens> {
        Ok(Tokens::new(self.host.pixels(op, "tokens", view)?, view.shape().c))
    }

    pub(super) fn attention_now(&self, d: &AttentionDesc<'_>, work: &AttentionWork) -> Result<()> {
        const OP: &str = "attention";
        let looks = Looks::new(work.width, work.dtype, self.path);
        let scratch = self.scratch(OP, looks.private())?;
        let (q, k, v) = (self.tokens(OP, &d.q)?, self.tokens(OP, &d.k)?, self.tokens(OP, &d.v)?);
        let out = self.tokens(OP, &d.output)?;
        let wanted = work.rows.start * work.w..work.rows.end * work.w;
        let count = work.h * work.w;
        let blocks = wanted.len().div_ceil(looks.queries());
        let width = work.width;
        self.pool.run(work.t * work.heads * blocks, |thread, item| {
            let (t, head) = (item / blocks / work.heads, item / blocks % work.heads);
            let start = wanted.start + item % blocks * looks.queries();
            let (n, from) = (looks.queries().min(wanted.end - start), head * width);
            let sequence = |tokens: Tokens| Sequence { tokens, frame: t, first: 0, len: count, common: None };
            let (keys, values) = (&sequence(k), &sequence(v));
            let block = Block { keys, values, count, from, width, scale: d.scale, dtype: work.dtype };
            let query = |i: usize| q.address(t, start + i, from).cast_const();
            // SAFETY: scratch of these looks and this thread; keys and values are whole, nothing that is read is
            // written, and the output tokens are this item's own.
            unsafe {
                self.look((scratch.own(thread), &looks), &block, n, query, |i, line| {
                    out.store(t, start + i, from, line);
                });
            }
        });
        Ok(())
    }
}

/// Scores to weights relative to the largest score so far; what was summed before is scaled to match.
struct Soften<'a> {
    /// `[keys][QUERIES]`
    scores: &'a mut [f32],
    n: usize,
    dtype: DType,
    top: &'a mut [f32],
    total: &'a mut [f32],
    /// `[QUERIES][step]`
    sums: &'a mut [f32],
    step: usize,
}

impl Kernel for Soften<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let mut shrink = [0.0f32; QUERIES];
        for v in (0..QUERIES).step_by(S::LANES) {
            // SAFETY: `QUERIES` is a multiple of the lanes; scores hold `n` rows of it.
            unsafe {
                let column = self.scores.as_mut_ptr().add(v);
                let before = S::load(self.top.as_ptr().add(v));
                let mut largest = before;
                for j in 0..self.n {
                    largest = S::max(S::load(column.add(j * QUERIES)), largest);
                }
                let less = exp::<S>(S::sub(before, largest));
                let mut sum = S::mul(S::load(self.total.as_ptr().add(v)), less);
                for j in 0..self.n {
                    let place = column.add(j * QUERIES);
                    let weight = exp::<S>(S::sub(S::load(place), largest));
                    sum = S::add(sum, weight);
                    // An operand of the second product: rounded as if it had been stored.
                    S::store(place, round_as::<S>(self.dtype, weight));
                }
                S::store(self.top.as_mut_ptr().add(v), largest);
                S::store(self.total.as_mut_ptr().add(v), sum);
                S::store(shrink.as_mut_ptr().add(v), less);
            }
        }
        for (row, shrink) in self.sums.chunks_exact_mut(self.step).zip(shrink) {
            if shrink != 1.0 {
                row.iter_mut().for_each(|s| *s *= shrink);
            }
        }
    }
}
