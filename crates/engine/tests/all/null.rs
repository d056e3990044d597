//! Everything around the network, without a network.

use crate::common::{clip, way};
use remaster_compute::{Backend, DType, HostTensor};
use remaster_engine::{Event, MemoryClip, Task};
use remaster_model::NullVae;
use remaster_plan::{Candidate, Mode, Tiling};
use remaster_testkit::Rng;

fn through(which: NullVae, clip: remaster_plan::Clip, how: Candidate, input: HostTensor) -> HostTensor {
    let mut task = Task::new(Box::new(which), clip.cells(), Backend::cpu_with(1), DType::F32);
    task.settings.spill = Some(std::env::temp_dir());
    let plan = task.exactly(how).unwrap();
    let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
    let mut told = Vec::new();
    let summary = task
        .run(&plan, &mut source, &mut sink, &mut |event| {
            told.push(match event {
                Event::Planned(_) => "planned",
                Event::Loaded => "loaded",
                Event::SliceStarted { .. } => "slice",
                Event::Working { .. } => "working",
                Event::TileDone { .. } => "tile",
                Event::SliceDone { .. } => "done",
                Event::Counted(_) => "counted",
                Event::Finishing => "finishing",
                Event::Warning(_) => "warning",
                Event::Done(_) => "end",
            });
        })
        .unwrap();
    assert_eq!(summary.frames, sink.clip.shape.t);
    // Who asked for tiles is told that they are not exact.
    let warned = matches!(how.mode, Mode::Blend(_));
    assert_eq!(told.iter().filter(|w| **w == "warning").count(), usize::from(warned));
    told.retain(|w| *w != "warning");
    assert_eq!((told[0], told[1], told[told.len() - 1]), ("planned", "loaded", "end"));
    let count = |word: &str| told.iter().filter(|w| **w == word).count();
    assert_eq!(count("slice"), count("done"));
    sink.clip
}

#[test]
fn frames_come_back_as_they_went_however_the_work_is_cut() {
    let mut rng = Rng::new(21);
    for i in 0..40 {
        let clip = clip(&mut rng);
        let shape = remaster_compute::Shape::new(clip.frames(), clip.height(), clip.width(), 3);
        let x = HostTensor { shape, data: rng.values(shape.len()) };
        let blended = i % 2 == 0;
        let how = |rng: &mut Rng| match blended {
            true => {
                let tile = 8 * (1 + rng.below(6));
                let overlap = if tile == 8 || rng.one_in(4) { 0 } else { rng.between(8, tile - 1) };
                let tiling = Tiling::new([tile; 2], [overlap; 2], 8).unwrap();
                Candidate { mode: Mode::Blend(tiling), ..way(rng) }
            }
            false => way(rng),
        };
        let z = through(NullVae::Encoder, clip, how(&mut rng), x.clone());
        let y = through(NullVae::Decoder, clip, how(&mut rng), z);
        let difference = x.difference(&y).max_abs;
        // Weights of overlapping tiles add up to 1 only up to rounding.
        assert!(difference <= if blended { 1e-6 } else { 0.0 }, "{clip:?}: {difference:e}");
    }
}
