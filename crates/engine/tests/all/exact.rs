//! Cutting the work changes no bit, and takes what the plan says.

use crate::common::{Bench, WHOLE, build, clip, direction, same, way};
use remaster_compute::{Backend, CpuPath, DType};
use remaster_engine::Summary;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip, Mode, Plan, Tiers};
use remaster_testkit::{Rng, nightly};

fn holds(plan: &Plan, used: &Summary) {
    assert_eq!(used.device_peak, plan.peaks.device, "{plan:?}");
    assert!(used.host_peak <= plan.peaks.host, "{used:?} over {plan:?}");
    assert_eq!(used.disk_peak, plan.peaks.disk);
}

/// Eight plans for each clip: 24 of them, at night 200, which takes some minutes of two cores.
#[test]
fn random_plans_give_the_bits_of_the_whole_run_and_keep_their_promise() {
    let clips = nightly(3, 25);
    let mut rng = Rng::new(4);
    for _ in 0..clips {
        let dtype = if rng.one_in(3) { DType::Bf16 } else { DType::F32 };
        let (clip, direction) = (clip(&mut rng), direction(&mut rng));
        let build = build(dtype, !rng.one_in(4));
        let bench = Bench::new(&VaeConfig::tiny(), direction, clip, Backend::cpu_with(2), build);
        let plan = bench.plan(WHOLE);
        let (whole, used) = bench.run(&plan).unwrap();
        holds(&plan, &used);
        for _ in 0..8 {
            let plan = bench.plan(way(&mut rng));
            let (cut, used) = bench.run(&plan).unwrap();
            assert!(same(&cut, &whole), "{clip:?} {direction:?}: {:?}", plan.how);
            holds(&plan, &used);
        }
    }
}

#[test]
fn every_kernel_path_agrees_with_itself() {
    let mut rng = Rng::new(7);
    for path in CpuPath::all() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let backend = Backend::Cpu { threads: 2, path };
            let clip = Clip::new(9, 40, 56).unwrap();
            let bench =
                Bench::new(&VaeConfig::tiny(), direction(&mut rng), clip, backend, build(dtype, true));
            let (whole, _) = bench.run(&bench.plan(WHOLE)).unwrap();
            for _ in 0..2 {
                let plan = bench.plan(way(&mut rng));
                assert!(same(&bench.run(&plan).unwrap().0, &whole), "{path} {dtype}: {:?}", plan.how);
            }
        }
    }
}

/// Plans of the full network give the bits of the whole run and hold. Returns what they used, in both directions.
fn full_network(clip: Clip, ways: &[Candidate]) -> Vec<Summary> {
    let mut all = Vec::new();
    for direction in [Direction::Encode, Direction::Decode] {
        let build = build(DType::F32, true);
        let bench = Bench::new(&VaeConfig::full(), direction, clip, Backend::cpu_with(2), build);
        let (whole, _) = bench.run(&bench.plan(WHOLE)).unwrap();
        for how in ways {
            let plan = bench.plan(*how);
            let (cut, used) = bench.run(&plan).unwrap();
            assert!(same(&cut, &whole), "{direction:?}: {how:?}");
            holds(&plan, &used);
            all.push(used);
        }
    }
    all
}

/// The heavy path of the convolution, whose weights are larger than a cache, needs the channels of the real network.
#[test]
#[ignore = "nightly: minutes on a CPU without AMX; the gate has the small network"]
fn the_full_network_in_stripes_spilled_and_streamed_gives_the_bits_of_the_whole_run() {
    let (mode, far) = (Mode::Exact { stripes: 4 }, Tiers::file(0));
    let how = Candidate { mode, activations: far, state: far, stream_weights: true, ..WHOLE };
    let used = full_network(Clip::new(5, 64, 96).unwrap(), &[how]);
    assert!(used.iter().all(|used| used.disk_peak > 0));
}

/// Larger, and in five plans: `cargo test --release -p remaster-engine --test all exact:: -- --ignored`, about five minutes
/// on two cores.
#[test]
#[ignore = "nightly: five minutes; the test above runs a part of it"]
fn the_full_network_in_five_plans() {
    let stripes = |stripes, slice| Candidate { mode: Mode::Exact { stripes }, slice, ..WHOLE };
    let ways = [
        Candidate { slice: 4, ..WHOLE },
        Candidate { stream_weights: true, ..WHOLE },
        Candidate { state: Tiers::file(0), ..stripes(3, 4) },
        Candidate { state: Tiers::host(0), activations: Tiers::file(8 << 20), ..stripes(7, 4) },
        Candidate { activations: Tiers::host(0), stream_weights: true, ..stripes(13, 8) },
    ];
    full_network(Clip::new(9, 192, 256).unwrap(), &ways);
}

#[test]
fn state_saved_under_one_plan_goes_on_under_another() {
    let mut rng = Rng::new(11);
    for _ in 0..nightly(8, 20) {
        let clip =
            Clip::new(5 + 4 * (1 + rng.below(4)), 8 * (2 + rng.below(6)), 8 * (2 + rng.below(6))).unwrap();
        let build = build(DType::F32, !rng.one_in(4));
        let mut bench =
            Bench::new(&VaeConfig::tiny(), direction(&mut rng), clip, Backend::cpu_with(2), build);
        let (whole, _) = bench.run(&bench.plan(WHOLE)).unwrap();
        let first = bench.plan(Candidate { slice: 4, ..way(&mut rng) });

        let (mut source, mut sink) = bench.ends();
        let mut saved = Vec::new();
        let mut session = bench.task.start(&first).unwrap();
        session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
        session.save(&mut saved).unwrap();
        let seen = session.seen();
        drop(session);

        bench.task.job.start = seen;
        let second = bench.plan(Candidate { slice: 4 * (1 + rng.below(2)), ..way(&mut rng) });
        let mut session = bench.task.start(&second).unwrap();
        session.restore(&mut &saved[..]).unwrap();
        while !session.is_done() {
            session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
        }
        holds(&second, &session.summary());
        drop(session);
        assert!(same(&sink.clip, &whole), "{clip:?}: {:?} then {:?}", first.how, second.how);

        // A damaged or foreign state is refused.
        let at = rng.below(saved.len());
        let mut damaged = saved.clone();
        damaged[at] ^= 4;
        assert!(bench.task.start(&second).unwrap().restore(&mut &damaged[..]).is_err(), "byte {at}");
        assert!(bench.task.start(&second).unwrap().restore(&mut &saved[..saved.len() - 1]).is_err());
    }
}
