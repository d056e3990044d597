//! Vectors in plain Rust.
#![expect(unsafe_code, reason = "vectors are read and written at raw addresses")]

use super::{Isa, Simd};
use crate::dtype;

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
