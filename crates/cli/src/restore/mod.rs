//! `remaster restore`: a film in, a better film out.

mod args;
mod names;
mod networks;
mod numz;
mod preview;
mod redecode;
mod report;

use std::io::Read;
use std::path::{Path, PathBuf};

use remaster_colour::alpha::Border;
use remaster_engine::{Event, Planner, Recovery, Task};
use remaster_media::{Format, FrameSource, MediaError, OutputKind, appetite};
use remaster_model::vae::Direction;
use remaster_picture::{Edges, Kind};
use remaster_pipeline::{About, Footage, Geometry, LatentWriter, Origin, Planned, Resize, Restored};
use remaster_plan::{Plan, SPACE, Windows};
use remaster_restore::{
    Cuts, Done, Film as Whole, Networks as Tasks, Pool, Recipe, Room as LatentRoom, Sampling, Start,
    held_bytes, restore,
};
use remaster_scenes::Shots;

pub(crate) use args::{RecipeArgs, RestoreArgs};
pub(crate) use names::as_typed;
use names::beside;
use networks::{Networks, Place};
pub(crate) use preview::{PreviewArgs, run as preview};
pub(crate) use redecode::{RedecodeArgs, run as redecode};

use crate::args::Device;
use crate::destination::{self, Size};
use crate::devices;
use crate::dit;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Goal, Lazy, Opened, SourceArgs, Spool, TargetArgs, is_pipe};
use crate::memory::Room;
use crate::output::Output;
use crate::plan::{Search, Total, threads};
use crate::progress::{Label, Progress};
use crate::report::warn_late;
use crate::spill::Spill;
use crate::tensors;
use crate::video;

/// The short side that is made unless somebody asks for another.
const SHORT_SIDE: usize = 1080;

pub(crate) fn run(args: &RestoreArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.input)?,
    };
    destination::check_frames(&output, &[&args.input], args.yes, out)?;
    let how = &args.how;
    how.look.finish.refuse()?;
    how.numz.refuse()?;
    check_input(&args.input)?;
    refuse_streams(&args.target)?;
    if let Some(path) = &args.keep_latents {
        if how.numz.compat.is_some() {
            return Err(CliError::NoEffect { flag: "--keep-latents", what: "batches, which share frames" });
        }
        tensors::check_output(path, &args.input, args.yes)?;
    }
    if let Some(warning) = how.numz.warning() {
        out.say(format_args!("warning: {warning}"));
    }
    let device = how.device.settle()?;
    let backend = device.tuned_backend(out)?;
    devices::check_vram(how.vram, &backend)?;
    let spill = how.memory.spill(Some(&output))?;
    let (_, disk) = how.memory.resolve(&room(&output))?;
    // What comes through a pipe is kept, and gets half of the disk.
    let piped = if is_pipe(&args.input) { disk / 2 } else { 0 };
    let memory = how.memory.with_disk(disk - piped);
    let place = Place { backend, build: device.build(), spill, memory, cancel: &cancel };
    let networks = Networks::open(&how.models, &place)?;
    let threads = threads(&how.memory, true)?;
    let mut tools = Lazy::new(&how.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    progress.about(label(&place, &networks, &args.input, &output));
    let spool = Spool { folder: &place.spill.folder, most: piped };
    let (opened, again) =
        how.source.open_twice(&args.input, how.memory.allowed(true)?, &mut tools, &spool)?;
    let film = Film::new(how, &opened, &device, &place, networks, threads, Some(&output))?;
    film.run(args, &output, (opened, again), &mut tools, progress, out)
}

/// `remaster plan IN`: what a restoration will take.
pub(crate) fn plan(
    how: &RecipeArgs,
    input: &Path,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    if is_pipe(input) {
        return Err(CliError::PlanPipe);
    }
    let cancel = interrupt.watch()?;
    let device = how.device.settle()?;
    let backend = device.backend()?;
    devices::check_vram(how.vram, &backend)?;
    let (spill, memory) = (how.memory.spill(None)?, how.memory.clone());
    let place = Place { backend, build: device.build(), spill, memory, cancel: &cancel };
    let networks = Networks::imagined(&how.models, &place)?;
    let threads = threads(&how.memory, false)?;
    let mut tools = Lazy::new(&how.source, &cancel, interrupt).with_threads(threads);
    let opened = how.source.open(input, how.memory.allowed(false)?, &mut tools)?;
    let film = Film::new(how, &opened, &device, &place, networks, threads, None)?;
    drop(opened);
    report::planned(film, input, out);
    Ok(())
}

/// What the summary says a run was about.
fn label(place: &Place<'_>, networks: &Networks, input: &Path, output: &Path) -> Label {
    Label {
        device: format!("{}, {}", place.backend.numerics(), place.build.dtype.name()),
        model: networks.names[0].clone(),
        input: input.display().to_string(),
        output: output.display().to_string(),
    }
}

/// Bytes of a latent for frames of this size.
fn latent_bytes(geometry: &Geometry, channels: usize) -> u64 {
    let cells = |n: usize| (n / SPACE) as u64;
    let [width, height] = geometry.padded;
    4 * channels as u64 * cells(width) * cells(height)
}

/// Budgets of a run that writes to `output`.
fn room(output: &Path) -> Room<'_> {
    Room { real: true, output: Some(output) }
}

/// A film and everything that is known about its restoration before it starts.
pub(crate) struct Film<'a> {
    how: &'a RecipeArgs,
    pub(crate) format: Format,
    pub(crate) recipe: Recipe,
    pub(crate) notes: Vec<String>,
    networks: Networks,
    /// Encoder, transformer, decoder.
    tasks: [Task; 3],
    pub(crate) plans: Vec<Plan>,
    pub(crate) total: Total,
    pub(crate) apart: bool,
    /// Where latents wait.
    pub(crate) room: LatentRoom,
    place: &'a Place<'a>,
    device: &'a Device,
    /// The number of frames was computed from duration and rate.
    pub(crate) estimated: bool,
}

impl<'a> Film<'a> {
    /// Plans the restoration of what was opened.
    pub(crate) fn new(
        how: &'a RecipeArgs,
        opened: &Opened,
        device: &'a Device,
        place: &'a Place<'a>,
        mut networks: Networks,
        threads: usize,
        output: Option<&Path>,
    ) -> Result<Self, CliError> {
        let format = opened.source.format().clone();
        let mut notes = opened.notes.clone();
        notes.append(&mut networks.notes);
        let geometry = how.geometry(&format);
        let mut recipe =
            how.recipe(geometry, &networks, &place.spill, format.frames.filter(|_| opened.counted))?;
        let (clip, _) = video::clip(&geometry, format.frames, opened.counted)?;
        // Only one frame is sure not to be cut.
        let open_ended = !(opened.counted && format.frames == Some(1));
        let [width, height] = geometry.padded;
        // A count that is not sure may be too small.
        let most = recipe.sampling.windows.frames();
        let window = if opened.counted { most.min(clip.frames()) } else { most };
        let size = dit::Size::new(window, height, width)?;
        let mut tasks = [
            networks.vae.task(Direction::Encode, clip, open_ended),
            networks.transformer(&size, place),
            networks.vae.task(Direction::Decode, clip, open_ended),
        ];
        let search = Search {
            backend: place.backend,
            memory: &place.memory,
            vram: how.vram,
            room: Room { real: output.is_some(), output },
            // The input is decoded twice at a time.
            children: children(&how.source, opened, &format, threads)
                .saturating_mul(2)
                .saturating_add(encoder_bytes(&geometry, &format, threads, output)),
        };
        let channels = networks.vae.latent();
        let latent = latent_bytes(&geometry, channels);
        let (_, disk) = place.memory.resolve(&search.room)?;
        // Without room on disk latents wait in memory: those of two windows.
        let least = latent.saturating_mul(2 * recipe.sampling.windows.length() as u64);
        let in_memory = if place.spill.none || disk < least { least } else { 0 };
        let held = |slice: usize| held_bytes(&recipe, channels, slice).saturating_add(in_memory);
        let mut planners = tasks.each_ref().map(Task::planner);
        let [encode, dit, decode] = &mut planners;
        let (plans, budget, held) = search.beside(&held, &clip, |budget, wish| {
            Planner::together(&mut [&mut [encode], &mut [dit], &mut [decode]], budget, wish)
        })?;
        drop(planners);
        for task in &mut tasks {
            task.settings.recovery = Some(Recovery::new(&place.backend, budget));
        }
        let total = Total::in_turns(&plans, budget.is_apart(), held);
        let spilled = plans.iter().map(|plan| plan.peaks.disk).max().unwrap_or(0);
        let mut left = disk.saturating_sub(spilled);
        if recipe.finish.pool == Pool::Shot {
            recipe.finish.room = left / 2;
            left -= recipe.finish.room;
        }
        let room = match in_memory {
            0 => LatentRoom { folder: Some(place.spill.folder.clone()), bytes: left },
            bytes => LatentRoom { folder: None, bytes },
        };
        Ok(Film {
            how,
            format,
            recipe,
            notes,
            networks,
            tasks,
            plans,
            total,
            apart: budget.is_apart(),
            room,
            place,
            device,
            estimated: opened.is_estimated(),
        })
    }

    fn run(
        mut self,
        args: &RestoreArgs,
        output: &Path,
        (opened, input): (Opened, Box<dyn FrameSource>),
        tools: &mut Lazy<'_>,
        mut progress: Progress,
        out: &Output,
    ) -> Result<(), CliError> {
        let Opened { source, probe, info, late, counted, .. } = opened;
        let shown = self.shown();
        let listed = match &self.recipe.cuts {
            Cuts::At(shots) => shots.frames(),
            _ => None,
        };
        if let (Some(listed), Some(frames), false) = (listed, self.format.frames, self.estimated)
            && listed != frames as u64
        {
            let path = PathBuf::from(&self.how.look.scenes);
            return Err(CliError::OtherShots { path, listed, frames: frames as u64 });
        }
        let mut target = args.target.clone();
        target.pixel_format_or(args.how.numz.pixel_format());
        if args.how.look.finish.dither {
            let format = target.layout(&shown);
            self.recipe.finish.dither = Some(format.depth);
        }
        let goal = Goal { path: output, format: &shown, counted, overwrite: args.yes };
        self.notes.extend(target.rehearse(&goal, probe.as_ref(), tools)?);
        let (sink, more) = target.create(&goal, probe.as_ref(), info.as_ref(), tools)?;
        self.notes.extend(more);
        for line in tools.details() {
            out.detail(line);
        }
        report::announce(&self, &args.input, counted, out, &mut progress);
        // It fitted when it was opened first; what is free now says nothing.
        let again = || Ok(self.how.source.open(&args.input, u64::MAX, tools)?.source);
        let footage = match is_pipe(&args.input) {
            true => Footage::from(source),
            false => Footage { source, again: Some(Box::new(again)) },
        };
        let keep = match &args.keep_latents {
            Some(path) => Some(self.keep((path, args.yes), &args.input, &shown)?),
            None => None,
        };
        let done = self.restore(Whole { footage, input, sink, keep }, &mut progress)?;
        let other = listed.filter(|n| *n != done.frames as u64);
        let other =
            other.map(|n| format!("the list of shots is of {n} frames, but the input has {}", done.frames));
        warn_late(&late, &mut progress, &mut self.notes);
        if let Some(note) = other {
            progress.warn(&note);
            self.notes.push(note);
        }
        report::finish(self, args, output, done, tools, progress, out)
    }

    /// Runs all networks.
    fn restore(&self, film: Whole<'_>, progress: &mut Progress) -> Result<Done, CliError> {
        let planned = |i: usize| Planned { task: &self.tasks[i], plan: &self.plans[i] };
        let tasks = Tasks { encode: planned(0), transform: planned(1), decode: planned(2) };
        let mut events = |event: Event<'_>| report::event(progress, &event);
        Ok(restore(film, &self.recipe, tasks, &self.room, &mut events)?)
    }

    /// A file for restored latents.
    fn keep(
        &self,
        (path, overwrite): (&Path, bool),
        input: &Path,
        shown: &Format,
    ) -> Result<LatentWriter, CliError> {
        let vae = &self.networks.vae;
        if let Some(bytes) = self.kept_bytes() {
            destination::check_room(path, bytes, Size::Exact)?;
        }
        let failed = |source| CliError::Read { path: input.to_owned(), source };
        let origin = if is_pipe(input) { None } else { Origin::of(input, 0, 0).map_err(failed)? };
        let mut about = About::new(shown, self.recipe.geometry, vae.identity()?, origin);
        about.restored = Some(Restored {
            model: self.networks.names[0].clone(),
            seed: self.how.look.seed,
            window: self.recipe.sampling.windows.frames(),
            shown: self.recipe.shown,
            read: self.how.source.reading(),
        });
        Ok(LatentWriter::create(path, overwrite, &about, vae.latent())?)
    }

    /// The format of the frames that are written.
    pub(crate) fn shown(&self) -> Format {
        let [width, height] = self.recipe.shown;
        let sample_aspect = if self.how.keep_sar { self.format.sample_aspect } else { [1, 1] };
        Format { width, height, sample_aspect, ..self.format.clone() }
    }
}

impl RecipeArgs {
    /// Sizes of the frames on their way.
    fn geometry(&self, format: &Format) -> Geometry {
        let source = [format.width, format.height];
        let square = match (self.keep_sar, format.sample_aspect) {
            (false, [num, den]) if num > 0 && den > 0 && num != den => {
                let width = (format.width as u64 * u64::from(num)).div_ceil(u64::from(den));
                [usize::try_from(width).unwrap_or(format.width).max(1), format.height]
            }
            _ => source,
        };
        let short = square[0].min(square[1]);
        let resize = self.size.resolution().unwrap_or(match short > SHORT_SIDE {
            true => Resize::Keep,
            false => Resize::Short(SHORT_SIDE),
        });
        let edges = if self.numz.compat.is_some() { Edges::Black } else { self.size.edges() };
        let mut to = Geometry::new(square, resize, Edges::Black).shown;
        // Players want halved chroma, which odd sizes cannot have. Frames that keep their size keep it as it is.
        let steps = match format.layout.kind {
            Kind::Yuv { across, down } if to != source => [across, down].map(|n| 1usize << n.min(4)),
            _ => [1, 1],
        };
        if !matches!(resize, Resize::Exactly(_)) {
            to = [0, 1].map(|i| (to[i] / steps[i] * steps[i]).max(steps[i]));
        }
        // The other tool pads what it resized and cuts behind the networks.
        let to = if self.numz.compat.is_some() { resize } else { Resize::Exactly(to) };
        let geometry = Geometry::new(square, to, edges);
        Geometry { source, ..geometry }.with_alpha(format.layout.alpha)
    }

    /// Everything that decides the result.
    fn recipe(
        &self,
        geometry: Geometry,
        networks: &Networks,
        spill: &Spill,
        frames: Option<usize>,
    ) -> Result<Recipe, CliError> {
        let look = &self.look;
        let sizes = |source| CliError::Sizes { source };
        let windows = Windows::new(look.window).map_err(sizes)?;
        let mut recipe = Recipe {
            geometry,
            shown: geometry.shown,
            cuts: self.cuts(frames)?,
            softness: look.softness,
            input_noise: look.input_noise,
            sampling: Sampling {
                start: Start::Seed(look.seed),
                windows,
                scale: networks.scale,
                latent_noise: look.latent_noise,
            },
            finish: look.finish.finish(spill),
        };
        if self.numz.compat.is_some() {
            let overlap = usize::from(self.numz.temporal_overlap.unwrap_or(0));
            let size = windows.frames();
            recipe.cuts = Cuts::Batches { size, overlap: if overlap < size { overlap } else { 0 } };
            recipe.shown = geometry.shown.map(|n| (n / 2 * 2).max(1));
            recipe.finish.pool = Pool::Window;
            recipe.finish.border = Border::Zeros;
        }
        Ok(recipe)
    }

    /// Where the film is cut.
    fn cuts(&self, frames: Option<usize>) -> Result<Cuts, CliError> {
        match self.look.scenes.as_str() {
            // A still has no shots.
            _ if frames == Some(1) => Ok(Cuts::None),
            "auto" => Ok(Cuts::Auto),
            "none" => Ok(Cuts::None),
            file => {
                let path = PathBuf::from(file);
                let shots = Shots::from_json(&read_list(&path)?);
                Ok(Cuts::At(shots.map_err(|source| CliError::Scenes { path, source })?))
            }
        }
    }
}

/// A list of shots, no longer than one can be.
fn read_list(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(remaster_scenes::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Says that an input is missing before anything else is looked at.
fn check_input(path: &Path) -> Result<(), CliError> {
    if is_pipe(path) {
        return Ok(());
    }
    let missing = |source| MediaError::Open { path: path.to_owned(), source };
    path.metadata().map(drop).map_err(|source| missing(source).into())
}

/// Other streams come from the input.
fn refuse_streams(target: &TargetArgs) -> Result<(), CliError> {
    let what = "a restoration, which copies from its input";
    match target.streams {
        Some(_) => Err(CliError::NoEffect { flag: "--streams", what }),
        None => Ok(()),
    }
}

/// What ffmpeg takes to decode the input once.
fn children(source: &SourceArgs, opened: &Opened, format: &Format, threads: usize) -> u64 {
    opened.probe.as_ref().map_or(0, |probe| source.appetite(probe, format, threads))
}

/// What ffmpeg takes to encode what is shown.
fn encoder_bytes(geometry: &Geometry, format: &Format, threads: usize, output: Option<&Path>) -> u64 {
    let [width, height] = geometry.shown;
    let size = appetite::Size::new(&format.layout, width, height);
    match output.and_then(OutputKind::of) {
        Some(OutputKind::Video(_)) | None => appetite::encoder("libx265", size, threads),
        Some(_) => 0,
    }
}
