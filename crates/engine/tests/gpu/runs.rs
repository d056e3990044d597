//! The GPU backend under plans: the bits of the whole run, the promised memory, and nothing made anew once
//! slices are steady. On the first device of this machine, a software one included.

use std::time::Duration;

use crate::common::{Bench, WHOLE, build, direction, same, way};
use crate::device;
use remaster_compute::gpu::{Gpu, GpuCounts, GpuDevice};
use remaster_compute::meter::Meter;
use remaster_compute::{Backend, CancelToken, DType, Ops, Shape};
use remaster_engine::{Open, Pace, Recovery};
use remaster_model::vae::{Decoder, Direction, VaeConfig};
use remaster_model::{Network, Pass, Scope, State, load};
use remaster_plan::{Budget, Candidate, Clip};
use remaster_testkit::{Faults, Rng, dry_run, nightly};
use remaster_weights::FormulaParams;

/// Small clips: a software device computes them.
fn clip(rng: &mut Rng) -> Clip {
    Clip::new(1 + 4 * rng.below(4), 8 * (1 + rng.below(4)), 8 * (1 + rng.below(4))).unwrap()
}

#[test]
fn random_plans_give_the_bits_of_the_whole_run_and_keep_their_promise() {
    let Some(device) = device("random_plans_give_the_bits_of_the_whole_run_and_keep_their_promise") else {
        return;
    };
    // Held open: what one run compiled the next one finds.
    let _open = Gpu::new(device, 1024, CancelToken::default()).unwrap();
    let fixed = Backend::Gpu(device).sizing().fixed_bytes();
    let mut rng = Rng::new(4);
    let mut spilled = 0;
    for n in 0..nightly(3, 6) {
        let dtype = if n % 3 == 2 { DType::F16 } else { DType::F32 };
        let (clip, direction) = (clip(&mut rng), direction(&mut rng));
        let build = build(dtype, !rng.one_in(4));
        let bench = Bench::new(&VaeConfig::tiny(), direction, clip, Backend::Gpu(device), build);
        let plan = bench.plan(WHOLE);
        let (whole, used) = bench.run(&plan).unwrap();
        assert_eq!(used.device_peak, plan.peaks.device);
        for _ in 0..5 {
            let plan = bench.plan(way(&mut rng));
            let (cut, used) = bench.run(&plan).unwrap();
            assert!(same(&cut, &whole), "{clip:?} {direction:?} {dtype}: {:?}", plan.how);
            assert!(used.device_peak <= plan.peaks.device, "{used:?} over {plan:?}");
            let [peak, planned] = [used.device_peak, plan.peaks.device].map(|n| n - fixed);
            assert_eq!(peak, planned, "{plan:?}");
            assert_eq!(used.disk_peak, plan.peaks.disk);
            spilled += usize::from(used.disk_peak > 0);
        }
    }
    assert!(spilled >= nightly(2, 5), "only {spilled} of the plans used the spill file");
}

#[test]
fn a_lost_device_is_opened_again_and_goes_on_with_the_same_bits() {
    let Some(device) = device("a_lost_device_is_opened_again_and_goes_on_with_the_same_bits") else { return };
    for direction in [Direction::Encode, Direction::Decode] {
        let clip = Clip::new(13, 16, 24).unwrap();
        let build = build(DType::F32, true);
        let mut bench = Bench::new(&VaeConfig::tiny(), direction, clip, Backend::Gpu(device), build);
        let budget = Budget::Apart { vram: 1 << 40, ram: 1 << 40, disk: 1 << 40 };
        let plan = bench.plan(Candidate { slice: 4, ..WHOLE });
        let mut lost_at = |calls: Vec<u64>| {
            let faults = Faults::default();
            faults.lose_at(calls);
            let pace = Some(Pace { every: Duration::ZERO, times: 0 });
            bench.task.settings.recovery = Some(Recovery { budget, pace });
            let open = faults.clone();
            bench.task.settings.open =
                Open::with(move |backend, cap, cancel| open.open(backend, cap, cancel));
            let made = bench.run(&plan).unwrap().0;
            (made, faults)
        };
        let (whole, faults) = lost_at(Vec::new());
        let (cut, faults) = lost_at(vec![faults.calls() * 2 / 3]);
        let opened = faults.opened();
        assert!(opened.len() == 2 && opened[1] < opened[0], "{opened:?}");
        assert!(same(&cut, &whole), "{direction:?}");
    }
}

/// Slices of one latent each, of a decoder of this size.
fn steady(device: GpuDevice, config: &VaeConfig, [h, w]: [usize; 2]) {
    let mut params = FormulaParams;
    let half = Decoder::new(config, &mut Scope::root(&mut params, DType::F32).at("decoder"));
    let shape = Shape::new(5, h, w, config.latent);
    let mut meter = Meter::endless(Backend::Gpu(device).sizing());
    dry_run(&mut meter, &half, DType::F32, shape, &[1; 5]).unwrap();
    let mut gpu = Gpu::new(device, meter.arena().peak(), CancelToken::default()).unwrap();
    load(&mut gpu, &half).unwrap();
    let values = Rng::new(1).values(h * w * config.latent);
    let mut state = State::new();
    let mut before = gpu.gpu_counts();
    let mut out = Vec::new();
    for slice in 0..5 {
        if slice == 4 {
            state.finish();
        }
        let x = gpu.alloc(Shape { t: 1, ..shape }, DType::F32).unwrap();
        gpu.upload(&values, x.view()).unwrap();
        let y = half.forward(&mut Pass { ops: &mut gpu, state: &mut state }, x).unwrap();
        out.resize(y.shape().len(), 0.0);
        gpu.download(y.view(), &mut out).unwrap();
        let now = gpu.gpu_counts();
        println!(
            "slice {slice}: {} dispatches, {} submissions, {} pipelines, {} allocations, {} parameters",
            now.dispatches - before.dispatches,
            now.submissions - before.submissions,
            now.pipelines - before.pipelines,
            now.allocations - before.allocations,
            now.parameters - before.parameters
        );
        assert!(now.dispatches - before.dispatches <= 130);
        // The first slice has one frame, the second two kinds of frames of its own, the third is the first
        // steady one.
        if slice == 3 {
            let made = |c: GpuCounts| (c.pipelines, c.allocations, c.parameters);
            assert_eq!(made(now), made(before), "slice {slice} made something anew");
        }
        before = now;
    }
    assert_eq!(gpu.arena().peak(), meter.arena().peak());
    // Others may share the device in one process, so it is only printed; `gpu_memory` has the law.
    let planned = meter.arena().peak() + Backend::Gpu(device).sizing().fixed_bytes();
    println!("planned {planned} bytes, reserved {}", gpu.reserved_bytes().unwrap_or(0));
}

#[test]
fn a_steady_slice_makes_nothing_anew_in_the_small_network() {
    let Some(device) = device("a_steady_slice_makes_nothing_anew_in_the_small_network") else { return };
    steady(device, &VaeConfig::tiny(), [2, 3]);
}

#[test]
#[ignore = "nightly: minutes on a software device; the gate has the small network"]
fn a_steady_slice_makes_nothing_anew_in_the_full_network() {
    let Some(device) = device("a_steady_slice_makes_nothing_anew_in_the_full_network") else { return };
    steady(device, &VaeConfig::full(), [1, 1]);
}
