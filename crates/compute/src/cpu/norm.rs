//! Row sums, their combination, and the normalisation itself.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::scratch::{Layout, Piece, Scratch, total};
use super::{Cpu, weight_parts};
use crate::error::ComputeError;
use crate::ops::{CombineDesc, NormalizeDesc, RowSumsDesc};
use crate::tensor::Shape;
use crate::weight::Weight;

/// Mean and squared distances of one row, group by group, as (mean, sum of squares) pairs.
///
/// Sums run in f64 down the columns of each channel, then over the channels of a group: one fixed order,
/// and the cancellation in `sum(x^2) - n mean^2` is far below f32.
pub(super) fn sum_row(row: &[f32], channels: usize, acc: &mut [f64], out: &mut [f32]) {
    let (sum, squares) = acc.split_at_mut(channels);
    sum.fill(0.0);
    squares.fill(0.0);
    for pixel in row.chunks_exact(channels) {
        for ((s, q), v) in sum.iter_mut().zip(squares.iter_mut()).zip(pixel) {
            let v = f64::from(*v);
            *s += v;
            *q += v * v;
        }
    }
    let groups = out.len() / 2;
    let wide = channels / groups;
    let count = (row.len() / groups) as f64;
    for (g, pair) in out.chunks_exact_mut(2).enumerate() {
        let total: f64 = sum[g * wide..(g + 1) * wide].iter().sum();
        let square: f64 = squares[g * wide..(g + 1) * wide].iter().sum();
        let mean = total / count;
        pair[0] = mean as f32;
        pair[1] = (square - total * mean).max(0.0) as f32;
    }
}

/// Values `sum_row` needs beside the row.
pub(super) fn sum_scratch(layout: &mut Layout, channels: usize) -> Piece<f64> {
    layout.take(2 * channels)
}

/// Mean and 1/deviation of one frame as `x * scale + shift` per channel.
pub(super) fn coefficients(stats: &[f32], gamma: &[f32], beta: &[f32], scale: &mut [f32], shift: &mut [f32]) {
    let wide = gamma.len() / (stats.len() / 2);
    for (c, (a, b)) in scale.iter_mut().zip(shift.iter_mut()).enumerate() {
        let (mean, rstd) = (stats[c / wide * 2], stats[c / wide * 2 + 1]);
        *a = rstd * gamma[c];
        *b = beta[c] - mean * *a;
    }
}

/// `x * scale + shift` over a row of pixels, then SiLU.
pub(super) fn apply(row: &mut [f32], scale: &[f32], shift: &[f32], silu: bool) {
    for pixel in row.chunks_exact_mut(scale.len()) {
        for ((v, a), b) in pixel.iter_mut().zip(scale).zip(shift) {
            *v = *v * a + b;
        }
    }
    if silu {
        row.iter_mut().for_each(|v| *v /= 1.0 + exp(-*v));
    }
}

/// e^x to about 1 unit in the last place, in plain arithmetic that the compiler turns into vectors.
/// Cephes' split: x = n ln2 + r, a polynomial for e^r, and n put into the exponent.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    // Beyond these the result would leave the normal numbers; SiLU and softmax are flat there.
    let x = x.clamp(-87.0, 88.0);
    // Adding and taking away 1.5 * 2^23 rounds to the nearest integer.
    let n = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let exponent = n.to_bits().wrapping_sub(12_582_912.0f32.to_bits()).wrapping_add(127) << 23;
    let n = n - 12_582_912.0;
    let r = x - n * LN2_HI - n * LN2_LO;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    (p * r * r + r + 1.0) * f32::from_bits(exponent)
}

pub(super) struct RowSumsPlan {
    pub(super) private: Layout,
    row: Piece<f32>,
    acc: Piece<f64>,
}

impl RowSumsPlan {
    pub(super) fn new(shape: Shape) -> Self {
        let mut private = Layout::default();
        let row = private.take(shape.w * shape.c);
        let acc = sum_scratch(&mut private, shape.c);
        RowSumsPlan { private, row, acc }
    }
}

pub(super) struct NormalizePlan {
    shared: Layout,
    private: Layout,
    scale: Piece<f32>,
    shift: Piece<f32>,
    row: Piece<f32>,
}

impl NormalizePlan {
    pub(super) fn new(shape: Shape) -> Self {
        let (mut shared, mut private) = (Layout::default(), Layout::default());
        let scale = shared.take(shape.t * shape.c);
        let shift = shared.take(shape.t * shape.c);
        let row = private.take(shape.w * shape.c);
        NormalizePlan { shared, private, scale, shift, row }
    }

    pub(super) fn bytes(&self, threads: usize) -> u64 {
        total(&self.shared, &self.private, threads)
    }
}

impl Cpu {
    /// `coefficients` for every frame of `stats`, `[t, c]` each.
    pub(super) fn fill_coefficients(
        &self,
        stats: &crate::tensor::View<'_>,
        affine: &Weight,
        scale: &mut [f32],
        shift: &mut [f32],
    ) -> Result<(), ComputeError> {
        let pairs = self.host.pixels("normalize", "statistics", stats)?;
        let (gamma, beta) = weight_parts(&self.host, affine)?;
        let (row, c) = (stats.row_range().start, gamma.len());
        for (t, (scale, shift)) in scale.chunks_exact_mut(c).zip(shift.chunks_exact_mut(c)).enumerate() {
            // SAFETY: f32 (checked by the descriptor), inside the view, and ops run one at a time.
            let stats = unsafe { std::slice::from_raw_parts(pairs.row_ptr(t, row).cast::<f32>(), pairs.row) };
            coefficients(stats, gamma, beta, scale, shift);
        }
        Ok(())
    }

    pub(super) fn row_sums_now(&self, d: &RowSumsDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "row_sums";
        let shape = d.input.shape();
        let plan = RowSumsPlan::new(shape);
        let scratch = Scratch::new(&self.host, OP, &Layout::default(), &plan.private, self.pool.threads())?;
        let input = self.host.pixels(OP, "input", &d.input)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        self.pool.run(shape.t * shape.h, |thread, item| {
            let (t, y) = (item / shape.h, input.first_row + item % shape.h);
            // SAFETY: pieces of this thread; the input is not written, the output row is this item's own.
            unsafe {
                let row = scratch.private(thread, plan.row);
                input.load(t, y, row);
                let out = std::slice::from_raw_parts_mut(output.row_ptr(t, y).cast::<f32>(), output.row);
                sum_row(row, shape.c, scratch.private(thread, plan.acc), out);
            }
        });
        Ok(())
    }

    pub(super) fn combine_now(&self, d: &CombineDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "combine_sums";
        let sums = self.host.pixels(OP, "row sums", &d.sums)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        let (row, count) = (d.output.row_range().start, d.count as f64);
        for t in 0..sums.frames {
            // SAFETY: f32 rows inside their views; ops run one at a time.
            let out =
                unsafe { std::slice::from_raw_parts_mut(output.row_ptr(t, row).cast::<f32>(), output.row) };
            for (g, out) in out.chunks_exact_mut(2).enumerate() {
                let (mut n, mut mean, mut squares) = (0.0, 0.0, 0.0);
                for y in 0..sums.rows {
                    // SAFETY: as above.
                    let row =
                        unsafe { std::slice::from_raw_parts(sums.row_ptr(t, y).cast::<f32>(), sums.row) };
                    let delta = f64::from(row[2 * g]) - mean;
                    mean += delta * count / (n + count);
                    squares += f64::from(row[2 * g + 1]) + delta * delta * n * count / (n + count);
                    n += count;
                }
                out[0] = mean as f32;
                out[1] = (1.0 / (squares / n + f64::from(d.eps)).sqrt()) as f32;
            }
        }
        Ok(())
    }

    pub(super) fn normalize_now(&self, d: &NormalizeDesc<'_>) -> Result<(), ComputeError> {
        const OP: &str = "normalize";
        let shape = d.input.shape();
        let plan = NormalizePlan::new(shape);
        let scratch = Scratch::new(&self.host, OP, &plan.shared, &plan.private, self.pool.threads())?;
        let input = self.host.pixels(OP, "input", &d.input)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        // SAFETY: written here by one thread, only read by the threads below.
        let (scale, shift) = unsafe { (scratch.shared(plan.scale), scratch.shared(plan.shift)) };
        self.fill_coefficients(&d.stats, d.affine, scale, shift)?;
        let (scale, shift) = (&*scale, &*shift);
        self.pool.run(shape.t * shape.h, |thread, item| {
            let (t, y) = (item / shape.h, item % shape.h);
            let channels = t * shape.c..(t + 1) * shape.c;
            // SAFETY: a piece of this thread; the input is not written, the output row is this item's own.
            unsafe {
                let row = scratch.private(thread, plan.row);
                input.load(t, input.first_row + y, row);
                apply(row, &scale[channels.clone()], &shift[channels], d.silu);
                output.store(t, output.first_row + y, row);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for i in -86_900..88_000 {
            let x = i as f32 * 1e-3;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) is off by {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn silu_is_flat_far_below_zero_and_the_identity_far_above() {
        let mut row = [-1e30, -200.0, -90.0, 0.0, 90.0, 200.0, 1e30];
        apply(&mut row, &[1.0], &[0.0], true);
        assert_eq!(&row[3..], &[0.0, 90.0, 200.0, 1e30]);
        assert!(row[1..3].iter().all(|v| v.abs() < 1e-35));
    }
}
