//! `remaster vae` on video: plans both halves, runs the pipeline, says what it took.

use std::path::Path;

use remaster_engine::{EngineError, Recovery, Task};
use remaster_media::{Format, FrameSource};
use remaster_pipeline::{
    Done, Event, Footage, Geometry, Half, LatentFile, decode, encode, held_bytes, roundtrip,
};
use remaster_plan::{Budget, Clip, Direction, Plan, Wish};
use serde::Serialize;

use crate::args::{VaeArgs, VaeCommand};
use crate::destination::{self, Size};
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Goal, Lazy, has_ending, is_pipe};
use crate::memory;
use crate::network::Network;
use crate::output::Output;
use crate::plan;
use crate::progress::{About, Progress, ProgressMode, Summary};
use crate::tensors;

/// Frames of a slice that are counted on before there is a plan.
const SLICE: usize = 16;

/// The encoder has a third of the work and of the memory; more of it if that is too little.
const SHARES: [(u64, u64); 3] = [(1, 3), (1, 2), (2, 3)];

#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    backend: &'static str,
    dtype: &'static str,
    /// Frames that were written.
    frames: usize,
    /// Sizes before, in and after the network.
    geometry: Geometry,
    /// What was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Format>,
    notes: Vec<String>,
    plans: Vec<Plan>,
    summary: Summary,
}

/// Whether a command is about video and pictures. Tensors in `.safetensors` files go another way.
pub(crate) fn takes(command: &VaeCommand) -> bool {
    match command {
        VaeCommand::Encode(args) => !has_ending(&args.input, "safetensors"),
        VaeCommand::Roundtrip(args) => {
            !has_ending(&args.input, "safetensors") && !has_ending(&args.output, "safetensors")
        }
        VaeCommand::Decode(args) => !has_ending(&args.output, "safetensors") && is_latent_file(&args.input),
    }
}

/// Other tensor files have their latents channel by channel, without a clip around them.
fn is_latent_file(path: &Path) -> bool {
    LatentFile::claims(path) || !has_ending(path, "safetensors")
}

pub(crate) fn run(command: &VaeCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = command;
    let cancel = interrupt.watch()?;
    match command {
        VaeCommand::Encode(_) => tensors::check_output(&args.output, &args.input, args.yes)?,
        _ => drop(destination::check_frames(&args.output, &args.input, args.yes, out)?),
    }
    let tools = Lazy::new(&args.media, &cancel, interrupt);
    let mut progress = Progress::new(args.progress.mode, out.screen());
    let network = Network::open(args, out, &cancel)?;
    progress.about(About {
        device: format!("{}, {}", network.backend.numerics(), args.device.dtype.name()),
        model: args.weights.clone(),
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
    });
    let run = Run { args, out, network, progress, tools };
    match command {
        VaeCommand::Roundtrip(_) => run.roundtrip(),
        VaeCommand::Encode(_) => run.encode(),
        VaeCommand::Decode(_) => run.decode(),
    }
}

struct Run<'a> {
    args: &'a VaeArgs,
    out: &'a Output,
    network: Network<'a>,
    progress: Progress,
    tools: Lazy<'a>,
}

impl Run<'_> {
    fn roundtrip(mut self) -> Result<(), CliError> {
        let (args, media) = (self.args, &self.args.media);
        let opened = media.open(&args.input, &mut self.tools)?;
        let mut notes = opened.notes;
        let format = opened.source.format().clone();
        let geometry = Geometry::new([format.width, format.height], media.resolution.unwrap_or_default());
        let shown = Format { width: geometry.shown[0], height: geometry.shown[1], ..format.clone() };
        let goal = Goal { path: &args.output, format: &shown, counted: opened.counted, overwrite: args.yes };
        notes.extend(media.rehearse(&goal, opened.probe.as_ref(), &mut self.tools)?);
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let budget = self.budget(&geometry)?;
        let [mut encoder, mut decoder] = [Direction::Encode, Direction::Decode]
            .map(|direction| self.network.task(direction, clip, open_ended));
        let plans = plan_both(&encoder, &decoder, &budget, &args.memory.wish()?)?;
        let [first, second] = divide(&budget, &plans);
        encoder.settings.recovery = Some(Recovery::new(&self.network.backend, first));
        decoder.settings.recovery = Some(Recovery::new(&self.network.backend, second));
        let (sink, more) =
            media.create(&goal, opened.probe.as_ref(), opened.info.as_ref(), &mut self.tools)?;
        notes.extend(more);
        self.announce(&plans, budget.is_apart(), &geometry, &format, opened.counted, &notes);
        let halves = [Half { task: &encoder, plan: &plans[0] }, Half { task: &decoder, plan: &plans[1] }];
        let clamp = !self.network.is_identity();
        let progress = &mut self.progress;
        let footage = footage(opened.source, args, &mut self.tools);
        let done = roundtrip(footage, sink, geometry, halves, clamp, &mut |event| follow(progress, &event))?;
        self.report(&done, geometry, Some(format), notes, plans.into())
    }

    fn encode(mut self) -> Result<(), CliError> {
        let (args, media) = (self.args, &self.args.media);
        media.refuse_output("latents")?;
        let opened = media.open(&args.input, &mut self.tools)?;
        let mut notes = opened.notes;
        let format = opened.source.format().clone();
        if format.layout.alpha {
            notes.push("alpha does not go through the network: a latent file has none".into());
        }
        let geometry = Geometry::new([format.width, format.height], media.resolution.unwrap_or_default());
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let [width, height] = geometry.padded.map(|n| n as u64 / 8);
        let values = [clip.frames().div_ceil(4) as u64, height, width, self.network.latent() as u64, 4];
        let latents = values.iter().fold(1u64, |all, n| all.saturating_mul(*n));
        notes.extend(destination::check_room(&args.output, latents, Size::Exact)?);
        let mut task = self.network.task(Direction::Encode, clip, open_ended);
        let budget = self.budget(&geometry)?;
        let plan = task.planner().plan(&budget, &args.memory.wish()?)?;
        task.settings.recovery = Some(Recovery::new(&self.network.backend, budget));
        let plans = [plan];
        self.announce(&plans, budget.is_apart(), &geometry, &format, opened.counted, &notes);
        let progress = &mut self.progress;
        let half = Half { task: &task, plan: &plans[0] };
        let channels = self.network.latent();
        let footage = footage(opened.source, args, &mut self.tools);
        let done = encode(footage, &args.output, args.yes, geometry, half, channels, &mut |event| {
            follow(progress, &event);
        })?;
        self.report(&done, geometry, Some(format), notes, plans.into())
    }

    fn decode(mut self) -> Result<(), CliError> {
        let (args, media) = (self.args, &self.args.media);
        if media.resolution.is_some() {
            return Err(CliError::NoEffect { flag: "--resolution", what: "latents, which have their size" });
        }
        let file = LatentFile::open(&args.input)?;
        let shape = file.shape();
        if shape.c != self.network.latent() {
            let (expected, found) = (self.network.latent(), shape.c);
            let reason = format!("it has {found} channels, but this network takes {expected}");
            return Err(remaster_pipeline::PipelineError::Latents { path: args.input.clone(), reason }.into());
        }
        let size = |source| CliError::Size { path: args.input.clone(), source };
        let clip = Clip::of_latents(shape.t, shape.h, shape.w).map_err(size)?;
        let frames = file.timestamps().len();
        let Some(format) = file.about().format(frames) else {
            let reason = format!("samples like {} are not known", file.about().samples);
            return Err(remaster_pipeline::PipelineError::Latents { path: args.input.clone(), reason }.into());
        };
        let geometry = file.about().geometry;
        let goal = Goal { path: &args.output, format: &format, counted: true, overwrite: args.yes };
        let mut notes: Vec<String> = media.rehearse(&goal, None, &mut self.tools)?.into_iter().collect();
        let mut task = self.network.task(Direction::Decode, clip, false);
        let budget = self.budget(&geometry)?;
        let plan = task.planner().plan(&budget, &args.memory.wish()?)?;
        task.settings.recovery = Some(Recovery::new(&self.network.backend, budget));
        let plans = [plan];
        let (sink, more) = media.create(&goal, None, None, &mut self.tools)?;
        notes.extend(more);
        self.announce(&plans, budget.is_apart(), &geometry, &format, true, &notes);
        let progress = &mut self.progress;
        let half = Half { task: &task, plan: &plans[0] };
        let clamp = !self.network.is_identity();
        let done = decode(&file, sink, half, clamp, &mut |event| follow(progress, &event))?;
        self.report(&done, geometry, None, notes, plans.into())
    }

    /// What the networks may use, beside frames on their way.
    fn budget(&self, geometry: &Geometry) -> Result<Budget, CliError> {
        let held = held_bytes(geometry, SLICE);
        devices::budget(&self.network.backend, &self.args.memory, self.args.vram, held)
    }

    fn announce(
        &mut self,
        plans: &[Plan],
        apart: bool,
        geometry: &Geometry,
        format: &Format,
        counted: bool,
        notes: &[String],
    ) {
        for note in notes {
            self.out.say(format_args!("note: {note}"));
        }
        let mut work = Vec::new();
        let slice = plans.iter().map(|p| p.how.slice).max().unwrap_or(SLICE);
        let mut planned =
            memory::process(devices::has_memory(&self.network.backend)) + held_bytes(geometry, slice);
        for p in plans {
            self.out.say(plan::describe(p, apart).trim_end());
            planned += plan::host_bytes(p, apart);
            let macs = (p.work.macs + p.work.attention_macs) as f64 / p.job.clip.frames() as f64;
            work.push((p.job.direction.name(), macs.max(1.0)));
        }
        self.progress.plan(planned, &work);
        for (phase, _) in &work {
            match (format.frames, counted) {
                (Some(n), true) => self.progress.phase(phase, Some(n)),
                (Some(n), false) => self.progress.phase_about(phase, n),
                (None, _) => self.progress.phase(phase, None),
            }
        }
        self.progress.phase("finish", Some(0));
    }

    fn report(
        self,
        done: &Done,
        geometry: Geometry,
        source: Option<Format>,
        notes: Vec<String>,
        plans: Vec<Plan>,
    ) -> Result<(), CliError> {
        let Run { args, out, mut progress, .. } = self;
        progress.advance("finish", 0, done.finishing);
        let report = Report {
            input: args.input.display().to_string(),
            output: args.output.display().to_string(),
            backend: self.network.backend.name(),
            dtype: args.device.dtype.name(),
            frames: done.frames,
            geometry,
            source,
            notes,
            plans,
            summary: progress.finish(),
        };
        // Where stdout carries the frames, the summary is for people only; `--progress json` has said it already.
        if is_pipe(&args.output) {
            if args.progress.mode != ProgressMode::Json {
                out.say(report.summary);
            }
        } else {
            out.result(&report, || report.summary.to_string());
        }
        Ok(())
    }
}

/// Plans for two halves that are there at the same time: the encoder gets a share, the decoder what is left.
fn plan_both(encoder: &Task, decoder: &Task, budget: &Budget, wish: &Wish) -> Result<[Plan; 2], EngineError> {
    let (mut first, mut second) = (encoder.planner(), decoder.planner());
    let mut both = |(part, of): (u64, u64)| {
        let encode = first.plan(&share(budget, part, of), wish)?;
        let decode = second.plan(&less(budget, &encode), wish)?;
        Ok([encode, decode])
    };
    let refused = match both(SHARES[0]) {
        Ok(plans) => return Ok(plans),
        Err(error) => error,
    };
    SHARES[1..].iter().find_map(|share| both(*share).ok()).ok_or(refused)
}

/// The frames of the input, which a file gives again if the device is lost.
fn footage<'a>(source: Box<dyn FrameSource>, args: &'a VaeArgs, tools: &'a mut Lazy<'_>) -> Footage<'a> {
    // A named pipe is no file.
    let stays = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() || m.is_dir());
    if is_pipe(&args.input) || !stays(&args.input) {
        return source.into();
    }
    let again = move || Ok(args.media.open(&args.input, tools)?.source);
    Footage { source, again: Some(Box::new(again)) }
}

/// What each of two halves may use when it is planned anew: what it has, and half of what is left.
fn divide(budget: &Budget, [encode, decode]: &[Plan; 2]) -> [Budget; 2] {
    let rest = |plan: &Plan, other: &Plan| {
        let left = share(&less(&less(budget, plan), other), 1, 2);
        let peaks = plan.peaks;
        match left {
            Budget::Shared { ram, disk } => {
                Budget::Shared { ram: ram + peaks.device + peaks.host, disk: disk + peaks.disk }
            }
            Budget::Apart { vram, ram, disk } => {
                Budget::Apart { vram: vram + peaks.device, ram: ram + peaks.host, disk: disk + peaks.disk }
            }
        }
    };
    [rest(encode, decode), rest(decode, encode)]
}

/// Shows what happens.
fn follow(progress: &mut Progress, event: &Event<'_>) {
    match event {
        Event::Loaded | Event::Tile { .. } => {}
        Event::Advanced { phase, frames, busy, .. } => {
            progress.enter(phase);
            progress.advance(phase, *frames, *busy);
        }
        Event::Finishing => progress.enter("finish"),
        Event::Warning(text) => progress.warn(text),
    }
}

/// The clip to plan for, and whether only its source knows where it ends.
fn clip(geometry: &Geometry, frames: Option<usize>, counted: bool) -> Result<(Clip, bool), CliError> {
    let [width, height] = geometry.padded;
    let frames = frames.unwrap_or(1).max(1);
    let clip = Clip::new((frames - 1).next_multiple_of(4) + 1, height, width);
    Ok((clip.map_err(|source| CliError::Sizes { source })?, !counted))
}

fn share(budget: &Budget, part: u64, of: u64) -> Budget {
    match *budget {
        Budget::Shared { ram, disk } => Budget::Shared { ram: ram / of * part, disk: disk / of * part },
        Budget::Apart { vram, ram, disk } => {
            Budget::Apart { vram: vram / of * part, ram: ram / of * part, disk: disk / of * part }
        }
    }
}

/// What is left when `plan` has taken its part.
fn less(budget: &Budget, plan: &Plan) -> Budget {
    let peaks = plan.peaks;
    match *budget {
        Budget::Shared { ram, disk } => Budget::Shared {
            ram: ram.saturating_sub(peaks.device + peaks.host),
            disk: disk.saturating_sub(peaks.disk),
        },
        Budget::Apart { vram, ram, disk } => Budget::Apart {
            vram: vram.saturating_sub(peaks.device),
            ram: ram.saturating_sub(peaks.host),
            disk: disk.saturating_sub(peaks.disk),
        },
    }
}
