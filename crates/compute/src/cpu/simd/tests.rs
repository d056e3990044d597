#![expect(unsafe_code, reason = "kernels are called with vectors")]

use super::super::CpuPath;
use super::*;

/// One of two functions of every value.
struct Apply<const IS_EXP: bool>(Vec<f32>);

const EXP: bool = true;
const SILU: bool = false;

impl<const IS_EXP: bool> Kernel for Apply<IS_EXP> {
    type Output = Vec<f32>;
    #[inline(always)]
    unsafe fn call<S: Simd>(mut self) -> Vec<f32> {
        for chunk in self.0.chunks_exact_mut(S::LANES) {
            // SAFETY: full chunks.
            unsafe {
                let x = S::load(chunk.as_ptr());
                S::store(chunk.as_mut_ptr(), if IS_EXP { exp::<S>(x) } else { silu::<S>(x) });
            }
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
    let mut isas: Vec<Isa> = CpuPath::all().iter().map(|path| path.isa).collect();
    isas.dedup();
    isas
}

#[test]
fn exp_is_within_three_units_in_the_last_place_on_every_instruction_set() {
    for isa in isas() {
        let x: Vec<f32> = (0..174_000).map(|i| -86.9 + i as f32 * 1e-3).collect();
        for (x, y) in x.clone().iter().zip(run(isa, Apply::<EXP>(x))) {
            let exact = f64::from(*x).exp();
            let error = (f64::from(y) - exact).abs() / exact;
            assert!(error < 3.0 * f64::from(f32::EPSILON), "{isa:?}: exp({x}) is off by {error:e}");
        }
        assert_eq!(run(isa, Apply::<EXP>(vec![0.0; 16]))[0], 1.0);
    }
}

#[test]
fn silu_is_exact_to_a_few_units_and_flat_far_below_zero_on_every_instruction_set() {
    let mut x: Vec<f32> = (0..40_000).map(|i| -20.0 + i as f32 * 1e-3).collect();
    x.extend([
        -1e30, -200.0, -90.0, -87.5, 90.0, 200.0, 1e30, 3e38, 0.0, -0.0, 1e-30, -1e-30, 87.0, -87.0, 88.0,
        -88.0,
    ]);
    for isa in isas() {
        for (x, y) in x.iter().zip(run(isa, Apply::<SILU>(x.clone()))) {
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
        assert_eq!(bad(&run(isa, Apply::<SILU>(x.clone()))), [3, 17, 20], "{isa:?}");
        assert!(run(isa, Apply::<EXP>(x))[3].is_nan(), "{isa:?}");
        let zeros = run(isa, Apply::<SILU>(vec![-0.0; 16]));
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

/// The type a kernel is compiled for.
struct Which;

impl Kernel for Which {
    type Output = &'static str;
    #[inline(always)]
    unsafe fn call<S: Simd>(self) -> &'static str {
        std::any::type_name::<S>()
    }
}

/// Each lane of a product by a lane, and of one by its value repeated.
struct Lanes;

impl Kernel for Lanes {
    type Output = Vec<(usize, f32, f32)>;
    #[inline(always)]
    unsafe fn call<S: Simd>(self) -> Self::Output {
        let values = |from: f32| -> [f32; 16] { std::array::from_fn(|i| from + i as f32 / 3.0) };
        let (a, b, c) = (values(0.1), values(-2.3), values(1e-3));
        let mut made = Vec::new();
        for lane in 0..S::LANES {
            let (mut by_lane, mut repeated) = ([0.0; 16], [0.0; 16]);
            // SAFETY: all buffers hold a full vector.
            unsafe {
                let (b, c) = (S::load(b.as_ptr()), S::load(c.as_ptr()));
                S::store(by_lane.as_mut_ptr(), S::fma_lane(S::load(a.as_ptr()), lane, b, c));
                S::store(repeated.as_mut_ptr(), S::fma(S::splat(a[lane]), b, c));
            }
            made.extend(by_lane.into_iter().zip(repeated).map(|(x, y)| (lane, x, y)));
        }
        made
    }
}

#[test]
fn multiplying_by_a_lane_is_multiplying_by_its_value() {
    for isa in isas() {
        for (lane, by_lane, repeated) in run(isa, Lanes) {
            assert_eq!(by_lane.to_bits(), repeated.to_bits(), "{isa:?}, lane {lane}");
        }
    }
}

#[test]
fn a_kernel_runs_with_the_vectors_of_its_instruction_set() {
    for isa in isas() {
        let name = run(isa, Which);
        assert_eq!(name.rsplit("::").next(), Some(format!("{isa:?}").as_str()), "{name}");
    }
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon_is_found_and_used() {
    assert_eq!(CpuPath::detect().to_string(), "neon");
    assert!(run(CpuPath::detect().isa, Which).ends_with("::Neon"));
}
