//! The ways a clip can take.

use std::path::Path;
use std::time::{Duration, Instant};

use remaster_engine::{Event as EngineEvent, Sink, Source, Task};
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

/// A half under way.
struct Running<'a> {
    session: remaster_engine::Session<'a>,
    phase: &'static str,
    /// Frames that were told of.
    told: usize,
}

impl<'a> Running<'a> {
    fn start(half: &Half<'a>) -> Result<Self, PipelineError> {
        let phase = half.plan.job.direction.name();
        Ok(Running { session: half.task.start(half.plan)?, phase, told: 0 })
    }

    /// Takes a slice through and returns how long the network computed.
    fn advance(
        &mut self,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Duration, PipelineError> {
        let started = Instant::now();
        let mut source = Timed { source, waited: Duration::ZERO };
        let mut sink = TimedSink { sink, waited: Duration::ZERO };
        let phase = self.phase;
        self.session.advance(&mut source, &mut sink, &mut |step| {
            if let EngineEvent::TileDone { tile, of } = step {
                events(Event::Tile { phase, tile, of });
            }
        })?;
        Ok(started.elapsed().saturating_sub(source.waited + sink.waited))
    }

    /// Tells of a slice; the clip has `clip` frames as far as is known. What fills up its end is no part of it.
    fn tell(&mut self, busy: Duration, clip: usize, events: Events<'_>) {
        let summary = self.session.summary();
        // An encoder takes frames, a decoder gives them.
        let through = if self.phase == "encode" { self.session.seen() } else { summary.frames };
        let frames = through.min(clip).saturating_sub(self.told);
        events(Event::Advanced { phase: self.phase, frames, busy, device_peak: summary.device_peak });
        self.told += frames;
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
    while !decoder.session.is_done() {
        if encoder.session.is_done() || latents.len() >= decoder.session.wants() {
            let busy = decoder.advance(&mut latents, &mut outlet, events)?;
            decoder.tell(busy, intake.seen(), events);
        } else {
            let busy = encoder.advance(&mut intake, &mut latents, events)?;
            encoder.tell(busy, intake.seen(), events);
        }
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    let frames = outlet.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
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
    while !encoder.session.is_done() {
        let busy = encoder.advance(&mut intake, &mut writer, events)?;
        encoder.tell(busy, intake.seen(), events);
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    let frames = writer.finish(beside.iter().map(|b| b.pts))?;
    Ok(Done { frames, finishing: started.elapsed() })
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
    while !decoder.session.is_done() {
        let busy = decoder.advance(&mut reader, &mut outlet, events)?;
        decoder.tell(busy, file.timestamps().len(), events);
    }
    events(Event::Finishing);
    let started = Instant::now();
    let frames = outlet.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
}
