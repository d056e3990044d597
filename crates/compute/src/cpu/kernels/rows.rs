//! Rows of pixels on their way into a convolution and out of it.
#![expect(unsafe_code, reason = "kernels work on raw addresses inside checked buffers")]

use super::super::simd::{Kernel, Simd, load_as, round_as, silu, store_as};
use crate::dtype::DType;

/// Scale and shift per channel, then SiLU.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    pub(crate) silu: bool,
}

/// Reads stored pixels, normalises them, and writes them in another format, rounded to the stored one.
pub(crate) struct Normalize<'a> {
    /// `pixels * channels` values of `from_dtype`.
    pub(crate) from: *const u8,
    pub(crate) from_dtype: DType,
    /// Where pixels go, `to_step` values of `to_dtype` apart.
    pub(crate) to: *mut u8,
    pub(crate) to_dtype: DType,
    pub(crate) to_step: usize,
    pub(crate) pixels: usize,
    pub(crate) channels: usize,
    pub(crate) affine: Option<Affine<'a>>,
}

impl Kernel for Normalize<'_> {
    type Output = ();

    /// Contract: both buffers hold everything the numbers reach, and nobody else writes `to`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        // SAFETY: the contract above and that of `Simd`. One instance per pair of formats, so that the
        // choice is made outside the loops.
        unsafe {
            match (self.from_dtype, self.to_dtype) {
                (DType::F32, DType::F32) => self.all::<S>(DType::F32, DType::F32),
                (DType::Bf16, DType::F32) => self.all::<S>(DType::Bf16, DType::F32),
                (DType::F16, DType::F32) => self.all::<S>(DType::F16, DType::F32),
                (DType::Bf16, DType::Bf16) => self.all::<S>(DType::Bf16, DType::Bf16),
                (from, to) => self.all::<S>(from, to),
            }
        }
    }
}

impl Normalize<'_> {
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn all<S: Simd>(&self, from: DType, to: DType) {
        for pixel in 0..self.pixels {
            for c in (0..self.channels).step_by(S::LANES) {
                let n = S::LANES.min(self.channels - c);
                // SAFETY: inside the pixel; see `call`.
                unsafe {
                    let mut v =
                        load_as::<S>(from, self.from.add((pixel * self.channels + c) * from.bytes()), n);
                    if let Some(affine) = &self.affine {
                        let scale = load_as::<S>(DType::F32, affine.scale.as_ptr().add(c).cast(), n);
                        let shift = load_as::<S>(DType::F32, affine.shift.as_ptr().add(c).cast(), n);
                        v = S::fma(v, scale, shift);
                        if affine.silu {
                            v = silu::<S>(v);
                        }
                        if from != to {
                            v = round_as::<S>(from, v);
                        }
                    }
                    store_as::<S>(to, self.to.add((pixel * self.to_step + c) * to.bytes()), v, n);
                }
            }
        }
    }
}

/// Takes finished sums of one row and some output channels: adds bias and residual, stores, and gathers
/// per-channel sums for the normalisation that follows.
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
    /// Address of the first pixel's first channel in the residual, or null.
    pub(crate) residual: *const u8,
    /// Address of the same in the output.
    pub(crate) out: *mut u8,
    /// Values between two pixels of residual and output.
    pub(crate) out_step: usize,
    pub(crate) dtype: DType,
    /// Per-channel sums and squares; untouched if empty.
    pub(crate) totals: &'a mut [f64],
    pub(crate) squares: &'a mut [f64],
}

impl Kernel for Finish<'_> {
    type Output = ();

    /// Contract: all buffers hold everything the numbers reach; nobody else writes `out`.
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
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn all<S: Simd>(self, dtype: DType) {
        let gather = !self.totals.is_empty();
        for c in (0..self.channels).step_by(S::LANES) {
            let n = S::LANES.min(self.channels - c);
            // SAFETY: inside the pixel; see `call`.
            unsafe {
                let mut bias = load_as::<S>(DType::F32, self.bias.as_ptr().add(c).cast(), n);
                if let Some(point) = self.point {
                    bias = S::add(bias, load_as::<S>(DType::F32, point.as_ptr().add(c).cast(), n));
                }
                let mut sums = S::no_sums();
                for x in 0..self.pixels {
                    let here = match self.edge {
                        Some((at, edge)) if at == x => {
                            load_as::<S>(DType::F32, edge.as_ptr().add(c).cast(), n)
                        }
                        _ => bias,
                    };
                    let mut v = S::add(
                        load_as::<S>(DType::F32, self.sums.add(x * self.sums_step + c).cast(), n),
                        here,
                    );
                    let place = (x * self.out_step + c) * dtype.bytes();
                    if !self.residual.is_null() {
                        v = S::add(v, load_as::<S>(dtype, self.residual.add(place), n));
                    }
                    store_as::<S>(dtype, self.out.add(place), v, n);
                    if gather {
                        sums = S::gather(sums, round_as::<S>(dtype, v));
                    }
                }
                if gather {
                    let (mut s, mut q) = ([0.0; 16], [0.0; 16]);
                    S::store_sums(sums, s.as_mut_ptr(), q.as_mut_ptr());
                    self.totals[c..c + n].copy_from_slice(&s[..n]);
                    self.squares[c..c + n].copy_from_slice(&q[..n]);
                }
            }
        }
    }
}
