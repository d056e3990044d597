//! Rows of pixels on their way into a convolution and out of it.
#![expect(unsafe_code, reason = "kernels work on raw addresses inside checked buffers")]

use std::ops::Range;

use super::super::simd::{Kernel, Simd, load_as, round_as, silu, store_as};
use crate::dtype::DType;

/// Scale and shift per channel, then SiLU.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    pub(crate) silu: bool,
}

impl<'a> Affine<'a> {
    /// That of some channels of all frames.
    pub(crate) fn of(&self, channels: Range<usize>) -> Self {
        let (scale, shift) = (&self.scale[channels.clone()], &self.shift[channels]);
        Affine { scale, shift, silu: self.silu }
    }
}

/// Reads stored pixels, normalises them, and writes them in another format, rounded to the stored one.
pub(crate) struct Normalize<'a> {
    /// `pixels * channels` values of a format.
    pub(crate) from: (*const u8, DType),
    /// Where pixels go, `to_step` values of a format apart.
    pub(crate) to: (*mut u8, DType),
    pub(crate) to_step: usize,
    pub(crate) pixels: usize,
    pub(crate) channels: usize,
    pub(crate) affine: Option<Affine<'a>>,
}

impl Kernel for Normalize<'_> {
    type Output = ();

    /// Contract: both buffers hold everything the numbers reach, and nothing else writes `to`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        // SAFETY: the contract above and that of `Simd`. One instance per pair of formats, so that the
        // choice is made outside the loops.
        unsafe {
            match (self.from.1, self.to.1) {
                (DType::F32, DType::F32) => self.all::<S>(DType::F32, DType::F32),
                (DType::Bf16, DType::F32) => self.all::<S>(DType::Bf16, DType::F32),
                (DType::F16, DType::F32) => self.all::<S>(DType::F16, DType::F32),
                (DType::Bf16, DType::Bf16) => self.all::<S>(DType::Bf16, DType::Bf16),
                (from, to) => self.all::<S>(from, to),
            }
        }
    }
}

/// What `Normalize` does to a value; a constant, so that the choice is made outside the loops.
const KEEP: u8 = 0;
const SCALE: u8 = 1;
const SCALE_SILU: u8 = 2;

impl Normalize<'_> {
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn all<S: Simd>(&self, from: DType, to: DType) {
        // SAFETY: passed on.
        unsafe {
            match self.affine {
                None if from == to => self.copy(to.bytes()),
                None => self.pixels::<S, KEEP>(from, to),
                Some(affine) if affine.silu => self.pixels::<S, SCALE_SILU>(from, to),
                Some(_) => self.pixels::<S, SCALE>(from, to),
            }
        }
    }

    /// Values of so many bytes, as they are.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn copy(&self, bytes: usize) {
        let (size, step) = (self.channels * bytes, self.to_step * bytes);
        // SAFETY: inside both buffers; see `call`.
        unsafe {
            if size == step {
                return std::ptr::copy_nonoverlapping(self.from.0, self.to.0, self.pixels * size);
            }
            for pixel in 0..self.pixels {
                let (from, to) = (self.from.0.add(pixel * size), self.to.0.add(pixel * step));
                if size > 16 {
                    std::ptr::copy_nonoverlapping(from, to, size);
                    continue;
                }
                // For a few values a call takes longer than the copy. No value is shorter than two bytes.
                for i in (0..size).step_by(2) {
                    to.add(i).cast::<[u8; 2]>().write(from.add(i).cast::<[u8; 2]>().read());
                }
            }
        }
    }

    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const MODE: u8>(&self, from: DType, to: DType) {
        let whole = self.channels / S::LANES * S::LANES;
        for pixel in 0..self.pixels {
            let mut c = 0;
            // SAFETY: inside the pixel; see `call`.
            unsafe {
                while c < whole {
                    self.step::<S, MODE>(from, to, pixel, c, S::LANES);
                    c += S::LANES;
                }
                if c < self.channels {
                    self.step::<S, MODE>(from, to, pixel, c, self.channels - c);
                }
            }
        }
    }

    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn step<S: Simd, const MODE: u8>(&self, from: DType, to: DType, pixel: usize, c: usize, n: usize) {
        // SAFETY: inside the pixel; see `call`.
        unsafe {
            let mut v = load_as::<S>(from, self.from.0.add((pixel * self.channels + c) * from.bytes()), n);
            if let (SCALE | SCALE_SILU, Some(affine)) = (MODE, &self.affine) {
                v = S::fma(v, load_at::<S>(affine.scale, c, n), load_at::<S>(affine.shift, c, n));
                if MODE == SCALE_SILU {
                    v = silu::<S>(v);
                }
                if from != to {
                    v = round_as::<S>(from, v);
                }
            }
            store_as::<S>(to, self.to.0.add((pixel * self.to_step + c) * to.bytes()), v, n);
        }
    }
}

/// Values `c..c + n` of a slice, lanes behind zero.
///
/// # Safety
/// As for `Simd`; `values` holds `c + n` values.
#[inline(always)]
unsafe fn load_at<S: Simd>(values: &[f32], c: usize, n: usize) -> S::V {
    // SAFETY: the caller's promise.
    unsafe { load_as::<S>(DType::F32, values.as_ptr().add(c).cast(), n) }
}

/// `max(v, 0) + slope * min(v, 0)`; what is not a number stays one.
///
/// # Safety
/// As for `Simd`.
#[inline(always)]
unsafe fn prelu<S: Simd>(v: S::V, slope: S::V) -> S::V {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = S::splat(0.0);
        S::fma(slope, S::min(zero, v), S::max(zero, v))
    }
}

/// Takes finished sums of one row and some output channels: adds the bias, adds to a residual or stores, behind PReLU if
/// there are slopes, and gathers per-channel sums for the normalisation that follows.
pub(crate) struct Finish<'a> {
    /// Sums of the first pixel; pixels are `sums_step` values apart.
    pub(crate) sums: *const f32,
    pub(crate) sums_step: usize,
    pub(crate) pixels: usize,
    /// Output channels of this part.
    pub(crate) channels: usize,
    pub(crate) bias: &'a [f32],
    /// Bias of a shortcut.
    pub(crate) point: Option<&'a [f32]>,
    /// Another bias for one pixel: at the border of an upsampled frame.
    pub(crate) edge: Option<(usize, &'a [f32])>,
    /// Address of the first pixel's first channel in the output.
    pub(crate) out: *mut u8,
    /// Add to what the output holds.
    pub(crate) accumulate: bool,
    /// Of PReLU.
    pub(crate) slopes: Option<&'a [f32]>,
    /// Values between two pixels of the output.
    pub(crate) out_step: usize,
    pub(crate) dtype: DType,
    /// Per-channel sums and squares; untouched if empty.
    pub(crate) totals: &'a mut [f64],
    pub(crate) squares: &'a mut [f64],
}

impl Kernel for Finish<'_> {
    type Output = ();

    /// Contract: all buffers hold everything the numbers reach; nothing else writes `out`.
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

impl Finish<'_> {
    /// Up to four vectors of channels at a time: rows are then read and written in runs of whole cache lines.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn all<S: Simd>(mut self, dtype: DType) {
        let mut c = 0;
        while c < self.channels {
            let left = self.channels - c;
            // SAFETY: as for `call`.
            unsafe {
                if left >= 4 * S::LANES {
                    self.vectors::<S, 4>(dtype, c, S::LANES);
                    c += 4 * S::LANES;
                } else if left >= 2 * S::LANES {
                    self.vectors::<S, 2>(dtype, c, S::LANES);
                    c += 2 * S::LANES;
                } else {
                    self.vectors::<S, 1>(dtype, c, S::LANES.min(left));
                    c += S::LANES.min(left);
                }
            }
        }
    }

    /// `N` vectors of `n` channels from channel `c` on.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn vectors<S: Simd, const N: usize>(&mut self, dtype: DType, c: usize, n: usize) {
        let gather = !self.totals.is_empty();
        // SAFETY: inside the pixel; see `call`.
        unsafe {
            let mut sums = [S::no_sums(); N];
            let mut bias = [S::splat(0.0); N];
            for i in 0..N {
                bias[i] = load_at::<S>(self.bias, c + i * S::LANES, n);
                if let Some(point) = self.point {
                    bias[i] = S::add(bias[i], load_at::<S>(point, c + i * S::LANES, n));
                }
            }
            for x in 0..self.pixels {
                for i in 0..N {
                    let c = c + i * S::LANES;
                    let here = match self.edge {
                        Some((at, edge)) if at == x => load_at::<S>(edge, c, n),
                        _ => bias[i],
                    };
                    let from = self.sums.add(x * self.sums_step + c).cast();
                    let mut v = S::add(load_as::<S>(DType::F32, from, n), here);
                    let place = (x * self.out_step + c) * dtype.bytes();
                    if self.accumulate {
                        v = S::add(v, load_as::<S>(dtype, self.out.add(place), n));
                    }
                    if let Some(slopes) = self.slopes {
                        v = prelu::<S>(v, load_at::<S>(slopes, c, n));
                    }
                    store_as::<S>(dtype, self.out.add(place), v, n);
                    if gather {
                        sums[i] = S::gather(sums[i], round_as::<S>(dtype, v));
                    }
                }
            }
            if gather {
                for i in 0..N {
                    let c = c + i * S::LANES;
                    let (mut s, mut q) = ([0.0; 16], [0.0; 16]);
                    S::store_sums(sums[i], s.as_mut_ptr(), q.as_mut_ptr());
                    self.totals[c..c + n].copy_from_slice(&s[..n]);
                    self.squares[c..c + n].copy_from_slice(&q[..n]);
                }
            }
        }
    }
}
