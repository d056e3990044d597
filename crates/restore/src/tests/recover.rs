//! Clips whose device is lost on the way come out as if nothing had happened.

use std::path::Path;
use std::time::Duration;

use remaster_compute::{Backend, DType};
use remaster_engine::{Event, Open, Pace, Recovery, Task};
use remaster_media::FrameSource;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_picture::{Edges, Frame};
use remaster_plan::{Budget, Clip, Plan, Tiling, Wish, WishedMode};
use remaster_testkit::{Faults, Rng};
use remaster_weights::FormulaParams;

use super::{Kept, NOISE, noise};
use crate::clip::{LatentTarget, decode, encode, roundtrip};
use crate::decode_thread::{Again, Footage};
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::latent_file::{LatentFile, NetworkId};
use crate::planned::Planned;

/// Narrow: weights are made for every run, and with streamed weights for every layer.
const NARROW: VaeConfig =
    VaeConfig { colours: 3, latent: 4, channels: [8, 8, 16, 16], resnets: 1, groups: 4 };

/// The network takes 29: the end is filled up.
const FRAMES: usize = 27;
const PLENTY: Budget = Budget::Apart { vram: 1 << 40, ram: 1 << 40, disk: 1 << 40 };

/// Frames of noise at uneven times.
fn source() -> Box<dyn FrameSource> {
    noise(FRAMES, |n| n * n)
}

/// With alpha.
fn geometry() -> Geometry {
    Geometry::new(NOISE, Default::default(), Edges::Black).with_alpha(true)
}

/// One half of a small network on a device that fails.
fn half(direction: Direction, slice: usize, faults: &Faults, folder: &Path) -> (Task, Plan) {
    let [width, height] = geometry().padded;
    let clip = Clip::new(29, height, width).unwrap();
    let network = direction.network(&NARROW, &mut FormulaParams, DType::F32);
    let mut task = Task::new(network, clip.cells(), Backend::cpu_with(1), DType::F32);
    task.job.open_ended = true;
    let pace = Some(Pace { every: Duration::ZERO, times: 0 });
    task.settings.recovery = Some(Recovery { budget: PLENTY, pace });
    task.settings.spill = Some(folder.into());
    let faults = faults.clone();
    task.settings.open = Open::with(move |backend, cap, cancel| faults.open(backend, cap, cancel));
    let plan = task.planner().plan(&PLENTY, &Wish { mode: None, slice: Some(slice) }).unwrap();
    (task, plan)
}

/// What came of a run.
struct Outcome {
    result: Result<usize, PipelineError>,
    warnings: Vec<String>,
    /// Frames that were told of, per half.
    told: [usize; 2],
    /// Times and values, to the bit.
    shown: Vec<(i64, Vec<u32>)>,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    Roundtrip(usize, usize),
    Encode(&'a Path),
    Decode(&'a Path),
}

fn run(way: Way<'_>, faults: &Faults, folder: &Path, rereads: bool) -> Outcome {
    let kept = Kept::default();
    let (sink, geometry) = (Box::new(kept.clone()), geometry());
    let again = rereads.then(|| -> Again<'_> { Box::new(|| Ok(source())) });
    let footage = Footage { source: source(), again };
    let (mut warnings, mut told) = (Vec::new(), [0; 2]);
    let mut events = |event: Event<'_>| match event {
        Event::Warning(text) => warnings.push(text.to_owned()),
        Event::SliceDone { network, frames, .. } => told[usize::from(network == "decode")] += frames,
        _ => {}
    };
    let half = |direction, slice| half(direction, slice, faults, folder);
    let result = match way {
        Way::Roundtrip(first, second) => {
            let (encoder, decoder) = (half(Direction::Encode, first), half(Direction::Decode, second));
            let halves = [&encoder, &decoder].map(|(task, plan)| Planned { task, plan });
            roundtrip(footage, sink, geometry, halves, true, &mut events)
        }
        Way::Encode(path) => {
            let (task, plan) = half(Direction::Encode, 4);
            let channels = NARROW.latent;
            let network = NetworkId { kind: "vae".into(), name: "narrow".into(), sha256: None };
            let target = LatentTarget { path, overwrite: true, network, origin: None };
            let half = Planned { task: &task, plan: &plan };
            encode(footage, target, geometry, half, channels, &mut events)
        }
        Way::Decode(path) => {
            let (task, plan) = half(Direction::Decode, 4);
            let file = LatentFile::open(path).unwrap();
            decode(&file, sink, Planned { task: &task, plan: &plan }, true, &mut events)
        }
    };
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "a file was left behind");
    let bits = |(frame, pts): (Frame, i64)| (pts, frame.data.iter().map(|v| v.to_bits()).collect());
    let shown = kept.take().into_iter().map(bits).collect();
    Outcome { result: result.map(|done| done.frames), warnings, told, shown }
}

/// Loses the device in `times` places; what comes out must be what came out of the undisturbed run. Returns how
/// many runs went on from a saved state.
fn disturb(way: Way<'_>, folder: &Path, times: usize, rng: &mut Rng, same: &dyn Fn(&Outcome)) -> usize {
    let faults = Faults::default();
    let whole = run(way, &faults, folder, true);
    same(&whole);
    let (calls, opened) = (faults.calls(), faults.opened().len());
    let mut saved = 0;
    for _ in 0..times {
        let at = 1 + rng.below(calls as usize) as u64;
        let faults = Faults::default();
        faults.lose_at(vec![at]);
        let cut = run(way, &faults, folder, true);
        assert_eq!(*cut.result.as_ref().unwrap(), FRAMES, "{way:?}: lost at {at} of {calls}");
        same(&cut);
        assert!(cut.shown == whole.shown, "{way:?}: lost at {at} of {calls}");
        assert_eq!(cut.told, whole.told, "{way:?}: lost at {at} of {calls}");
        assert!(faults.opened().len() > opened);
        assert_eq!(cut.warnings.len(), 1, "{:?}", cut.warnings);
        saved += usize::from(cut.warnings[0].contains("from frame"));
    }
    saved
}

#[test]
fn a_round_trip_loses_nothing_with_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(31);
    let mut saved = 0;
    for (first, second) in [(4, 4), (8, 4), (4, 8)] {
        let shown = |o: &Outcome| {
            let times: Vec<i64> = o.shown.iter().map(|(pts, _)| *pts).collect();
            assert_eq!(times, (1..=FRAMES as i64).map(|n| n * n).collect::<Vec<_>>());
        };
        saved += disturb(Way::Roundtrip(first, second), folder.path(), 7, &mut rng, &shown);
    }
    assert!(saved >= 10, "only {saved} runs went on from a saved state");
}

#[test]
fn encoding_and_decoding_lose_nothing_with_their_device() {
    let (folder, output) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut rng = Rng::new(32);
    let path = output.path().join("latents.safetensors");
    let whole = std::cell::OnceCell::new();
    let bytes = |_: &Outcome| {
        let bytes = std::fs::read(&path).unwrap();
        assert!(*whole.get_or_init(|| bytes.clone()) == bytes);
    };
    let encoded = disturb(Way::Encode(&path), folder.path(), 10, &mut rng, &bytes);
    let decoded = disturb(Way::Decode(&path), folder.path(), 10, &mut rng, &|_| ());
    assert!(encoded >= 5 && decoded >= 5, "{encoded} and {decoded} runs went on from a saved state");
}

#[test]
fn a_pipe_and_a_second_fault_end_the_run_with_the_error_of_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let way = Way::Roundtrip(4, 4);
    let faults = Faults::default();
    run(way, &faults, folder.path(), true).result.unwrap();
    let calls = faults.calls();
    for (rereads, at) in [(false, vec![calls / 2]), (true, vec![calls / 2, calls / 2 + 3])] {
        let faults = Faults::default();
        faults.lose_at(at);
        let cut = run(way, &faults, folder.path(), rereads);
        let error = cut.result.unwrap_err();
        let PipelineError::Engine(inner) = &error else { panic!("{error}") };
        assert!(inner.fault().is_some(), "{error}");
        assert_eq!(cut.warnings[0].contains("cannot be read twice"), !rereads, "{:?}", cut.warnings);
    }
    // Refused once, both halves get less.
    let faults = Faults::default();
    faults.refuse(1);
    let cut = run(way, &faults, folder.path(), false);
    cut.result.unwrap();
    assert_eq!(faults.opened().len(), 3);
    assert!(cut.warnings[0].contains("encode with") && cut.warnings[0].contains("decode with"));
}

#[test]
fn tiles_are_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let halves = [Direction::Encode, Direction::Decode].map(|d| half(d, 4, &faults, folder.path()));
    let tiling = Tiling::new([16, 16], [8, 8], 8).unwrap();
    let wish = Wish { mode: Some(WishedMode::Blend(tiling)), slice: Some(4) };
    let plans = [0, 1].map(|i: usize| halves[i].0.planner().plan(&PLENTY, &wish).unwrap());
    let mut warnings = 0;
    roundtrip(
        source().into(),
        Box::new(Kept::default()),
        geometry(),
        [0, 1].map(|i: usize| Planned { task: &halves[i].0, plan: &plans[i] }),
        true,
        &mut |event| warnings += usize::from(matches!(event, Event::Warning(_))),
    )
    .unwrap();
    assert_eq!(warnings, 1);
}
