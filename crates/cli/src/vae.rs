//! `remaster vae` on plain tensors; `video` has the rest.

use std::path::Path;
use std::time::Instant;

use remaster_compute::HostTensor;
use remaster_engine::{Event, Memory, Recovery};
use remaster_model::vae::Gaussian;
use remaster_plan::{Clip, Direction, Plan};
use serde::Serialize;

use crate::args::{VaeArgs, VaeCommand};
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::memory;
use crate::network::Network;
use crate::output::Output;
use crate::plan;
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
            let x = tensors::read(&args.input, FRAMES, colours)?;
            let clip = frames_of(&args.input, &x)?;
            let z = run.encode(x, &mut phases)?;
            tensors::write(&args.output, LATENT, &z, args.yes)?;
            (clip, None)
        }
        VaeCommand::Decode(_) => {
            let z = tensors::read(&args.input, LATENT, latent)?;
            let y = run.decode(z, &mut phases)?;
            tensors::write(&args.output, FRAMES, &y, args.yes)?;
            (frames_of(&args.input, &y)?, None)
        }
        VaeCommand::Roundtrip(_) => {
            let x = tensors::read(&args.input, FRAMES, colours)?;
            let clip = frames_of(&args.input, &x)?;
            for phase in ["load", "encode", "decode"] {
                run.progress.phase(phase, Some(if phase == "load" { 0 } else { clip.frames() }));
            }
            let z = run.encode(x.clone(), &mut phases)?;
            let y = run.decode(z, &mut phases)?;
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
fn frames_of(path: &Path, x: &HostTensor) -> Result<Clip, CliError> {
    Clip::new(x.shape.t, x.shape.h, x.shape.w)
        .map_err(|source| CliError::Size { path: path.to_owned(), source })
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

impl Run<'_> {
    fn encode(&mut self, x: HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        let clip = frames_of(&self.args.input, &x)?;
        let moments = self.half(Direction::Encode, clip, x, phases)?;
        Ok(Gaussian::new(&moments).mean)
    }

    fn decode(&mut self, z: HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        let size = |source| CliError::Size { path: self.args.input.clone(), source };
        let clip = Clip::of_latents(z.shape.t, z.shape.h, z.shape.w).map_err(size)?;
        self.half(Direction::Decode, clip, z, phases)
    }

    /// Plans the run, says what it will take, and does it.
    fn half(
        &mut self,
        direction: Direction,
        clip: Clip,
        input: HostTensor,
        phases: &mut Vec<Phase>,
    ) -> Result<HostTensor, CliError> {
        let mut task = self.network.task(direction, clip, false);
        // The whole clip is read before and kept until it is written.
        let frames = 4 * 3 * (clip.frames() * clip.height() * clip.width()) as u64;
        let budget = devices::budget(&self.network.backend, &self.args.memory, self.args.vram, 2 * frames)?;
        let plan = task.planner().plan(&budget, &self.args.memory.wish()?)?;
        task.settings.recovery = Some(Recovery::new(&self.network.backend, budget));
        self.out.say(plan::describe(&plan, budget.is_apart()).trim_end());
        let phase = direction.name();
        let host = plan::host_bytes(&plan, budget.is_apart());
        let process = memory::process(devices::has_memory(&self.network.backend));
        self.progress.plan(host + process + 2 * frames, &[]);
        self.progress.phase("load", Some(0));
        self.progress.phase(phase, Some(clip.frames()));
        self.progress.enter("load");

        let started = Instant::now();
        let mut loaded = started;
        let progress = &mut self.progress;
        let (mut source, mut sink) = (Memory::source(input), Memory::sink());
        let summary = task.run(&plan, &mut source, &mut sink, &mut |event| {
            if let Event::Loaded = event {
                loaded = Instant::now();
                progress.advance("load", 0, loaded - started);
            }
            progress.event(phase, &event);
        })?;
        phases.push(Phase {
            phase: direction.name(),
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
