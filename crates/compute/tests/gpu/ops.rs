//! The GPU backend against the naive loops. Runs on the first device of this machine, a software one
//! included; where there is none, each test says that it was not run.
#![expect(clippy::print_stdout, reason = "tests")]

use std::sync::Arc;

use remaster_compute::gpu::{
    AttentionLayer, Gpu, GpuDevice, GpuLimits, ProductLayer, Timing, Tuned, all_variants, layer_name, tune,
    tune_attention, with_variant,
};
use remaster_compute::meter::Meter;
use remaster_compute::staged::{Placement, Staged};
use remaster_compute::{
    AttentionDesc, Backend, Band, CancelToken, ConvDesc, DType, LinearDesc, NormalizeDesc, NullStore, Ops,
    Padding, RowSums, RowSumsDesc, Shape, Weight, WeightSpec,
};
use remaster_testkit::op_cases::{Case, Op, bits, distance, rows_one_by_one, whole};
use remaster_testkit::{Noise, Rng, check_unbiased, nightly, no_units, not_run};

use crate::{device, open, reference, variant};

fn agree(gpu: &mut Gpu, all: impl Iterator<Item = Case>, dtypes: &[DType]) -> [usize; 2] {
    let mut reference = reference();
    let mut counts = [0; 2];
    for case in all.filter(|c| dtypes.contains(&c.dtype)) {
        counts[0] += 1;
        counts[1] += usize::from(matches!(case.op, Op::Conv(_)));
        let theirs = whole(reference.as_mut(), &case);
        for (a, b) in whole(gpu, &case).iter().zip(&theirs) {
            let d = distance(a, b);
            assert!(d <= 1.0, "{case:?}\n{} is {d} tolerances away", a.name);
        }
    }
    counts
}

#[test]
fn f32_agrees_with_the_naive_loops_in_random_cases() {
    let Some(device) = device("f32_agrees_with_the_naive_loops_in_random_cases") else { return };
    let (seeds, least) = nightly((0..160, 60), (0..700, 300));
    let [cases, convs] = agree(&mut open(device), seeds.map(Case::random), &[DType::F32]);
    println!("{cases} cases, {convs} of them convolutions");
    assert!(cases >= least && convs >= least / 3, "only {cases} cases, {convs} convolutions");
}

#[test]
fn sixteen_bits_agree_with_the_naive_loops_in_random_cases() {
    let name = "sixteen_bits_agree_with_the_naive_loops_in_random_cases";
    let Some(device) = device(name) else { return };
    for dtype in [DType::F16, DType::Bf16] {
        let (seeds, least) = nightly((0..260, 50), (0..1300, 300));
        let [cases, convs] = agree(&mut open(device), seeds.map(Case::random), &[dtype]);
        println!("{dtype}: {cases} cases, {convs} of them convolutions");
        assert!(cases >= least && convs >= least / 3, "only {cases} cases, {convs} convolutions");
    }
}

/// The kernels of a family, in every layer that has them: the first over the whole suite, the others over a
/// part of it, and rows one by one.
fn family_agrees(name: &str, family: &str, dtype: DType) {
    let Some(device) = device(name) else { return };
    let all = all_variants(&device).unwrap();
    let variants: Vec<_> = all.iter().filter(|v| v.family() == family).collect();
    if variants.is_empty() {
        no_units(name);
    }
    for (i, variant) in variants.into_iter().enumerate() {
        let mut gpu = open(with_variant(device, variant));
        let (seeds, least) = match i {
            0 => nightly((0..260, [50, 16]), (0..1300, [300, 100])),
            _ => (0..60, [8, 2]),
        };
        // Layers that the family cannot run are those of the tests above.
        let case =
            |seed| if family == "matrix" { Case::random(seed).for_units() } else { Case::random(seed) };
        let [cases, convs] = agree(&mut gpu, seeds.map(case), &[dtype]);
        println!("{variant}: {cases} cases, {convs} of them convolutions");
        assert!(cases >= least[0] && convs >= least[1], "only {cases} cases, {convs} convolutions");
        // Software Vulkan takes seconds to compile a large kernel: the others, which differ in sizes only, get fewer cases.
        let few = if i == 0 { 50 } else { 10 };
        (10_000..10_000 + few)
            .map(case)
            .filter(|c| c.dtype == dtype)
            .for_each(|c| rows_one_by_one(&mut gpu, &c));
        if i > 0 {
            continue;
        }
        // Kernels that check no index give the bits of those that do.
        let limits = GpuLimits { checked: true, ..GpuLimits::default() };
        let mut checked = open(GpuDevice { limits, ..with_variant(device, variant) });
        for case in (20_000..20_030).map(case).filter(|c| c.dtype == dtype) {
            assert_eq!(bits(&whole(&mut gpu, &case)), bits(&whole(&mut checked, &case)), "{case:?}");
        }
    }
}

/// Matrix units are given the values that the other kernels are given and only add in another order, so they
/// are held to the same tolerance.
#[test]
#[ignore = "nightly: minutes on a software device; the gate has a few cases"]
fn matrix_units_agree_with_the_naive_loops_in_random_cases() {
    let name = "matrix_units_agree_with_the_naive_loops_in_random_cases";
    family_agrees(name, "matrix", DType::F16);
}

/// A part of the test above for every change: one kernel of matrix units.
#[test]
fn a_kernel_on_matrix_units_agrees_with_the_naive_loops_in_a_few_cases() {
    let name = "a_kernel_on_matrix_units_agrees_with_the_naive_loops_in_a_few_cases";
    let Some(device) = device(name) else { return };
    let Some(variant) = variant(&device, "matrix") else { return no_units(name) };
    let all = (0..60).map(|seed| Case::random(seed).for_units());
    let [cases, convs] = agree(&mut open(with_variant(device, &variant)), all, &[DType::F16]);
    println!("{variant}: {cases} cases, {convs} of them convolutions");
    assert!(cases >= 8 && convs >= 2, "only {cases} cases, {convs} convolutions");
}

/// Heads of the real VAE, and some that are no whole number of blocks: the tests above have small ones.
#[test]
fn attention_on_matrix_units_agrees_with_the_naive_loops() {
    let name = "attention_on_matrix_units_agrees_with_the_naive_loops";
    let Some(device) = device(name) else { return };
    let Some(variant) = variant(&device, "matrix") else { return no_units(name) };
    let mut gpu = open(with_variant(device, &variant));
    let shapes = [(1, 16, 17, 512, 1), (2, 5, 9, 136, 1), (1, 7, 11, 320, 4), (1, 1, 1, 24, 3)];
    let cases = shapes.into_iter().enumerate().map(|(i, (t, h, w, c, heads))| Case {
        seed: 80_000 + i as u64,
        dtype: DType::F16,
        op: Op::Attention { shape: Shape::new(t, h, w, c), heads },
        poison: None,
    });
    let all: Vec<Case> = cases.collect();
    assert_eq!(agree(&mut gpu, all.iter().cloned(), &[DType::F16]), [all.len(), 0]);
    all.iter().for_each(|case| rows_one_by_one(&mut gpu, case));
}

#[test]
fn winograd_agrees_with_the_naive_loops_in_random_cases() {
    family_agrees("winograd_agrees_with_the_naive_loops_in_random_cases", "winograd", DType::F32);
}

#[test]
fn rows_made_one_by_one_are_the_same_bits() {
    let Some(device) = device("rows_made_one_by_one_are_the_same_bits") else { return };
    let mut gpu = open(device);
    (10_000..10_080).for_each(|seed| rows_one_by_one(&mut gpu, &Case::random(seed)));
}

/// Buffers of 256 KiB and 31 groups along an axis: operands lie across buffers, dispatches are folded.
#[test]
fn limits_forced_very_low_change_no_bit() {
    let Some(device) = device("limits_forced_very_low_change_no_bit") else { return };
    let limits = GpuLimits { binding: Some(256 << 10), groups: Some(31), checked: true, timed: true };
    let mut low = Gpu::new(GpuDevice { limits, ..device }, 1 << 20, CancelToken::default()).unwrap();
    let mut high = open(device);
    let mut rng = Rng::new(3);
    for seed in 30_000..30_008 {
        let case = Case::random(seed);
        // What the case uses starts shortly before the end of a buffer.
        let before = low.alloc(Shape::new(1, 1, 1, (64 << 10) - rng.below(4096)), DType::F32).unwrap();
        let theirs = whole(&mut high, &case);
        match case.run(&mut low, 0..case.height()) {
            Ok(ours) => assert_eq!(bits(&ours), bits(&theirs), "{case:?}"),
            Err(remaster_compute::ComputeError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{case:?}: {error}"),
        }
        drop(before);
    }
}

/// The last rows of every frame of a tall tensor, convolved, summed, normalised and copied: the same bits as on
/// a small tensor that holds those rows alone.
fn far_rows(gpu: &mut Gpu, small: &mut Gpu, tall: Shape, dtype: DType) {
    let Shape { t, h, w, c } = tall;
    let (rows, seen) = (h - 3..h, h - 4..h);
    let last = |n: usize| Band { first: h - n, height: h };
    let spec = WeightSpec::conv([c, 8], [1, 3, 3], dtype);
    let values = Rng::new(5).values(t * 4 * w * c);
    let run = |ops: &mut Gpu, shape: Shape, band: Band| {
        let weight = Weight::new("w", spec, Arc::new(Noise { seed: 1, scale: 0.1, centre: 0.0 }));
        let around = Noise { seed: 2, scale: 0.1, centre: 1.0 };
        let norm = Weight::new("n", WeightSpec::Norm { channels: c }, Arc::new(around));
        ops.load(&weight).unwrap();
        ops.load(&norm).unwrap();
        let x = ops.alloc_band(shape, dtype, band).unwrap();
        let y = ops.alloc_band(Shape::new(t, 3, w, 8), dtype, last(3)).unwrap();
        let sums = ops.alloc_band(Shape::new(t, 3, 1, 4), DType::F32, last(3)).unwrap();
        let own_sums = ops.alloc_band(Shape::new(t, 4, 1, 4), DType::F32, last(4)).unwrap();
        let normal = ops.alloc_band(Shape::new(t, 4, w, c), dtype, last(4)).unwrap();
        let wide = ops.alloc_band(Shape::new(t, 4, w, c), DType::F32, last(4)).unwrap();
        let stats = ops.alloc(Shape::new(t, 1, 1, 4), DType::F32).unwrap();
        let input = x.view().rows(seen.clone());
        ops.upload(&values, input.clone()).unwrap();
        ops.upload(&[0.1, 0.9, -0.2, 1.1].repeat(t), stats.view()).unwrap();
        let alone = ConvDesc::new(input.clone(), &weight, Padding::all(1), y.view().rows(rows.clone()));
        ops.conv(&ConvDesc { sums: Some(RowSums { groups: 2, output: sums.view() }), ..alone }).unwrap();
        ops.row_sums(&RowSumsDesc { input: input.clone(), groups: 2, output: own_sums.view() }).unwrap();
        ops.normalize(&NormalizeDesc {
            input: input.clone(),
            stats: stats.view(),
            affine: &norm,
            silu: true,
            output: normal.view(),
        })
        .unwrap();
        ops.copy(input, wide.view()).unwrap();
        let mut out = Vec::new();
        for tensor in [&y, &sums, &own_sums, &normal, &wide] {
            out.extend(ops.values(tensor.view()).unwrap().iter().map(|v| v.to_bits()));
        }
        ops.evict(&weight);
        ops.evict(&norm);
        out
    };
    let far = run(gpu, tall, Band { first: 0, height: h });
    let near = run(small, Shape { h: 4, ..tall }, last(4));
    assert!(far == near, "{tall} {dtype}");
    assert!(far.iter().any(|b| *b != 0));
}

#[test]
fn a_tensor_larger_than_a_binding_of_128_mib_is_reached_to_its_end() {
    let Some(device) = device("a_tensor_larger_than_a_binding_of_128_mib_is_reached_to_its_end") else {
        return;
    };
    let limits = GpuLimits { binding: Some(128 << 20), groups: Some(65_535), ..GpuLimits::default() };
    let mut gpu = Gpu::new(GpuDevice { limits, ..device }, 300 << 20, CancelToken::default()).unwrap();
    far_rows(&mut gpu, &mut open(device), Shape::new(1, 8200, 64, 128), DType::F32);
    far_rows(&mut gpu, &mut open(device), Shape::new(1, 8200, 64, 130), DType::F16);
    // More than 65,535 groups of 64 quads.
    let shape = Shape::new(1, 2, 65_535 * 64, 4);
    let (x, y) = (gpu.alloc(shape, DType::F32).unwrap(), gpu.alloc(shape, DType::F32).unwrap());
    let values: Vec<f32> = (0..shape.w * shape.c).map(|i| i as f32).collect();
    gpu.upload(&values, x.view().rows(1..2)).unwrap();
    gpu.copy(x.view(), y.view()).unwrap();
    assert!(gpu.values(y.view().rows(1..2)).unwrap() == values);
}

/// Attention over the last frame of a long tensor: the same bits as on a tensor of that frame alone.
fn far_frame(gpu: &mut Gpu, small: &mut Gpu, long: Shape, dtype: DType) {
    let values = Rng::new(6).values(long.h * long.w * long.c);
    let run = |ops: &mut Gpu, frames: usize| {
        let x = ops.alloc(Shape { t: frames, ..long }, dtype).unwrap();
        let y = ops.alloc(Shape { t: 1, ..long }, dtype).unwrap();
        let last = x.view().frames(frames - 1..frames);
        ops.upload(&values, last.clone()).unwrap();
        let (q, k, v) = (last.clone(), last.clone(), last);
        ops.attention(&AttentionDesc { q, k, v, heads: 2, scale: 0.2, output: y.view() }).unwrap();
        ops.values(y.view()).unwrap()
    };
    let (far, near) = (run(gpu, long.t), run(small, 1));
    assert!(far == near, "{long} {dtype}");
    assert!(far.iter().any(|v| *v != 0.0));
}

/// The last rows of three frames: from the first to the last value there are 2.15e9, in a tensor of 3.2e9, and
/// kernels count them all. Then the last of half a million small frames.
#[test]
fn a_tensor_of_more_than_2_31_values_is_reached_to_its_end() {
    let name = "a_tensor_of_more_than_2_31_values_is_reached_to_its_end";
    let Some(device) = device(name) else { return };
    // Kernels are given two of the three frames and a few rows: 4.31e9 bytes. Mesa 26.2 binds 5.23e9.
    if device.info().unwrap().max_operand() < 4_400_000_000 {
        return not_run(name, "the device binds too little");
    }
    let mut gpu = Gpu::new(device, 6500 << 20, CancelToken::default()).unwrap();
    far_rows(&mut gpu, &mut open(device), Shape::new(3, 2050, 4096, 128), DType::F16);
    far_frame(&mut gpu, &mut open(device), Shape::new(540_000, 8, 8, 64), DType::F16);
}

/// A kernel of each kind of layer, both tall and flat ones, in a format. Convolutions with steps of 1 are normalised.
fn layers(dtype: DType) -> Vec<ProductLayer> {
    let conv =
        |kernel, stride, cout| WeightSpec::Conv { cin: 32, cout, kernel, stride, dtype, slopes: false };
    let all = [
        conv([3; 3], [1; 3], 48),
        conv([3; 3], [1; 3], 3),
        conv([3; 3], [2; 3], 48),
        conv([1; 3], [1; 3], 48),
        WeightSpec::Upsample { cin: 32, cout: 32, time: true, dtype },
        WeightSpec::Upsample { cin: 32, cout: 32, time: false, dtype },
        WeightSpec::Linear { cin: 32, cout: 48, dtype },
    ];
    let normalised = |spec| matches!(spec, WeightSpec::Conv { stride: [1, 1, 1], .. });
    all.map(|spec| ProductLayer { spec, prologue: normalised(spec) }).into()
}

#[test]
fn every_variant_gives_the_numbers_of_the_twin_and_those_of_a_family_the_same_ones() {
    let name = "every_variant_gives_the_numbers_of_the_twin_and_those_of_a_family_the_same_ones";
    let Some(device) = device(name) else { return };
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let mut tuned = Vec::new();
        // Each layer in one format at least: software Vulkan compiles every kernel for seconds.
        let layers = match dtype {
            DType::F32 => layers(dtype),
            DType::F16 => layers(dtype).into_iter().step_by(2).collect(),
            DType::Bf16 => layers(dtype).into_iter().take(1).collect(),
        };
        let normalised: Vec<String> =
            layers.iter().filter(|l| l.prologue).map(|l| layer_name(&l.spec)).collect();
        let best =
            tune(device, &layers, None, Some(Timing { side: 9, runs: 1 }), &mut |t| tuned.push(t.clone()))
                .unwrap();
        assert_eq!(best.choices.table().len(), layers.len());
        for t in &tuned {
            assert!(t.fault.is_none() && t.seconds.is_finite(), "{t:?}");
            let alike = |f: &&Tuned| f.layer == t.layer && f.family == t.family;
            let first = tuned.iter().find(alike).unwrap();
            assert_eq!(t.max_abs.to_bits(), first.max_abs.to_bits(), "{t:?}");
        }
        let passes = tuned.iter().filter(|t| t.kernel.ends_with(" after a pass")).count();
        assert_eq!(2 * passes, tuned.iter().filter(|t| normalised.contains(&t.layer)).count());
        println!("{dtype}: {} kernels in {} layers", tuned.len(), layers.len());
        let heads =
            [(false, 64), (true, 32)].map(|(windowed, width)| AttentionLayer { windowed, width, dtype });
        let mut ways = Vec::new();
        let best = tune_attention(best, &heads, None, Some(1), &mut |t| ways.push(t.clone())).unwrap();
        assert_eq!(best.choices.table().len(), layers.len() + heads.len());
        assert!(ways.iter().all(|t| t.fault.is_none() && t.seconds.is_finite()), "{ways:?}");
        let units = device.info().unwrap().units.is_some() && dtype == DType::F16;
        assert_eq!(ways.len(), if units { 4 } else { 2 });
    }
    // Within one family the class of results stays what it is without a choice.
    let numerics = |device| Backend::Gpu(device).numerics();
    let direct = tune(
        device,
        &layers(DType::F32)[..1],
        Some("direct"),
        Some(Timing { side: 9, runs: 1 }),
        &mut |_| (),
    )
    .unwrap();
    assert_eq!(numerics(direct), numerics(device));
    let winograd = variant(&device, "winograd").unwrap();
    assert_ne!(numerics(with_variant(device, &winograd)), numerics(device));
}

#[test]
fn layers_without_bias_are_layers_whose_bias_is_zero() {
    let Some(device) = device("layers_without_bias_are_layers_whose_bias_is_zero") else { return };
    let mut twin = Backend::Reference.open(256 << 20, CancelToken::default()).unwrap();
    check_unbiased(&mut open(device), twin.as_mut(), 0..12);
}

/// Weights that are read ahead are laid out by another thread and sent in the order of the stream.
#[test]
fn streamed_weights_give_the_same_bits_in_the_memory_that_the_meter_said() {
    let name = "streamed_weights_give_the_same_bits_in_the_memory_that_the_meter_said";
    let Some(device) = device(name) else { return };
    let shape = Shape::new(1, 5, 6, 8);
    let layer = |i: u64, spec| {
        Weight::new(format!("layer.{i}"), spec, Arc::new(Noise { seed: i, scale: 0.2, centre: 0.0 }))
    };
    let conv = WeightSpec::conv([8, 8], [1, 3, 3], DType::F32);
    let linear = WeightSpec::Linear { cin: 8, cout: 8, dtype: DType::F32 };
    let weights: Vec<Weight> = (0..7).map(|i| layer(i, if i % 2 == 0 { conv } else { linear })).collect();
    let run = |ops: &mut dyn Ops| {
        weights.iter().for_each(|w| ops.load(w).unwrap());
        let mut x = ops.alloc(shape, DType::F32).unwrap();
        ops.upload(&Rng::new(5).values(shape.len()), x.view()).unwrap();
        for weight in weights.iter().cycle().take(21) {
            let y = ops.alloc(shape, DType::F32).unwrap();
            let (input, output) = (x.view(), y.view());
            match weight.spec() {
                WeightSpec::Linear { .. } => {
                    ops.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output }).unwrap();
                }
                _ => ops.conv(&ConvDesc::new(input, weight, Padding::all(1), output)).unwrap(),
            }
            x = y;
        }
        ops.values(x.view()).unwrap()
    };
    let staged = |inner: Box<dyn Ops + Send>| {
        let [host, file] = ["host", "file"].map(|name| Box::new(NullStore::new(name, 0)));
        let placement = Placement { stream_weights: true, read_ahead: true, ..Placement::DEVICE };
        Staged::new(inner, host, file, placement)
    };
    let expected = run(&mut open(device));
    let mut meter = staged(Box::new(Meter::endless(Backend::Gpu(device).sizing())));
    run(&mut meter);
    let cap = meter.arena().peak();
    let mut gpu = staged(Box::new(Gpu::new(device, cap, CancelToken::default()).unwrap()));
    assert!(run(&mut gpu) == expected);
    assert_eq!(gpu.arena().peak(), cap);
}
