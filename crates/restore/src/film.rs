//! A film through encoder, transformer and decoder.
//!
//! The networks take turns over groups of shots: one is loaded, takes all shots of a group, and makes room for the next.
//! A group is as long as its latents fit, so that loading is a small part of the work. The input is decoded twice: once
//! for the encoder, and once more, a group behind, as what colours are compared with.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster_colour::alpha::AlphaKind;
use remaster_compute::{HostTensor, Shape};
use remaster_engine::{ClipRunner, Event, Events, Sink, SinkError, Source, SourceError};
use remaster_media::{FrameSink, FrameSource};
use remaster_plan::{LookBack, SPACE, ShotRange};

use crate::cuts::Cuts;
use crate::decode_thread::{Footage, reopened};
use crate::error::RestoreError;
use crate::finish::{Finish, Finisher, ShotShown};
use crate::geometry::Geometry;
use crate::kept;
use crate::latent_file::LatentWriter;
use crate::latent_store::LatentStore;
use crate::latents::means;
use crate::noise::Noise;
use crate::planned::Planned;
use crate::prepare::Prepare;
use crate::reader::Reader;
use crate::sample::{Sampler, Sampling, Start};
use crate::upscale::Upscale;

/// The three networks that restore latents.
#[derive(Clone, Copy)]
pub struct Diffusion<'a> {
    /// Frames to latents; its clip is open-ended.
    pub encode: Planned<'a>,
    /// Latents to restored ones, planned for the longest window.
    pub transform: Planned<'a>,
    /// Latents to frames; its clip is open-ended.
    pub decode: Planned<'a>,
}

impl Diffusion<'_> {
    /// Rows, columns and channels of a latent.
    pub(crate) fn latent(&self, geometry: &Geometry) -> [usize; 3] {
        let [width, height] = geometry.padded;
        [height / SPACE, width / SPACE, self.decode.task.job.network.channels[0]]
    }
}

/// What is done to a film.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Sizes of its frames on their way.
    pub geometry: Geometry,
    /// Columns and rows that are written: those that are shown, or fewer.
    pub shown: [usize; 2],
    /// How an upscaler takes frames; `None` for networks that restore latents.
    pub upscale: Option<Upscale>,
    /// Where it is cut.
    pub cuts: Cuts,
    /// 0 to 1: frames are first reduced by 1 + 7 times this.
    pub softness: f32,
    /// 0 to 1: noise in what the encoder sees.
    pub input_noise: f32,
    /// How latents are restored.
    pub sampling: Sampling,
    /// How frames are finished.
    pub finish: Finish,
}

impl Recipe {
    /// Sizes of frames as they are finished.
    pub(crate) fn sizes(&self) -> (Geometry, [usize; 2], Option<Upscale>) {
        (self.geometry, self.shown, self.upscale)
    }

    /// True if frames of an upscaler are finished with those of the input.
    pub(crate) fn needs_input(&self) -> bool {
        self.geometry.alpha || !self.finish.is_plain()
    }

    /// How frames are prepared for the encoder.
    pub(crate) fn prepare(&self) -> Arc<Prepare> {
        let seed = match self.sampling.start {
            Start::Seed(seed) => seed,
            Start::Values(_) => 0,
        };
        Arc::new(Prepare {
            geometry: self.geometry,
            upscale: self.upscale,
            softness: self.softness,
            input_noise: self.input_noise,
            noise: Noise::new(seed),
        })
    }
}

/// Where latents of a group wait.
#[derive(Clone, Debug)]
pub struct Room {
    /// A folder on disk; `None` for memory.
    pub folder: Option<PathBuf>,
    /// Bytes that they may take.
    pub bytes: u64,
}

/// What a film took.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Frames that were written.
    pub frames: usize,
    /// First frame of every shot.
    pub shots: Vec<usize>,
    /// Groups of shots.
    pub groups: usize,
    /// The most bytes of latents that waited.
    pub latent_bytes: u64,
    /// Time to load networks, beside the work.
    pub loading: Duration,
    /// Time between the last frame made and the file in its place.
    pub finishing: Duration,
}

/// A shot of the group at work.
#[derive(Clone, Debug)]
pub(crate) struct Shot {
    pub(crate) range: ShotRange,
    /// Places in the store.
    pub(crate) latents: Range<usize>,
    pub(crate) alpha: Option<AlphaKind>,
}

/// Where a film comes from and where it goes.
pub struct Film<'a> {
    /// Its frames for the encoder.
    pub footage: Footage<'a>,
    /// The same frames again, for colours. `None` if the footage can be opened again, and for an upscaler, which goes through
    /// a film once.
    pub input: Option<Box<dyn FrameSource>>,
    /// What is restored.
    pub sink: Box<dyn FrameSink>,
    /// Restored latents, if they are kept.
    pub keep: Option<LatentWriter>,
}

/// Restores a film by its latents.
pub(crate) fn restore(
    film: Film<'_>,
    recipe: &Recipe,
    networks: Diffusion<'_>,
    room: &Room,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let Film { mut footage, input, sink, mut keep } = film;
    let input = match input {
        Some(input) => input,
        None => reopened(&mut footage.again).map_err(|error| RestoreError::Frames(error.to_string()))?,
    };
    let Recipe { geometry, cuts, sampling, .. } = recipe;
    let size = networks.latent(geometry);
    let length = size.iter().product::<usize>();
    let mut store = LatentStore::new(room.folder.as_deref(), length, room.bytes)?;
    let mut reader = Reader::start(footage, recipe.prepare(), cuts.clone(), 0);
    let (mut finisher, times) = Finisher::start(sink, input, recipe.sizes(), &recipe.finish, 0, None);
    let mut done = Done::default();
    let mut more = reader.next_shot()?;
    if !more {
        return Err(RestoreError::Empty);
    }
    // In a batch that overlaps the one before, its first frames were there already.
    let overlap = cuts.overlap();
    let (mut first, mut told) = (true, 0);
    while more {
        store.truncate(0)?;
        let shots = {
            let mut encoder = loaded(networks.encode, &mut done, events)?;
            let mut shots = Vec::new();
            // What is longer than half of the room may not fit behind another shot.
            while more && (shots.is_empty() || store.latents() <= store.room() / 2) {
                let first = store.latents();
                match encode(&mut encoder, &mut reader, &mut store, size[2], &mut told, events) {
                    Ok(shot) => shots.push(shot),
                    // It goes into the next group, if the input can be read again.
                    Err(RestoreError::Long { .. }) if !shots.is_empty() && reader.back_to(0).is_ok() => {
                        store.truncate(first)?;
                        break;
                    }
                    Err(error) => return Err(error),
                }
                done.shots.push(reader.position());
                more = reader.next_shot()?;
                if !more && overlap == 0 {
                    events(Event::Counted(reader.position()));
                }
            }
            shots
        };
        done.latent_bytes = done.latent_bytes.max(4 * (store.latents() * length) as u64);
        {
            let mut sampler = sampler(networks.transform, sampling, size, &mut done, events)?;
            for shot in &shots {
                sampler.range(&mut store, shot.latents.start, &shot.range, LookBack::default(), events)?;
                if let Some(keep) = &mut keep {
                    let about = (shot.range.shot, shot.alpha);
                    kept::shot(keep, &store, shot.latents.clone(), about, sampling.scale)?;
                }
            }
        }
        {
            let mut decoder = loaded(networks.decode, &mut done, events)?;
            for shot in &shots {
                let shown = ShotShown {
                    overlap: if first { 0 } else { overlap },
                    open: overlap > 0,
                    ..ShotShown::new(&shot.range, 0, shot.alpha, &sampling.windows)
                };
                first = false;
                let mut latents =
                    Restored { store: &store, shot: shot.latents.clone(), next: 0, scale: sampling.scale };
                show(&mut decoder, &mut latents, &mut finisher, shown, events)?;
                if let Some(keep) = &mut keep {
                    times.try_iter().try_for_each(|pts| keep.time(pts))?;
                }
            }
        }
        done.groups += 1;
    }
    completed(finisher, &mut done, events)?;
    if let Some(mut keep) = keep {
        let began = Instant::now();
        times.try_iter().try_for_each(|pts| keep.time(pts))?;
        keep.complete()?;
        done.finishing += began.elapsed();
    }
    Ok(done)
}

/// Waits until the file is in its place.
pub(crate) fn completed(finisher: Finisher, done: &mut Done, events: Events<'_>) -> Result<(), RestoreError> {
    events(Event::Finishing);
    let made = Instant::now();
    done.frames = finisher.complete()?;
    done.finishing = made.elapsed();
    Ok(())
}

/// Tells of `made` frames behind the first `early` ones, and not of what fills up the end.
pub(crate) fn telling(
    mut early: usize,
    mut made: usize,
    events: Events<'_>,
) -> impl FnMut(Event<'_>) + use<'_> {
    move |mut event: Event<'_>| {
        if let Event::SliceDone { frames, .. } = &mut event {
            let skipped = early.min(*frames);
            early -= skipped;
            *frames = (*frames - skipped).min(made);
            made -= *frames;
        }
        events(event);
    }
}

/// Takes the latents of a shot through the decoder.
pub(crate) fn show(
    decoder: &mut ClipRunner<'_>,
    latents: &mut dyn Source,
    finisher: &mut Finisher,
    shown: ShotShown,
    events: Events<'_>,
) -> Result<(), RestoreError> {
    let mut engine = telling(shown.early, shown.frames, events);
    finisher.shot(shown)?;
    decoder.clip(latents, finisher, &mut engine)?;
    Ok(())
}

/// Opens the device and loads a network.
pub(crate) fn loaded<'a>(
    planned: Planned<'a>,
    done: &mut Done,
    events: Events<'_>,
) -> Result<ClipRunner<'a>, RestoreError> {
    let began = Instant::now();
    let runner = ClipRunner::start(planned.task.network_run(planned.plan), events)?;
    done.loading += began.elapsed();
    Ok(runner)
}

/// Opens the device and loads the transformer.
pub(crate) fn sampler<'a>(
    planned: Planned<'a>,
    sampling: &'a Sampling,
    size: [usize; 3],
    done: &mut Done,
    events: Events<'_>,
) -> Result<Sampler<'a>, RestoreError> {
    let runner = loaded(planned, done, events)?;
    Ok(Sampler::new(runner, planned, sampling, size))
}

/// Takes the shot at hand through the encoder. Frames of the film up to `told` are not told of again: a shot may be
/// encoded twice.
fn encode(
    encoder: &mut ClipRunner<'_>,
    reader: &mut Reader<'_>,
    store: &mut LatentStore,
    channels: usize,
    told: &mut usize,
    events: Events<'_>,
) -> Result<Shot, RestoreError> {
    let (start, first) = (reader.position(), store.latents());
    let mut sink = Encoded { store, channels, start, early: 0 };
    let (mut through, count) = (start, reader.counter());
    let mut engine = |mut event: Event<'_>| {
        if let Event::SliceDone { frames, .. } = &mut event {
            through = (through + *frames).min(count());
            *frames = through.saturating_sub(*told);
            *told = through.max(*told);
        }
        events(event);
    };
    encoder.clip(reader, &mut sink, &mut engine)?;
    let read = reader.shot()?;
    Ok(Shot { range: ShotRange::whole(read.frames), latents: first..store.latents(), alpha: read.alpha })
}

/// Means of moments into the store.
pub(crate) struct Encoded<'a> {
    pub(crate) store: &'a mut LatentStore,
    pub(crate) channels: usize,
    /// First frame of the shot.
    pub(crate) start: usize,
    /// Latents that come too early to be exact.
    pub(crate) early: usize,
}

impl Sink for Encoded<'_> {
    fn write(&mut self, first: usize, moments: HostTensor) -> Result<(), SinkError> {
        for mean in means(&moments, self.channels).skip(self.early.saturating_sub(first)) {
            let kept = self.store.push(&mean).map_err(|e| SinkError(Box::new(e)))?;
            if !kept {
                let room = 4 * (self.store.room() * mean.len()) as u64;
                return Err(SinkError(Box::new(RestoreError::Long { start: self.start, room })));
            }
        }
        Ok(())
    }
}

/// Restored latents of a shot for the decoder.
pub(crate) struct Restored<'a> {
    pub(crate) store: &'a LatentStore,
    pub(crate) shot: Range<usize>,
    pub(crate) next: usize,
    pub(crate) scale: f32,
}

impl Source for Restored<'_> {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        let start = self.shot.start + self.next;
        let count = shape.t.min(self.shot.end - start);
        let values = self.store.read(start..start + count).map_err(|e| SourceError(Box::new(e)))?;
        for (out, value) in out.iter_mut().zip(&values) {
            *out = value / self.scale;
        }
        self.next += count;
        Ok(count)
    }

    fn back_to(&mut self, latent: usize) -> Result<(), SourceError> {
        self.next = latent;
        Ok(())
    }
}
