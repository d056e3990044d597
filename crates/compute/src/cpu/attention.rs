//! Attention with online softmax: scores exist for one block of queries and one block of keys at a time.
//!
//! Scores are kept as keys by queries. Keys are then rows and queries columns of one product, values
//! columns of the other, both on the kernel of the convolutions; and softmax runs over a column, many
//! queries in one vector, each adding up its keys in order.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::Cpu;
use super::kernels::product::{Product, Tap};
use super::scratch::{Layout, Piece, Scratch, total};
use super::simd::{Isa, Kernel, Simd, exp, round_as, run};
use crate::dtype::{self, DType};
use crate::error::ComputeError;
use crate::host::Pixels;
use crate::ops::{AttentionDesc, AttentionWork};

/// Queries in a block: whole register blocks and whole panels on every instruction set. Blocks start at
/// multiples of this token of the frame, whatever rows are asked for.
const QUERIES: usize = 96;
/// Keys in a block: whole register blocks; with 512 channels 480 KiB of keys and as much of values.
const KEYS: usize = 240;
/// Whole register blocks of every instruction set: a multiple of 6 and 4 as well.
const ROWS: usize = Isa::Avx512.rows();

pub(super) struct AttentionPlan {
    private: Layout,
    query: Piece<f32>,
    scores: Piece<f32>,
    sums: Piece<f32>,
    top: Piece<f32>,
    total: Piece<f32>,
    wide: Piece<f32>,
}

impl AttentionPlan {
    pub(super) fn new(work: &AttentionWork) -> Self {
        let mut private = Layout::default();
        // Rows of values are read in whole panels.
        let width = work.width.next_multiple_of(MAX_PANEL);
        AttentionPlan {
            query: private.take(QUERIES * work.width),
            scores: private.take(KEYS * QUERIES),
            sums: private.take(QUERIES * width),
            top: private.take(QUERIES),
            total: private.take(QUERIES),
            // Keys, then values, of one block in f32.
            wide: private.take(KEYS * width),
            private,
        }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&Layout::default(), &self.private, threads)
    }
}

/// Columns of the widest panel of any instruction set.
const MAX_PANEL: usize = Isa::Avx512.panel();

/// The tokens of a frame: rows of a view follow each other in memory.
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
    /// The token is in the view and nobody writes it meanwhile.
    unsafe fn load(&self, frame: usize, token: usize, from: usize, out: &mut [f32]) {
        let bytes = out.len() * self.pixels.dtype.bytes();
        // SAFETY: inside the frame of the view; the caller keeps it alive and unwritten.
        let slice = unsafe { std::slice::from_raw_parts(self.address(frame, token, from), bytes) };
        dtype::decode(self.pixels.dtype, slice, out);
    }

    /// Writes channels of one token.
    ///
    /// # Safety
    /// The token is in the view and nobody reads or writes it meanwhile.
    unsafe fn store(&self, frame: usize, token: usize, from: usize, values: &[f32]) {
        let bytes = values.len() * self.pixels.dtype.bytes();
        // SAFETY: as in `load`, and the token is ours alone.
        let slice = unsafe { std::slice::from_raw_parts_mut(self.address(frame, token, from), bytes) };
        dtype::encode(self.pixels.dtype, values, slice);
    }

    /// `n` tokens as rows of f32: their address and the values between two rows. In place if they are
    /// f32 and as many and as wide as whole register blocks need, else copied to `room`.
    ///
    /// # Safety
    /// The tokens are in the view and nobody writes them meanwhile.
    unsafe fn rows(
        &self,
        frame: usize,
        first: usize,
        n: usize,
        from: usize,
        width: usize,
        room: &mut [f32],
    ) -> (*const f32, usize) {
        if self.pixels.dtype == DType::F32 && n == KEYS && width.is_multiple_of(MAX_PANEL) {
            return (self.address(frame, first, from).cast_const().cast(), self.channels);
        }
        let step = width.next_multiple_of(MAX_PANEL);
        for (j, row) in room.chunks_exact_mut(step).enumerate().take(n.next_multiple_of(ROWS)) {
            row.fill(0.0);
            if j < n {
                // SAFETY: the caller's promise.
                unsafe { self.load(frame, first + j, from, &mut row[..width]) };
            }
        }
        (room.as_ptr(), step)
    }
}

impl Cpu {
    pub(super) fn attention_now(
        &self,
        d: &AttentionDesc<'_>,
        work: &AttentionWork,
    ) -> Result<(), ComputeError> {
        const OP: &str = "attention";
        let plan = AttentionPlan::new(work);
        let scratch = Scratch::new(&self.host, OP, &Layout::default(), &plan.private, self.pool.threads())?;
        let channels = work.heads * work.width;
        let tokens =
            |what, view| Ok::<_, ComputeError>(Tokens::new(self.host.pixels(OP, what, view)?, channels));
        let (q, k, v) = (tokens("queries", &d.q)?, tokens("keys", &d.k)?, tokens("values", &d.v)?);
        let out = tokens("output", &d.output)?;
        let wanted = work.rows.start * work.w..work.rows.end * work.w;
        let keys = work.h * work.w;
        let first = wanted.start / QUERIES;
        let blocks = wanted.end.div_ceil(QUERIES).saturating_sub(first);
        let (width, isa) = (work.width, self.path.isa);
        let (columns, vectors) = (isa.panel(), isa.panel() / isa.lanes());
        let out_step = width.next_multiple_of(MAX_PANEL);

        self.pool.run(work.t * work.heads * blocks, |thread, item| {
            let (t, head, start) =
                (item / blocks / work.heads, item / blocks % work.heads, (first + item % blocks) * QUERIES);
            let from = head * width;
            // SAFETY: pieces of this thread, laid out for these numbers; the output tokens are this item's
            // own; operands are not written.
            unsafe {
                let query = scratch.private(thread, plan.query);
                let scores = scratch.private(thread, plan.scores);
                let sums = scratch.private(thread, plan.sums);
                let top = scratch.private(thread, plan.top);
                let total = scratch.private(thread, plan.total);
                let wide = scratch.private(thread, plan.wide);
                // Queries as panels of columns, the scale already on them.
                for i in 0..QUERIES {
                    let line = &mut wide[..width];
                    if wanted.contains(&(start + i)) {
                        q.load(t, start + i, from, line)
                    } else {
                        line.fill(0.0)
                    }
                    let place = i / columns * columns * width + i % columns;
                    for (c, value) in line.iter().enumerate() {
                        query[place + c * columns] = value * d.scale;
                    }
                }
                sums.fill(0.0);
                top.fill(f32::NEG_INFINITY);
                total.fill(0.0);
                for block in (0..keys).step_by(KEYS) {
                    if self.pool.cancel().is_cancelled() {
                        return;
                    }
                    let n = KEYS.min(keys - block);
                    let (a, a_step) = k.rows(t, block, n, from, width, wide);
                    for p in 0..QUERIES / columns {
                        let product = Product {
                            a,
                            a_step,
                            a_channel: 1,
                            rows: n.next_multiple_of(ROWS),
                            taps: &[Tap { a: 0, b: 0 }],
                            k: width,
                            b: query.as_ptr().wrapping_add(p * columns * width),
                            b_step: columns,
                            vectors,
                            out: scores.as_mut_ptr().wrapping_add(p * columns),
                            out_step: QUERIES,
                            keep: false,
                        };
                        run(isa, product);
                    }
                    run(isa, Soften { scores, n, dtype: work.dtype, top, total, sums, step: out_step });
                    let (b, b_step) = v.rows(t, block, n, from, width, wide);
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
                            out_step,
                            keep: true,
                        };
                        run(isa, product);
                    }
                }
                for (i, line) in sums.chunks_exact_mut(out_step).enumerate() {
                    if wanted.contains(&(start + i)) {
                        line.iter_mut().for_each(|s| *s /= total[i]);
                        out.store(t, start + i, from, &line[..width]);
                    }
                }
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
