//! One clip through one or two networks, slice by slice.
//!
//! Frames are decoded in one thread and encoded in another; between them the engine takes slice after slice
//! through the network. All queues are bounded: memory does not depend on the length of a clip.
//!
//! * [`roundtrip`]: frames to latents and back;
//! * [`encode`], [`decode`]: one of the two, with a [`LatentFile`] in between;
//! * [`in_flight_bytes`]: what frames take on their way.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use remaster_compute::HostTensor;
use remaster_engine::{Event, Events, Road, Sink, SinkError, run};
use remaster_media::FrameSink;

use crate::decode_thread::{self, Beside, DecodeThread, Footage};
use crate::encode_thread;
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::latent_file::{About, LatentFile, LatentWriter, NetworkId, Origin};
use crate::latents::{Latents, means};
use crate::planned::Planned;
use crate::tail::Tail;
use crate::worker;

/// What a clip took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Frames of the clip.
    pub frames: usize,
    /// Time between the last frame made and the file in its place.
    pub finishing: Duration,
}

/// A clip through networks that follow one another. What fills up its end is no part of it: `clip` says how many frames
/// are known.
fn through(
    networks: &[Planned<'_>],
    clip: &dyn Fn() -> usize,
    road: Road<'_>,
    events: Events<'_>,
) -> Result<Instant, PipelineError> {
    let network_runs = networks.iter().map(|network| network.task.network_run(network.plan)).collect();
    let mut told: HashMap<&str, usize> = HashMap::new();
    let events = &mut |mut event: Event<'_>| {
        if let Event::SliceDone { network, frames, .. } = &mut event {
            let told = told.entry(network).or_default();
            *frames = (*told + *frames).min(clip()).saturating_sub(*told);
            *told += *frames;
        }
        events(event);
    };
    run(network_runs, road, events)?;
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
    let (mut decoding, beside) = DecodeThread::start(footage, geometry);
    let mut encoding = encode_thread::start(sink, geometry, clamp, Box::new(beside.into_iter().map(Ok)));
    let count = decoding.counter();
    let road = Road { source: &mut decoding, links: vec![&mut latents], sink: &mut encoding };
    let started = through(&networks, &count, road, events)?;
    drop(decoding);
    let frames = encoding.complete(None)?;
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
    let (mut decoding, beside) = DecodeThread::start(footage, geometry);
    let writer = LatentWriter::create(target.path, target.overwrite, &about, channels)?;
    let mut file = Means { writer, channels, beside };
    let count = decoding.counter();
    let road = Road { source: &mut decoding, links: Vec::new(), sink: &mut file };
    let started = through(&[network], &count, road, events)?;
    drop(decoding);
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
    let mut encoding =
        encode_thread::start(sink, file.about().geometry, clamp, Box::new(file.times()?.asides()));
    let road = Road { source: &mut reader, links: Vec::new(), sink: &mut encoding };
    let started = through(&[network], &|| file.frames(), road, events)?;
    let frames = encoding.complete(None)?;
    Ok(Done { frames, finishing: started.elapsed() })
}

/// Buffers of pipes and files: one of 1 MiB, and a few of 64 KiB.
const BUFFERS: u64 = 2 << 20;

/// Bytes of host memory that frames take on their way through slices of `slice` frames, at most: samples as they are
/// stored, frames that are prepared or wait, slices between engine and encoder, alpha, latents. Tiles of blend mode are
/// not among it: they take up to one more slice.
pub fn in_flight_bytes(geometry: &Geometry, slice: usize) -> u64 {
    let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
    let (source, shown, padded) = (area(geometry.source), area(geometry.shown), area(geometry.padded));
    let slice = (slice.max(4) as u64).saturating_add(1);
    let bytes = |pixels: u64, each: u64| pixels.saturating_mul(each);
    // Samples of up to 16 bytes a pixel, the frame that is made of them, and two more while it is turned.
    let reading = bytes(source, 4 * 16);
    let resizing = match geometry.source == geometry.shown {
        true => 0,
        // The picture between the passes over columns and rows, and the one after them.
        false => bytes(area([geometry.shown[0], geometry.source[1]]), 16).saturating_add(bytes(shown, 16)),
    };
    // Colours without alpha, and the padded frame; then frames that wait, one at hand, and those kept for the end.
    let preparing = bytes(shown, 12).saturating_add(bytes(padded, 12));
    let waiting = bytes(padded, 12 * (decode_thread::WAITING + 1 + Tail::LENGTH) as u64);
    // One slice is written while the engine makes or takes the next.
    let slices = bytes(padded, 12 * slice.saturating_mul(2 + worker::WAITING as u64));
    // Moments, their means and latents that wait: 4 bytes for each of 48 channels of a cell of 64 pixels in 4 frames.
    let latents = bytes(padded, slice);
    // Frames between both ends: read ahead, in either half, between them, and being written.
    let alpha = match geometry.alpha {
        true => bytes(shown, 4 * slice.saturating_mul(5).saturating_add(decode_thread::WAITING as u64 + 2)),
        false => 0,
    };
    // The finished frame, its samples, and what packing or compressing them takes.
    let writing = bytes(shown, 4 * 16);
    [reading, resizing, preparing, waiting, slices, latents, alpha, writing, BUFFERS]
        .into_iter()
        .fold(0, u64::saturating_add)
}
