//! Devices that are full or lost: planned anew within less, once, with the bits of a run that nothing disturbed.

use std::time::Duration;

use crate::common::{Bench, WHOLE, build, direction, same};
use remaster_compute::{Backend, ComputeError, DType, HostTensor, Shape};
use remaster_engine::{
    EngineError, Event, MemoryClip, Open, Pace, Recovery, Sink, SinkError, Source, SourceError, Summary,
};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Bands, Budget, Candidate, Clip, Mode, Plan, Tiers, Tiling, Wish};
use remaster_testkit::{Faults, Rng};

const PLENTY: Budget = Budget::Apart { vram: 1 << 40, ram: 1 << 40, disk: 1 << 40 };

/// Narrow: weights are made for every run, and with streamed weights for every layer.
const NARROW: VaeConfig =
    VaeConfig { colours: 3, latent: 4, channels: [8, 8, 16, 16], resnets: 1, groups: 4 };

/// Behind every slice.
const ALWAYS: Option<Pace> = Some(Pace { every: Duration::ZERO, times: 0 });

/// Takes every frame once, in order.
struct Strict(MemoryClip);

impl Sink for Strict {
    fn write(&mut self, first: usize, frames: HostTensor) -> Result<(), SinkError> {
        assert_eq!(first, self.0.clip.shape.t, "frames are missing or come twice");
        self.0.write(first, frames)
    }

    fn abort(&mut self) {
        Sink::abort(&mut self.0);
    }
}

/// Can be read once.
struct Pipe(MemoryClip);

impl Source for Pipe {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        self.0.read(shape, out)
    }
}

/// What a run that was disturbed came to.
struct Outcome {
    result: Result<Summary, EngineError>,
    made: HostTensor,
    plans: Vec<Plan>,
    warnings: Vec<String>,
}

/// A task on a device that fails as `faults` say, in a folder that must be empty behind every run.
struct Disturbed {
    bench: Bench,
    faults: Faults,
    folder: tempfile::TempDir,
}

impl Disturbed {
    /// With what comes of a run that nothing disturbs.
    fn new(bench: Bench, plan: &Plan) -> (Self, Outcome) {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Disturbed { bench, faults: Faults::default(), folder };
        let whole = run.run(plan, None, Faults::default());
        (run, whole)
    }

    fn run(&mut self, plan: &Plan, recovery: Option<Recovery>, faults: Faults) -> Outcome {
        let source = &mut MemoryClip::source(self.bench.clip.clone());
        self.run_from(source, plan, recovery, faults)
    }

    fn run_from(
        &mut self,
        source: &mut dyn Source,
        plan: &Plan,
        recovery: Option<Recovery>,
        faults: Faults,
    ) -> Outcome {
        self.faults = faults.clone();
        let settings = &mut self.bench.task.settings;
        settings.open = Open::with(move |backend, cap, cancel| faults.open(backend, cap, cancel));
        settings.recovery = recovery;
        settings.spill = Some(self.folder.path().into());
        let mut sink = Strict(MemoryClip::sink());
        let (mut plans, mut warnings) = (Vec::new(), Vec::new());
        let result = self.bench.task.run(plan, source, &mut sink, &mut |event| match event {
            Event::Planned(plan) => plans.push(plan.clone()),
            Event::Warning(text) => warnings.push(text.to_owned()),
            _ => {}
        });
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 0, "a file was left behind");
        let mut loaded = 0;
        self.bench.task.network.weights(&mut |w| loaded += w.holders());
        assert_eq!(loaded, 0, "weights were left in their arena");
        Outcome { result, made: sink.0.clip, plans, warnings }
    }
}

fn bench(direction: Direction, frames: usize, dtype: DType) -> Bench {
    let clip = Clip::new(frames, 32, 40).unwrap();
    Bench::new(&NARROW, direction, clip, Backend::cpu_with(1), build(dtype, true))
}

fn sliced(bench: &Bench, slice: usize) -> Plan {
    bench.task.planner().plan(&PLENTY, &Wish { mode: None, slice: Some(slice) }).unwrap()
}

fn lost(calls: Vec<u64>) -> Faults {
    let faults = Faults::default();
    faults.lose_at(calls);
    faults
}

fn refused(n: usize) -> Faults {
    let faults = Faults::default();
    faults.refuse(n);
    faults
}

#[test]
fn a_device_lost_anywhere_changes_no_bit_and_no_frame_comes_twice() {
    let mut rng = Rng::new(8);
    let mut from_a_saved_state = 0;
    for direction in [Direction::Encode, Direction::Decode] {
        for dtype in [DType::F32, DType::Bf16] {
            let mut bench = bench(direction, 29, dtype);
            // The source alone knows where it ends.
            bench.task.job.open_ended = dtype == DType::Bf16;
            let plan = sliced(&bench, 4 * (1 + rng.below(2)));
            let (mut run, whole) = Disturbed::new(bench, &plan);
            let used = whole.result.unwrap();
            let calls = run.faults.calls();
            for i in 0..10 {
                let at = 1 + rng.below(calls as usize) as u64;
                let pace = if i % 5 == 4 { None } else { ALWAYS };
                let recovery = Some(Recovery { budget: PLENTY, pace });
                let cut = run.run(&plan, recovery, lost(vec![at]));
                let summary = cut.result.unwrap();
                assert!(same(&cut.made, &whole.made), "{direction:?} {dtype}: lost at {at} of {calls}");
                assert_eq!(summary.frames, used.frames);
                let opened = run.faults.opened();
                assert_eq!(opened.len(), 2, "lost at {at} of {calls}");
                assert!(opened[1] <= opened[0] / 4 * 3, "{opened:?}");
                assert_eq!(cut.plans.iter().map(|p| p.peaks.device).collect::<Vec<_>>(), opened);
                let [words] = &cut.warnings[..] else { panic!("{:?}", cut.warnings) };
                let sizes = opened.iter().map(|n| remaster_plan::bytes(*n));
                let told = sizes.into_iter().all(|n| words.contains(&n)) && words.contains("was lost");
                assert!(told, "{words}");
                let start = cut.plans[1].job.start;
                assert_eq!(words.contains("from the start"), start == 0, "{words}");
                assert!(pace.is_some() || start == 0);
                from_a_saved_state += usize::from(start > 0);
            }
        }
    }
    assert!(from_a_saved_state >= 15, "only {from_a_saved_state} runs went on from a saved state");
}

#[test]
fn a_second_fault_is_the_error_unless_state_was_saved_in_between() {
    let bench = bench(Direction::Decode, 29, DType::F32);
    let plan = sliced(&bench, 4);
    let (mut run, whole) = Disturbed::new(bench, &plan);
    let calls = run.faults.calls();

    let ended = |cut: Outcome| {
        let error = cut.result.unwrap_err();
        assert!(matches!(error, EngineError::Compute(ComputeError::DeviceLost { .. })), "{error}");
        assert_eq!(cut.made.data.len(), 0, "the sink was not told to leave nothing behind");
    };
    let restart = Recovery { budget: PLENTY, pace: None };
    // The new plan may have longer slices, and fewer calls.
    ended(run.run(&plan, Some(restart), lost(vec![calls / 2, calls * 5 / 8])));
    assert_eq!(run.faults.opened().len(), 2);
    // The second device is lost while its weights are loaded or its state is restored.
    let keep = Recovery { budget: PLENTY, pace: ALWAYS };
    ended(run.run(&plan, Some(keep), lost(vec![calls / 2, calls / 2 + 3])));
    // Without leave to plan anew the first fault ends the run.
    ended(run.run(&plan, None, lost(vec![calls / 2])));
    assert_eq!(run.faults.opened().len(), 1);

    let first = run.run(&plan, Some(keep), lost(vec![calls / 8]));
    let (all, start) = (run.faults.calls(), first.plans[1].job.start);
    let cut = run.run(&plan, Some(keep), lost(vec![calls / 8, all - 20]));
    cut.result.unwrap();
    assert!(same(&cut.made, &whole.made));
    assert_eq!(run.faults.opened().len(), 3);
    assert!(cut.plans[2].job.start > start, "{:?}", cut.warnings);
}

#[test]
fn a_device_without_room_is_planned_anew_once() {
    let mut rng = Rng::new(5);
    for _ in 0..4 {
        let bench = bench(direction(&mut rng), 13, DType::F32);
        let plan = sliced(&bench, 8);
        let (mut run, whole) = Disturbed::new(bench, &plan);
        for budget in [PLENTY, Budget::Shared { ram: 1 << 40, disk: 1 << 40 }] {
            let recovery = Some(Recovery { budget, pace: None });
            let cut = run.run(&plan, recovery, refused(1));
            cut.result.unwrap();
            assert!(same(&cut.made, &whole.made));
            let opened = run.faults.opened();
            assert!(opened.len() == 2 && opened[1] < opened[0], "{opened:?}");
            assert!(cut.warnings[0].contains("has no room for"), "{:?}", cut.warnings);

            let error = run.run(&plan, recovery, refused(2)).result.unwrap_err();
            let typed = matches!(error, EngineError::Compute(ComputeError::DeviceMemory { bytes, .. })
                if bytes == opened[1]);
            assert!(typed, "{error}");
        }
        assert!(run.run(&plan, None, refused(1)).result.is_err());
    }
}

#[test]
fn tiles_and_bands_stay_as_they_were() {
    let clip = Clip::new(21, 64, 48).unwrap();
    let tiling = Tiling::new([32, 32], [8, 8], 8).unwrap();
    let bands = Bands { level: 2, count: 3, halo: None, reduce: 2 };
    for mode in [Mode::Blend(tiling), Mode::SharedStats(bands)] {
        let build = build(DType::F32, true);
        let bench = Bench::new(&NARROW, Direction::Decode, clip, Backend::cpu_with(2), build);
        let plan = bench.plan(Candidate { mode, slice: 8, state: Tiers::DEVICE, ..WHOLE });
        let (mut run, whole) = Disturbed::new(bench, &plan);
        whole.result.unwrap();
        assert_eq!(whole.warnings.len(), 1, "{:?}", whole.warnings);
        let calls = run.faults.calls();
        for faults in [refused(1), lost(vec![calls / 4]), lost(vec![calls * 3 / 4])] {
            let cut = run.run(&plan, Some(Recovery { budget: PLENTY, pace: ALWAYS }), faults);
            cut.result.unwrap();
            assert!(same(&cut.made, &whole.made), "{mode:?}");
            assert_eq!(cut.plans.len(), 2);
            assert_eq!(cut.plans[1].how.mode, mode);
            if let Mode::SharedStats(_) = mode {
                assert_eq!(cut.plans[1].how, plan.how);
                assert!(cut.warnings[1].contains("the same plan"), "{:?}", cut.warnings);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_twice_or_saved_is_said() {
    let bench = bench(Direction::Encode, 21, DType::F32);
    let plan = sliced(&bench, 4);
    let (mut run, whole) = Disturbed::new(bench, &plan);
    let calls = run.faults.calls();

    let pipe = &mut Pipe(MemoryClip::source(run.bench.clip.clone()));
    let keep = Recovery { budget: PLENTY, pace: ALWAYS };
    let cut = run.run_from(pipe, &plan, Some(keep), lost(vec![calls / 2]));
    let error = cut.result.unwrap_err();
    assert!(matches!(error, EngineError::Compute(ComputeError::DeviceLost { .. })), "{error}");
    assert!(cut.warnings[0].contains("cannot be read twice"), "{:?}", cut.warnings);

    // No disk may be used: the clip starts anew.
    let budget = Budget::Apart { vram: 1 << 40, ram: 1 << 40, disk: 0 };
    let cut = run.run(&plan, Some(Recovery { budget, pace: ALWAYS }), lost(vec![calls * 3 / 4]));
    cut.result.unwrap();
    assert!(same(&cut.made, &whole.made));
    assert_eq!(cut.plans[1].job.start, 0);

    // No disk can be used: the run goes on and says so once.
    let settings = &mut run.bench.task.settings;
    (settings.spill, settings.recovery, settings.open) =
        (Some("/nowhere".into()), Some(keep), Open::default());
    let (mut source, mut sink) = (MemoryClip::source(run.bench.clip.clone()), Strict(MemoryClip::sink()));
    let mut warnings = Vec::new();
    let told = &mut |event: Event<'_>| {
        if let Event::Warning(text) = event {
            warnings.push(text.to_owned())
        }
    };
    run.bench.task.run(&plan, &mut source, &mut sink, told).unwrap();
    assert!(same(&sink.0.clip, &whole.made));
    assert!(warnings.len() == 1 && warnings[0].contains("no longer saved"), "{warnings:?}");
}
