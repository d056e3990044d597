//! The ops on tokens: every backend against the naive loops, on odd sizes and at the widths of the real networks, cut in
//! every way.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::staged::{Placement, Rule, Staged};
use remaster_compute::{Backend, CancelToken, CpuPath, HostStore, NullStore, Ops};
use remaster_testkit::token_cases::{TokenCase, run_tokens, token_distance};

const ARENA: u64 = 64 << 20;

fn open(backend: Backend) -> Box<dyn Ops + Send> {
    backend.open(ARENA, CancelToken::default()).unwrap()
}

/// The backend with everything in host memory, in `stripes` stripes.
fn staged(backend: Backend, stripes: usize) -> Staged {
    let far = Rule { device: 0, host: u64::MAX };
    let placement = Placement { activations: far, stripes, ..Placement::DEVICE };
    let host = Box::new(HostStore::new(ARENA).unwrap());
    Staged::new(open(backend), host, Box::new(NullStore::new("file", 0)), placement)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_cpu_path_agrees_with_the_naive_loops() {
    let mut reference = open(Backend::Reference);
    for path in CpuPath::all() {
        let mut cpu = open(Backend::Cpu { threads: 2, path });
        for case in (0..200).map(TokenCase::random).chain(TokenCase::wide()) {
            let theirs = run_tokens(reference.as_mut(), &case, false).unwrap();
            let ours = run_tokens(cpu.as_mut(), &case, false).unwrap();
            let d = token_distance(&case, &ours, &theirs);
            assert!(d <= 1.0, "{path}: {case:?} is {d} tolerances away");
        }
    }
}

#[test]
fn cutting_changes_no_bit() {
    for path in CpuPath::all() {
        let backend = |threads| Backend::Cpu { threads, path };
        let (mut one, mut three) = (open(backend(1)), open(backend(3)));
        let mut far = [1, 3, 50].map(|stripes| staged(backend(2), stripes));
        for case in (200..400).map(TokenCase::random).chain(TokenCase::wide()) {
            let whole = bits(&run_tokens(one.as_mut(), &case, false).unwrap());
            assert_eq!(bits(&run_tokens(three.as_mut(), &case, false).unwrap()), whole, "{path}: {case:?}");
            assert_eq!(
                bits(&run_tokens(three.as_mut(), &case, true).unwrap()),
                whole,
                "{path}, cut: {case:?}"
            );
            for ops in &mut far {
                assert_eq!(bits(&run_tokens(ops, &case, false).unwrap()), whole, "{path}, far: {case:?}");
            }
        }
    }
}
