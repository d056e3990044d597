//! Vectors of f32, one implementation per instruction set. A kernel is written once over `Simd` and
//! compiled for each set; `run` picks the one the machine has.
#![expect(unsafe_code, reason = "vector instructions are only sound where the CPU has them")]

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use self::portable::Portable;
use crate::dtype::{self, DType};

/// Instruction sets a kernel can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    /// Plain Rust: any CPU.
    Portable,
    /// 8 lanes with fused multiply-add.
    Avx2,
    /// 16 lanes.
    Avx512,
    /// 4 lanes with fused multiply-add.
    Neon,
}

impl Isa {
    /// The widest set this machine has.
    pub(super) fn detect() -> Self {
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
        // Part of every 64-bit ARM that the standard library supports, so that the answer is known when this is
        // compiled: on such a CPU portable kernels only run where they are asked for.
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return Isa::Neon;
        }
        Isa::Portable
    }

    /// Lanes of a vector.
    pub(super) const fn lanes(self) -> usize {
        match self {
            Isa::Avx512 => 16,
            Isa::Avx2 | Isa::Portable => 8,
            Isa::Neon => 4,
        }
    }

    /// Rows of the register block of a matrix product.
    pub(super) const fn rows(self) -> usize {
        match self {
            Isa::Avx512 => 12,
            Isa::Avx2 | Isa::Neon => 6,
            Isa::Portable => 4,
        }
    }

    /// Vectors of a row of that block. With 6 rows of four NEON has 24 of its 32 registers in sums, six hold pixels and
    /// two are left for weights.
    pub(super) const fn vectors(self) -> usize {
        match self {
            Isa::Neon => 4,
            Isa::Avx512 | Isa::Avx2 => 2,
            Isa::Portable => 1,
        }
    }

    /// Columns of that block: the widest panel.
    pub(super) const fn panel(self) -> usize {
        self.vectors() * self.lanes()
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
    /// Whether products read pixels four at a time and multiply by a lane. Else a pixel is repeated as it is loaded.
    const BY_LANE: bool = false;
    type V: Copy;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a[lane] * b + c`
    #[inline(always)]
    unsafe fn fma_lane(a: Self::V, lane: usize, b: Self::V, c: Self::V) -> Self::V {
        let mut lanes = [0.0; 16];
        // SAFETY: passed on to the caller; the buffer holds a full vector.
        unsafe {
            Self::store(lanes.as_mut_ptr(), a);
            Self::fma(Self::splat(lanes[lane]), b, c)
        }
    }
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

/// Runs a kernel with the instructions of `isa`, which comes from a `CpuPath` and is one that this machine has.
#[inline]
pub(super) fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa {
        // SAFETY: `isa` was detected on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { x86::run_avx512(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::run_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => unsafe { neon::run(kernel) },
        // SAFETY: plain Rust needs no special instructions.
        Isa::Portable => unsafe { kernel.call::<Portable>() },
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx512 | Isa::Avx2 => unreachable!("only `CpuPath` makes them, on machines that have them"),
        #[cfg(not(target_arch = "aarch64"))]
        Isa::Neon => unreachable!("only `CpuPath` makes it, on machines that have it"),
    }
}

/// Asks for memory that is needed soon; any address will do.
#[inline(always)]
pub(super) fn prefetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: part of every x86-64, and a line that is not there is left alone.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    for line in (0..bytes).step_by(64) {
        // SAFETY: part of every 64-bit ARM, and a line that is not there is left alone.
        unsafe {
            std::arch::asm!(
                "prfm pldl2keep, [{0}]",
                in(reg) start.wrapping_add(line),
                options(nostack, readonly, preserves_flags)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (start, bytes);
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
