//! Weights of a network: several backends hold them at once, and they are listed in the order of use.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::meter::Meter;
use remaster_compute::{Backend, CancelToken, ComputeError, DType, HostTensor, Ops, Shape};
use remaster_model::Scope;
use remaster_model::vae::{Decoder, Half, Module, VaeConfig, load};
use remaster_testkit::{Rng, dry_run, run_clip};
use remaster_weights::FormulaParams;

fn decoder() -> Decoder {
    Decoder::new(&VaeConfig::tiny(), &mut Scope::root(&mut FormulaParams, DType::F32).at("decoder"))
}

fn bits(ops: &mut dyn Ops, half: &dyn Half, clip: &HostTensor) -> Vec<u32> {
    let out = run_clip(ops, half, DType::F32, clip, &[1, 1]).unwrap();
    out.data.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn three_backends_hold_one_network_and_each_computes_right() {
    let half = decoder();
    let shape = Shape::new(2, 2, 1, 16);
    let clip = HostTensor { shape, data: Rng::new(1).values(shape.len()) };
    let open = |b: Backend| b.open(1 << 28, CancelToken::default()).unwrap();
    // Two kinds of layout, two arenas of one kind, and one that only counts.
    let mut pair = [open(Backend::cpu_with(2)), open(Backend::cpu_with(1))];
    let mut twin = open(Backend::Reference);
    let mut alone = open(Backend::cpu_with(2));
    load(alone.as_mut(), &half).unwrap();
    let expected = bits(alone.as_mut(), &half, &clip);
    drop(alone);

    let mut meter = Meter::endless(Backend::Reference.sizing());
    dry_run(&mut meter, &half, DType::F32, shape, &[1, 1]).unwrap();
    for ops in &mut pair {
        load(ops.as_mut(), &half).unwrap();
    }
    load(twin.as_mut(), &half).unwrap();
    half.weights(&mut |w| assert_eq!(w.holders(), 4, "{w:?}"));
    let slow = run_clip(twin.as_mut(), &half, DType::F32, &clip, &[1, 1]).unwrap();
    for ops in &mut pair {
        assert!(bits(ops.as_mut(), &half, &clip) == expected);
        let fast = run_clip(ops.as_mut(), &half, DType::F32, &clip, &[1, 1]).unwrap();
        let far = fast.data.iter().zip(&slow.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Sums in f32 against sums in f64 through some sixty layers; 4e-6 was measured.
        assert!(far < 1e-4, "{far}");
    }
    assert_eq!(twin.arena().peak(), meter.arena().peak());
}

#[test]
fn evicting_touches_one_backend_and_dropping_one_frees_its_weights() {
    let half = decoder();
    let shape = Shape::new(2, 2, 2, 16);
    let clip = HostTensor { shape, data: Rng::new(2).values(shape.len()) };
    let open = || Backend::cpu_with(1).open(1 << 28, CancelToken::default()).unwrap();
    let (mut first, mut second) = (open(), open());
    load(first.as_mut(), &half).unwrap();
    load(second.as_mut(), &half).unwrap();
    let (all, live) = (bits(second.as_mut(), &half, &clip), second.arena().live());

    half.weights(&mut |w| first.evict(w));
    assert_eq!((first.arena().live(), second.arena().live()), (0, live));
    half.weights(&mut |w| assert!(!w.is_resident(first.arena()) && w.is_resident(second.arena())));
    assert!(bits(second.as_mut(), &half, &clip) == all);
    let refused = run_clip(first.as_mut(), &half, DType::F32, &clip, &[1, 1]).unwrap_err();
    assert!(matches!(refused, ComputeError::NotResident { .. }), "{refused}");

    // Loaded again: the other one's copy is no reason to do nothing.
    load(first.as_mut(), &half).unwrap();
    assert!(bits(first.as_mut(), &half, &clip) == all);
    drop(second);
    half.weights(&mut |w| assert_eq!(w.holders(), 1));
    drop(first);
    half.weights(&mut |w| assert_eq!(w.holders(), 0));
}
