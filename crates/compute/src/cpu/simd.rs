//! Vectors of f32, one implementation per instruction set. A kernel is written once over `Simd` and
//! compiled for each set; `run` picks the one the machine has.
#![expect(unsafe_code, reason = "vector instructions are only sound where the CPU has them")]

use crate::dtype::{self, DType};

/// Instruction sets a kernel can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain Rust: any CPU.
    Portable,
    /// 8 lanes with fused multiply-add.
    Avx2,
    /// 16 lanes.
    Avx512,
}

impl Isa {
    /// The widest set this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                return Isa::Avx512;
            }
            if has!("avx2") && has!("fma") && has!("f16c") {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }

    /// Lanes of a vector.
    pub(super) const fn lanes(self) -> usize {
        match self {
            Isa::Avx512 => 16,
            Isa::Avx2 | Isa::Portable => 8,
        }
    }

    /// Rows of the register block of a matrix product.
    pub(super) const fn rows(self) -> usize {
        match self {
            Isa::Avx512 => 12,
            Isa::Avx2 => 6,
            Isa::Portable => 4,
        }
    }

    /// Columns of that block: the widest panel.
    pub(super) const fn panel(self) -> usize {
        match self {
            Isa::Avx512 | Isa::Avx2 => 2 * self.lanes(),
            Isa::Portable => self.lanes(),
        }
    }
}

/// Vector arithmetic.
///
/// # Safety
/// Every function needs the instruction set of the implementation; inside `Kernel::call` that is given.
/// Pointers must be valid for `LANES` values.
pub(super) trait Simd: Copy + 'static {
    const LANES: usize;
    /// Rows of the register block of a matrix product.
    const ROWS: usize;
    type V: Copy;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a < b ? a : b`: what is not a number gives `b`, so bounds go first and values second.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a > b ? a : b`, likewise.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `p * 2^n` for `n` holding whole numbers.
    unsafe fn scale(p: Self::V, n: Self::V) -> Self::V;
    /// Nearest whole number.
    unsafe fn nearest(v: Self::V) -> Self::V;
    /// `a / b`, to about one unit in the last place.
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    unsafe fn store_bf16(p: *mut u16, v: Self::V);
    unsafe fn load_f16(p: *const u16) -> Self::V;
    unsafe fn store_f16(p: *mut u16, v: Self::V);
    /// Sums of f64 lanes: `sum[i] += v[i]`, `squares[i] += v[i]^2`.
    type Sums: Copy;
    unsafe fn no_sums() -> Self::Sums;
    unsafe fn gather(sums: Self::Sums, v: Self::V) -> Self::Sums;
    /// Writes `LANES` sums and `LANES` squares.
    unsafe fn store_sums(sums: Self::Sums, sum: *mut f64, squares: *mut f64);
}

/// Code that `run` compiles for every instruction set. `call` must be `#[inline(always)]`, as must
/// everything it calls that touches vectors.
pub(super) trait Kernel {
    type Output;
    /// # Safety
    /// The machine has the instructions of `S`.
    unsafe fn call<S: Simd>(self) -> Self::Output;
}

/// Runs a kernel with the instructions of `isa`, which must come from `Isa::detect` or be narrower.
#[inline]
pub(super) fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa {
        // SAFETY: `isa` was detected on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { x86::run_avx512(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::run_avx2(kernel) },
        // SAFETY: plain Rust needs no special instructions.
        _ => unsafe { kernel.call::<Portable>() },
    }
}

/// e^x to about 2 units in the last place: x = n ln2 + r, a polynomial for e^r, and 2^n put on top.
///
/// # Safety
/// As for `Simd`.
#[inline(always)]
pub(super) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        // Beyond these the result would leave the normal numbers; SiLU and softmax are flat there.
        let x = S::max(S::splat(-87.0), S::min(S::splat(88.0), x));
        let n = S::nearest(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.987_569_1e-4);
        for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = S::fma(p, r, S::splat(c));
        }
        let p = S::fma(S::mul(p, r), r, S::add(r, S::splat(1.0)));
        S::scale(p, n)
    }
}

/// `x / (1 + e^-x)`, the most frequent function of the network: e^-x = 2^n 2^f with n + f = -x log2(e).
/// For large |x| the exponent is off by up to |x| 2^-24, where the result is flat.
///
/// # Safety
/// As for `Simd`.
#[inline(always)]
pub(super) unsafe fn silu<S: Simd>(x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        // Outside these e^-x leaves the normal numbers; the result is as good as zero, or x.
        let low = S::max(S::splat(-87.0), x);
        let bounded = S::min(S::splat(87.0), low);
        let factor = S::splat(-std::f32::consts::LOG2_E);
        // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
        let magic = S::splat(12_582_912.0);
        let n = S::sub(S::fma(bounded, factor, magic), magic);
        let f = S::fma(bounded, factor, S::sub(S::splat(0.0), n));
        // Cephes' polynomial for 2^f - 1 over f.
        let mut p = S::splat(1.535_336_2e-4);
        for c in [1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0] {
            p = S::fma(p, f, S::splat(c));
        }
        let y = S::div(low, S::add(S::scale(p, n), S::splat(1.0)));
        // Minus infinity was bounded above; its zeroth part is not a number, that of all else changes no bit.
        S::fma(x, S::splat(0.0), y)
    }
}

/// Reads `n <= LANES` stored values; lanes behind are zero.
///
/// # Safety
/// As for `Simd`; `p` holds `n` values of `dtype`.
#[inline(always)]
pub(super) unsafe fn load_as<S: Simd>(dtype: DType, p: *const u8, n: usize) -> S::V {
    // SAFETY: passed on to the caller; a short read goes through a full buffer.
    unsafe {
        if n == S::LANES {
            return match dtype {
                DType::F32 => S::load(p.cast()),
                DType::Bf16 => S::load_bf16(p.cast()),
                DType::F16 => S::load_f16(p.cast()),
            };
        }
        let mut lanes = [0.0f32; 16];
        dtype::decode(dtype, std::slice::from_raw_parts(p, n * dtype.bytes()), &mut lanes[..n]);
        S::load(lanes.as_ptr())
    }
}

/// Writes the first `n <= LANES` values, rounded to `dtype`.
///
/// # Safety
/// As for `load_as`, and `p` may be written.
#[inline(always)]
pub(super) unsafe fn store_as<S: Simd>(dtype: DType, p: *mut u8, v: S::V, n: usize) {
    // SAFETY: passed on to the caller; a short write goes through a full buffer.
    unsafe {
        if n == S::LANES {
            return match dtype {
                DType::F32 => S::store(p.cast(), v),
                DType::Bf16 => S::store_bf16(p.cast(), v),
                DType::F16 => S::store_f16(p.cast(), v),
            };
        }
        let mut lanes = [0.0f32; 16];
        S::store(lanes.as_mut_ptr(), v);
        dtype::encode(dtype, &lanes[..n], std::slice::from_raw_parts_mut(p, n * dtype.bytes()));
    }
}

/// `v` as it comes back after being stored.
///
/// # Safety
/// As for `Simd`.
#[inline(always)]
pub(super) unsafe fn round_as<S: Simd>(dtype: DType, v: S::V) -> S::V {
    let mut bits = [0u16; 16];
    // SAFETY: the buffer holds a full vector of 16-bit values.
    unsafe {
        match dtype {
            DType::F32 => v,
            DType::Bf16 => {
                S::store_bf16(bits.as_mut_ptr(), v);
                S::load_bf16(bits.as_ptr())
            }
            DType::F16 => {
                S::store_f16(bits.as_mut_ptr(), v);
                S::load_f16(bits.as_ptr())
            }
        }
    }
}

/// Plain Rust that the compiler vectorises as well as the target's baseline allows.
#[derive(Clone, Copy)]
pub(super) struct Portable;

const P: usize = Isa::Portable.lanes();

#[inline(always)]
fn map(a: [f32; P], f: impl Fn(f32) -> f32) -> [f32; P] {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip(a: [f32; P], b: [f32; P], f: impl Fn(f32, f32) -> f32) -> [f32; P] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    const LANES: usize = P;
    const ROWS: usize = Isa::Portable.rows();
    type V = [f32; P];
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; P]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the caller promises 8 readable values.
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the caller promises 8 writable values.
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Two roundings: without the instruction a fused one would be a library call per value.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn scale(p: Self::V, n: Self::V) -> Self::V {
        zip(p, n, |p, n| p * f32::from_bits(((n as i32 + 127) << 23) as u32))
    }
    #[inline(always)]
    unsafe fn nearest(v: Self::V) -> Self::V {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
        map(v, |v| (v + 12_582_912.0) - 12_582_912.0)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises 8 readable values.
        let bits = unsafe { p.cast::<[u16; P]>().read_unaligned() };
        std::array::from_fn(|i| dtype::bf16_to_f32(bits[i]))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: Self::V) {
        let bits: [u16; P] = std::array::from_fn(|i| dtype::f32_to_bf16(v[i]));
        // SAFETY: the caller promises 8 writable values.
        unsafe { p.cast::<[u16; P]>().write_unaligned(bits) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: the caller promises 8 readable values.
        let bits = unsafe { p.cast::<[u16; P]>().read_unaligned() };
        std::array::from_fn(|i| half::f16::from_bits(bits[i]).to_f32())
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        let bits: [u16; P] = std::array::from_fn(|i| half::f16::from_f32(v[i]).to_bits());
        // SAFETY: the caller promises 8 writable values.
        unsafe { p.cast::<[u16; P]>().write_unaligned(bits) }
    }
    type Sums = ([f64; P], [f64; P]);
    #[inline(always)]
    unsafe fn no_sums() -> Self::Sums {
        ([0.0; P], [0.0; P])
    }
    #[inline(always)]
    unsafe fn gather((s, q): Self::Sums, v: Self::V) -> Self::Sums {
        let wide: [f64; P] = std::array::from_fn(|i| f64::from(v[i]));
        (std::array::from_fn(|i| s[i] + wide[i]), std::array::from_fn(|i| q[i] + wide[i] * wide[i]))
    }
    #[inline(always)]
    unsafe fn store_sums((s, q): Self::Sums, sum: *mut f64, squares: *mut f64) {
        // SAFETY: the caller promises 8 writable values each.
        unsafe {
            sum.cast::<[f64; P]>().write_unaligned(s);
            squares.cast::<[f64; P]>().write_unaligned(q);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp(Vec<f32>);

    impl Kernel for Exp {
        type Output = Vec<f32>;
        #[inline(always)]
        unsafe fn call<S: Simd>(mut self) -> Vec<f32> {
            for chunk in self.0.chunks_exact_mut(S::LANES) {
                // SAFETY: full chunks.
                unsafe { S::store(chunk.as_mut_ptr(), exp::<S>(S::load(chunk.as_ptr()))) };
            }
            self.0
        }
    }

    struct Convert(DType, Vec<f32>);

    impl Kernel for Convert {
        type Output = Vec<f32>;
        #[inline(always)]
        unsafe fn call<S: Simd>(mut self) -> Vec<f32> {
            for chunk in self.1.chunks_mut(S::LANES) {
                let mut bytes = [0u8; 64];
                // SAFETY: the buffer holds 16 values of any format; lanes behind a short chunk are not read.
                unsafe {
                    let v = load_as::<S>(DType::F32, chunk.as_ptr().cast(), chunk.len());
                    store_as::<S>(self.0, bytes.as_mut_ptr(), v, chunk.len());
                    let back = load_as::<S>(self.0, bytes.as_ptr(), chunk.len());
                    store_as::<S>(DType::F32, chunk.as_mut_ptr().cast(), back, chunk.len());
                }
            }
            self.1
        }
    }

    fn isas() -> Vec<Isa> {
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        let best = all.iter().position(|i| *i == Isa::detect()).unwrap();
        all[..=best].to_vec()
    }

    #[test]
    fn exp_is_within_three_units_in_the_last_place_on_every_instruction_set() {
        for isa in isas() {
            let x: Vec<f32> = (0..174_000).map(|i| -86.9 + i as f32 * 1e-3).collect();
            for (x, y) in x.clone().iter().zip(run(isa, Exp(x))) {
                let exact = f64::from(*x).exp();
                let error = (f64::from(y) - exact).abs() / exact;
                assert!(error < 3.0 * f64::from(f32::EPSILON), "{isa:?}: exp({x}) is off by {error:e}");
            }
            assert_eq!(run(isa, Exp(vec![0.0; 16]))[0], 1.0);
        }
    }

    struct Silu(Vec<f32>);

    impl Kernel for Silu {
        type Output = Vec<f32>;
        #[inline(always)]
        unsafe fn call<S: Simd>(mut self) -> Vec<f32> {
            for chunk in self.0.chunks_exact_mut(S::LANES) {
                // SAFETY: full chunks.
                unsafe { S::store(chunk.as_mut_ptr(), silu::<S>(S::load(chunk.as_ptr()))) };
            }
            self.0
        }
    }

    #[test]
    fn silu_is_exact_to_a_few_units_and_flat_far_below_zero_on_every_instruction_set() {
        let mut x: Vec<f32> = (0..40_000).map(|i| -20.0 + i as f32 * 1e-3).collect();
        x.extend([
            -1e30, -200.0, -90.0, -87.5, 90.0, 200.0, 1e30, 3e38, 0.0, -0.0, 1e-30, -1e-30, 87.0, -87.0,
            88.0, -88.0,
        ]);
        for isa in isas() {
            for (x, y) in x.iter().zip(run(isa, Silu(x.clone()))) {
                let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp());
                let error = (f64::from(y) - exact).abs();
                // Without fused multiply-add the exponent of e^-x is rounded once more.
                let allowed = 3e-7 * exact.abs() * (1.0 + f64::from(-*x).clamp(0.0, 20.0));
                assert!(error <= allowed.max(1e-33), "{isa:?}: silu({x}) is {y:e}, off by {error:e}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so_in_exp_and_silu_on_every_instruction_set() {
        for isa in isas() {
            let mut x = vec![1.0f32; 32];
            (x[3], x[17], x[20]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
            let bad = |values: &[f32]| -> Vec<usize> {
                (0..values.len()).filter(|i| !values[*i].is_finite()).collect()
            };
            assert_eq!(bad(&run(isa, Silu(x.clone()))), [3, 17, 20], "{isa:?}");
            assert!(run(isa, Exp(x))[3].is_nan(), "{isa:?}");
            let zeros = run(isa, Silu(vec![-0.0; 16]));
            assert!(zeros.iter().all(|z| z.to_bits() == (-0.0f32).to_bits()), "{isa:?}");
        }
    }

    #[test]
    fn vectors_round_to_16_bits_like_single_values() {
        let mut values: Vec<f32> = (0..70_000).map(|i| f32::from_bits(i * 61_283)).collect();
        values.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 65504.0, 65520.0, 1e-8]);
        for isa in isas() {
            for dtype in [DType::F32, DType::Bf16, DType::F16] {
                for (v, got) in values.iter().zip(run(isa, Convert(dtype, values.clone()))) {
                    let expected = dtype.round(*v);
                    let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
                    assert!(same, "{isa:?} {dtype}: {v:e} became {got:e}, expected {expected:e}");
                }
            }
        }
    }
}
