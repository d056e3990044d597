//! The ways a clip can take.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use remaster_compute::HostTensor;
use remaster_engine::{Event, Road, Sink, SinkError, Task, run};
use remaster_media::FrameSink;
use remaster_plan::Plan;

use crate::about::{About, NetworkId};
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::intake::{Beside, Footage, Intake};
use crate::latent_file::{LatentFile, LatentWriter};
use crate::latents::{Latents, means};
use crate::origin::Origin;
use crate::outlet::Outlet;

/// A network with a clip for it, and how it is to be run.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// The network.
    pub task: &'a Task,
    /// How it is to be run.
    pub plan: &'a Plan,
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

/// A clip through networks that follow one another. What fills up its end is no part of it: `clip` says how many frames
/// are known.
fn through(
    networks: &[Planned<'_>],
    clip: &dyn Fn() -> usize,
    road: Road<'_>,
    events: Events<'_>,
) -> Result<Instant, PipelineError> {
    let lanes = networks.iter().map(|network| network.task.lane(network.plan)).collect();
    let mut told: HashMap<&str, usize> = HashMap::new();
    let events = &mut |mut event: Event<'_>| {
        if let Event::SliceDone { network, frames, .. } = &mut event {
            let told = told.entry(network).or_default();
            *frames = (*told + *frames).min(clip()).saturating_sub(*told);
            *told += *frames;
        }
        events(event);
    };
    run(lanes, road, events)?;
    Ok(Instant::now())
}

/// Frames to latents and back. The networks take turns slice by slice, so the first frames are written while the
/// last ones are still to be read. `clamp` cuts results to the range of pictures.
pub fn roundtrip(
    footage: Footage<'_>,
    sink: Box<dyn FrameSink>,
    geometry: Geometry,
    networks: [Planned<'_>; 2],
    clamp: bool,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let mut latents = Latents::new(networks[1].task.job.network.channels[0]);
    let (mut intake, beside) = Intake::start(footage, geometry);
    let mut outlet = Outlet::start(sink, geometry, clamp, Box::new(beside.into_iter().map(Ok)));
    let count = intake.counter();
    let road = Road { source: &mut intake, links: vec![&mut latents], sink: &mut outlet };
    let started = through(&networks, &count, road, events)?;
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
    network: Planned<'_>,
    channels: usize,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    let geometry = geometry.with_alpha(false);
    let about = About::new(footage.source.format(), geometry, target.network, target.origin);
    let (mut intake, beside) = Intake::start(footage, geometry);
    let writer = LatentWriter::create(target.path, target.overwrite, &about, channels)?;
    let mut file = Means { writer, channels, beside };
    let count = intake.counter();
    let road = Road { source: &mut intake, links: Vec::new(), sink: &mut file };
    let started = through(&[network], &count, road, events)?;
    drop(intake);
    let frames = file.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
}

/// Means of moments into a file, with the times of their frames.
struct Means {
    writer: LatentWriter,
    channels: usize,
    /// Times of frames that were read.
    beside: Receiver<Beside>,
}

impl Means {
    fn complete(mut self) -> Result<usize, PipelineError> {
        while let Ok(Beside { pts, .. }) = self.beside.recv() {
            self.writer.time(pts)?;
        }
        self.writer.complete()
    }

    fn slice(&mut self, moments: &HostTensor) -> Result<(), PipelineError> {
        for latent in means(moments, self.channels) {
            self.writer.latent(latent.into_iter())?;
        }
        while let Ok(Beside { pts, .. }) = self.beside.try_recv() {
            self.writer.time(pts)?;
        }
        Ok(())
    }
}

impl Sink for Means {
    fn write(&mut self, _first: usize, moments: HostTensor) -> Result<(), SinkError> {
        self.slice(&moments).map_err(|e| SinkError(Box::new(e)))
    }
}

/// A latent file to frames. `clamp` cuts results to the range of pictures.
pub fn decode(
    file: &LatentFile,
    sink: Box<dyn FrameSink>,
    network: Planned<'_>,
    clamp: bool,
    events: Events<'_>,
) -> Result<Done, PipelineError> {
    file.one_clip()?;
    let mut reader = file.latents(0..file.shape().t);
    let mut outlet = Outlet::start(sink, file.about().geometry, clamp, Box::new(file.times()?.asides()));
    let road = Road { source: &mut reader, links: Vec::new(), sink: &mut outlet };
    let started = through(&[network], &|| file.frames(), road, events)?;
    let frames = outlet.complete()?;
    Ok(Done { frames, finishing: started.elapsed() })
}
