//! Convolutions whose input is normalised by a pass of its own, against those that normalise it on the way in.

use std::sync::Arc;

use remaster_compute::gpu::{Gpu, GpuDevice, GpuLimits, Variant, all_variants, with_variant};
use remaster_compute::meter::Meter;
use remaster_compute::{
    Backend, CancelToken, ComputeError, ConvDesc, DType, Ops, Padding, Prologue, Shape, Weight, WeightSpec,
};
use remaster_testkit::op_cases::{Case, ConvCase, Op, bits, distance, rows_one_by_one, whole};
use remaster_testkit::{Noise, Rng, nightly};

use crate::{device, open, reference};

/// Convolutions with a normalisation in a format, with channels that the family takes.
fn cases(seeds: std::ops::Range<u64>, family: &str, dtype: DType) -> Vec<Case> {
    let case = |seed| {
        let mut case = Case::random(seed);
        if family == "matrix" {
            case = case.for_units();
        }
        case.dtype = dtype;
        match &mut case.op {
            Op::Conv(conv) => conv.prologue = conv.prologue.max(1),
            _ => return None,
        }
        Some(case)
    };
    seeds.filter_map(case).collect()
}

fn conv(case: &Case) -> &ConvCase {
    let Op::Conv(conv) = &case.op else { unreachable!("cases are convolutions") };
    conv
}

/// The first kernel of each family, and the formats that it computes.
fn families(device: &GpuDevice) -> Vec<(Variant, DType)> {
    let all = all_variants(device).unwrap();
    let first = |family: &str| all.iter().find(|v| v.family() == family).copied();
    [
        ("direct", DType::F32),
        ("direct", DType::F16),
        ("direct", DType::Bf16),
        ("winograd", DType::F32),
        ("matrix", DType::F16),
    ]
    .into_iter()
    .filter_map(|(family, dtype)| Some((first(family)?, dtype)))
    .collect()
}

/// Bits of output, tail and sums, and near to the naive loops; with rows a few at a time as well.
#[test]
fn a_pass_before_a_convolution_changes_no_bit() {
    let Some(device) = device("a_pass_before_a_convolution_changes_no_bit") else { return };
    for (variant, dtype) in families(&device) {
        let [mut plain, mut passed] =
            [variant, variant.after_a_pass()].map(|v| open(with_variant(device, &v)));
        let mut twin = reference();
        let all = cases(nightly(50_000..50_060, 50_000..50_300), variant.family(), dtype);
        for case in &all {
            let ours = whole(&mut passed, case);
            assert_eq!(bits(&ours), bits(&whole(&mut plain, case)), "{case:?}");
            for (a, b) in ours.iter().zip(&whole(twin.as_mut(), case)) {
                let d = distance(a, b);
                assert!(d <= 1.0, "{case:?}\n{} is {d} tolerances away", a.name);
            }
        }
        all.iter().step_by(5).for_each(|case| rows_one_by_one(&mut passed, case));
        let count = |is: fn(&ConvCase) -> bool| all.iter().filter(|case| is(conv(case))).count();
        let kinds = [
            count(|c| c.continued),
            count(|c| c.carry),
            count(|c| c.shortcut > 0),
            count(|c| c.accumulate),
            count(|c| c.sums > 0),
        ];
        println!(
            "{variant} {dtype}: {} cases; {kinds:?} with tails before, behind, shortcut, residual, sums",
            all.len()
        );
        assert!(kinds.iter().all(|n| *n >= 3), "{kinds:?}");
    }
}

/// Operands and scratch lie across buffers of 256 KiB, and the plan's memory is enough.
#[test]
fn a_pass_over_several_bindings_changes_no_bit() {
    let Some(device) = device("a_pass_over_several_bindings_changes_no_bit") else { return };
    let limits = GpuLimits { binding: Some(256 << 10), groups: Some(31), checked: true, timed: true };
    for (variant, dtype) in families(&device) {
        let with = with_variant(device, &variant.after_a_pass());
        let mut low = Gpu::new(GpuDevice { limits, ..with }, 1 << 20, CancelToken::default()).unwrap();
        let mut plain = open(with_variant(device, &variant));
        let (mut rng, mut ran) = (Rng::new(4), 0);
        for case in cases(51_000..51_016, variant.family(), dtype) {
            // What the case uses starts shortly before the end of a buffer.
            let before = low.alloc(Shape::new(1, 1, 1, (64 << 10) - rng.below(4096)), DType::F32).unwrap();
            match case.run(&mut low, 0..case.height()) {
                Ok(ours) => assert_eq!(bits(&ours), bits(&whole(&mut plain, &case)), "{case:?}"),
                Err(ComputeError::OutOfMemory { .. }) => continue,
                Err(error) => panic!("{case:?}: {error}"),
            }
            ran += 1;
            drop(before);
        }
        assert!(ran >= 3, "{variant}: only {ran} cases");
    }
}

/// A convolution behind a normalisation, in an arena of exactly the bytes that a meter counts.
fn planned(device: GpuDevice, input: Shape, cout: usize, dtype: DType) -> (Vec<f32>, u64) {
    let run = |ops: &mut dyn Ops| {
        let spec = WeightSpec::conv([input.c, cout], [1, 3, 3], dtype);
        let weight = Weight::new("w", spec, Arc::new(Noise { seed: 1, scale: 0.1, centre: 0.0 }));
        let around = Noise { seed: 2, scale: 0.1, centre: 1.0 };
        let affine = Weight::new("n", WeightSpec::Norm { channels: input.c }, Arc::new(around));
        ops.load(&weight).unwrap();
        ops.load(&affine).unwrap();
        let x = ops.alloc(input, dtype).unwrap();
        let y = ops.alloc(Shape { c: cout, ..input }, dtype).unwrap();
        let stats = ops.alloc(Shape::new(input.t, 1, 1, 4), DType::F32).unwrap();
        let values = Rng::new(5).values(input.w * input.c);
        for row in (0..input.h).step_by(7) {
            (0..input.t)
                .for_each(|t| ops.upload(&values, x.view().frames(t..t + 1).rows(row..row + 1)).unwrap());
        }
        ops.upload(&[0.1, 0.9, -0.2, 1.1].repeat(input.t), stats.view()).unwrap();
        let prologue = Some(Prologue { stats: stats.view(), affine: &affine, silu: true });
        let alone = ConvDesc::new(x.view(), &weight, Padding::all(1), y.view());
        ops.conv(&ConvDesc { prologue, ..alone }).unwrap();
        ops.values(y.view()).unwrap()
    };
    let mut meter = Meter::endless(Backend::Gpu(device).sizing());
    run(&mut meter);
    let cap = meter.arena().peak();
    let mut gpu = Gpu::new(device, cap, CancelToken::default()).unwrap();
    let values = run(&mut gpu);
    assert_eq!(gpu.arena().peak(), cap);
    (values, cap)
}

#[test]
fn the_plan_has_the_bytes_of_the_pass_and_no_more() {
    let Some(device) = device("the_plan_has_the_bytes_of_the_pass_and_no_more") else { return };
    for (variant, dtype) in families(&device) {
        let input = Shape::new(2, 11, 13, 24);
        let (plain, least) = planned(with_variant(device, &variant), input, 8, dtype);
        let (passed, most) = planned(with_variant(device, &variant.after_a_pass()), input, 8, dtype);
        assert!(plain == passed, "{variant} {dtype}");
        assert_eq!(most - least, input.bytes(dtype).next_multiple_of(256), "{variant} {dtype}");
    }
}

/// More than 256 MiB of input: the pass goes by stripes of rows, and its scratch stays below that.
#[test]
fn a_large_input_is_normalised_stripe_by_stripe() {
    let Some(device) = device("a_large_input_is_normalised_stripe_by_stripe") else { return };
    let Some((variant, dtype)) = families(&device).into_iter().next() else { return };
    let input = Shape::new(2, 551, 1024, 64);
    let (plain, least) = planned(with_variant(device, &variant), input, 4, dtype);
    let (passed, most) = planned(with_variant(device, &variant.after_a_pass()), input, 4, dtype);
    assert!(plain == passed);
    let bytes = most - least;
    println!("{} bytes of input, {bytes} of scratch", input.bytes(dtype));
    assert!(bytes <= 256 << 20 && bytes < input.bytes(dtype) && bytes > 100 << 20);
}
