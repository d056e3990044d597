//! What frames take on their way: no more than was said, and no more for a long clip than for a short one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::path::Path;

use remaster_compute::{Backend, DType};
use remaster_engine::Task;
use remaster_media::{Colour, Format, FrameSink, FrameSource, MediaError, Said, TimeBase};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_picture::{Edges, Frame, Layout};
use remaster_plan::{Budget, Clip, Plan, Wish};
use remaster_restore::clip::{LatentTarget, decode, encode, in_flight_bytes, roundtrip};
use remaster_restore::{Geometry, LatentFile, NetworkId, Planned, Resize};
use remaster_testkit::held::{Counting, held};
use remaster_weights::FormulaParams;

#[global_allocator]
static COUNTING: Counting = Counting;

/// A network that is as narrow as can be: frames are what takes memory here.
const NARROW: VaeConfig = VaeConfig { colours: 3, latent: 16, channels: [4, 4, 4, 4], resnets: 1, groups: 4 };

/// Frames that change, with alpha or without.
struct Grey {
    frames: usize,
    given: usize,
    format: Format,
}

fn grey(frames: usize, size: [usize; 2], alpha: bool) -> Box<dyn FrameSource> {
    let layout = Layout::from_name(if alpha { "rgba" } else { "rgb24" }).unwrap();
    let colour = Colour::new(Said::default(), &layout, size);
    let format = Format { rate: None, ..Format::even(size, layout, colour, TimeBase { num: 25, den: 1 }) };
    Box::new(Grey { frames, given: 0, format })
}

impl FrameSource for Grey {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.given == self.frames {
            return Ok(None);
        }
        self.given += 1;
        *frame = Frame::new(self.format.width, self.format.height, self.format.channels());
        frame.data.fill((self.given % 7) as f32 / 7.0);
        Ok(Some(self.given as i64))
    }
}

struct Slow(usize);

impl FrameSink for Slow {
    /// Slow at first, so that everything before it fills up.
    fn write(&mut self, _: &Frame, _: i64) -> Result<(), MediaError> {
        self.0 += 1;
        if self.0 < 20 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}

fn half(direction: Direction, geometry: &Geometry, frames: usize, slice: usize) -> (Task, Plan) {
    let [width, height] = geometry.padded;
    let clip = Clip::new((frames - 1).next_multiple_of(4) + 1, height, width).unwrap();
    let network = direction.network(&NARROW, &mut FormulaParams, DType::F32);
    let mut task = Task::new(network, clip.cells(), Backend::cpu_with(1), DType::F32);
    task.job.open_ended = direction == Direction::Encode;
    let plenty = Budget::Shared { ram: 1 << 40, disk: 1 << 40 };
    let plan = task.planner().plan(&plenty, &Wish { mode: None, slice: Some(slice) }).unwrap();
    (task, plan)
}

fn encoded(path: &Path, geometry: Geometry, frames: usize, slice: usize, alpha: bool) -> u64 {
    let (task, plan) = half(Direction::Encode, &geometry, frames, slice);
    held(|| {
        let network = NetworkId { kind: "vae".into(), name: "narrow".into(), sha256: None };
        let target = LatentTarget { path, overwrite: true, network, origin: None };
        let source = grey(frames, geometry.source, alpha);
        encode(source.into(), target, geometry, Planned { task: &task, plan: &plan }, 16, &mut |_| ())
            .unwrap();
    })
}

fn decoded(path: &Path, slice: usize) -> u64 {
    let file = LatentFile::open(path).unwrap();
    let (task, plan) = half(Direction::Decode, &file.about().geometry, file.frames(), slice);
    held(|| {
        let file = LatentFile::open(path).unwrap();
        decode(&file, Box::new(Slow(0)), Planned { task: &task, plan: &plan }, true, &mut |_| ()).unwrap();
    })
}

fn through(geometry: Geometry, frames: usize, slice: usize, alpha: bool) -> u64 {
    let [encoder, decoder] =
        [Direction::Encode, Direction::Decode].map(|d| half(d, &geometry, frames, slice));
    held(|| {
        let halves = [&encoder, &decoder].map(|(task, plan)| Planned { task, plan });
        let source = grey(frames, geometry.source, alpha);
        roundtrip(source.into(), Box::new(Slow(0)), geometry, halves, true, &mut |_| ()).unwrap();
    })
}

/// One test: the counters are the process's.
#[test]
fn frames_take_no_more_than_was_said_however_long_the_clip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z.safetensors");
    // Weights, threads and names, which belong to the process, are there with the smallest frames, too.
    let smallest = Geometry::new([16, 16], Resize::Keep, Edges::Black);
    let rest = through(smallest, 29, 4, false).max(encoded(&path, smallest, 29, 4, false));
    let cases = [
        ([144, 90], Resize::Keep, Edges::Black, false, 4),
        ([144, 90], Resize::Keep, Edges::MirrorBlack, true, 8),
        ([90, 60], Resize::Exactly([60, 90]), Edges::Mirror, true, 4),
        ([48, 32], Resize::Times(300), Edges::Black, true, 4),
        ([320, 200], Resize::Times(25), Edges::MirrorBlack, false, 16),
    ];
    for (size, resize, edges, alpha, slice) in cases {
        let geometry = Geometry::new(size, resize, edges).with_alpha(alpha);
        let said = in_flight_bytes(&geometry, slice);
        let took = [
            through(geometry, 29, slice, alpha),
            encoded(&path, geometry.with_alpha(false), 29, slice, alpha),
            decoded(&path, slice),
        ];
        println!("{size:?} {resize:?} {edges:?} alpha {alpha} slice {slice}: {took:?} of {said} and {rest}");
        assert!(took.iter().all(|n| *n <= said + rest), "{took:?} of {said} and {rest}");
    }
    // Twenty frames and many with alpha: the 8 bytes a frame of its time are on disk, too.
    let geometry = Geometry::new([32, 32], Resize::Keep, Edges::Black).with_alpha(true);
    let many = std::env::var("REMASTER_HELD_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(601);
    let run = |frames| {
        [
            encoded(&path, geometry.with_alpha(false), frames, 4, true),
            decoded(&path, 4),
            through(geometry, frames, 4, true),
        ]
    };
    let (few, more) = (run(21), run(many));
    println!("21 frames {few:?}, {many} frames {more:?}");
    for (few, more) in few.iter().zip(more) {
        // A frame of alpha is 4 KiB, all of them 2.4 MB; how full queues are depends on the moment.
        assert!(more < few + (160 << 10), "21 frames take {few}, {many} take {more}");
    }
}
