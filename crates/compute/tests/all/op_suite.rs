//! Every backend against the naive loops, on odd sizes, in every format, cut in every way.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use remaster_compute::{Backend, CancelToken, CpuPath, Ops};
use remaster_testkit::check_unbiased;
use remaster_testkit::op_cases::{Case, Op, bits, distance, rows_one_by_one, whole, wide};

/// The largest weight is one of 512 x 512 channels, transformed.
const ARENA: u64 = 256 << 20;

fn open(backend: Backend) -> Box<dyn Ops> {
    backend.open(ARENA, CancelToken::default()).unwrap()
}

#[test]
fn every_cpu_path_agrees_with_the_naive_loops_in_1400_random_cases() {
    let mut reference = open(Backend::Reference);
    let mut paths: Vec<_> =
        CpuPath::all().into_iter().map(|p| (p, open(Backend::Cpu { threads: 2, path: p }))).collect();
    let mut convs = 0;
    let mut furthest = BTreeMap::new();
    for seed in 0..1400 {
        let case = Case::random(seed);
        convs += usize::from(matches!(case.op, Op::Conv(_)));
        let theirs = whole(reference.as_mut(), &case);
        for (path, cpu) in &mut paths {
            for (a, b) in whole(cpu.as_mut(), &case).iter().zip(&theirs) {
                let d = distance(a, b);
                assert!(d <= 1.0, "{path}: {case:?}\n{} is {d} tolerances away", a.name);
                let furthest: &mut f32 = furthest.entry((case.dtype.name(), a.name)).or_default();
                *furthest = furthest.max(d);
            }
        }
    }
    println!("of the tolerance: {furthest:.2?}");
    assert!(convs >= 500, "only {convs} of the cases were convolutions");
}

#[test]
fn rows_made_one_by_one_are_the_same_bits_on_every_path() {
    let mut paths: Vec<_> =
        CpuPath::all().into_iter().map(|p| open(Backend::Cpu { threads: 2, path: p })).collect();
    let count = paths.len();
    for (cpu, seed) in (10_000..10_400).flat_map(|seed| (0..count).map(move |i| (i, seed))) {
        let cpu = &mut paths[cpu];
        let case = Case::random(seed);
        rows_one_by_one(cpu.as_mut(), &case);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let mut one = open(Backend::cpu_with(1));
    let mut three = open(Backend::cpu_with(3));
    for seed in 20_000..20_150 {
        let case = Case::random(seed);
        assert_eq!(bits(&whole(one.as_mut(), &case)), bits(&whole(three.as_mut(), &case)), "{case:?}");
    }
}

/// The widths of the real network on every path: numbers, rows one by one, and one thread against two.
#[test]
#[ignore = "nightly: minutes on a CPU without AMX; the gate has narrow layers"]
fn the_widths_of_the_real_network_agree_and_are_the_same_bits_in_rows() {
    let mut reference = open(Backend::Reference);
    let mut paths: Vec<_> = CpuPath::all()
        .into_iter()
        .map(|path| {
            let [one, two] = [1, 2].map(|threads| open(Backend::Cpu { threads, path }));
            (path, one, two)
        })
        .collect();
    for case in wide() {
        let theirs = whole(reference.as_mut(), &case);
        for (path, one, two) in &mut paths {
            let ours = whole(two.as_mut(), &case);
            for (a, b) in ours.iter().zip(&theirs) {
                let d = distance(a, b);
                println!("{path} {:?} {}: {d:.2}", case.op, a.name);
                assert!(d <= 1.0, "{path}: {case:?}\n{} is {d} tolerances away", a.name);
            }
            assert_eq!(bits(&ours), bits(&whole(one.as_mut(), &case)), "{path} {case:?}");
            rows_one_by_one(two.as_mut(), &case);
        }
    }
}

#[test]
fn layers_without_bias_are_layers_whose_bias_is_zero() {
    let (mut twin, mut other) = (open(Backend::Reference), open(Backend::Reference));
    check_unbiased(twin.as_mut(), other.as_mut(), 0..4);
    for path in CpuPath::all() {
        check_unbiased(open(Backend::Cpu { threads: 2, path }).as_mut(), twin.as_mut(), 0..12);
    }
}
