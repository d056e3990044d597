//! A restoration on this machine, ready to do any unit of its film: networks, plans of memory, ffmpeg, the input.

use std::path::{Path, PathBuf};

use remaster_compute::CancelToken;
use remaster_media::{
    Format, FrameSink, FrameSource, Late, Originals, OutputKind, Probe, SegmentKind, repeats,
};
use remaster_restore::Cuts;
use remaster_store::Hash;
use remaster_units::{Input, Model, NewPiece, Numerics, Settings, UnitsError};

use super::args::RestoreArgs;
use super::film::Film;
use super::networks::{Networks, Place};
use crate::devices;
use crate::error::CliError;
use crate::hashes;
use crate::interrupt::Interrupt;
use crate::media::{Goal, Lazy, Opened, Spool, TargetArgs, is_pipe};
use crate::memory::Room;
use crate::output::Output;
use crate::plan::threads;
use crate::units::{CutArgs, request};

/// Pixels of a piece: 48 frames of 1080p. A CPU with 16 cores decodes them in some minutes, which is the most to lose.
const PIECE_PIXELS: usize = 48 * 1920 * 1080;

/// Frames of a piece: encoders start anew with each, and set a key frame after 250 anyway.
const LEAST_PIECE: usize = 24;
const MOST_PIECE: usize = 250;

/// Latents that a unit needs beyond its own: how far back the decoder sees, and windows at both ends.
const AROUND: usize = 64;

/// A restoration that is ready.
pub(crate) struct Staged<'a> {
    pub(crate) args: &'a RestoreArgs,
    pub(crate) output: &'a Path,
    pub(crate) film: Film<'a>,
    /// Frames of the input, until somebody reads them.
    source: Option<Box<dyn FrameSource>>,
    /// The same frames once more, of a pipe.
    pub(super) second: Option<Box<dyn FrameSource>>,
    /// What ffprobe found, for files.
    pub(crate) probe: Option<Probe>,
    /// Of pictures.
    originals: Option<Originals>,
    /// Words for people when all was read.
    pub(crate) late: Late,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
    pub(crate) tools: Lazy<'a>,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) target: TargetArgs,
    /// What is written.
    pub(crate) shown: Format,
    /// Files of networks, with the identity that they had when they were opened.
    pub(crate) used: Vec<(PathBuf, Hash)>,
}

/// Whether a restoration can be cut into units: it has an input that can be read again, and a video file to write.
pub(crate) fn takes_units(args: &RestoreArgs, output: &Path) -> bool {
    let video = matches!(OutputKind::of(output), Some(OutputKind::Video(_)));
    let batches = args.how.numz.compat.is_some();
    video && !batches && args.keep_latents.is_none() && !is_pipe(&args.input)
}

/// Gets a restoration ready and hands it on.
pub(crate) fn staged<T>(
    args: &RestoreArgs,
    output: &Path,
    cancel: &CancelToken,
    out: &Output,
    interrupt: &Interrupt,
    body: impl FnOnce(Staged<'_>) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let how = &args.how;
    let device = how.device.settle()?;
    let backend = device.tuned_backend(out)?;
    devices::check_vram(how.vram, &backend)?;
    let spill = how.memory.spill(Some(output))?;
    let (_, disk) = how.memory.resolve(&Room { real: true, output: Some(output) })?;
    // What comes through a pipe is kept, and gets half of the disk.
    let piped = if is_pipe(&args.input) { disk / 2 } else { 0 };
    let memory = how.memory.with_disk(disk - piped);
    let place = Place { backend, build: device.build(), spill, memory, cancel };
    let networks = Networks::open(&how.models, &place)?;
    let used = used(&networks)?;
    let threads = threads(&how.memory, true)?;
    let mut tools = Lazy::new(&how.source, cancel, interrupt).with_threads(threads);
    let spool = Spool { folder: &place.spill.folder, most: piped };
    let (opened, second) =
        how.source.open_twice(&args.input, how.memory.allowed(true)?, &mut tools, &spool)?;
    let by_units = takes_units(args, output);
    let mut film = Film::new(
        how,
        &opened,
        &place,
        networks,
        [threads, args.target.encoder_threads() as usize],
        Some(output),
        by_units,
    )?;
    let shown = film.shown();
    let mut target = args.target.clone();
    target.pixel_format_or(how.numz.pixel_format());
    if how.look.finish.dither {
        film.recipe.finish.dither = Some(target.layout(&shown).depth);
    }
    let Opened { source, probe, originals, late, counted, .. } = opened;
    // A decoder that was opened with more threads than there is memory for is opened once more.
    let source = Some(source).filter(|_| film.threads == threads || is_pipe(&args.input));
    let tools = tools.with_threads(film.threads);
    let mut stage = Staged {
        args,
        output,
        film,
        source,
        second,
        probe,
        originals,
        late,
        counted,
        tools,
        cancel,
        target,
        shown,
        used,
    };
    stage.cut_list()?;
    body(stage)
}

/// Whether the CPU folds weights with fused multiply-adds, for whatever device. Nothing else of it counts: sums of up to 512
/// products, which is what the networks have, are added up in one go whatever the caches.
fn folds_fused() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    return cfg!(target_arch = "aarch64");
}

/// The files of networks, as they are now.
fn used(networks: &Networks) -> Result<Vec<(PathBuf, Hash)>, CliError> {
    let names = networks.names.iter().map(PathBuf::from).chain(networks.text.clone());
    let mut used = Vec::new();
    for path in names.filter(|path| path.is_file()) {
        used.extend(hashes::identity(&path)?.map(|identity| (path, identity)));
    }
    Ok(used)
}

impl Staged<'_> {
    /// The frames of the input from the first one on.
    pub(crate) fn source(&mut self) -> Result<Box<dyn FrameSource>, CliError> {
        match self.source.take() {
            Some(source) => Ok(source),
            None => self.reopened(),
        }
    }

    /// Opens the input once more. It fitted when it was opened first; what is free now says nothing.
    pub(crate) fn reopened(&mut self) -> Result<Box<dyn FrameSource>, CliError> {
        Ok(self.args.how.source.open(&self.args.input, u64::MAX, &mut self.tools)?.source)
    }

    /// Ends the decoder that nobody will read from.
    pub(crate) fn close(&mut self) {
        self.source = None;
    }

    /// Whether the input is a single picture.
    pub(crate) fn is_still(&self) -> bool {
        self.counted && self.film.format.frames == Some(1)
    }

    /// Cuts a list of the whole film to the part that is restored. A list of the part itself stays as it is.
    fn cut_list(&mut self) -> Result<(), CliError> {
        let how = &self.args.how;
        let Cuts::At(shots) = &self.film.recipe.cuts else { return Ok(()) };
        // Frames from stdin are there once.
        if !how.source.is_cut() || is_pipe(&self.args.input) {
            return Ok(());
        }
        let shots = shots.clone();
        let (before, part) = how.source.frames_around(&self.args.input, &mut self.tools, self.cancel)?;
        let frames = shots.frames().unwrap_or(u64::MAX);
        if frames == part {
            return Ok(());
        }
        if frames < before + part {
            let path = how.look.scenes.clone().into();
            return Err(CliError::OtherShots { path, listed: frames, frames: part });
        }
        self.film.recipe.cuts = Cuts::At(shots.part(before..before + part));
        Ok(())
    }

    /// Refuses a list of shots of another film.
    pub(crate) fn check_list(&self, frames: usize) -> Result<(), CliError> {
        let Some(listed) = self.film.recipe.cuts.listed().filter(|n| *n != frames as u64) else {
            return Ok(());
        };
        let path = self.args.how.look.scenes.clone().into();
        Err(CliError::OtherShots { path, listed, frames: frames as u64 })
    }

    /// Tries encoder and container before the work.
    pub(crate) fn rehearse(&mut self, overwrite: bool, out: &Output) -> Result<(), CliError> {
        let goal = Goal { path: self.output, format: &self.shown, counted: self.counted, overwrite };
        let note = self.target.rehearse(&goal, self.probe.as_ref(), &mut self.tools)?;
        self.film.notes.extend(note);
        for line in self.tools.details() {
            out.detail(line);
        }
        Ok(())
    }

    /// Makes the output, and says what people should know of it.
    pub(super) fn create(&mut self) -> Result<(Box<dyn FrameSink>, Vec<String>), CliError> {
        let overwrite = self.args.yes;
        let goal = Goal { path: self.output, format: &self.shown, counted: self.counted, overwrite };
        self.target.create(&goal, self.probe.as_ref(), self.originals.as_ref(), &mut self.tools)
    }

    /// Frames of a unit at most, if there is room for its latents. Less room gives no smaller units: where units end is where
    /// encoders start anew, so it must follow from the request alone.
    pub(crate) fn unit_frames(&self, wanted: u32) -> Option<usize> {
        // In memory there is room for two windows only.
        self.film.room.folder.as_ref()?;
        let latent = self.film.latent();
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
        let pixels = self.shown.width.saturating_mul(self.shown.height).max(1);
        (PIECE_PIXELS / pixels).clamp(LEAST_PIECE, MOST_PIECE).max(unit_frames.div_ceil(200))
    }

    /// Everything that decides the film.
    pub(crate) fn settings(&mut self, cut: &CutArgs, unit_frames: usize) -> Result<Settings, CliError> {
        let numerics = self.numerics(self.target.encoder_threads())?;
        if !repeats(&numerics.encoder) && !cut.mix_devices {
            return Err(CliError::Repeats { encoder: numerics.encoder });
        }
        // VP8 and VP9 keep alpha beside the picture, where only WebM has a place for it.
        let lossless =
            cut.lossless_units || (self.shown.layout.alpha && numerics.encoder.starts_with("libvpx"));
        let shots = self.args.how.look.shots(self.cancel)?;
        Ok(Settings {
            input: Input::of(&self.args.input)?,
            output: self.output.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            request: request::of(&self.args.how, &self.target)?,
            models: self.models()?,
            numerics,
            mix: cut.mix_devices,
            segments: if lossless { SegmentKind::Lossless } else { SegmentKind::Final },
            unit_frames,
            shots,
        })
    }

    /// What computes and encodes here.
    pub(crate) fn numerics(&mut self, threads: u32) -> Result<Numerics, CliError> {
        let encoder = self.target.encoder(self.output, &self.shown, self.probe.as_ref()).unwrap_or_default();
        let about = (self.output, &self.shown, self.probe.as_ref());
        let sample = match repeats(&encoder) {
            true => Some(Hash::of(&self.target.trial(self.tools.get()?, &encoder, about)?)),
            false => None,
        };
        let tiled = self.film.plans.iter().map(|plan| plan.how.describe());
        let tiling = self.args.how.memory.changes_frames().then(|| tiled.collect::<Vec<_>>().join("; "));
        let mut backend = self.film.place.backend.numerics();
        // Folded upsamplers round otherwise than their three steps.
        match self.film.place.build.collapse {
            false => backend += ", upsamplers in steps",
            true if !folds_fused() => backend += ", folded without FMA",
            true => {}
        }
        Ok(Numerics {
            program: concat!(env!("CARGO_PKG_VERSION"), " ", env!("REMASTER_BUILD")).into(),
            backend,
            dtype: self.film.place.build.dtype.name().into(),
            tiling,
            ffmpeg: self.tools.get()?.identity(),
            encoder,
            sample,
            threads,
        })
    }

    /// The networks, by the hashes of their files.
    pub(crate) fn models(&self) -> Result<Vec<Model>, CliError> {
        let [model, vae] = &self.film.networks.names;
        let file = |role: &str, path: &Path| {
            let name = path.to_string_lossy();
            let sha256 = match path.is_file() {
                true => Some(hashes::sha256(path, self.cancel)?),
                false => None,
            };
            // It was opened before it was hashed.
            let opened = self.used.iter().find(|(used, _)| used == path);
            if opened.is_some_and(|(_, before)| hashes::identity(path).ok().flatten() != Some(*before)) {
                return Err(UnitsError::Touched { path: path.to_owned() }.into());
            }
            Ok::<_, CliError>(Model { role: role.into(), name: name.into(), sha256 })
        };
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
    pub(crate) fn new_piece(&mut self, kind: SegmentKind, threads: u32) -> Result<NewPiece, CliError> {
        let tools = self.tools.get()?.clone();
        let (film, format) = (self.output.to_owned(), self.shown.clone());
        let (from, target) = (self.probe.clone(), self.target.clone());
        Ok(Box::new(move |path: &Path| {
            target.segment(&tools, path, (&film, &format, from.as_ref()), kind, threads)
        }))
    }
}
