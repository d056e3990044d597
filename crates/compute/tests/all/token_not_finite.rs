//! What is not finite stays visible in the ops on tokens: every CPU path gives NaN or infinity wherever the naive loops do.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::{Backend, CancelToken, CpuPath, Ops};
use remaster_testkit::token_cases::{TokenCase, run_tokens, same_token_holes};

fn open(backend: Backend) -> Box<dyn Ops> {
    backend.open(64 << 20, CancelToken::default()).unwrap()
}

#[test]
fn one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops() {
    let mut twin = open(Backend::Reference);
    let paths = CpuPath::all().into_iter();
    let mut paths: Vec<_> = paths.map(|p| (p, open(Backend::Cpu { threads: 2, path: p }))).collect();
    let mut spoiled = 0;
    for case in (600..632).flat_map(TokenCase::poisoned) {
        let theirs = run_tokens(twin.as_mut(), &case, false).unwrap();
        for (path, cpu) in &mut paths {
            let ours = run_tokens(cpu.as_mut(), &case, false).unwrap();
            let result = std::panic::catch_unwind(|| same_token_holes(&case, &ours, &theirs));
            let holes = result.unwrap_or_else(|_| panic!("{path}"));
            spoiled += usize::from(holes > 0);
        }
    }
    assert!(spoiled > 50 * paths.len(), "only {spoiled} cases had a bad value in their result");
}
