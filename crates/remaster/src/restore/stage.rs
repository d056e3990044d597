//! A restoration on this machine, ready to do any unit of its film: networks, plans of memory, ffmpeg, the input.

use std::path::{Path, PathBuf};
use std::time::Instant;

use remaster_media::{Format, FrameSink, FrameSource, Late, Originals, Probe, SegmentKind, repeats};
use remaster_restore::Cuts;
use remaster_store::Hash;
use remaster_units::{Input, Model, NewPiece, ResultClass, Settings, UnitsError};

use super::device;
use super::film::Film;
use super::networks::{Networks, NetworksKind};
use super::starts;
use crate::control::Control;
use crate::error::Error;
use crate::event::Reporter;
use crate::job::Context;
use crate::limits::{Amount, Room};
use crate::machine::hashes;
use crate::machine::host::Machine;
use crate::media::{Goal, Lazy, Opened, Spool, is_pipe, is_video};
use crate::outcome::{Estimate, FilmPlan};
use crate::plan::threads;
use crate::request::{Cut, Request};
use crate::units::pinned;

/// Pixels of a piece: 48 frames of 1080p. A CPU with 16 cores decodes them in some minutes, which is the most to lose.
const PIECE_PIXELS: usize = 48 * 1920 * 1080;

/// Frames of a piece: encoders start anew with each, and set a key frame after 250 anyway.
const LEAST_PIECE: usize = 24;
pub(super) const MOST_PIECE: usize = 250;

/// Latents that a unit needs beyond its own: how far back the decoder sees, and windows at both ends.
const AROUND: usize = 64;

/// What a plan calls an upscaler.
pub(crate) const UPSCALER_ROLE: &str = "upscaler";

/// A restoration that is ready.
pub(crate) struct Staged {
    pub(crate) request: Request,
    pub(crate) output: PathBuf,
    pub(crate) film: Film,
    /// Input frames; `None` once taken.
    source: Option<Box<dyn FrameSource>>,
    /// The same frames once more, of a pipe.
    pub(super) second: Option<Box<dyn FrameSource>>,
    /// What ffprobe found, for files.
    pub(crate) probe: Option<Probe>,
    /// Of pictures.
    originals: Option<Originals>,
    /// Warnings after the last frame.
    pub(crate) late: Late,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
    /// What a script says of its clip.
    pub(crate) clip: Option<String>,
    pub(crate) tools: Lazy,
    pub(crate) control: Control,
    /// What is written.
    pub(crate) shown: Format,
    /// Files of networks, with the identity that they had when they were opened.
    pub(crate) used: Vec<(PathBuf, Hash)>,
}

/// Frames of a piece of frames of this size, which networks take one by one or not.
pub(crate) fn usual_piece([width, height]: [usize; 2], by_frame: bool) -> usize {
    match by_frame {
        true => MOST_PIECE,
        false => (PIECE_PIXELS / width.saturating_mul(height).max(1)).clamp(LEAST_PIECE, MOST_PIECE),
    }
}

/// True if a restoration can be cut into units: it has an input that can be read again, and a video file to write.
pub(crate) fn takes_units(request: &Request, output: &Path) -> bool {
    is_video(output)
        && request.how.compat.is_none()
        && request.keep_latents.is_none()
        && !is_pipe(&request.input)
}

impl Staged {
    /// Gets a restoration ready.
    pub(crate) fn new(request: Request, output: PathBuf, context: &Context<'_, '_>) -> Result<Self, Error> {
        let Context { machine, control, report } = *context;
        let (how, began) = (&request.how, Instant::now());
        let room = &Room::of_run(machine, Some(&output));
        let mut site = device::open(how, room, control, Some(report))?;
        let (_, disk) = how.limits.resolve(room)?;
        // What comes through a pipe is kept, and gets half of the disk.
        let piped = if is_pipe(&request.input) { disk / 2 } else { 0 };
        site.limits.disk = Amount::Bytes(disk - piped);
        let networks = Networks::open(&how.models, &site)?;
        let used = used(&networks)?;
        let threads = threads(&how.limits, room)?;
        let mut tools = Lazy::new(&how.source, machine, control).with_threads(threads);
        let spool = Spool { folder: &site.spill.folder, most: piped };
        let allowed = how.limits.allowed(room)?;
        let (mut opened, second) = match networks.by_frame() {
            // The film is gone through once, so nothing of a pipe is kept.
            true if is_pipe(&request.input) => (how.source.open(&request.input, allowed, &mut tools)?, None),
            _ => how.source.open_twice(&request.input, allowed, &mut tools, &spool)?,
        };
        let by_units = takes_units(&request, &output);
        if by_units && !networks.by_frame() {
            let units = starts(opened.source.format(), request.units.cut.unit_frames);
            opened.has_long_run_ups =
                how.source.has_long_run_ups(opened.probe.as_ref(), &units, &mut tools)?;
        }
        let to = (&request.target, Some(&*output));
        let mut film = Film::new(how, &opened, site, networks, threads, to, by_units)?;
        (film.surroundings.began, film.surroundings.start) = (began, tools.start());
        film.surroundings.unit_frames = request.units.cut.unit_frames as usize;
        let shown = film.shown();
        if how.look.finish.dither {
            film.recipe.finish.dither = Some(request.target.layout(&shown).depth);
        }
        let Opened { source, probe, originals, late, counted, clip, .. } = opened;
        // A decoder that was opened with more threads than there is memory for is opened once more.
        let source = Some(source).filter(|_| film.threads == threads || is_pipe(&request.input));
        let tools = tools.with_threads(film.threads);
        let control = control.clone();
        let mut stage = Staged {
            request,
            output,
            film,
            source,
            second,
            probe,
            originals,
            late,
            counted,
            clip,
            tools,
            control,
            shown,
            used,
        };
        stage.cut_list()?;
        Ok(stage)
    }
}

/// This program, as a plan pins it.
pub(crate) const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("REMASTER_BUILD"));

/// The files of networks, as they are now.
fn used(networks: &Networks) -> Result<Vec<(PathBuf, Hash)>, Error> {
    let names = networks.names.iter().map(PathBuf::from).chain(networks.text.clone());
    let mut used = Vec::new();
    for path in names.filter(|path| path.is_file()) {
        used.extend(hashes::identity(&path)?.map(|identity| (path, identity)));
    }
    Ok(used)
}

impl Staged {
    /// The machine it runs on.
    pub(crate) fn machine(&self) -> &Machine {
        &self.film.site.machine
    }

    /// The frames of the input from the first one on.
    pub(crate) fn source(&mut self) -> Result<Box<dyn FrameSource>, Error> {
        match self.source.take() {
            Some(source) => Ok(source),
            None => self.reopened(),
        }
    }

    /// The input once more, for what is compared with it. Who takes frames one by one goes through a film once.
    pub(crate) fn second(&mut self) -> Result<Option<Box<dyn FrameSource>>, Error> {
        match (self.film.networks.by_frame(), self.second.take()) {
            (true, _) => Ok(None),
            (false, Some(second)) => Ok(Some(second)),
            (false, None) => Ok(Some(self.reopened()?)),
        }
    }

    /// Opens the input once more. It fitted when it was opened first; what is free now says nothing.
    pub(crate) fn reopened(&mut self) -> Result<Box<dyn FrameSource>, Error> {
        Ok(self.request.how.source.open(&self.request.input, u64::MAX, &mut self.tools)?.source)
    }

    /// What the restoration will take. The time is measured if no run told it before.
    pub(crate) fn planned(&self, report: &Reporter<'_>) -> FilmPlan {
        let time = Estimate::before(&self.film, false, report);
        self.film.planned(&self.request.input, self.counted, time)
    }

    /// Tells what will be done, and how long it takes. Returns that.
    pub(crate) fn announce(&self, report: &Reporter<'_>) -> Option<Estimate> {
        self.film.announce(&self.request.input, self.counted, report)
    }

    /// Ends the decoder that is not read from.
    pub(crate) fn close(&mut self) {
        self.source = None;
    }

    /// Whether the input is a single picture.
    pub(crate) fn is_still(&self) -> bool {
        self.counted && self.film.format.frames == Some(1)
    }

    /// Cuts a list of the whole film to the part that is restored. A list of the part itself stays as it is.
    fn cut_list(&mut self) -> Result<(), Error> {
        let how = &self.request.how;
        let Cuts::At(shots) = &self.film.recipe.cuts else { return Ok(()) };
        // Frames from stdin are there once.
        if !how.source.is_cut() || is_pipe(&self.request.input) {
            return Ok(());
        }
        let shots = shots.clone();
        let (before, part) = how.source.frames_around(&self.request.input, &mut self.tools)?;
        let frames = shots.frames().unwrap_or(u64::MAX);
        if frames == part {
            return Ok(());
        }
        if frames < before + part {
            let path = how.look.list();
            return Err(Error::OtherShots { path, listed: frames, frames: part });
        }
        self.film.recipe.cuts = Cuts::At(shots.part(before..before + part));
        Ok(())
    }

    /// Refuses a list of shots of another film.
    pub(crate) fn check_list(&self, frames: usize) -> Result<(), Error> {
        let Some(listed) = self.film.recipe.cuts.listed().filter(|n| *n != frames as u64) else {
            return Ok(());
        };
        let path = self.request.how.look.list();
        Err(Error::OtherShots { path, listed, frames: frames as u64 })
    }

    /// Tries encoder and container before the work.
    pub(crate) fn rehearse(&mut self, overwrite: bool, report: &Reporter<'_>) -> Result<(), Error> {
        let goal = Goal { path: &self.output, format: &self.shown, counted: self.counted, overwrite };
        let note = self.request.target.rehearse(&goal, self.probe.as_ref(), &mut self.tools)?;
        self.film.notes.extend(note);
        for line in self.tools.details() {
            report.detail(line);
        }
        Ok(())
    }

    /// Makes the output, and says what a user should know of it.
    pub(super) fn create(&mut self) -> Result<(Box<dyn FrameSink>, Vec<String>), Error> {
        let overwrite = self.request.overwrite;
        let goal = Goal { path: &self.output, format: &self.shown, counted: self.counted, overwrite };
        self.request.target.create(&goal, self.probe.as_ref(), self.originals.as_ref(), &mut self.tools)
    }

    /// Frames of a unit at most, if there is room for its latents. Less room gives no smaller units: where units end is where
    /// encoders start anew, so it must follow from the request alone.
    pub(crate) fn unit_frames(&self, wanted: u32) -> Option<usize> {
        // In memory there is room for two windows only.
        self.film.room.folder.as_ref()?;
        let latent = self.film.latent();
        if latent == 0 {
            return Some(wanted as usize);
        }
        // As they are made, and twice kept: as they came and restored.
        let fits = usize::try_from(self.film.room.bytes / (3 * latent.max(1))).unwrap_or(usize::MAX);
        let least = 2 * self.film.recipe.sampling.windows.length();
        let own = fits.checked_sub(AROUND).filter(|own| *own >= least)?;
        // No unit of a short film is longer than the film.
        let frames = self
            .film
            .format
            .frames
            .filter(|_| !self.film.estimated)
            .map_or(wanted as usize, |n| n.min(wanted as usize));
        (frames.div_ceil(4) <= own).then_some(wanted as usize)
    }

    /// Frames of a piece: what the decoder makes in a few minutes. Encoders start anew with each, so it follows from the
    /// size of frames and not from how fast a machine is.
    pub(crate) fn piece_frames(&self, unit_frames: usize) -> usize {
        let frames = usual_piece([self.shown.width, self.shown.height], self.film.networks.by_frame());
        frames.max(unit_frames.div_ceil(200))
    }

    /// Everything that decides the film.
    pub(crate) fn settings(&mut self, cut: &Cut, unit_frames: usize) -> Result<Settings, Error> {
        let mut numerics = self.result_class(self.request.target.encoder_threads())?;
        numerics.sample = self.sample(&numerics.encoder)?;
        if !repeats(&numerics.encoder) && !cut.mix_devices {
            return Err(Error::Repeats { encoder: numerics.encoder });
        }
        // VP8 and VP9 keep alpha beside the picture, where only WebM has a place for it.
        let lossless =
            cut.lossless_units || (self.shown.layout.alpha && numerics.encoder.starts_with("libvpx"));
        let shots = self.request.how.look.shots(self.machine(), &self.control)?;
        Ok(Settings {
            input: Input { clip: self.clip.clone(), ..Input::of(&self.request.input)? },
            output: self.output.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            request: pinned::of(&self.request.how, &self.request.target)?,
            models: self.models()?,
            numerics,
            mix: cut.mix_devices,
            segments: if lossless { SegmentKind::Lossless } else { SegmentKind::Final },
            unit_frames,
            shots,
        })
    }

    /// Hash of what the encoder makes of a few frames, if it repeats itself.
    pub(crate) fn sample(&mut self, encoder: &str) -> Result<Option<Hash>, Error> {
        if !repeats(encoder) {
            return Ok(None);
        }
        let about = (self.output.as_path(), &self.shown, self.probe.as_ref());
        Ok(Some(Hash::of(&self.request.target.trial(self.tools.get()?, encoder, about)?)))
    }

    /// What computes and encodes here, without a sample of the encoder.
    pub(crate) fn result_class(&mut self, threads: u32) -> Result<ResultClass, Error> {
        let (path, probe) = (self.output.as_path(), self.probe.as_ref());
        let encoder = self.request.target.encoder(path, &self.shown, probe).unwrap_or_default();
        let tiled = self.film.plans.iter().map(|plan| plan.how.describe());
        let tiling = self.request.how.limits.tiles().map(|_| tiled.collect::<Vec<_>>().join("; "));
        let mut backend = match self.film.networks.kind {
            // What finishes frames is the same on every machine.
            NetworksKind::None => "no network".to_owned(),
            _ => self.film.site.backend.numerics(),
        };
        // Folded upsamplers round otherwise than their three steps.
        match self.film.site.build.collapse {
            _ if matches!(self.film.networks.kind, NetworksKind::None) => {}
            false => backend += ", upsamplers in steps",
            true if !remaster_compute::folds_fused() => backend += ", folded without FMA",
            true => {}
        }
        Ok(ResultClass {
            program: PROGRAM.into(),
            backend,
            dtype: self.film.site.build.dtype.name().into(),
            tiling,
            ffmpeg: self.tools.get()?.identity(),
            encoder,
            sample: None,
            threads,
        })
    }

    /// The networks, by the hashes of their files.
    pub(crate) fn models(&self) -> Result<Vec<Model>, Error> {
        let [model, vae] = &self.film.networks.names;
        let file = |role: &str, path: &Path| {
            let name = path.to_string_lossy();
            let sha256 = match path.is_file() {
                true => Some(hashes::sha256(path, self.machine(), &self.control)?),
                false => None,
            };
            // It was opened before it was hashed.
            let opened = self.used.iter().find(|(used, _)| used == path);
            if opened.is_some_and(|(_, before)| hashes::identity(path).ok().flatten() != Some(*before)) {
                return Err(UnitsError::Touched { path: path.to_owned() }.into());
            }
            Ok::<_, Error>(Model { role: role.into(), name: name.into(), sha256 })
        };
        match &self.film.networks.kind {
            NetworksKind::Upscaler(_) => return Ok(vec![file(UPSCALER_ROLE, Path::new(model))?]),
            NetworksKind::None => return Ok(vec![file("transformer", Path::new(model))?]),
            NetworksKind::Diffusion(_) => {}
        }
        let mut models = vec![file("transformer", Path::new(model))?, file("vae", Path::new(vae))?];
        if let Some(text) = &self.film.networks.text {
            models.push(file("text", text)?);
        }
        Ok(models)
    }

    /// Bytes of latents that are kept together at most: a chunk of 16 MiB, or a window.
    pub(crate) fn most_kept(&self) -> u64 {
        let latent = self.film.latent();
        latent.saturating_mul(self.film.recipe.sampling.windows.length() as u64).max(16 << 20)
    }

    /// Starts pieces of units.
    pub(crate) fn new_piece(&mut self, kind: SegmentKind, threads: u32) -> Result<NewPiece, Error> {
        let tools = self.tools.get()?.clone();
        let (film, format) = (self.output.clone(), self.shown.clone());
        let (from, target) = (self.probe.clone(), self.request.target.clone());
        Ok(Box::new(move |path: &Path| {
            target.segment(&tools, path, (&film, &format, from.as_ref()), kind, threads)
        }))
    }
}
