//! AVX2 and AVX-512.
#![expect(unsafe_code, reason = "vector instructions are only sound where the CPU has them")]

use std::arch::x86_64::*;

use super::{Isa, Kernel, Simd};

/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the features are enabled here.
    unsafe { kernel.call::<Avx512>() }
}

/// # Safety
/// The CPU has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the features are enabled here.
    unsafe { kernel.call::<Avx2>() }
}

#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// One line per op: each is the instruction of that name, sound under the contract of `Simd`.
macro_rules! ops {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {
        $(#[inline(always)]
        unsafe fn $name($($arg: Self::V),*) -> Self::V {
            // SAFETY: the contract of `Simd`.
            unsafe { $body }
        })*
    };
}

impl Simd for Avx512 {
    const LANES: usize = Isa::Avx512.lanes();
    const ROWS: usize = Isa::Avx512.rows();
    type V = __m512;
    ops! {
        add(a, b) = _mm512_add_ps(a, b);
        sub(a, b) = _mm512_sub_ps(a, b);
        mul(a, b) = _mm512_mul_ps(a, b);
        fma(a, b, c) = _mm512_fmadd_ps(a, b, c);
        min(a, b) = _mm512_min_ps(a, b);
        max(a, b) = _mm512_max_ps(a, b);
        scale(p, n) = _mm512_scalef_ps(p, n);
        nearest(v) = _mm512_roundscale_ps::<8>(v);
        // Estimate to 14 bits and one Newton step: a third of the time of the division.
        div(a, b) = {
            let r = _mm512_rcp14_ps(b);
            let r = _mm512_mul_ps(r, _mm512_fnmadd_ps(b, r, _mm512_set1_ps(2.0)));
            _mm512_mul_ps(a, r)
        };
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            // Not a number stays one.
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
            let out = _mm512_mask_blend_epi32(nan, rounded, quiet);
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(out)));
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<0>(v)) }
    }
    type Sums = [__m512d; 4];
    #[inline(always)]
    unsafe fn no_sums() -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe { [_mm512_setzero_pd(); 4] }
    }
    #[inline(always)]
    unsafe fn gather(s: Self::Sums, v: Self::V) -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
            let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(v));
            [
                _mm512_add_pd(s[0], low),
                _mm512_add_pd(s[1], high),
                _mm512_fmadd_pd(low, low, s[2]),
                _mm512_fmadd_pd(high, high, s[3]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store_sums(s: Self::Sums, sum: *mut f64, squares: *mut f64) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            _mm512_storeu_pd(sum, s[0]);
            _mm512_storeu_pd(sum.add(8), s[1]);
            _mm512_storeu_pd(squares, s[2]);
            _mm512_storeu_pd(squares.add(8), s[3]);
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Avx2;

impl Simd for Avx2 {
    const LANES: usize = Isa::Avx2.lanes();
    const ROWS: usize = Isa::Avx2.rows();
    type V = __m256;
    ops! {
        add(a, b) = _mm256_add_ps(a, b);
        sub(a, b) = _mm256_sub_ps(a, b);
        mul(a, b) = _mm256_mul_ps(a, b);
        fma(a, b, c) = _mm256_fmadd_ps(a, b, c);
        min(a, b) = _mm256_min_ps(a, b);
        max(a, b) = _mm256_max_ps(a, b);
        scale(p, n) = {
            let bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits)))
        };
        nearest(v) = _mm256_round_ps::<8>(v);
        div(a, b) = _mm256_div_ps(a, b);
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let out = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(out, out));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        // SAFETY: the contract of `Simd`.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<0>(v)) }
    }
    type Sums = [__m256d; 4];
    #[inline(always)]
    unsafe fn no_sums() -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe { [_mm256_setzero_pd(); 4] }
    }
    #[inline(always)]
    unsafe fn gather(s: Self::Sums, v: Self::V) -> Self::Sums {
        // SAFETY: the contract of `Simd`.
        unsafe {
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
            let high = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(v));
            [
                _mm256_add_pd(s[0], low),
                _mm256_add_pd(s[1], high),
                _mm256_fmadd_pd(low, low, s[2]),
                _mm256_fmadd_pd(high, high, s[3]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store_sums(s: Self::Sums, sum: *mut f64, squares: *mut f64) {
        // SAFETY: the contract of `Simd`.
        unsafe {
            _mm256_storeu_pd(sum, s[0]);
            _mm256_storeu_pd(sum.add(4), s[1]);
            _mm256_storeu_pd(squares, s[2]);
            _mm256_storeu_pd(squares.add(4), s[3]);
        }
    }
}
