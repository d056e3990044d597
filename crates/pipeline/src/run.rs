//! The ways a clip can take.

use std::path::Path;
use std::time::{Duration, Instant};

use remaster_engine::{EngineError, Event as EngineEvent, Guarded, Sink, Source, Task};
use remaster_media::FrameSink;
use remaster_plan::Plan;

use crate::about::{About, NetworkId};
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::intake::{Beside, Footage, Intake};
use crate::latent_file::{LatentFile, LatentReader, LatentWriter};
use crate::latents::Latents;
use crate::origin::Origin;
use crate::outlet::Outlet;

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

/// Halves under way.
struct Running<'a> {
    run: Guarded<'a>,
    phases: Vec<&'static str>,
    /// Frames of each half that were told of.
    told: Vec<usize>,
}

/// What the engine says, as far as it is of interest here.
fn pass(phase: &'static str, event: &EngineEvent<'_>, events: Events<'_>) {
    match event {
        EngineEvent::TileDone { tile, of } => events(Event::Tile { phase, tile: *tile, of: *of }),
        EngineEvent::Warning(text) => events(Event::Warning(text)),
        _ => {}
    }
}

impl<'a> Running<'a> {
    fn start(halves: &[Half<'a>], events: Events<'_>) -> Result<Self, PipelineError> {
        let lanes = halves.iter().map(|half| half.task.lane(half.plan)).collect();
        let run = Guarded::start(lanes, &mut |event| pass("", &event, events))?;
        let phases = halves.iter().map(|half| half.plan.job.direction.name()).collect();
        events(Event::Loaded);
        Ok(Running { run, phases, told: vec![0; halves.len()] })
    }

    /// Takes a slice through half number `i` and returns how long the network computed.
    fn advance(
        &mut self,
        i: usize,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Duration, EngineError> {
        let started = Instant::now();
        let mut source = Timed { source, waited: Duration::ZERO };
        let mut sink = TimedSink { sink, waited: Duration::ZERO };
        let phase = self.phases[i];
        self.run.advance(i, &mut source, &mut sink, &mut |event| pass(phase, &event, events))?;
        Ok(started.elapsed().saturating_sub(source.waited + sink.waited))
    }

    /// Tells of a slice; the clip has `clip` frames as far as is known. What fills up its end is no part of it,
    /// and what is made again was told of.
    fn tell(&mut self, i: usize, busy: Duration, clip: usize, events: Events<'_>) {
        let (phase, summary) = (self.phases[i], self.run.summary(i));
        // An encoder takes frames, a decoder gives them.
        let through = if phase == "encode" { self.run.seen(i) } else { summary.frames };
        let frames = through.min(clip).saturating_sub(self.told[i]);
        events(Event::Advanced { phase, frames, busy, device_peak: summary.device_peak });
        self.told[i] += frames;
    }

    fn keep(&mut self, events: Events<'_>) -> Result<(), EngineError> {
        self.run.keep(&mut |event| pass("", &event, events))
    }

    /// After an error: goes on if it was the device's.
    fn recover(
        &mut self,
        error: EngineError,
        source: &mut dyn Source,
        events: Events<'_>,
    ) -> Result<(), PipelineError> {
        let mut tell = |event: EngineEvent<'_>| pass("", &event, events);
        Ok(self.run.recover(error, &mut |frame| source.back_to(frame), &mut tell)?)
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

    fn back_to(&mut self, frame: usize) -> Result<(), remaster_engine::SourceError> {
        self.source.back_to(frame)
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
    footage: Footage<'_>,
    sink: Box<dyn FrameSink>,
    geometry: Geometry,
    halves: [Half<'_>; 2],
    clamp: bool,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let channels = halves[1].task.settings.channels[0];
    let mut running = Running::start(&halves, events)?;
    let (mut intake, beside) = Intake::start(footage, geometry);
    let mut outlet = Outlet::start(sink, geometry, clamp, Box::new(beside.into_iter().map(Ok)));
    let mut latents = Latents::new(channels);
    while !running.run.is_done(1) {
        let decodes = running.run.is_done(0) || latents.len() >= running.run.wants(1);
        let step = match decodes {
            true => running.advance(1, &mut latents, &mut outlet, events),
            false => running.advance(0, &mut intake, &mut latents, events),
        };
        let step = step.and_then(|busy| {
            running.tell(usize::from(decodes), busy, intake.seen(), events);
            // Slices of one half are multiples of those of the other, so every few of them nothing waits.
            if latents.len() == 0 { running.keep(events) } else { Ok(()) }
        });
        if let Err(error) = step {
            latents.clear();
            running.recover(error, &mut intake, events)?;
        }
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    let frames = outlet.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
}

/// A latent file that is to be written.
pub struct LatentTarget<'a> {
    /// Where.
    pub path: &'a Path,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// The network that makes the latents.
    pub network: NetworkId,
    /// The file that the clip comes from.
    pub origin: Option<Origin>,
}

/// Frames to a latent file.
pub fn encode(
    footage: Footage<'_>,
    target: LatentTarget<'_>,
    geometry: Geometry,
    half: Half<'_>,
    channels: usize,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let geometry = geometry.with_alpha(false);
    let about = About::new(footage.source.format(), geometry, target.network, target.origin);
    let mut running = Running::start(&[half], events)?;
    let (mut intake, beside) = Intake::start(footage, geometry);
    let mut writer = LatentWriter::create(target.path, target.overwrite, &about, channels)?;
    let times = |writer: &mut LatentWriter, beside: &mut dyn Iterator<Item = Beside>| {
        for Beside { pts, .. } in beside {
            writer.time(pts)?;
        }
        Ok::<_, PipelineError>(())
    };
    while !running.run.is_done(0) {
        let step = running.advance(0, &mut intake, &mut writer, events).and_then(|busy| {
            running.tell(0, busy, intake.seen(), events);
            running.keep(events)
        });
        times(&mut writer, &mut beside.try_iter())?;
        if let Err(error) = step {
            running.recover(error, &mut intake, events)?;
        }
    }
    events(Event::Finishing);
    let started = Instant::now();
    drop(intake);
    times(&mut writer, &mut beside.iter())?;
    let frames = writer.finish()?;
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
    let mut running = Running::start(&[half], events)?;
    let mut reader = LatentReader::new(file);
    let mut outlet = Outlet::start(sink, file.about().geometry, clamp, Box::new(file.times()?.asides()));
    while !running.run.is_done(0) {
        let step = running.advance(0, &mut reader, &mut outlet, events).and_then(|busy| {
            running.tell(0, busy, file.frames(), events);
            running.keep(events)
        });
        if let Err(error) = step {
            running.recover(error, &mut reader, events)?;
        }
    }
    events(Event::Finishing);
    let started = Instant::now();
    let frames = outlet.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
}
