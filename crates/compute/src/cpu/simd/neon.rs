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

#[derive(Clone, Copy)]
pub(super) struct Neon;

/// One line per op: each is the instruction of that name, sound under the contract of `Simd`.
macro_rules! ops {
    ($($name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)? = $body:expr;)*) => {
        $(#[inline(always)]
        unsafe fn $name($($arg: $kind),*) $(-> $result)? {
            // SAFETY: the contract of `Simd`.
            unsafe { $body }
        })*
    };
}

type V = float32x4_t;

impl Simd for Neon {
    const LANES: usize = Isa::Neon.lanes();
    const ROWS: usize = Isa::Neon.rows();
    const BY_LANE: bool = true;
    type V = V;
    ops! {
        splat(x: f32) -> V = vdupq_n_f32(x);
        load(p: *const f32) -> V = vld1q_f32(p);
        store(p: *mut f32, v: V) = vst1q_f32(p, v);
        add(a: V, b: V) -> V = vaddq_f32(a, b);
        sub(a: V, b: V) -> V = vsubq_f32(a, b);
        mul(a: V, b: V) -> V = vmulq_f32(a, b);
        fma(a: V, b: V, c: V) -> V = vfmaq_f32(c, a, b);
        fma_lane(a: V, lane: usize, b: V, c: V) -> V = match lane {
            0 => vfmaq_laneq_f32::<0>(c, b, a),
            1 => vfmaq_laneq_f32::<1>(c, b, a),
            2 => vfmaq_laneq_f32::<2>(c, b, a),
            _ => vfmaq_laneq_f32::<3>(c, b, a),
        };
        // `vminq_f32` and `vmaxq_f32` give what is not a number whichever side it is on.
        min(a: V, b: V) -> V = vbslq_f32(vcltq_f32(a, b), a, b);
        max(a: V, b: V) -> V = vbslq_f32(vcgtq_f32(a, b), a, b);
        scale(p: V, n: V) -> V = {
            let bits = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32::<23>(bits)))
        };
        nearest(v: V) -> V = vrndnq_f32(v);
        div(a: V, b: V) -> V = vdivq_f32(a, b);
        load_bf16(p: *const u16) -> V = vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p)));
        store_bf16(p: *mut u16, v: V) = {
            let bits = vreinterpretq_u32_f32(v);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
            // Not a number stays one.
            let quiet = vorrq_u32(bits, vdupq_n_u32(0x40_0000));
            vst1_u16(p, vshrn_n_u32::<16>(vbslq_u32(vceqq_f32(v, v), rounded, quiet)))
        };
        load_f16(p: *const u16) -> V = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
        store_f16(p: *mut u16, v: V) = vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
        no_sums() -> Self::Sums = [vdupq_n_f64(0.0); 4];
        gather(s: Self::Sums, v: V) -> Self::Sums = {
            let (low, high) = (vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v));
            [
                vaddq_f64(s[0], low),
                vaddq_f64(s[1], high),
                vfmaq_f64(s[2], low, low),
                vfmaq_f64(s[3], high, high),
            ]
        };
        store_sums(s: Self::Sums, sum: *mut f64, squares: *mut f64) = {
            vst1q_f64(sum, s[0]);
            vst1q_f64(sum.add(2), s[1]);
            vst1q_f64(squares, s[2]);
            vst1q_f64(squares.add(2), s[3])
        };
    }
    type Sums = [float64x2_t; 4];
}
