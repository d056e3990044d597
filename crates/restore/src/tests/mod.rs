//! The whole way of a film with small networks.

mod frames;
mod goldens;
mod invariance;
mod jumps;
mod kept;
mod latents;
mod recover;
mod unchanged;
mod unit;
mod unit_resume;

pub(crate) use invariance::recipe;
pub(crate) use unit::Memory;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use remaster_compute::{Backend, DType};
use remaster_engine::{Events, Task};
use remaster_media::{Colour, Format, FrameSink, FrameSource, MediaError, Said, TimeBase};
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_model::{Params, Scope, computed};
use remaster_picture::{Frame, Layout};
use remaster_plan::{Candidate, Cells, Clip, Plan};
use remaster_testkit::Rng;
use remaster_testkit::hostile::Counting;

use crate::decode_thread::Footage;
use crate::film::{Diffusion, Done, Film, Recipe, Room, restore};
use crate::latent_file::LatentWriter;
use crate::planned::Planned;

/// Counts what a hostile file makes its reader hold.
#[global_allocator]
static COUNTING: Counting = Counting;

/// The system's folder for temporary files.
pub(crate) fn folder() -> PathBuf {
    tempfile::NamedTempFile::new().unwrap().path().parent().unwrap().to_owned()
}

/// What frames of a size are, with samples as ffmpeg calls them.
pub(crate) fn format(samples: &str, size: [usize; 2]) -> Format {
    let layout = Layout::from_name(samples).unwrap();
    let colour = Colour::new(Said::default(), &layout, size);
    Format { rate: None, ..Format::even(size, layout, colour, TimeBase { num: 25, den: 1 }) }
}

/// Frames that are made one by one, each with its time.
struct Made<F> {
    format: Format,
    frames: usize,
    next: usize,
    make: F,
}

pub(crate) fn made(
    format: Format,
    frames: usize,
    make: impl Fn(usize) -> (Frame, i64) + Send + 'static,
) -> Box<dyn FrameSource> {
    Box::new(Made { format, frames, next: 0, make })
}

impl<F: Fn(usize) -> (Frame, i64) + Send> FrameSource for Made<F> {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.next == self.frames {
            return Ok(None);
        }
        let pts;
        (*frame, pts) = (self.make)(self.next);
        self.next += 1;
        Ok(Some(pts))
    }
}

/// Frames from memory, at times that count from `first`.
fn source_at(frames: &Arc<Vec<Frame>>, first: usize) -> Box<dyn FrameSource> {
    let (frames, count) = (Arc::clone(frames), frames.len());
    let format = format("rgb24", [frames[0].width, frames[0].height]);
    made(Format { frames: Some(count), ..format }, count, move |i| (frames[i].clone(), (first + i) as i64))
}

pub(crate) fn source(frames: &Arc<Vec<Frame>>) -> Box<dyn FrameSource> {
    source_at(frames, 0)
}

/// Columns and rows of frames of noise.
const NOISE: [usize; 2] = [21, 13];

/// So many frames of noise with alpha; number n of them, from 1, is shown at `time(n)`.
fn noise(frames: usize, time: fn(usize) -> usize) -> Box<dyn FrameSource> {
    let (time_base, rate) = (TimeBase { num: 1, den: 1000 }, Some(TimeBase { num: 25, den: 1 }));
    made(Format { time_base, rate, ..format("rgba", NOISE) }, frames, move |i| {
        let mut frame = Frame::new(NOISE[0], NOISE[1], 4);
        frame.data = Rng::new(i as u64).values(frame.data.len());
        (frame, time(i + 1) as i64)
    })
}

/// Frames into memory, with their times.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<(Frame, i64)>>>);

impl Kept {
    fn take(&self) -> Vec<(Frame, i64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The frames, whose times must count from `first`.
    fn frames_from(&self, first: usize) -> Vec<Frame> {
        let frame = |(i, (frame, pts))| {
            assert_eq!(pts, (first + i) as i64);
            frame
        };
        self.take().into_iter().enumerate().map(frame).collect()
    }
}

impl FrameSink for Kept {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.0.lock().unwrap().push((frame.clone(), pts));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}

/// Encoder and decoder of frames of a padded size.
fn vae(
    config: &VaeConfig,
    params: &mut dyn Params,
    [width, height]: [usize; 2],
    backend: Backend,
) -> [Task; 2] {
    let clip = Clip::new(33, height, width).unwrap();
    [Direction::Encode, Direction::Decode].map(|direction| {
        let network = direction.network(config, &mut *params, DType::F32);
        let mut task = Task::new(network, clip.cells(), backend, DType::F32);
        task.job.open_ended = true;
        task.settings.spill = Some(folder());
        task
    })
}

/// The transformer of `[t, h, w]` tokens, with so many rows of text.
fn dit(
    config: &DitConfig,
    params: &mut dyn Params,
    (rows, values): (usize, impl Fn(usize) -> f32 + Send + Sync + 'static),
    [t, h, w]: [usize; 3],
    backend: Backend,
) -> Task {
    let scope = &mut Scope::root(params, DType::F32);
    let text = Text::new(config, scope, rows, computed(values));
    let network = Dit::new(config, scope, text, [h, w], DitConfig::STEP);
    let cells = Cells { steps: t, rows: h * w, columns: 1 };
    let mut task = Task::new(Box::new(network), cells, backend, DType::F32);
    task.settings.spill = Some(folder());
    task
}

/// Encoder, transformer and decoder, and how they run.
struct Machines {
    tasks: [Task; 3],
    plans: [Plan; 3],
}

impl Machines {
    fn of(tasks: [Task; 3], ways: [Candidate; 3]) -> Self {
        let plans = [0, 1, 2].map(|i| tasks[i].exactly(ways[i]).unwrap());
        Machines { tasks, plans }
    }

    /// As they run best, with slices of so many frames in the VAE.
    fn sliced(tasks: [Task; 3], slice: usize) -> Self {
        Self::of(tasks, [slice, 0, slice].map(|slice| Candidate { slice, ..Candidate::WHOLE }))
    }

    fn networks(&self) -> Diffusion<'_> {
        let planned = |i: usize| Planned { task: &self.tasks[i], plan: &self.plans[i] };
        Diffusion { encode: planned(0), transform: planned(1), decode: planned(2) }
    }

    /// A film through them.
    fn restore(
        &self,
        frames: &[Frame],
        recipe: &Recipe,
        room: &Room,
        keep: Option<LatentWriter>,
        events: Events<'_>,
    ) -> (Vec<Frame>, Done) {
        let (frames, kept) = (Arc::new(frames.to_vec()), Kept::default());
        let footage = Footage { source: source(&frames), again: Some(Box::new(|| Ok(source(&frames)))) };
        let film = Film { footage, input: Some(source(&frames)), sink: Box::new(kept.clone()), keep };
        let done = restore(film, recipe, self.networks(), room, events).unwrap();
        (kept.frames_from(0), done)
    }
}

/// Room in memory for the latents of every film.
fn plenty() -> Room {
    Room { folder: None, bytes: 1 << 30 }
}
