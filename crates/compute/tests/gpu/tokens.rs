//! The ops on tokens on the GPU: against the naive loops, on odd sizes and at the widths of the real networks, cut in
//! every way.

use remaster_compute::gpu::{Gpu, GpuDevice, GpuLimits, with_variant};
use remaster_compute::staged::{Placement, Rule, Staged};
use remaster_compute::{
    CommonQueries, DType, HostStore, NullStore, Ops, Shape, TokenNormDesc, WindowAttentionDesc,
};
use remaster_testkit::token_cases::{TokenCase, run_tokens, same_token_holes, token_distance};
use remaster_testkit::{Rng, no_units};

use crate::{ARENA, device, open, reference, variant};

/// With bindings of 64 KiB and 31 groups along an axis: operands have several bindings, dispatches are folded.
fn open_low(device: GpuDevice) -> Gpu {
    let limits = GpuLimits { binding: Some(64 << 10), groups: Some(31), checked: true, timed: true };
    open(GpuDevice { limits, ..device })
}

/// The device with attention on its matrix units.
fn with_units(test: &str) -> Option<GpuDevice> {
    let device = device(test)?;
    let variant = variant(&device, "matrix");
    if variant.is_none() {
        no_units(test);
    }
    Some(with_variant(device, &variant?))
}

/// The device with everything in host memory, in `stripes` stripes.
fn staged(device: GpuDevice, stripes: usize) -> Staged {
    let far = Rule { device: 0, host: u64::MAX };
    let placement = Placement { activations: far, stripes, ..Placement::DEVICE };
    let host = Box::new(HostStore::new(ARENA).unwrap());
    Staged::new(Box::new(open(device)), host, Box::new(NullStore::new("file", 0)), placement)
}

/// How many cases have a bad value in their result, each where the naive loops have one.
fn spoiled(gpu: &mut Gpu, cases: impl Iterator<Item = TokenCase>) -> usize {
    let mut reference = reference();
    let is_spoiled = |case: &TokenCase| {
        let theirs = run_tokens(reference.as_mut(), case, false).unwrap();
        same_token_holes(case, &run_tokens(gpu, case, false).unwrap(), &theirs) > 0
    };
    cases.filter(is_spoiled).count()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn the_gpu_agrees_with_the_naive_loops() {
    let Some(device) = device("the_gpu_agrees_with_the_naive_loops") else { return };
    let mut reference = reference();
    let mut gpu = open(device);
    let mut worst = 0.0f32;
    for case in (0..240).map(TokenCase::random).chain(TokenCase::wide()) {
        let theirs = run_tokens(reference.as_mut(), &case, false).unwrap();
        let ours = run_tokens(&mut gpu, &case, false).unwrap();
        let d = token_distance(&case, &ours, &theirs);
        assert!(d <= 1.0, "{case:?} is {d} tolerances away");
        worst = worst.max(d);
    }
    println!("at most {worst} tolerances away");
}

#[test]
fn cutting_changes_no_bit() {
    let Some(device) = device("cutting_changes_no_bit") else { return };
    let mut gpu = open(device);
    let mut far = [1, 7].map(|stripes| staged(device, stripes));
    for case in (200..296).map(TokenCase::random).chain(TokenCase::wide().into_iter().step_by(5)) {
        let whole = bits(&run_tokens(&mut gpu, &case, false).unwrap());
        assert_eq!(bits(&run_tokens(&mut gpu, &case, true).unwrap()), whole, "cut: {case:?}");
        for ops in &mut far {
            assert_eq!(bits(&run_tokens(ops, &case, false).unwrap()), whole, "far: {case:?}");
        }
    }
}

#[test]
fn limits_forced_very_low_change_no_bit() {
    let Some(device) = device("limits_forced_very_low_change_no_bit") else { return };
    let mut low = open_low(device);
    let mut high = open(device);
    for case in (400..416).map(TokenCase::random) {
        let theirs = run_tokens(&mut high, &case, false).unwrap();
        let ours = run_tokens(&mut low, &case, false).unwrap();
        assert_eq!(bits(&ours), bits(&theirs), "{case:?}");
    }
}

#[test]
fn one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops() {
    let Some(device) = device("one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops") else {
        return;
    };
    let spoiled = spoiled(&mut open(device), (600..672).flat_map(TokenCase::poisoned));
    assert!(spoiled > 100, "only {spoiled} cases had a bad value in their result");
}

/// The squares of such values are beyond f32, and their root mean square is not.
#[test]
fn a_norm_of_huge_values_is_as_exact_as_of_others() {
    let Some(device) = device("a_norm_of_huge_values_is_as_exact_as_of_others") else { return };
    let (tokens, c) = (5, 2560);
    let shape = Shape::new(1, tokens, 1, c);
    let mut values = Rng::new(3).values(shape.len());
    for (row, factor) in [1.0, 1e18, 3e19, 1e25, 3e37].into_iter().enumerate() {
        values[row * c..(row + 1) * c].iter_mut().for_each(|v| *v *= factor);
    }
    values[3 * c] = 2e18;
    let run = |ops: &mut dyn Ops, heads: usize| {
        let (x, y) = (ops.alloc(shape, DType::F32).unwrap(), ops.alloc(shape, DType::F32).unwrap());
        ops.upload(&values, x.view()).unwrap();
        let (input, output) = (x.view(), y.view());
        let desc = TokenNormDesc { input, heads, eps: 1e-5, affine: None, rotation: None, output };
        ops.token_norm(&desc).unwrap();
        ops.values(y.view()).unwrap()
    };
    let mut reference = reference();
    for heads in [1, 20] {
        let theirs = run(reference.as_mut(), heads);
        for (i, (a, b)) in run(&mut open(device), heads).iter().zip(&theirs).enumerate() {
            assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{heads} heads: value {i} is {a}, not {b}");
        }
    }
}

/// The real networks have a text of 58 tokens, and windows of 400 to 1300.
#[test]
fn windows_of_real_sizes_agree_with_the_naive_loops() {
    let Some(device) = device("windows_of_real_sizes_agree_with_the_naive_loops") else { return };
    let run = |ops: &mut dyn Ops, dtype: DType, windows: &[usize]| {
        let mut rng = Rng::new(7);
        let own = Shape::new(1, windows.iter().sum(), 1, 128);
        let common = Shape { h: 58, ..own };
        let mut tensor = |shape: Shape, dtype: DType| {
            let tensor = ops.alloc(shape, dtype).unwrap();
            ops.upload(&rng.values(shape.len()), tensor.view()).unwrap();
            tensor
        };
        let [q, k, v, y] = [own; 4].map(|shape| tensor(shape, dtype));
        let [common_q, common_k, common_v] = [common; 3].map(|shape| tensor(shape, dtype));
        let sum = tensor(common, DType::F32);
        let share = 1.0 / windows.len() as f32;
        let asked = CommonQueries { q: common_q.view(), share, accumulate: false, output: sum.view() };
        ops.window_attention(&WindowAttentionDesc {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            windows,
            common_k: common_k.view(),
            common_v: common_v.view(),
            common: Some(asked),
            heads: 1,
            scale: 1.0,
            output: y.view(),
        })
        .unwrap();
        [ops.values(y.view()).unwrap(), ops.values(sum.view()).unwrap()].concat()
    };
    let mut reference = reference();
    let mut gpu = open(device);
    let mut on_units = with_units("windows_of_real_sizes_agree_with_the_naive_loops").map(open);
    // The results are weighted means of values below 1.
    for (dtype, tolerance, windows) in
        [(DType::F32, 1e-5, &[400, 1300][..]), (DType::F16, 1e-3, &[405]), (DType::Bf16, 1e-2, &[405])]
    {
        let theirs = run(reference.as_mut(), dtype, windows);
        for gpu in [Some(&mut gpu), on_units.as_mut()].into_iter().flatten() {
            let ours = run(gpu, dtype, windows);
            let distance = remaster_testkit::largest(ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()));
            println!("{dtype} {windows:?}: {distance:e}");
            assert!(distance <= tolerance, "{dtype} {windows:?}: {distance:e}");
        }
    }
}

/// Heads that matrix units take, whole and cut, with and without common tokens, and with bad values.
#[test]
#[ignore = "nightly: minutes on a software device; the gate has a few cases"]
fn attention_in_windows_on_matrix_units_agrees_with_the_naive_loops() {
    windows_on_units("attention_in_windows_on_matrix_units_agrees_with_the_naive_loops", 400, 20);
}

/// A part of the test above for every change.
#[test]
fn attention_in_windows_on_matrix_units_agrees_with_the_naive_loops_in_a_few_cases() {
    let name = "attention_in_windows_on_matrix_units_agrees_with_the_naive_loops_in_a_few_cases";
    windows_on_units(name, 40, 2);
}

fn windows_on_units(name: &str, seeds: u64, least: usize) {
    let Some(device) = with_units(name) else { return };
    let mut reference = reference();
    let mut gpu = open(device);
    let mut low = open_low(device);
    let mut worst = 0.0f32;
    let mut cases = 0;
    for seed in 0..seeds {
        let Some(case) = TokenCase::random(seed).for_units() else { continue };
        cases += 1;
        let theirs = run_tokens(reference.as_mut(), &case, false).unwrap();
        let ours = run_tokens(&mut gpu, &case, false).unwrap();
        let d = token_distance(&case, &ours, &theirs);
        assert!(d <= 1.0, "{case:?} is {d} tolerances away");
        worst = worst.max(d);
        assert_eq!(bits(&run_tokens(&mut gpu, &case, true).unwrap()), bits(&ours), "cut: {case:?}");
        if cases % 4 == 0 {
            assert_eq!(bits(&run_tokens(&mut low, &case, false).unwrap()), bits(&ours), "low: {case:?}");
        }
    }
    assert!(cases >= least, "only {cases} cases, at most {worst} tolerances away");
    let poisoned = (0..seeds / 2).flat_map(TokenCase::poisoned).filter_map(TokenCase::for_units);
    let spoiled = spoiled(&mut gpu, poisoned);
    assert!(spoiled > least, "only {spoiled} cases had a bad value in their result");
}
