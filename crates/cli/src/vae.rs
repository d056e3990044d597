//! `remaster vae` on plain tensors; `video` has the rest.

use std::path::Path;
use std::time::Instant;

use remaster_compute::{DType, HostTensor, Shape};
use remaster_engine::{Event, MemoryClip, Recovery, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Budget, Cells, Clip, Plan};
use serde::Serialize;

use crate::args::{VaeArgs, VaeCommand};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::memory::{Held, Room};
use crate::network::Network;
use crate::output::Output;
use crate::plan::{self, Search, Total};
use crate::progress::{About, Progress, Summary};
use crate::tensors::{self, FRAMES, LATENT};
use crate::video;

/// What one half of the network took.
#[derive(Debug, Serialize)]
struct Phase {
    phase: &'static str,
    load_seconds: f64,
    seconds: f64,
    /// Bytes of the arena, as the meter said before the run.
    planned_bytes: u64,
    /// Bytes of it that were used.
    peak_bytes: u64,
    /// Bytes of the spill file.
    spilled_bytes: u64,
    /// Multiply-adds of convolutions and linear layers.
    macs: u64,
    /// Multiply-adds of attention.
    attention_macs: u64,
    /// How it was cut, and why.
    plan: Plan,
}

#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    backend: &'static str,
    dtype: &'static str,
    frames: usize,
    height: usize,
    width: usize,
    phases: Vec<Phase>,
    /// Round trip only: dB against the input, for values in [-1, 1]; absent if equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    psnr: Option<f64>,
    summary: Summary,
}

pub(crate) fn run(command: &VaeCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = command;
    if video::takes(command) {
        return video::run(command, out, interrupt);
    }
    args.media.refuse("tensors")?;
    tensors::check_output(&args.output, &args.input, args.yes)?;
    let cancel = interrupt.watch()?;
    let mut progress = Progress::new(args.progress.mode, out.screen());
    let network = Network::open(args, out, &cancel)?;
    if network.is_identity() {
        // A tensor of latents is the mean of a distribution, which the identity does not make.
        return Err(CliError::Weights { word: args.weights.clone() });
    }
    let (backend, colours, latent) = (network.backend, network.colours(), network.latent());
    let mut run = Run { network, args, out, progress: &mut progress };
    let mut phases = Vec::new();
    let (clip, psnr) = match command {
        VaeCommand::Encode(_) => {
            let input = tensors::open(&args.input, FRAMES, colours)?;
            let clip = frames_of(&args.input, input.shape)?;
            let way = run.plan(Direction::Encode, clip)?;
            let z = run.encode(way, input.read()?, &mut phases)?;
            tensors::write(&args.output, LATENT, &z, args.yes)?;
            (clip, None)
        }
        VaeCommand::Decode(_) => {
            let input = tensors::open(&args.input, LATENT, latent)?;
            let size = |source| CliError::Size { path: args.input.clone(), source };
            let clip = Clip::of_latents(input.shape.t, input.shape.h, input.shape.w).map_err(size)?;
            let way = run.plan(Direction::Decode, clip)?;
            let y = run.half(way, input.read()?, &mut phases)?;
            tensors::write(&args.output, FRAMES, &y, args.yes)?;
            (clip, None)
        }
        VaeCommand::Roundtrip(_) => {
            let input = tensors::open(&args.input, FRAMES, colours)?;
            let clip = frames_of(&args.input, input.shape)?;
            let ways = run.plan_both(clip)?;
            let x = input.read()?;
            for phase in ["load", "encode", "decode"] {
                run.progress.phase(phase, Some(if phase == "load" { 0 } else { clip.frames() }));
            }
            let [first, second] = ways;
            let z = run.encode(first, x.clone(), &mut phases)?;
            let y = run.half(second, z, &mut phases)?;
            tensors::write(&args.output, FRAMES, &y, args.yes)?;
            (clip, Some(x.difference(&y).psnr(2.0)).filter(|p| p.is_finite()))
        }
    };
    progress.about(About {
        device: format!("{}, {}", backend.numerics(), args.device.dtype.name()),
        model: args.weights.clone(),
        input: format!("{}, {} x {} x {}", args.input.display(), clip.frames(), clip.height(), clip.width()),
        output: args.output.display().to_string(),
    });
    let report = Report {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        backend: backend.name(),
        dtype: args.device.dtype.name(),
        frames: clip.frames(),
        height: clip.height(),
        width: clip.width(),
        phases,
        psnr,
        summary: progress.finish(),
    };
    out.result(&report, || describe(&report));
    Ok(())
}

/// The frames a tensor must have to go through the network.
fn frames_of(path: &Path, shape: Shape) -> Result<Clip, CliError> {
    Clip::new(shape.t, shape.h, shape.w).map_err(|source| CliError::Size { path: path.to_owned(), source })
}

fn describe(report: &Report) -> String {
    let mut text = report.summary.to_string();
    if let Some(psnr) = report.psnr {
        text += &format!("psnr     {psnr:.2} dB against the input\n");
    }
    text
}

struct Run<'a> {
    network: Network<'a>,
    args: &'a VaeArgs,
    out: &'a Output,
    progress: &'a mut Progress,
}

/// One half and how it will run.
struct Way {
    task: Task,
    plan: Plan,
    budget: Budget,
    held: Held,
}

impl Run<'_> {
    /// Plans encoder or decoder, before its input is read.
    fn plan(&self, direction: Direction, clip: Clip) -> Result<Way, CliError> {
        let mut task = self.network.task(direction, clip, false);
        let Cells { steps, rows, columns } = clip.cells();
        let frames = Shape::new(clip.frames(), clip.height(), clip.width(), self.network.colours());
        let latents = Shape::new(steps, rows, columns, 3 * self.network.latent());
        // The whole clip is read before and kept until it is written; mean and deviation of latents, and the mean.
        let tensors = frames.bytes(DType::F32).saturating_mul(2).saturating_add(latents.bytes(DType::F32));
        let search = Search {
            backend: self.network.backend,
            memory: &self.args.memory,
            vram: self.args.vram,
            room: Room { real: true, output: Some(&self.args.output) },
            children: 0,
        };
        let (plan, budget, held) = search.once(tensors, |budget, wish| task.planner().plan(budget, wish))?;
        task.settings.recovery = Some(Recovery::new(&self.network.backend, budget));
        Ok(Way { task, plan, budget, held })
    }

    /// Plans both halves, which run one after the other. Of two refusals the one counts that asks for more.
    fn plan_both(&self, clip: Clip) -> Result<[Way; 2], CliError> {
        match (self.plan(Direction::Encode, clip), self.plan(Direction::Decode, clip)) {
            (Ok(first), Ok(second)) => Ok([first, second]),
            (Err(CliError::Budget { ram: a, .. }), Err(second @ CliError::Budget { ram: b, .. }))
                if b > a =>
            {
                Err(second)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn encode(&mut self, way: Way, x: HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        let moments = self.half(way, x, phases)?;
        Ok(Gaussian::new(&moments).mean)
    }

    /// Says what a half will take, and does it.
    fn half(&mut self, way: Way, input: HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        let Way { task, plan, budget, held } = way;
        let (phase, [frames, ..]) = (task.network.name(), task.job.picture());
        let total = Total::of(std::slice::from_ref(&plan), budget.is_apart(), held);
        self.out.say(plan::describe(&plan, budget.is_apart()).trim_end());
        self.out.say(total.describe());
        self.progress.plan(total.ram(), &[]);
        self.progress.phase("load", Some(0));
        self.progress.phase(phase, Some(frames));
        self.progress.enter("load");

        let started = Instant::now();
        let mut loaded = started;
        let progress = &mut self.progress;
        let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
        let summary = task.run(&plan, &mut source, &mut sink, &mut |event| {
            if let Event::Loaded = event {
                loaded = Instant::now();
                progress.advance("load", 0, loaded - started);
            }
            progress.event(&event);
        })?;
        phases.push(Phase {
            phase,
            load_seconds: (loaded - started).as_secs_f64(),
            seconds: loaded.elapsed().as_secs_f64(),
            planned_bytes: plan.peaks.device,
            peak_bytes: summary.device_peak,
            spilled_bytes: summary.disk_peak,
            macs: plan.work.macs,
            attention_macs: plan.work.attention_macs,
            plan,
        });
        Ok(sink.clip)
    }
}
