//! The network inside the binary, on the CPU and on the naive loops.

use std::path::Path;

use crate::common::compact::{GOLDENS, RRDB, golden_of, keeps_goldens, rrdb_golden, run, task, task_of};
use crate::common::testdata;
use remaster_compute::{Backend, CpuPath, DType, HostTensor, Shape};
use remaster_model::rrdb::Rrdb;
use remaster_plan::{Budget, Candidate, Mode, Wish};
use remaster_testkit::{Rng, nightly};
use remaster_weights::{Upscaler, open_upscaler};

#[test]
fn every_kernel_path_keeps_the_goldens() {
    for path in CpuPath::all() {
        let cases = if path == CpuPath::detect() { &GOLDENS[..] } else { &GOLDENS[..2] };
        let dtypes = [DType::F32, DType::Bf16, DType::F16];
        keeps_goldens(Backend::Cpu { threads: 2, path }, &dtypes, cases);
    }
}

/// Small networks of all factors and spellings, and one as deep as the published one.
#[test]
fn small_rrdb_networks_keep_their_goldens() {
    for case in ["new_x4", "new_x2", "new_x1", "old_x4", "old_x2", "old_x1", "deep"] {
        let part = |part| golden_of("compact/rrdb_small.safetensors", case, part);
        let (input, expected) = (part("input"), part("output"));
        let file = testdata(&format!("compact/rrdb_{case}.safetensors"));
        let (Upscaler::Rrdb(config), mut params, _) = open_upscaler(&file).unwrap() else {
            unreachable!("{case}");
        };
        let network = Box::new(Rrdb::new(&config, &mut params, DType::F32));
        let task = task_of(network, &input, Backend::cpu(), DType::F32);
        let made = run(&task, &input, Candidate { slice: 1, ..Candidate::WHOLE });
        let off = made.difference(&expected).max_abs;
        println!("{case}: {off:.2e}");
        assert!(off <= 1e-5, "{case}: off by {off:e}");
    }
}

/// Of a network that is not in this repository: `REMASTER_RRDB` names RealESRGAN_x4plus_anime_6B.
#[test]
#[ignore = "rrdb: needs the network, at REMASTER_RRDB"]
fn rrdb_keeps_its_goldens() {
    let file = std::env::var_os("REMASTER_RRDB").unwrap();
    let (sizes, mut params, _) = open_upscaler(Path::new(&file)).unwrap();
    let Upscaler::Rrdb(config) = sizes else { unreachable!("{sizes}") };
    for (dtype, case) in [DType::F32, DType::Bf16, DType::F16].into_iter().flat_map(|d| RRDB.map(|c| (d, c)))
    {
        let (input, expected) = (rrdb_golden(case, "input"), rrdb_golden(case, "output"));
        let network = Box::new(Rrdb::new(&config, &mut params, dtype));
        let task = task_of(network, &input, Backend::cpu(), dtype);
        let made = run(&task, &input, Candidate { slice: 1, ..Candidate::WHOLE });
        let off = made.difference(&expected);
        println!("{case} in {dtype}: {:.2e}, {:.1} dB", off.max_abs, off.psnr(1.0));
        assert!(dtype != DType::F32 || off.max_abs <= 1e-4, "{case}: off by {:e}", off.max_abs);
        assert!(case != "crop_32x48" || off.psnr(1.0) >= 45.0, "{case} in {dtype}: {:.1} dB", off.psnr(1.0));
        let cut = Candidate { mode: Mode::Exact { stripes: 3 }, slice: 1, ..Candidate::WHOLE };
        assert!(run(&task, &input, cut).data == made.data, "{case} in {dtype}");
    }
}

#[test]
#[ignore = "nightly: minutes of naive loops; the gate has the other kernels"]
fn the_naive_loops_keep_the_goldens() {
    keeps_goldens(Backend::Reference, &[DType::F32], &GOLDENS[1..]);
}

/// Bands, slices and threads change no bit: 100 plans at night.
#[test]
fn any_plan_gives_the_same_bits() {
    let mut rng = Rng::new(25);
    for n in 0..nightly(20, 100) {
        let shape = Shape::new(rng.between(1, 3), rng.between(1, 150), rng.between(1, 60), 3);
        let frames = HostTensor { shape, data: rng.values(shape.len()) };
        let dtype = rng.pick(&[DType::F32, DType::Bf16, DType::F16]);
        let whole = task(&frames, Backend::cpu_with(1), dtype);
        let expected = run(&whole, &frames, Candidate { slice: 1, ..Candidate::WHOLE });
        let cut = task(&frames, Backend::cpu_with(rng.between(1, 3)), dtype);
        let (stripes, slice) = (rng.between(1, 40), rng.between(0, 3));
        let how = Candidate { mode: Mode::Exact { stripes }, slice, ..Candidate::WHOLE };
        let made = run(&cut, &frames, Candidate { stream_weights: rng.one_in(3), ..how });
        assert!(made.data == expected.data, "case {n}: {shape} {dtype} {how:?}");
    }
}

/// Frames of 480 x 270 become 1080p within 120 MiB, and smaller budgets give thinner bands.
#[test]
fn a_plan_is_found_for_little_memory() {
    let frames = HostTensor::zeros(Shape::new(1, 270, 480, 3));
    let mut task = task(&frames, Backend::cpu_with(2), DType::F32);
    task.job.open_ended = true;
    let plan = |mebibytes: u64| {
        let budget = Budget::Shared { ram: mebibytes << 20, disk: 0 };
        task.planner().plan(&budget, &Wish::default())
    };
    let whole = plan(120).unwrap();
    assert_eq!((whole.how.mode, whole.how.slice), (Mode::Whole, 1));
    let peaks = whole.peaks.device + whole.peaks.host;
    println!("whole frames: {:.1} MiB", peaks as f64 / f64::from(1 << 20));
    let thin = plan(64).unwrap();
    assert!(matches!(thin.how.mode, Mode::Exact { .. }), "{thin:?}");
    assert!(plan(8).is_err());
}
