//! Attention with online softmax: scores exist for one block of queries and one block of keys at a time.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::Cpu;
use super::matmul::{Matrix, matmul};
use super::scratch::{Layout, Piece, Scratch, total};
use super::simd::{Kernel, Simd, exp, load_as, round_as, run, store_as};
use crate::dtype::{self, DType};
use crate::error::ComputeError;
use crate::host::Pixels;
use crate::ops::{AttentionDesc, AttentionWork};

/// Queries in a block. Blocks start at multiples of this token of the frame, whatever rows are asked for.
const QUERIES: usize = 64;
/// Keys in a block: with 512 channels 512 KiB of keys and as much of values.
const KEYS: usize = 256;

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
        let keys = KEYS.min(work.h * work.w);
        AttentionPlan {
            query: private.take(QUERIES * work.width),
            scores: private.take(QUERIES * keys),
            sums: private.take(QUERIES * work.width),
            top: private.take(QUERIES),
            total: private.take(QUERIES),
            // Keys, then values, of one block widened to f32.
            wide: private.take(keys * work.width),
            private,
        }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&Layout::default(), &self.private, threads)
    }
}

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

    /// Channels `[from, from + out.len())` of one token, widened.
    ///
    /// # Safety
    /// The token is in the view and nobody writes it meanwhile.
    unsafe fn load(&self, frame: usize, token: usize, from: usize, out: &mut [f32]) {
        let bytes = self.pixels.dtype.bytes();
        let start = ((token - self.first) * self.channels + from) * bytes;
        let frame = self.pixels.row_ptr(frame, self.pixels.first_row);
        // SAFETY: inside the frame of the view; the caller keeps it alive and unwritten.
        let slice = unsafe { std::slice::from_raw_parts(frame.add(start), out.len() * bytes) };
        dtype::decode(self.pixels.dtype, slice, out);
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
        let width = work.width;

        self.pool.run(work.t * work.heads * blocks, |thread, item| {
            let (t, head, start) =
                (item / blocks / work.heads, item / blocks % work.heads, (first + item % blocks) * QUERIES);
            let from = head * width;
            // SAFETY: pieces of this thread; the output tokens are this item's own; operands are not written.
            unsafe {
                let query = scratch.private(thread, plan.query);
                let scores = scratch.private(thread, plan.scores);
                let sums = scratch.private(thread, plan.sums);
                let top = scratch.private(thread, plan.top);
                let total = scratch.private(thread, plan.total);
                let wide = scratch.private(thread, plan.wide);
                for (i, line) in query.chunks_exact_mut(width).enumerate() {
                    if wanted.contains(&(start + i)) {
                        q.load(t, start + i, from, line)
                    } else {
                        line.fill(0.0)
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
                    let scores = &mut scores[..QUERIES * n];
                    let wide = &mut wide[..n * width];
                    (0..n).for_each(|j| k.load(t, block + j, from, &mut wide[j * width..(j + 1) * width]));
                    let transposed = Matrix::rows(wide, width).transposed();
                    matmul([QUERIES, n, width], scores, n, false, Matrix::rows(query, width), transposed);
                    let (scale, dtype) = (d.scale, work.dtype);
                    run(self.path.isa, Soften { scores, n, scale, dtype, top, total, sums });
                    (0..n).for_each(|j| v.load(t, block + j, from, &mut wide[j * width..(j + 1) * width]));
                    let values = Matrix::rows(wide, width);
                    matmul([QUERIES, width, n], sums, width, true, Matrix::rows(scores, n), values);
                }
                for (i, line) in sums.chunks_exact_mut(width).enumerate() {
                    if wanted.contains(&(start + i)) {
                        line.iter_mut().for_each(|s| *s /= total[i]);
                        out.store(t, start + i, from, line);
                    }
                }
            }
        });
        Ok(())
    }
}

impl Tokens {
    /// Writes channels of one token.
    ///
    /// # Safety
    /// The token is in the view and nobody reads or writes it meanwhile.
    unsafe fn store(&self, frame: usize, token: usize, from: usize, values: &[f32]) {
        let bytes = self.pixels.dtype.bytes();
        let start = ((token - self.first) * self.channels + from) * bytes;
        let frame = self.pixels.row_ptr(frame, self.pixels.first_row);
        // SAFETY: as in `load`, and the token is ours alone.
        let slice = unsafe { std::slice::from_raw_parts_mut(frame.add(start), values.len() * bytes) };
        dtype::encode(self.pixels.dtype, values, slice);
    }
}

/// Scores to weights relative to the largest score so far; what was summed before is scaled to match.
struct Soften<'a> {
    scores: &'a mut [f32],
    /// Keys.
    n: usize,
    scale: f32,
    dtype: DType,
    top: &'a mut [f32],
    total: &'a mut [f32],
    sums: &'a mut [f32],
}

impl Kernel for Soften<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let width = self.sums.len() / self.top.len();
        for (i, line) in self.scores.chunks_exact_mut(self.n).enumerate() {
            let largest = line.iter().fold(f32::NEG_INFINITY, |a, s| if *s > a { *s } else { a });
            let largest = (largest * self.scale).max(self.top[i]);
            let mut sum = 0.0;
            // SAFETY: whole vectors inside the line, and a short one through a buffer.
            unsafe {
                let (scale, offset) = (S::splat(self.scale), S::splat(-largest));
                let mut lanes = [0.0f32; 16];
                let mut sums = S::splat(0.0);
                for chunk in line.chunks_mut(S::LANES) {
                    let n = chunk.len();
                    let p = chunk.as_mut_ptr().cast::<u8>();
                    let v = exp::<S>(S::fma(load_as::<S>(DType::F32, p, n), scale, offset));
                    if n == S::LANES {
                        sums = S::add(sums, v);
                    } else {
                        S::store(lanes.as_mut_ptr(), v);
                        sum += lanes[..n].iter().sum::<f32>();
                    }
                    // The weights are an operand of the second product: rounded as if they had been stored.
                    store_as::<S>(DType::F32, p, round_as::<S>(self.dtype, v), n);
                }
                S::store(lanes.as_mut_ptr(), sums);
                sum += lanes[..S::LANES].iter().sum::<f32>();
                let shrink = S::splat(self.top[i] - largest);
                S::store(lanes.as_mut_ptr(), exp::<S>(shrink));
                let shrink = if self.top[i] == f32::NEG_INFINITY { 0.0 } else { lanes[0] };
                self.total[i] = self.total[i] * shrink + sum;
                self.sums[i * width..(i + 1) * width].iter_mut().for_each(|s| *s *= shrink);
                self.top[i] = largest;
            }
        }
    }
}
