//! The matrix product under every convolution in f32: a few pixels by a panel of output channels, summed
//! tap by tap and channel by channel in one fixed order.
#![expect(unsafe_code, reason = "register blocks work on raw addresses inside checked buffers")]

use super::super::simd::{Kernel, Simd};

/// One tap: where its pixels start, relative to the block's, and where its weights start in the panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    pub(crate) a: isize,
    pub(crate) b: usize,
}

/// `out[m, n] = (keep ? out : 0) + sum over taps and k of a[m + tap, k] * b[tap, k, n]` for `rows` rows
/// and one panel of `vectors` vectors of output channels.
///
/// The sum of an element runs over taps and then channels in order, whatever row of a block it is in.
pub(crate) struct Product<'a> {
    /// First channel of the first pixel.
    pub(crate) a: *const f32,
    /// Values between two pixels.
    pub(crate) a_step: usize,
    /// Values between two channels of a pixel. This or `a_step` is 1.
    pub(crate) a_channel: usize,
    /// Pixels; a multiple of `ROWS`.
    pub(crate) rows: usize,
    pub(crate) taps: &'a [Tap],
    /// Channels.
    pub(crate) k: usize,
    /// Weights of the panel: per tap and channel `vectors * LANES` values.
    pub(crate) b: *const f32,
    /// Values between two channels of the weights.
    pub(crate) b_step: usize,
    /// Those that hold output channels; at most as many as the widest panel has.
    pub(crate) vectors: usize,
    pub(crate) out: *mut f32,
    /// Values between two pixels of the result.
    pub(crate) out_step: usize,
    pub(crate) keep: bool,
}

impl Kernel for Product<'_> {
    type Output = ();

    /// Contract: `a`, `b` and `out` hold everything the numbers reach, and nothing else writes `out`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        // SAFETY: the contract above and that of `Simd`.
        unsafe {
            match self.a_channel {
                1 => self.panels::<S, false>(),
                _ => self.panels::<S, true>(),
            }
        }
    }
}

impl Product<'_> {
    /// `CLOSE`: the pixels of a block lie side by side, else the channels of a pixel do. Either way one count moves
    /// the addresses of all pixels; without a constant step, counting takes as many instructions as there are pixels.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn panels<S: Simd, const CLOSE: bool>(&self) {
        // SAFETY: passed on.
        unsafe {
            match (S::ROWS, self.vectors) {
                (12, 2) => self.blocks::<S, 12, 2, CLOSE>(),
                (12, _) => self.blocks::<S, 12, 1, CLOSE>(),
                (6, 2) => self.blocks::<S, 6, 2, CLOSE>(),
                // Only vectors of four are more than two to a panel.
                (6, 3 | 4) if S::LANES == 4 => self.blocks::<S, 6, 4, CLOSE>(),
                (6, _) => self.blocks::<S, 6, 1, CLOSE>(),
                _ => self.blocks::<S, 4, 1, CLOSE>(),
            }
        }
    }

    /// Adds one tap to the sums of a block with pixels read by four, and says for how many channels: all, or whole fours
    /// if the channels of a pixel lie side by side. Every sum runs in the same order as without.
    ///
    /// # Safety
    /// As for `call`; `a` and `b` are those of the tap, and a vector has four lanes.
    #[inline(always)]
    unsafe fn by_lane<S: Simd, const M: usize, const N: usize, const CLOSE: bool>(
        &self,
        acc: &mut [[S::V; N]; M],
        mut a: *const f32,
        mut b: *const f32,
    ) -> usize {
        let (step, a_step) = if CLOSE { (1, self.a_channel) } else { (4, 4) };
        // Pixel `m` is a lane of its four; the last four of a block may overlap those before.
        let first = |m: usize| (m / 4 * 4).min(M - 4);
        for _ in 0..self.k / step {
            // SAFETY: as for `call`: four pixels of the block, or four channels of a pixel.
            unsafe {
                let fours: [S::V; M] =
                    std::array::from_fn(|m| S::load(a.add(if CLOSE { first(m) } else { m * self.a_step })));
                if CLOSE {
                    channel::<S, M, N>(acc, &fours, |m| m - first(m), b);
                } else {
                    // A loop over the four is too long for the compiler to unroll.
                    channel::<S, M, N>(acc, &fours, |_| 0, b);
                    channel::<S, M, N>(acc, &fours, |_| 1, b.add(self.b_step));
                    channel::<S, M, N>(acc, &fours, |_| 2, b.add(2 * self.b_step));
                    channel::<S, M, N>(acc, &fours, |_| 3, b.add(3 * self.b_step));
                }
            }
            // Behind the last step they may lie beyond the buffers.
            a = a.wrapping_add(a_step);
            b = b.wrapping_add(step * self.b_step);
        }
        self.k / step * step
    }

    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn blocks<S: Simd, const M: usize, const N: usize, const CLOSE: bool>(&self) {
        let (a_step, a_channel) = if CLOSE { (1, self.a_channel) } else { (self.a_step, 1) };
        debug_assert!(self.rows.is_multiple_of(M));
        for row in (0..self.rows).step_by(M) {
            // SAFETY: the contract of `call`: every address lies inside the caller's buffers.
            unsafe {
                let out = self.out.add(row * self.out_step);
                let mut acc = [[S::splat(0.0); N]; M];
                let first = self.a.add(row * a_step);
                for tap in self.taps {
                    let a = first.offset(tap.a);
                    let mut b = self.b.add(tap.b);
                    let whole = if S::BY_LANE { self.by_lane::<S, M, N, CLOSE>(&mut acc, a, b) } else { 0 };
                    b = b.wrapping_add(whole * self.b_step);
                    for k in whole..self.k {
                        let mut weights = [S::splat(0.0); N];
                        for n in 0..N {
                            weights[n] = S::load(b.add(n * S::LANES));
                        }
                        for m in 0..M {
                            let value = S::splat(*a.add(m * a_step + k * a_channel));
                            for n in 0..N {
                                acc[m][n] = S::fma(value, weights[n], acc[m][n]);
                            }
                        }
                        b = b.wrapping_add(self.b_step);
                    }
                }
                for m in 0..M {
                    for n in 0..N {
                        let place = out.add(m * self.out_step + n * S::LANES);
                        // What was there joins last: sums of sums err less than one long sum.
                        let sum = if self.keep { S::add(S::load(place), acc[m][n]) } else { acc[m][n] };
                        S::store(place, sum);
                    }
                }
            }
        }
    }
}

/// Adds one channel to the sums of a block.
///
/// # Safety
/// As for `Simd`; `b` holds `N` vectors.
#[inline(always)]
unsafe fn channel<S: Simd, const M: usize, const N: usize>(
    acc: &mut [[S::V; N]; M],
    fours: &[S::V; M],
    lane: impl Fn(usize) -> usize,
    b: *const f32,
) {
    for n in 0..N {
        // SAFETY: the caller's promise.
        unsafe {
            let weights = S::load(b.add(n * S::LANES));
            for m in 0..M {
                acc[m][n] = S::fma_lane(fours[m], lane(m), weights, acc[m][n]);
            }
        }
    }
}
