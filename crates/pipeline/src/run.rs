//! The ways a clip can take.

use std::path::Path;
use std::time::{Duration, Instant};

use remaster_engine::{Event as EngineEvent, Sink, Source, Summary, Task};
use remaster_media::{FrameSink, FrameSource};
use remaster_plan::Plan;

use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::intake::{self, Intake};
use crate::latent_file::{About, LatentFile, LatentReader, LatentWriter};
use crate::latents::Latents;
use crate::outlet::{self, Outlet};

/// One half of the network, with the plan for it.
pub struct Half<'a> {
    /// The network.
    pub task: &'a Task,
    /// How it is to be run.
    pub plan: &'a Plan,
}

/// What happens on the way.
#[derive(Debug)]
pub enum Event<'a> {
    /// Weights are loaded.
    Loaded,
    /// A slice went through a half: so many frames, so long.
    Advanced {
        /// `encode` or `decode`.
        phase: &'static str,
        /// Frames of the clip, in pixels.
        frames: usize,
        /// Time it took.
        busy: Duration,
        /// Bytes on the device at most so far, in this half.
        device_peak: u64,
    },
    /// A tile of a slice is done.
    Tile {
        /// `encode` or `decode`.
        phase: &'static str,
        /// Its number.
        tile: usize,
        /// How many there are.
        of: usize,
    },
    /// All frames are made; the file is completed and checked.
    Finishing,
    /// Something a person should know.
    Warning(&'a str),
}

/// What a clip took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Frames of the clip.
    pub frames: usize,
    /// What the encoder used.
    pub encode: Option<Summary>,
    /// What the decoder used.
    pub decode: Option<Summary>,
    /// Time the encoder computed.
    pub encode_busy: Duration,
    /// Time the decoder computed.
    pub decode_busy: Duration,
    /// Time between the last frame made and the file in its place.
    pub finishing: Duration,
}

type Events<'a> = &'a mut dyn FnMut(Event<'_>);

/// Bytes of host memory that frames take on their way, beside what the plans count: prepared frames, raw
/// frames and slices that wait.
pub fn held_bytes(geometry: &Geometry, slice: usize) -> u64 {
    let frame = |[w, h]: [usize; 2]| (w * h * 3 * 4) as u64;
    let (padded, source) = (frame(geometry.padded), frame(geometry.source));
    let slice = slice.max(4) as u64 + 1;
    // Waiting and at hand and kept for the end; slices that wait or are being written; pipes and samples.
    (intake::WAITING as u64 + 6) * padded + (outlet::WAITING as u64 + 1) * slice * padded + 6 * source
}

/// A half under way, with the time it took.
struct Running<'a> {
    session: remaster_engine::Session<'a>,
    phase: &'static str,
    busy: Duration,
}

impl<'a> Running<'a> {
    fn start(half: &Half<'a>) -> Result<Self, PipelineError> {
        let phase = half.plan.job.direction.name();
        let session = half.task.start(half.plan)?;
        Ok(Running { session, phase, busy: Duration::ZERO })
    }

    fn advance(
        &mut self,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Step, PipelineError> {
        let started = Instant::now();
        let mut source = Timed { source, waited: Duration::ZERO };
        let mut sink = TimedSink { sink, waited: Duration::ZERO };
        let phase = self.phase;
        self.session.advance(&mut source, &mut sink, &mut |step| {
            if let EngineEvent::TileDone { tile, of } = step {
                events(Event::Tile { phase, tile, of });
            }
        })?;
        let busy = started.elapsed().saturating_sub(source.waited + sink.waited);
        self.busy += busy;
        let summary = self.session.summary();
        // An encoder takes frames, a decoder gives them. What fills up the end is not part of the clip.
        let through = if phase == "encode" { self.session.seen() } else { summary.frames };
        Ok(Step { phase, through, busy, device_peak: summary.device_peak })
    }
}

/// A slice that went through a half.
struct Step {
    phase: &'static str,
    /// Frames that went through so far, with those that fill up the end.
    through: usize,
    busy: Duration,
    device_peak: u64,
}

/// Frames of each half that were told of.
#[derive(Default)]
struct Told {
    encode: usize,
    decode: usize,
}

impl Told {
    /// Tells of a step; a clip has `clip` frames as far as is known.
    fn tell(&mut self, step: &Step, clip: usize, events: Events<'_>) {
        let told = if step.phase == "encode" { &mut self.encode } else { &mut self.decode };
        let through = step.through.min(clip);
        let (phase, busy, device_peak) = (step.phase, step.busy, step.device_peak);
        events(Event::Advanced { phase, frames: through.saturating_sub(*told), busy, device_peak });
        *told = through.max(*told);
    }
}

/// A source that is waited for is not the network's time.
struct Timed<'a> {
    source: &'a mut dyn Source,
    waited: Duration,
}

impl Source for Timed<'_> {
    fn read(
        &mut self,
        shape: remaster_compute::Shape,
        out: &mut [f32],
    ) -> Result<usize, remaster_engine::SourceError> {
        let started = Instant::now();
        let result = self.source.read(shape, out);
        self.waited += started.elapsed();
        result
    }
}

struct TimedSink<'a> {
    sink: &'a mut dyn Sink,
    waited: Duration,
}

impl Sink for TimedSink<'_> {
    fn write(
        &mut self,
        first: usize,
        frames: remaster_compute::HostTensor,
    ) -> Result<(), remaster_engine::SinkError> {
        let started = Instant::now();
        let result = self.sink.write(first, frames);
        self.waited += started.elapsed();
        result
    }
}

/// Frames to latents and back. The halves take turns slice by slice, so the first frames are written while the
/// last ones are still to be read. `clamp` cuts results to the range of pictures.
pub fn roundtrip(
    source: Box<dyn FrameSource>,
    sink: Box<dyn FrameSink>,
    geometry: Geometry,
    halves: [Half<'_>; 2],
    clamp: bool,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let channels = halves[1].task.settings.channels[0];
    let (mut encoder, mut decoder) = (Running::start(&halves[0])?, Running::start(&halves[1])?);
    events(Event::Loaded);
    let (mut intake, beside) = Intake::start(source, geometry);
    let mut outlet = Outlet::start(sink, geometry, clamp, beside);
    let mut latents = Latents::new(channels);
    let mut told = Told::default();
    while !decoder.session.is_done() {
        let step = if encoder.session.is_done() || latents.len() >= decoder.session.wants() {
            decoder.advance(&mut latents, &mut outlet, events)?
        } else {
            encoder.advance(&mut intake, &mut latents, events)?
        };
        told.tell(&step, intake.seen(), events);
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    let frames = outlet.complete()?;
    Ok(Done {
        frames,
        encode: Some(encoder.session.summary()),
        decode: Some(decoder.session.summary()),
        encode_busy: encoder.busy,
        decode_busy: decoder.busy,
        finishing: started.elapsed(),
    })
}

/// Frames to a latent file at `path`.
pub fn encode(
    source: Box<dyn FrameSource>,
    path: &Path,
    overwrite: bool,
    geometry: Geometry,
    half: Half<'_>,
    channels: usize,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let about = About::new(source.format(), geometry);
    let mut encoder = Running::start(&half)?;
    events(Event::Loaded);
    let (mut intake, beside) = Intake::start(source, geometry);
    let mut writer = LatentWriter::create(path, overwrite, about, channels)?;
    let mut told = Told::default();
    while !encoder.session.is_done() {
        let step = encoder.advance(&mut intake, &mut writer, events)?;
        told.tell(&step, intake.seen(), events);
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    let frames = writer.finish(beside.iter().map(|b| b.pts))?;
    Ok(Done {
        frames,
        encode: Some(encoder.session.summary()),
        encode_busy: encoder.busy,
        finishing: started.elapsed(),
        ..Done::default()
    })
}

/// A latent file to frames. `clamp` cuts results to the range of pictures.
pub fn decode(
    file: &LatentFile,
    sink: Box<dyn FrameSink>,
    half: Half<'_>,
    clamp: bool,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let mut decoder = Running::start(&half)?;
    events(Event::Loaded);
    let mut reader = LatentReader::new(file);
    let (to, beside) = std::sync::mpsc::channel();
    for pts in file.timestamps() {
        let _ = to.send(intake::Beside { pts: *pts, alpha: None });
    }
    drop(to);
    let mut outlet = Outlet::start(sink, file.about().geometry, clamp, beside);
    let mut told = Told::default();
    while !decoder.session.is_done() {
        let step = decoder.advance(&mut reader, &mut outlet, events)?;
        told.tell(&step, file.timestamps().len(), events);
    }
    events(Event::Finishing);
    let started = Instant::now();
    let frames = outlet.complete()?;
    Ok(Done {
        frames,
        decode: Some(decoder.session.summary()),
        decode_busy: decoder.busy,
        finishing: started.elapsed(),
        ..Done::default()
    })
}
