//! What is not finite stays visible on the GPU too, and the first normalisation that saw it is known.

use remaster_compute::gpu::{Gpu, with_variant};
use remaster_compute::{CancelToken, CombineDesc, DType, Ops, Shape};
use remaster_testkit::op_cases::{poisoned, same_holes, whole};

use crate::{device, open, reference, variant};

fn holes(gpu: &mut Gpu, seeds: std::ops::Range<u64>, dtypes: &[DType]) -> usize {
    let mut twin = reference();
    let mut spoiled = 0;
    for case in seeds.flat_map(poisoned).filter(|c| dtypes.contains(&c.dtype)) {
        let theirs = whole(twin.as_mut(), &case);
        spoiled += usize::from(same_holes(&case, &whole(gpu, &case), &theirs) > 0);
    }
    spoiled
}

#[test]
fn one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops() {
    let Some(device) = device("one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops") else {
        return;
    };
    let mut gpu = open(device);
    let spoiled = holes(&mut gpu, 40_000..40_050, &[DType::F32, DType::Bf16, DType::F16]);
    assert!(spoiled > 100, "only {spoiled} cases had a bad value in their result");
    for (family, dtype) in [("winograd", DType::F32), ("matrix", DType::F16)] {
        if let Some(variant) = variant(&device, family) {
            let mut gpu = open(with_variant(device, &variant));
            assert!(holes(&mut gpu, 40_100..40_130, &[dtype]) > 0, "{family}");
        }
    }
}

#[test]
fn the_first_normalisation_that_saw_it_is_named_once() {
    let Some(device) = device("the_first_normalisation_that_saw_it_is_named_once") else { return };
    let mut gpu = Gpu::new(device, 1 << 20, CancelToken::default()).unwrap();
    let shape = Shape::new(2, 3, 1, 4);
    // Means are at even places.
    let mut run = |name: &str, bad: Option<usize>| {
        let sums = gpu.alloc(shape, DType::F32).unwrap();
        let stats = gpu.alloc(Shape { h: 1, ..shape }, DType::F32).unwrap();
        let mut values = vec![0.5; shape.len()];
        if let Some(at) = bad {
            values[at] = f32::INFINITY;
        }
        gpu.upload(&values, sums.view()).unwrap();
        let desc = CombineDesc { name, sums: sums.view(), count: 4, eps: 1e-6, output: stats.view() };
        gpu.combine_sums(&desc).unwrap();
        if name == "last" { gpu.first_spoiled().unwrap() } else { None }
    };
    run("a", None);
    run("b", Some(12));
    run("c", Some(2));
    assert_eq!(run("last", None).as_deref(), Some("b"));
    run("a", None);
    assert_eq!(run("last", None), None);
    run("c", Some(4));
    assert_eq!(run("last", None).as_deref(), Some("c"));
}
