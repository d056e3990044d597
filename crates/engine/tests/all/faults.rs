//! Runs that do not end well: typed errors, nothing half-made, nothing left behind.

use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use crate::common::{Bench, Broken, WHOLE, way};
use remaster_compute::{Backend, CancelToken, ComputeError, DType};
use remaster_engine::{EngineError, MemoryClip, RunSettings, Session, Sink, Source, SpillFile};
use remaster_model::vae::Direction;
use remaster_plan::{Candidate, Clip, Mode, Tiers};
use remaster_testkit::{Rng, nightly};

fn bench(frames: usize) -> Bench {
    let clip = Clip::new(frames, 64, 64).unwrap();
    Bench::tiny(Direction::Decode, clip, 2)
}

const SPILLED: Candidate = Candidate {
    mode: Mode::Exact { stripes: 5 },
    slice: 4,
    activations: Tiers::file(0),
    state: Tiers::file(0),
    ..WHOLE
};

#[test]
fn random_cancels_end_within_a_second_and_leave_nothing() {
    let mut rng = Rng::new(3);
    let mut bench = bench(41);
    let folder = tempfile::tempdir().unwrap();
    for i in 0..nightly(20, 50) {
        let plan = bench.plan(Candidate { slice: 4, ..way(&mut rng) });
        let cancel = CancelToken::default();
        bench.task.settings.cancel = cancel.clone();
        bench.task.settings.spill = Some(folder.path().into());
        let delay = Duration::from_millis(rng.below(300) as u64);
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(delay);
            cancel.cancel();
            Instant::now()
        });
        let (mut source, mut sink) = bench.ends();
        let result = bench.task.run(&plan, &mut source, &mut sink, &mut |_| ());
        let ended = Instant::now();
        let asked = canceller.join().unwrap();
        match result {
            Ok(_) => assert!(ended < asked + Duration::from_secs(1)),
            Err(error) => {
                assert!(error.is_cancelled(), "run {i}: {error}");
                assert!(ended.saturating_duration_since(asked) < Duration::from_secs(1), "run {i}");
                assert_eq!(sink.clip.data.len(), 0);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut loaded = 0;
        bench.task.network.weights(&mut |w| loaded += w.holders());
        assert_eq!(loaded, 0, "run {i} left weights in its arena");
    }
}

#[test]
fn a_source_that_ends_or_breaks_and_a_sink_that_fails_are_typed_errors() {
    let bench = bench(17);
    let plan = bench.plan(SPILLED);
    let run = |source: &mut dyn Source, sink: &mut dyn Sink| bench.task.run(&plan, source, sink, &mut |_| ());
    let (mut source, mut sink) = bench.ends();
    source.clip.shape.t -= 1;
    source.clip.data.truncate(source.clip.shape.len());
    let result = run(&mut source, &mut sink);
    assert!(matches!(result, Err(EngineError::Short { got: 4, expected: 5 })), "{result:?}");
    assert_eq!(sink.clip.data.len(), 0);

    for after in 0..3 {
        let mut source = Broken { inner: MemoryClip::source(bench.clip.clone()), after };
        let mut sink = MemoryClip::sink();
        let result = run(&mut source, &mut sink);
        assert!(matches!(result, Err(EngineError::Source { .. })), "{result:?}");
        assert_eq!(sink.clip.data.len(), 0);

        let mut source = MemoryClip::source(bench.clip.clone());
        let mut sink = Broken { inner: MemoryClip::sink(), after };
        let result = run(&mut source, &mut sink);
        assert!(matches!(result, Err(EngineError::Sink { .. })), "{result:?}");
        assert_eq!(sink.inner.clip.data.len(), 0);
    }
}

#[test]
fn a_full_disk_and_a_damaged_spill_file_are_typed_errors() {
    let bench = bench(17);
    let plan = bench.plan(SPILLED);
    let half = bench.task.network.as_ref();
    let (mut source, mut sink) = bench.ends();
    if cfg!(target_os = "linux") {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let file = Box::new(SpillFile::over(full, plan.peaks.disk).unwrap());
        let mut session = Session::start_with(&plan, half, &bench.task.settings, file).unwrap();
        let result = session.advance(&mut source, &mut sink, &mut |_| ());
        assert!(matches!(result, Err(EngineError::Compute(ComputeError::Store { .. }))), "{result:?}");
    }

    let mut inner = tempfile::tempfile().unwrap();
    let file = Box::new(SpillFile::over(inner.try_clone().unwrap(), plan.peaks.disk).unwrap());
    let mut session = Session::start_with(&plan, half, &bench.task.settings, file).unwrap();
    let mut source = MemoryClip::source(bench.clip.clone());
    session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
    let bytes = inner.metadata().unwrap().len();
    for at in (0..bytes).step_by(4096) {
        inner.seek(SeekFrom::Start(at)).unwrap();
        inner.write_all(&[0xA5; 16]).unwrap();
    }
    let result = session.advance(&mut source, &mut sink, &mut |_| ());
    assert!(matches!(result, Err(EngineError::Compute(ComputeError::Corrupt { .. }))), "{result:?}");

    let settings = RunSettings { spill: Some("/nowhere".into()), ..bench.task.settings.clone() };
    let result = Session::start(&plan, half, &settings).map(|_| ());
    assert!(matches!(result, Err(EngineError::Spill { .. })), "{result:?}");
}

#[test]
fn a_plan_for_something_else_is_refused() {
    let mut bench = bench(9);
    let plan = bench.plan(WHOLE);
    let half = bench.task.network.as_ref();
    let refused = |plan: &remaster_plan::Plan, settings: &RunSettings| {
        let result = Session::start(plan, half, settings).map(|_| ());
        assert!(matches!(result, Err(EngineError::Mismatch { .. })), "{result:?}");
    };
    refused(&plan, &RunSettings { dtype: DType::Bf16, ..bench.task.settings.clone() });
    refused(&plan, &RunSettings { backend: Backend::Reference, ..bench.task.settings.clone() });
    refused(&remaster_plan::Plan { version: 99, ..plan.clone() }, &bench.task.settings);

    // A plan that goes on from a saved state does not start without it.
    bench.task.job.start = 2;
    let plan = bench.plan(WHOLE);
    let mut session = bench.task.start(&plan).unwrap();
    let (mut source, mut sink) = bench.ends();
    let result = session.advance(&mut source, &mut sink, &mut |_| ());
    assert!(matches!(result, Err(EngineError::State { .. })), "{result:?}");
}

#[test]
fn memory_does_not_grow_with_the_length_of_the_clip() {
    let peaks = |frames: usize| {
        let clip = Clip::new(frames, 128, 128).unwrap();
        let bench = Bench::tiny(Direction::Decode, clip, 2);
        [Candidate { slice: 4, ..WHOLE }, Candidate { slice: 8, ..SPILLED }].map(|how| bench.plan(how).peaks)
    };
    let short = peaks(65);
    assert_eq!(short, peaks(257));
    assert_eq!(short, peaks(40_001));
}
