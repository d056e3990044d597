//! Row sums, their combination, and the normalisation itself.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::kernels::rows::{Affine, Normalize};
use super::scratch::{Layout, Piece, Scratch};
use super::simd::{Kernel, Simd, load_as, run};
use super::{Cpu, weight_parts};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::{CombineDesc, NormalizeDesc, RowSumsDesc};
use crate::tensor::Shape;
use crate::weight::Weight;

/// Mean and 1/deviation of one frame as `x * scale + shift` per channel.
pub(super) fn coefficients(stats: &[f32], gamma: &[f32], beta: &[f32], scale: &mut [f32], shift: &mut [f32]) {
    let wide = gamma.len() / (stats.len() / 2);
    for (c, (a, b)) in scale.iter_mut().zip(shift.iter_mut()).enumerate() {
        let (mean, rstd) = (stats[c / wide * 2], stats[c / wide * 2 + 1]);
        *a = rstd * gamma[c];
        *b = beta[c] - mean * *a;
    }
}

/// A variance that rounding made negative is zero. Unlike `max`, this keeps what is not a number.
pub(super) fn not_below_zero(v: f64) -> f64 {
    if v < 0.0 { 0.0 } else { v }
}

/// Sums of one row, channel by channel in f64: one fixed order, and the cancellation in
/// `sum(x^2) - n mean^2` is far below f32.
struct ChannelSums<'a> {
    row: *const u8,
    dtype: DType,
    pixels: usize,
    totals: &'a mut [f64],
    squares: &'a mut [f64],
}

impl Kernel for ChannelSums<'_> {
    type Output = ();

    /// Contract: the row holds `pixels` times as many values as `totals`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        // SAFETY: the contract above and that of `Simd`.
        unsafe {
            match self.dtype {
                DType::F32 => self.all::<S>(DType::F32),
                DType::Bf16 => self.all::<S>(DType::Bf16),
                DType::F16 => self.all::<S>(DType::F16),
            }
        }
    }
}

impl ChannelSums<'_> {
    /// Four vectors of channels at a time: a row is then read in runs of whole cache lines.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn all<S: Simd>(self, dtype: DType) {
        let channels = self.totals.len();
        let mut c = 0;
        while c < channels {
            let wide = 4 * S::LANES;
            // SAFETY: whole vectors inside the row, or a short one through a buffer.
            unsafe {
                if c + wide <= channels {
                    let mut sums = [S::no_sums(); 4];
                    for x in 0..self.pixels {
                        let from = self.row.add((x * channels + c) * dtype.bytes());
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let v = load_as::<S>(dtype, from.add(i * S::LANES * dtype.bytes()), S::LANES);
                            *sums = S::gather(*sums, v);
                        }
                    }
                    for (i, sums) in sums.into_iter().enumerate() {
                        let place = c + i * S::LANES;
                        let (totals, squares) = (&mut self.totals[place..], &mut self.squares[place..]);
                        S::store_sums(sums, totals.as_mut_ptr(), squares.as_mut_ptr());
                    }
                    c += wide;
                } else {
                    let n = S::LANES.min(channels - c);
                    let mut sums = S::no_sums();
                    for x in 0..self.pixels {
                        let place = (x * channels + c) * dtype.bytes();
                        sums = S::gather(sums, load_as::<S>(dtype, self.row.add(place), n));
                    }
                    let (mut s, mut q) = ([0.0; 16], [0.0; 16]);
                    S::store_sums(sums, s.as_mut_ptr(), q.as_mut_ptr());
                    self.totals[c..c + n].copy_from_slice(&s[..n]);
                    self.squares[c..c + n].copy_from_slice(&q[..n]);
                    c += n;
                }
            }
        }
    }
}

/// Scratch of row sums: totals and squares of a row, channel by channel.
pub(super) fn row_sums_layout(shape: Shape) -> (Layout, [Piece<f64>; 1]) {
    Layout::of([2 * shape.c])
}

/// Scratch of a normalisation: scale and shift of every frame.
pub(super) fn normalize_layout(shape: Shape) -> (Layout, [Piece<f32>; 2]) {
    Layout::of([shape.t * shape.c; 2])
}

impl Cpu {
    /// `coefficients` for every frame of `stats`, `[t, c]` each.
    pub(super) fn fill_coefficients(
        &self,
        stats: &crate::tensor::View<'_>,
        affine: &Weight,
        scale: &mut [f32],
        shift: &mut [f32],
    ) -> Result<()> {
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

    pub(super) fn row_sums_now(&self, d: &RowSumsDesc<'_>) -> Result<()> {
        const OP: &str = "row_sums";
        let shape = d.input.shape();
        let (private, [acc]) = row_sums_layout(shape);
        let scratch = self.scratch(OP, &private)?;
        let input = self.host.pixels(OP, "input", &d.input)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        let wide = shape.c / d.groups;
        self.pool.run(shape.t * shape.h, |thread, item| {
            let (t, y) = (item / shape.h, input.first_row + item % shape.h);
            // SAFETY: a piece of this thread; the output row is this item's own.
            let (acc, out) = unsafe {
                let out = std::slice::from_raw_parts_mut(output.row_ptr(t, y).cast::<f32>(), output.row);
                (scratch.own(thread).piece(acc), out)
            };
            let (totals, squares) = acc.split_at_mut(shape.c);
            let row = input.row_ptr(t, y).cast_const();
            run(self.path.isa, ChannelSums { row, dtype: input.dtype, pixels: shape.w, totals, squares });
            for (g, pair) in out.chunks_exact_mut(2).enumerate() {
                let total: f64 = totals[g * wide..(g + 1) * wide].iter().sum();
                let square: f64 = squares[g * wide..(g + 1) * wide].iter().sum();
                let mean = total / (shape.w * wide) as f64;
                pair[0] = mean as f32;
                pair[1] = not_below_zero(square - total * mean) as f32;
            }
        });
        Ok(())
    }

    pub(super) fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<()> {
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
            if self.spoiled.is_none() && out.iter().any(|v| !v.is_finite()) {
                self.spoiled = Some(d.name.to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn normalize_now(&self, d: &NormalizeDesc<'_>) -> Result<()> {
        const OP: &str = "normalize";
        let shape = d.input.shape();
        let (shared, [scale, shift]) = normalize_layout(shape);
        let scratch = Scratch::new(&self.host, OP, &shared, &Layout::default(), self.pool.threads())?;
        let input = self.host.pixels(OP, "input", &d.input)?;
        let output = self.host.pixels(OP, "output", &d.output)?;
        // SAFETY: written here by one thread, only read by the threads below.
        let (scale, shift) = unsafe { (scratch.shared(scale), scratch.shared(shift)) };
        self.fill_coefficients(&d.stats, d.affine, scale, shift)?;
        let affine = Affine { scale, shift, silu: d.silu };
        self.pool.run(shape.t * shape.h, |_, item| {
            let (t, y) = (item / shape.h, item % shape.h);
            let channels = t * shape.c..(t + 1) * shape.c;
            let normalize = Normalize {
                from: (input.row_ptr(t, input.first_row + y), input.dtype),
                to: (output.row_ptr(t, output.first_row + y), output.dtype),
                to_step: shape.c,
                pixels: shape.w,
                channels: shape.c,
                affine: Some(affine.of(channels)),
            };
            run(self.path.isa, normalize);
        });
        Ok(())
    }
}
