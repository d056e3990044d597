//! Attention in bf16 on the tile unit: a block of queries of one head against one block of keys after the other.
//!
//! Queries are rows of the first product and keys its columns; softmax runs along a row and leaves the weights as
//! tiles, the rows of the second product, whose columns are the channels of the values. Scores, softmax and sums
//! are f32, weights are rounded to bf16. What a query gets depends on the keys and on their order alone.
#![expect(unsafe_code, reason = "tiles are read and written in scratch memory")]

use super::super::kernels::amx;
use super::super::scratch::{Layout, Own, Piece};
use super::super::simd::{Isa, Kernel, Simd, exp, run, store_as};
use crate::dtype::DType;

/// Queries in a block. Laying out a block of keys and values is shared by so many.
pub(super) const QUERIES: usize = 192;
/// Keys in a block: with 512 channels 256 KiB of keys and as much of values. Part of what decides the bits.
pub(super) const KEYS: usize = 256;

/// Queries of two tiles, and the values of two tiles of one step: 32 queries, keys or channels by 32.
const PAIR: usize = 2 * amx::ROWS;
const STEP_VALUES: usize = PAIR * amx::STEP;
/// Values between two rows of scores: not a power of two, so that rows lie in different sets of the cache.
const SCORES_STEP: usize = KEYS + 16;

/// Scratch of one thread for heads of one width.
pub(super) struct TilesPlan {
    width: usize,
    /// Whole steps of the unit.
    padded: usize,
    pub(super) private: Layout,
    /// `[pair][step of channels][32 queries][32 channels]`
    query: Piece<u16>,
    /// `[32 keys][step of channels][2 tiles][16 pairs of channels][16 keys][2]`
    keys: Piece<u16>,
    /// `[32 channels][step of keys][2 tiles][16 pairs of keys][16 channels][2]`
    values: Piece<u16>,
    /// `[QUERIES][SCORES_STEP]`
    scores: Piece<f32>,
    /// `[pair][step of keys][32 queries][32 keys]`
    weights: Piece<u16>,
    /// `[QUERIES][padded]`
    sums: Piece<f32>,
    top: Piece<f32>,
    total: Piece<f32>,
    /// Rows on their way into tiles.
    rows: Piece<u16>,
}

impl TilesPlan {
    pub(super) fn new(width: usize) -> Self {
        let padded = width.next_multiple_of(amx::STEP);
        let mut private = Layout::default();
        TilesPlan {
            width,
            padded,
            query: private.take(QUERIES * padded),
            keys: private.take(KEYS * padded),
            values: private.take(KEYS * padded),
            scores: private.take(QUERIES * SCORES_STEP),
            weights: private.take(QUERIES * KEYS),
            sums: private.take(QUERIES * padded),
            top: private.take(QUERIES),
            total: private.take(QUERIES),
            rows: private.take(amx::ROWS * padded),
            private,
        }
    }
}

/// A block of queries of one head on one thread.
pub(super) struct TilesBlock<'a> {
    isa: Isa,
    plan: &'a TilesPlan,
    tiles: amx::Tiles,
    query: &'a mut [u16],
    keys: &'a mut [u16],
    values: &'a mut [u16],
    scores: &'a mut [f32],
    weights: &'a mut [u16],
    sums: &'a mut [f32],
    top: &'a mut [f32],
    total: &'a mut [f32],
    rows: &'a mut [u16],
    pairs: usize,
}

impl<'a> TilesBlock<'a> {
    /// Starts with `n` queries, at most `QUERIES`; `query` is the address of the first channel of one.
    ///
    /// # Safety
    /// The scratch was made with the plan's layout and is the calling thread's own, which has no other
    /// block. The unit is available. Addresses are those of `width` bf16 values that nothing writes.
    pub(super) unsafe fn new(
        isa: Isa,
        plan: &'a TilesPlan,
        own: Own<'a>,
        n: usize,
        query: impl Fn(usize) -> *const u8,
    ) -> Self {
        assert!(n <= QUERIES);
        // SAFETY: the caller's promise; the pieces do not overlap.
        let mut block = unsafe {
            TilesBlock {
                isa,
                plan,
                tiles: amx::Tiles::new(),
                query: own.piece(plan.query),
                keys: own.piece(plan.keys),
                values: own.piece(plan.values),
                scores: own.piece(plan.scores),
                weights: own.piece(plan.weights),
                sums: own.piece(plan.sums),
                top: own.piece(plan.top),
                total: own.piece(plan.total),
                rows: own.piece(plan.rows),
                pairs: n.div_ceil(PAIR),
            }
        };
        block.sums.fill(0.0);
        block.top.fill(f32::NEG_INFINITY);
        block.total.fill(0.0);
        let padded = plan.padded;
        for first in (0..block.pairs * PAIR).step_by(amx::ROWS) {
            // SAFETY: the caller's promise.
            unsafe { block.gather(first, n, &query) };
            for (i, row) in block.rows.chunks_exact(padded).enumerate() {
                let pair = first / PAIR * PAIR * padded + (first % PAIR + i) * amx::STEP;
                for (step, values) in row.chunks_exact(amx::STEP).enumerate() {
                    block.query[pair + step * STEP_VALUES..][..amx::STEP].copy_from_slice(values);
                }
            }
        }
        block
    }

    /// Sixteen rows from `first` on; zeros behind the last channel and for rows from `n` on.
    ///
    /// # Safety
    /// Addresses are those of `width` bf16 values that nothing writes.
    unsafe fn gather(&mut self, first: usize, n: usize, address: &impl Fn(usize) -> *const u8) {
        let width = self.plan.width;
        for (i, row) in self.rows.chunks_exact_mut(self.plan.padded).enumerate() {
            row[width..].fill(0);
            match first + i < n {
                // SAFETY: the caller's promise.
                true => unsafe {
                    std::ptr::copy_nonoverlapping(address(first + i), row.as_mut_ptr().cast(), 2 * width)
                },
                false => row[..width].fill(0),
            }
        }
    }

    /// Goes on with `n` keys and their values, `KEYS` of them except for the last block.
    ///
    /// # Safety
    /// Addresses are those of `width` bf16 values that nothing writes.
    pub(super) unsafe fn attend(
        &mut self,
        n: usize,
        scale: f32,
        key: impl Fn(usize) -> *const u8,
        value: impl Fn(usize) -> *const u8,
    ) {
        assert!(n <= KEYS);
        let padded = self.plan.padded;
        let (panels, steps) = (n.div_ceil(amx::PANEL), padded / amx::STEP);
        for first in (0..panels * amx::PANEL).step_by(amx::ROWS) {
            let panel = first / amx::PANEL * amx::PANEL * padded + first % amx::PANEL / amx::ROWS * 512;
            // SAFETY: the caller's promise.
            unsafe { self.gather(first, n, &key) };
            run(self.isa, KeyTiles { rows: self.rows, padded, to: &mut self.keys[panel..] });
            // SAFETY: the caller's promise.
            unsafe { self.gather(first, n, &value) };
            let to = first / amx::STEP * 1024 + first % amx::STEP / 2 * 32;
            run(self.isa, ValueTiles { rows: self.rows, padded, to: &mut self.values[to..] });
        }
        for panel in 0..panels {
            let b = self.keys[panel * amx::PANEL * padded..].as_ptr().cast();
            for pair in 0..self.pairs {
                let out = self.scores[pair * PAIR * SCORES_STEP + panel * amx::PANEL..].as_mut_ptr();
                let a = self.query[pair * PAIR * padded..].as_ptr().cast();
                self.product(a, b, steps, out, SCORES_STEP, false);
            }
        }
        let soften = Soften {
            scores: self.scores,
            rows: self.pairs * PAIR,
            n,
            scale,
            top: self.top,
            total: self.total,
            weights: self.weights,
            sums: self.sums,
            padded,
        };
        run(self.isa, soften);
        for panel in 0..steps {
            let b = self.values[panel * amx::PANEL * KEYS..].as_ptr().cast();
            for pair in 0..self.pairs {
                let out = self.sums[pair * PAIR * padded + panel * amx::PANEL..].as_mut_ptr();
                let a = self.weights[pair * PAIR * KEYS..].as_ptr().cast();
                self.product(a, b, panels, out, padded, true);
            }
        }
    }

    fn product(&self, a: *const u8, b: *const u8, steps: usize, out: *mut f32, out_step: usize, keep: bool) {
        let block = amx::Streamed {
            a,
            steps,
            b,
            ahead: b,
            out: [out, out.wrapping_add(amx::ROWS * out_step)],
            out_step: out_step * 4,
            keep,
        };
        // SAFETY: the unit is available (`new`); all pieces were laid out for these numbers.
        unsafe { self.tiles.run_streamed(&block) };
    }

    /// The result of query `i`.
    pub(super) fn result(&mut self, i: usize) -> &[f32] {
        let row = &mut self.sums[i * self.plan.padded..][..self.plan.width];
        row.iter_mut().for_each(|s| *s /= self.total[i]);
        row
    }
}

/// Sixteen keys into tiles whose columns they are: two channels of a key side by side.
struct KeyTiles<'a> {
    rows: &'a [u16],
    padded: usize,
    to: &'a mut [u16],
}

impl Kernel for KeyTiles<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        for step in 0..self.padded / amx::STEP {
            let to = &mut self.to[step * STEP_VALUES..][..512];
            for (key, row) in self.rows.chunks_exact(self.padded).enumerate().take(16) {
                let row = &row[step * amx::STEP..][..amx::STEP];
                for c in 0..16 {
                    to[c * 32 + key * 2] = row[2 * c];
                    to[c * 32 + key * 2 + 1] = row[2 * c + 1];
                }
            }
        }
    }
}

/// Sixteen values into tiles whose rows they are, two by two.
struct ValueTiles<'a> {
    rows: &'a [u16],
    padded: usize,
    to: &'a mut [u16],
}

impl Kernel for ValueTiles<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        for (pair, rows) in self.rows.chunks_exact(2 * self.padded).enumerate() {
            let (even, odd) = rows.split_at(self.padded);
            for c in (0..self.padded).step_by(16) {
                // Panels of 32 channels, in each all steps of keys, in each two tiles.
                let place = c / 32 * 32 * KEYS + c % 32 / 16 * 512 + pair * 32;
                let to = &mut self.to[place..][..32];
                for i in 0..16 {
                    to[2 * i] = even[c + i];
                    to[2 * i + 1] = odd[c + i];
                }
            }
        }
    }
}

/// Scores to weights relative to the largest score so far; what was summed before is scaled to match.
struct Soften<'a> {
    /// `[rows][SCORES_STEP]`
    scores: &'a mut [f32],
    rows: usize,
    n: usize,
    scale: f32,
    top: &'a mut [f32],
    total: &'a mut [f32],
    weights: &'a mut [u16],
    /// `[rows][padded]`
    sums: &'a mut [f32],
    padded: usize,
}

impl Kernel for Soften<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        // Whole steps of the second product: what is behind the last key weighs nothing.
        let n = self.n.next_multiple_of(amx::STEP);
        for (q, scores) in self.scores.chunks_exact_mut(SCORES_STEP).enumerate().take(self.rows) {
            scores[self.n..n].fill(f32::NEG_INFINITY);
            let sums = &mut self.sums[q * self.padded..][..self.padded];
            let weights = self.weights[q / PAIR * PAIR * KEYS + q % PAIR * amx::STEP..].as_mut_ptr();
            // SAFETY: `n` is a multiple of the lanes and inside the row; weights lie in steps of 32 keys.
            unsafe {
                let scale = S::splat(self.scale);
                let mut lanes = [f32::NEG_INFINITY; 16];
                let mut most = S::splat(f32::NEG_INFINITY);
                for j in (0..self.n.next_multiple_of(S::LANES)).step_by(S::LANES) {
                    let place = scores.as_mut_ptr().add(j);
                    // Behind the last key stays minus infinity, whatever the sign of the scale.
                    let scaled = match j + S::LANES <= self.n {
                        true => S::mul(S::load(place), scale),
                        false => {
                            scores[j..self.n].iter_mut().for_each(|s| *s *= self.scale);
                            S::load(place)
                        }
                    };
                    S::store(place, scaled);
                    most = S::max(scaled, most);
                }
                S::store(lanes.as_mut_ptr(), most);
                let before = self.top[q];
                // Not a number is passed over here and found again in the weights.
                let largest = lanes.iter().fold(before, |a, b| if *b > a { *b } else { a });
                let mut less = [0.0; 16];
                S::store(less.as_mut_ptr(), exp::<S>(S::splat(before - largest)));
                let mut sum = S::splat(0.0);
                for j in (0..n).step_by(S::LANES) {
                    let weight = exp::<S>(S::sub(S::load(scores.as_ptr().add(j)), S::splat(largest)));
                    sum = S::add(sum, weight);
                    let to = weights.add(j / amx::STEP * STEP_VALUES + j % amx::STEP);
                    store_as::<S>(DType::Bf16, to.cast(), weight, S::LANES);
                }
                S::store(lanes.as_mut_ptr(), sum);
                self.top[q] = largest;
                self.total[q] = self.total[q] * less[0] + lanes[..S::LANES].iter().sum::<f32>();
                if less[0] != 1.0 {
                    sums.iter_mut().for_each(|s| *s *= less[0]);
                }
            }
        }
    }
}
