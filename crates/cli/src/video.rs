//! `remaster vae` on video: plans encoder and decoder, runs the pipeline, says what it took.

use std::path::Path;

use remaster_compute::{DType, Shape};
use remaster_engine::{Planner, Recovery, Task};
use remaster_media::{Format, FrameSource, Probe, appetite, probe};
use remaster_model::vae::Direction;
use remaster_pipeline::{
    Done, Footage, Geometry, LatentFile, LatentTarget, Lost, Origin, Planned, decode, encode, roundtrip,
};
use remaster_plan::{Cells, Clip, MAX_FRAMES, Plan, divide};

use crate::args::{VaeArgs, VaeCommand};
use crate::destination::{self, Size};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Goal, Lazy, has_ending, is_pipe};
use crate::memory::Room;
use crate::network::Network;
use crate::output::Output;
use crate::plan::{Search, Total, threads};
use crate::progress::{Label, Progress};
use crate::report::{self, End, NetworkDone, Source, Start};
use crate::tensors;

/// Whether a command is about video and pictures. Tensors in `.safetensors` files go another way.
pub(crate) fn takes(command: &VaeCommand) -> bool {
    match command {
        VaeCommand::Encode(args) => !has_ending(&args.input, "safetensors"),
        VaeCommand::Roundtrip(args) => {
            !has_ending(&args.input, "safetensors") && !has_ending(&args.output, "safetensors")
        }
        // Tensors without a clip around them become tensors of frames.
        VaeCommand::Decode(args) => {
            !has_ending(&args.output, "safetensors") && !LatentFile::is_plain(&args.input)
        }
    }
}

pub(crate) fn run(command: &VaeCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = command;
    let cancel = interrupt.watch()?;
    match command {
        VaeCommand::Encode(_) => tensors::check_output(&args.output, &args.input, args.yes)?,
        _ => destination::check_frames(&args.output, &[&args.input], args.yes, out)?,
    }
    let threads = threads(&args.memory, true)?;
    let tools = Lazy::new(&args.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    let network = Network::open(args, out, &cancel)?;
    progress.about(Label {
        device: format!("{}, {}", network.backend.numerics(), args.device.dtype.name()),
        model: args.weights.clone(),
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
    });
    let run = Run { args, out, network, progress, tools, threads };
    match command {
        VaeCommand::Roundtrip(_) => run.roundtrip(),
        VaeCommand::Encode(_) => run.encode(),
        VaeCommand::Decode(_) => run.decode(),
    }
}

struct Run<'a> {
    args: &'a VaeArgs,
    out: &'a Output,
    network: Network,
    progress: Progress,
    tools: Lazy<'a>,
    /// Of each child.
    threads: usize,
}

impl Run<'_> {
    fn roundtrip(mut self) -> Result<(), CliError> {
        let args = self.args;
        if args.target.streams.is_some() {
            return Err(CliError::NoEffect {
                flag: "--streams",
                what: "a round trip, which copies from its input",
            });
        }
        let opened = args.source.open(&args.input, args.memory.allowed(true)?, &mut self.tools)?;
        let estimated = opened.is_estimated();
        let mut notes = opened.notes;
        let format = opened.source.format().clone();
        let geometry = args.size.geometry(&format).with_alpha(format.layout.alpha);
        let shown = Format { width: geometry.shown[0], height: geometry.shown[1], ..format.clone() };
        let goal = Goal { path: &args.output, format: &shown, counted: opened.counted, overwrite: args.yes };
        notes.extend(args.target.rehearse(&goal, opened.probe.as_ref(), &mut self.tools)?);
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let mut tasks = [Direction::Encode, Direction::Decode]
            .map(|direction| self.network.task(direction, clip, open_ended));
        let found = plan(
            &mut tasks,
            &self.search(opened.probe.as_ref().map(|p| (p, &format)), Some(&shown)),
            &geometry,
            &clip,
        )?;
        let (sink, more) =
            args.target.create(&goal, opened.probe.as_ref(), opened.originals.as_ref(), &mut self.tools)?;
        notes.extend(more);
        self.announce(&found, format.frames, [opened.counted, estimated], geometry.shown, &notes);
        let networks = [0, 1].map(|i| Planned { task: &tasks[i], plan: &found.plans[i] });
        let clamp = !self.network.is_identity();
        let progress = &mut self.progress;
        let footage = footage(opened.source, args, &mut self.tools);
        let done = roundtrip(footage, sink, geometry, networks, clamp, &mut |event| progress.event(&event))?;
        report::warn_late(&opened.late, &mut self.progress, &mut notes);
        let source = Source { format, frames_estimated: estimated };
        self.report(&done, geometry, Some(source), notes, found)
    }

    fn encode(mut self) -> Result<(), CliError> {
        let args = self.args;
        args.target.refuse("latents")?;
        let opened = args.source.open(&args.input, args.memory.allowed(true)?, &mut self.tools)?;
        let estimated = opened.is_estimated();
        let mut notes = opened.notes;
        let format = opened.source.format().clone();
        if format.layout.alpha {
            notes.push("latent files cannot store alpha: it is dropped".into());
        }
        let geometry = args.size.geometry(&format);
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let target = LatentTarget {
            path: &args.output,
            overwrite: args.yes,
            network: self.network.identity()?,
            origin: origin(&args.input, opened.probe.as_ref())?,
        };
        let Cells { steps, rows, columns } = clip.cells();
        let latents = Shape::new(steps, rows, columns, self.network.latent()).bytes(DType::F32);
        notes.extend(destination::check_room(&args.output, latents, Size::Exact)?);
        let mut tasks = [self.network.task(Direction::Encode, clip, open_ended)];
        let found = plan(
            &mut tasks,
            &self.search(opened.probe.as_ref().map(|p| (p, &format)), None),
            &geometry,
            &clip,
        )?;
        self.announce(&found, format.frames, [opened.counted, estimated], geometry.shown, &notes);
        let progress = &mut self.progress;
        let network = Planned { task: &tasks[0], plan: &found.plans[0] };
        let channels = self.network.latent();
        let footage = footage(opened.source, args, &mut self.tools);
        let done = encode(footage, target, geometry, network, channels, &mut |event| progress.event(&event))?;
        report::warn_late(&opened.late, &mut self.progress, &mut notes);
        let source = Source { format, frames_estimated: estimated };
        self.report(&done, geometry, Some(source), notes, found)
    }

    fn decode(mut self) -> Result<(), CliError> {
        let args = self.args;
        args.size.refuse("latents, whose size is fixed")?;
        let file = LatentFile::open(&args.input)?;
        file.one_clip()?;
        file.made_by(&self.network.identity()?)?;
        file.has_channels(self.network.latent())?;
        let shape = file.shape();
        let size = |source| CliError::Size { path: args.input.clone(), source };
        let clip = Clip::of_latents(shape.t, shape.h, shape.w).map_err(size)?;
        let frames = file.frames();
        let Some(format) = file.about().format(frames) else {
            let reason = format!("unknown pixel format {}", file.about().samples);
            return Err(remaster_pipeline::PipelineError::Latents { path: args.input.clone(), reason }.into());
        };
        let geometry = file.about().geometry;
        let goal = Goal { path: &args.output, format: &format, counted: true, overwrite: args.yes };
        let (probe, mut notes) = self.streams(&file)?;
        notes.extend(args.target.rehearse(&goal, probe.as_ref(), &mut self.tools)?);
        let mut tasks = [self.network.task(Direction::Decode, clip, false)];
        let found = plan(&mut tasks, &self.search(None, Some(&format)), &geometry, &clip)?;
        let (sink, more) = args.target.create(&goal, probe.as_ref(), None, &mut self.tools)?;
        notes.extend(more);
        self.announce(&found, format.frames, [true, false], geometry.shown, &notes);
        let progress = &mut self.progress;
        let network = Planned { task: &tasks[0], plan: &found.plans[0] };
        let clamp = !self.network.is_identity();
        let done = decode(&file, sink, network, clamp, &mut |event| progress.event(&event))?;
        self.report(&done, geometry, None, notes, found)
    }

    /// Where sound, subtitles, chapters and tags of a decoded clip come from, and words for people about it.
    fn streams(&mut self, file: &LatentFile) -> Result<(Option<Probe>, Vec<String>), CliError> {
        let args = self.args;
        let origin = file.about().origin.as_ref();
        if !args.target.takes_streams(&args.output) {
            let streams = origin.map_or(0, |o| o.streams);
            let dropped = format!("only video files can store audio or subtitles: {streams} dropped");
            return Ok((None, if streams > 0 { vec![dropped] } else { Vec::new() }));
        }
        let (path, mut notes) = match (&args.target.streams, origin) {
            (Some(path), origin) => {
                let other = origin.is_some_and(|o| !o.is(path).unwrap_or(false));
                let note = format!("{} is not the file that was encoded", path.display());
                (path.clone(), if other { vec![note] } else { Vec::new() })
            }
            (None, None) => return Ok((None, Vec::new())),
            (None, Some(origin)) => match origin.find(&args.input) {
                Ok(path) => (path, Vec::new()),
                Err(lost) => {
                    let why = match lost {
                        Lost::Missing => "is missing",
                        Lost::Changed => "has changed",
                    };
                    // A stranger's words: no line breaks in a line of ours.
                    let source = origin.path.replace(char::is_control, "\u{fffd}");
                    if args.target.is_silent() {
                        return Ok((None, vec![format!("{source} {why}: writing video only")]));
                    }
                    return Err(CliError::Lost { path: args.input.clone(), origin: source, why });
                }
            },
        };
        let span = origin.map(|o| o.span).unwrap_or_default();
        let probe = probe(self.tools.get()?, &path)?.within(span)?;
        notes.push(format!("copying audio, subtitles, chapters and tags from {}", path.display()));
        Ok((Some(probe), notes))
    }

    /// Looks for plans beside ffmpeg, which decodes `from` to frames of a format and encodes what is `shown`.
    fn search(&self, from: Option<(&Probe, &Format)>, shown: Option<&Format>) -> Search<'_> {
        let args = self.args;
        let decodes = from.map_or(0, |(probe, format)| args.source.appetite(probe, format, self.threads));
        let from = from.map(|(probe, _)| probe);
        let encoder = shown.and_then(|format| {
            let name = args.target.encoder(&args.output, format, from)?;
            let size = appetite::Size::new(&format.layout, format.width, format.height);
            Some(appetite::encoder(&name, size, args.target.encoder_threads() as usize))
        });
        Search {
            backend: self.network.backend,
            memory: &args.memory,
            vram: args.vram,
            room: Room { real: true, output: Some(&args.output) },
            children: decodes.saturating_add(encoder.unwrap_or(0)),
        }
    }

    /// Frames of the clip, whether their number is sure, and whether it was computed from duration and rate.
    fn announce(
        &mut self,
        found: &Found,
        frames: Option<usize>,
        [counted, estimated]: [bool; 2],
        shown: [usize; 2],
        notes: &[String],
    ) {
        for line in self.tools.details() {
            self.out.detail(line);
        }
        let Found { names, plans, apart, total } = found;
        let start = Start { names, plans, apart: *apart, total, frames, counted, estimated, shown, notes };
        report::announce(self.args, &self.network, self.out, &mut self.progress, &start);
        self.progress.phase("finish", Some(0));
    }

    fn report(
        self,
        done: &Done,
        geometry: Geometry,
        source: Option<Source>,
        notes: Vec<String>,
        found: Found,
    ) -> Result<(), CliError> {
        let Found { names, plans, total, .. } = found;
        let Run { args, out, network, mut progress, tools, .. } = self;
        report::warn_of_children(&mut progress, &tools, &total);
        progress.advance("finish", 0, done.finishing);
        let end = End {
            frames: done.frames,
            shown: geometry.shown,
            geometry: Some(geometry),
            source,
            notes,
            networks: names.iter().zip(plans).map(|(name, plan)| NetworkDone::new(name, plan)).collect(),
            total,
            psnr: None,
        };
        report::finish(args, &network, out, progress, end)
    }
}

/// The networks of a run and how they will run.
struct Found {
    names: Vec<&'static str>,
    plans: Vec<Plan>,
    /// The device has memory of its own.
    apart: bool,
    total: Total,
}

/// Plans networks that are there at the same time, and says what each may use if its device fails.
fn plan(
    tasks: &mut [Task],
    search: &Search<'_>,
    geometry: &Geometry,
    clip: &Clip,
) -> Result<Found, CliError> {
    let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
    let mut turn: Vec<&mut Planner<'_>> = planners.iter_mut().collect();
    let (plans, budget, held) =
        search.run(geometry, clip, |budget, wish| Planner::together(&mut [&mut turn], budget, wish))?;
    drop(planners);
    for (task, budget) in tasks.iter_mut().zip(divide(&budget, &plans)) {
        task.settings.recovery = Some(Recovery::new(&search.backend, budget));
    }
    let names = tasks.iter().map(|task| task.network.name()).collect();
    let total = Total::of(&plans, budget.is_apart(), held);
    Ok(Found { names, plans, apart: budget.is_apart(), total })
}

/// The frames of the input, which a file gives again if the device is lost.
fn footage<'a>(source: Box<dyn FrameSource>, args: &'a VaeArgs, tools: &'a mut Lazy<'_>) -> Footage<'a> {
    // A named pipe is no file.
    let stays = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() || m.is_dir());
    if is_pipe(&args.input) || !stays(&args.input) {
        return source.into();
    }
    // It fitted when it was opened first; what is free now says nothing.
    let again = move || Ok(args.source.open(&args.input, u64::MAX, tools)?.source);
    Footage { source, again: Some(Box::new(again)) }
}

/// What a latent file keeps of its input.
fn origin(path: &Path, probe: Option<&Probe>) -> Result<Option<Origin>, CliError> {
    let Some(probe) = probe else { return Ok(None) };
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let origin = Origin::of(path, probe.others.len(), probe.chapters).map_err(failed)?;
    Ok(origin.map(|origin| Origin { span: probe.span(), ..origin }))
}

/// The clip to plan for, and whether only its source knows where it ends.
pub(crate) fn clip(
    geometry: &Geometry,
    frames: Option<usize>,
    counted: bool,
) -> Result<(Clip, bool), CliError> {
    let [width, height] = geometry.padded;
    // Without a count the container's word is a hint, and it may claim any length.
    let frames = frames.unwrap_or(1).clamp(1, MAX_FRAMES - 3);
    let clip = Clip::new((frames - 1).next_multiple_of(4) + 1, height, width);
    Ok((clip.map_err(|source| CliError::Sizes { source })?, !counted))
}
