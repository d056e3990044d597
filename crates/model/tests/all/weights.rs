//! Weights of a network: several backends hold them at once, and they are listed in the order of use.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use remaster_compute::meter::Meter;
use remaster_compute::staged::{Placement, Rule, Staged};
use remaster_compute::{
    Backend, CancelToken, ComputeError, DType, HostStore, HostTensor, NullStore, Ops, Shape, SourceError,
    TensorStore,
};
use remaster_model::vae::{Decoder, Direction, VaeConfig};
use remaster_model::{Build, Module, Network, Params, Scope, Values, Wanted, load};
use remaster_testkit::{Rng, dry_run, run_clip};
use remaster_weights::FormulaParams;

fn decoder() -> Decoder {
    Decoder::new(&VaeConfig::tiny(), &mut Scope::root(&mut FormulaParams, DType::F32).at("decoder"))
}

fn bits(ops: &mut dyn Ops, half: &dyn Network, clip: &HostTensor) -> Vec<u32> {
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
        let far = remaster_testkit::largest(fast.data.iter().zip(&slow.data).map(|(a, b)| (a - b).abs()));
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

/// The formula, and the names of tensors whose first values were read, in order.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

struct LoggedValues {
    name: String,
    log: Logged,
    values: Arc<dyn Values>,
}

impl Values for LoggedValues {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        if start == 0 {
            self.log.0.lock().unwrap().push(self.name.clone());
        }
        self.values.read(start, out)
    }
}

impl Params for Logged {
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
        let values = FormulaParams.values(wanted);
        Arc::new(LoggedValues { name: wanted.param.name.clone(), log: self.clone(), values })
    }
}

fn networks(params: &mut dyn Params, build: Build) -> [Box<dyn Network>; 2] {
    [Direction::Encode, Direction::Decode].map(|half| half.network(&VaeConfig::tiny(), params, build))
}

fn clip(which: usize, t: usize, [h, w]: [usize; 2]) -> HostTensor {
    let shape = match which {
        0 => Shape::new(4 * t - 3, 8 * h, 8 * w, 3),
        _ => Shape::new(t, h, w, 16),
    };
    HostTensor { shape, data: Rng::new(t as u64).values(shape.len()) }
}

fn streamed(device: Box<dyn Ops + Send>, host: Box<dyn TensorStore>, placement: Placement) -> Staged {
    Staged::new(device, host, Box::new(NullStore::new("file", 0)), placement)
}

const STREAMED: Placement = Placement { stream_weights: true, ..Placement::DEVICE };

#[test]
fn ops_use_the_weights_in_the_order_in_which_they_are_listed() {
    for collapse in [true, false] {
        let log = Logged::default();
        for (which, half) in
            networks(&mut log.clone(), Build { dtype: DType::F32, collapse }).iter().enumerate()
        {
            // Nothing is read ahead: each weight is read by the op that uses it.
            let device = Backend::cpu_with(1).open(1 << 28, CancelToken::default()).unwrap();
            let mut ops = streamed(device, Box::new(NullStore::new("host", 0)), STREAMED);
            load(&mut ops, half.as_ref()).unwrap();
            log.0.lock().unwrap().clear();
            let clip = clip(which, 2, [1, 1]);
            let lengths = if which == 0 { [1, 4] } else { [1, 1] };
            run_clip(&mut ops, half.as_ref(), DType::F32, &clip, &lengths).unwrap();
            let is_main =
                |name: &&String| name.ends_with(".weight") && !(collapse && name.contains(".upscale_conv."));
            let used: Vec<String> = log.0.lock().unwrap().iter().filter(is_main).cloned().collect();
            let mut listed = Vec::new();
            half.weights(&mut |w| {
                let folded = collapse && w.name().ends_with("upsamplers.0");
                listed.push(format!("{}{}.weight", w.name(), if folded { ".conv" } else { "" }));
            });
            assert_eq!(used, [listed.clone(), listed].concat(), "half {which}, folded: {collapse}");
        }
    }
}

#[test]
fn reading_ahead_changes_no_bit_and_takes_what_the_meter_said() {
    let mut rng = Rng::new(9);
    for case in 0..12 {
        let which = case % 2;
        let dtype = rng.pick(&[DType::F32, DType::Bf16]);
        let build = Build { dtype, collapse: !rng.one_in(4) };
        let half = &networks(&mut FormulaParams, build)[which];
        let clip = clip(which, 3, [rng.between(1, 3), rng.between(1, 3)]);
        let lengths = if which == 0 { [1, 4, 4] } else { [1, 1, 1] };
        let stripes = rng.between(1, 3);
        let far = if stripes == 1 { Rule::DEVICE } else { Rule { device: 4096, host: u64::MAX } };
        let placement = Placement { read_ahead: true, activations: far, stripes, ..STREAMED };
        let backend = Backend::cpu_with(rng.between(1, 3));
        let mut plain = backend.open(1 << 28, CancelToken::default()).unwrap();
        load(plain.as_mut(), half.as_ref()).unwrap();
        let expected = run_clip(plain.as_mut(), half.as_ref(), dtype, &clip, &lengths).unwrap();

        let meter = Box::new(Meter::endless(backend.sizing()));
        let mut meter = streamed(meter, Box::new(NullStore::new("host", 1 << 40)), placement);
        dry_run(&mut meter, half.as_ref(), dtype, clip.shape, &lengths).unwrap();
        let cap = meter.arena().peak();
        let device = backend.open(cap, CancelToken::default()).unwrap();
        let mut ops = streamed(device, Box::new(HostStore::new(1 << 26).unwrap()), placement);
        load(&mut ops, half.as_ref()).unwrap();
        let out = run_clip(&mut ops, half.as_ref(), dtype, &clip, &lengths).unwrap();
        assert!(out.data.iter().zip(&expected.data).all(|(a, b)| a.to_bits() == b.to_bits()), "{case}");
        assert_eq!(ops.arena().peak(), cap, "{case}: {placement:?}");
        assert_eq!(ops.arena().peak_live(), meter.arena().peak_live());
        // Behind a pass nothing is on its way: only the first layer is left.
        let mut held = 0;
        half.weights(&mut |w| held += usize::from(w.is_resident(ops.arena())));
        assert!((1..=3).contains(&held), "{held}");
    }
}
