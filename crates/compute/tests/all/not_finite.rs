//! What is not finite stays visible: every CPU path gives NaN or infinity wherever the naive loops do.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use remaster_compute::{Backend, CancelToken, CpuPath, Ops};
use remaster_testkit::op_cases::{poisoned, same_holes, whole};

fn open(backend: Backend) -> Box<dyn Ops> {
    backend.open(64 << 20, CancelToken::default()).unwrap()
}

/// How many results had a bad value, over all cases and paths, and how many paths there are. `holes` panics if a result
/// has its bad values elsewhere than the naive loops.
pub(crate) fn spoiled<C, R>(
    cases: impl Iterator<Item = C>,
    run: impl Fn(&mut dyn Ops, &C) -> R,
    holes: impl Fn(&C, &R, &R) -> usize,
) -> (usize, usize) {
    let mut twin = open(Backend::Reference);
    let paths = CpuPath::all().into_iter();
    let mut paths: Vec<_> = paths.map(|p| (p, open(Backend::Cpu { threads: 2, path: p }))).collect();
    let mut spoiled = 0;
    for case in cases {
        let theirs = run(twin.as_mut(), &case);
        for (path, cpu) in &mut paths {
            let ours = run(cpu.as_mut(), &case);
            let result = catch_unwind(AssertUnwindSafe(|| holes(&case, &ours, &theirs)));
            let holes = result.unwrap_or_else(|_| panic!("{path}"));
            spoiled += usize::from(holes > 0);
        }
    }
    (spoiled, paths.len())
}

#[test]
fn one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops() {
    let cases = (40_000..40_100).flat_map(poisoned);
    let (spoiled, _) = spoiled(cases, whole, |case, a, b| same_holes(case, a, b));
    assert!(spoiled > 1000, "only {spoiled} cases had a bad value in their result");
}
