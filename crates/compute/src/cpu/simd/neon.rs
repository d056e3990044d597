//! NEON.
#![expect(unsafe_code, reason = "vector instructions are only sound where the CPU has them")]

use std::arch::aarch64::*;

use super::{Isa, Kernel, Simd};

/// # Safety
/// The CPU has this feature.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the feature is enabled here.
    unsafe { kernel.call::<Neon>() }
}

/// Two registers of four lanes make a vector: the kernels then cut their work as for AVX2. A block of 6 rows by two
/// vectors takes 24 of the 32 registers, which leaves six for pixels and two for weights.
#[derive(Clone, Copy)]
pub(super) struct Neon;

type Pair = [float32x4_t; 2];

/// One line per op: each is the instruction of that name on both registers, sound under the contract of `Simd`.
macro_rules! ops {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {
        $(#[inline(always)]
        unsafe fn $name($($arg: Self::V),*) -> Self::V {
            // SAFETY: the contract of `Simd`.
            unsafe {
                let [low, high] = [0, 1].map(|i| {
                    $(let $arg = $arg[i];)*
                    $body
                });
                [low, high]
            }
        })*
    };
}

/// Rounded to bf16, the bits in the lower half of each lane.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
unsafe fn to_bf16(v: float32x4_t) -> uint16x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = vreinterpretq_u32_f32(v);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        // Not a number stays one.
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x40_0000));
        vshrn_n_u32::<16>(vbslq_u32(vceqq_f32(v, v), rounded, quiet))
    }
}

impl Simd for Neon {
    const LANES: usize = Isa::Neon.lanes();
    const ROWS: usize = Isa::Neon.rows();
    const BY_LANE: bool = true;
    type V = Pair;
    ops! {
        add(a, b) = vaddq_f32(a, b);
        sub(a, b) = vsubq_f32(a, b);
        mul(a, b) = vmulq_f32(a, b);
        fma(a, b, c) = vfmaq_f32(c, a, b);
        // The instructions of these names give what is not a number whichever side it is on.
        min(a, b) = vbslq_f32(vcltq_f32(a, b), a, b);
        max(a, b) = vbslq_f32(vcgtq_f32(a, b), a, b);
        scale(p, n) = {
            let bits = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32::<23>(bits)))
        };
        nearest(v) = vrndnq_f32(v);
        div(a, b) = vdivq_f32(a, b);
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { [vdupq_n_f32(x); 2] }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { [vld1q_f32(p), vld1q_f32(p.add(4))] }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, [low, high]: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            vst1q_f32(p, low);
            vst1q_f32(p.add(4), high);
        }
    }
    #[inline(always)]
    unsafe fn fma_lane(p: *const f32, lane: usize, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let a = vld1q_f32(p);
            match lane {
                0 => [vfmaq_laneq_f32::<0>(c[0], b[0], a), vfmaq_laneq_f32::<0>(c[1], b[1], a)],
                1 => [vfmaq_laneq_f32::<1>(c[0], b[0], a), vfmaq_laneq_f32::<1>(c[1], b[1], a)],
                2 => [vfmaq_laneq_f32::<2>(c[0], b[0], a), vfmaq_laneq_f32::<2>(c[1], b[1], a)],
                _ => [vfmaq_laneq_f32::<3>(c[0], b[0], a), vfmaq_laneq_f32::<3>(c[1], b[1], a)],
            }
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = vld1q_u16(p);
            let low = vshll_n_u16::<16>(vget_low_u16(bits));
            [vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(vshll_high_n_u16::<16>(bits))]
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { vst1q_u16(p, vcombine_u16(to_bf16(v[0]), to_bf16(v[1]))) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = vreinterpretq_f16_u16(vld1q_u16(p));
            [vcvt_f32_f16(vget_low_f16(bits)), vcvt_high_f32_f16(bits)]
        }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v[0]), v[1]))) }
    }
    /// Sums of lanes two by two, then squares.
    type Sums = [[float64x2_t; 4]; 2];
    #[inline(always)]
    unsafe fn no_sums() -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe { [[vdupq_n_f64(0.0); 4]; 2] }
    }
    #[inline(always)]
    unsafe fn gather([mut sums, mut squares]: Self::Sums, v: Self::V) -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let [low, high] = v;
            let wide = [
                vcvt_f64_f32(vget_low_f32(low)),
                vcvt_high_f64_f32(low),
                vcvt_f64_f32(vget_low_f32(high)),
                vcvt_high_f64_f32(high),
            ];
            for i in 0..4 {
                sums[i] = vaddq_f64(sums[i], wide[i]);
                squares[i] = vfmaq_f64(squares[i], wide[i], wide[i]);
            }
            [sums, squares]
        }
    }
    #[inline(always)]
    unsafe fn store_sums([sums, squares]: Self::Sums, sum: *mut f64, square: *mut f64) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            for i in 0..4 {
                vst1q_f64(sum.add(2 * i), sums[i]);
                vst1q_f64(square.add(2 * i), squares[i]);
            }
        }
    }
}
