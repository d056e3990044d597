//! `remaster vae` on plain tensors; `video` has the rest.

use std::time::Instant;

use remaster_compute::{DType, HostTensor, Shape};
use remaster_engine::{Event, MemoryClip, Planner, Recovery, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Budget, Cells, Clip, Plan};

use crate::args::{VaeArgs, VaeCommand};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::memory::{Held, Room};
use crate::network::Network;
use crate::output::Output;
use crate::plan::{Search, Total};
use crate::progress::{Label, Progress};
use crate::report::{self, End, NetworkDone, Start};
use crate::tensors::{self, FRAMES, LATENT};
use crate::video;

pub(crate) fn run(command: &VaeCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = command;
    if video::takes(command) {
        return video::run(command, out, interrupt);
    }
    args.size.refuse("tensors")?;
    args.source.refuse("tensors")?;
    args.target.refuse("tensors")?;
    tensors::check_output(&args.output, &args.input, args.yes)?;
    let cancel = interrupt.watch()?;
    let mut progress = Progress::new(args.progress.mode, out);
    let network = Network::open(args, out, &cancel)?;
    if network.is_identity() {
        // A tensor of latents is the mean of a distribution, which the identity does not make.
        return Err(CliError::Weights { word: args.weights.clone() });
    }
    let (name, channels, directions): (_, _, &[Direction]) = match command {
        VaeCommand::Encode(_) => (FRAMES, network.colours(), &[Direction::Encode]),
        VaeCommand::Decode(_) => (LATENT, network.latent(), &[Direction::Decode]),
        VaeCommand::Roundtrip(_) => (FRAMES, network.colours(), &[Direction::Encode, Direction::Decode]),
    };
    let input = tensors::open(&args.input, name, channels)?;
    let size = |source| CliError::Size { path: args.input.clone(), source };
    let Shape { t, h, w, .. } = input.shape;
    let clip = if name == LATENT { Clip::of_latents(t, h, w) } else { Clip::new(t, h, w) }.map_err(size)?;
    progress.about(Label {
        device: format!("{}, {}", network.backend.numerics(), args.device.dtype.name()),
        model: args.weights.clone(),
        input: format!("{}, {} x {} x {}", args.input.display(), clip.frames(), clip.height(), clip.width()),
        output: args.output.display().to_string(),
    });
    let mut run = Run { network: &network, args, progress: &mut progress };
    let ways = run.plan(directions, clip)?;
    let plans: Vec<Plan> = ways.iter().map(|w| w.plan.clone()).collect();
    let names: Vec<&str> = ways.iter().map(|w| w.task.network.name()).collect();
    let apart = ways.iter().any(|w| w.budget.is_apart());
    // The networks run one after the other.
    let totals = ways.iter().map(|w| Total::of(std::slice::from_ref(&w.plan), apart, w.held));
    let total = totals.max_by_key(Total::ram).ok_or(CliError::Interrupted)?;
    run.progress.phase("load", Some(0));
    let start = Start {
        names: &names,
        plans: &plans,
        apart,
        total: &total,
        frames: Some(clip.frames()),
        counted: true,
        estimated: false,
        shown: [clip.width(), clip.height()],
        notes: &[],
    };
    report::announce(args, &network, out, run.progress, &start);
    let mut tensor = input.read()?;
    let original = (ways.len() > 1).then(|| tensor.clone());
    let mut networks = Vec::new();
    for (direction, way) in directions.iter().zip(ways) {
        tensor = run.network(way, tensor, &mut networks)?;
        if *direction == Direction::Encode {
            tensor = Gaussian::new(&tensor).mean;
        }
    }
    let name = if directions == [Direction::Encode] { LATENT } else { FRAMES };
    tensors::write(&args.output, name, &tensor, args.yes)?;
    let psnr = original.map(|x| x.difference(&tensor).psnr(2.0)).filter(|p| p.is_finite());
    let end = End {
        frames: clip.frames(),
        shown: start.shown,
        geometry: None,
        source: None,
        notes: Vec::new(),
        networks,
        total,
        psnr,
    };
    report::finish(args, &network, out, progress, end)
}

struct Run<'a> {
    network: &'a Network,
    args: &'a VaeArgs,
    progress: &'a mut Progress,
}

/// A network and how it will run.
struct Way {
    task: Task,
    plan: Plan,
    budget: Budget,
    held: Held,
}

impl Run<'_> {
    /// Plans networks that run one after the other, before the input is read.
    fn plan(&self, directions: &[Direction], clip: Clip) -> Result<Vec<Way>, CliError> {
        let tasks: Vec<Task> = directions.iter().map(|d| self.network.task(*d, clip, false)).collect();
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
        let (plans, budget, held) = search.once(tensors, |budget, wish| {
            let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
            let mut turns: Vec<[&mut Planner<'_>; 1]> =
                planners.iter_mut().map(|planner| [planner]).collect();
            let mut turns: Vec<&mut [&mut Planner<'_>]> =
                turns.iter_mut().map(|turn| &mut turn[..]).collect();
            Planner::together(&mut turns, budget, wish)
        })?;
        let recovery = Some(Recovery::new(&self.network.backend, budget));
        let way = |(mut task, plan): (Task, Plan)| {
            task.settings.recovery = recovery;
            Way { task, plan, budget, held }
        };
        Ok(tasks.into_iter().zip(plans).map(way).collect())
    }

    /// Runs encoder or decoder over a clip.
    fn network(
        &mut self,
        way: Way,
        input: HostTensor,
        networks: &mut Vec<NetworkDone>,
    ) -> Result<HostTensor, CliError> {
        let Way { task, plan, .. } = way;
        let name = task.network.name();
        self.progress.enter("load");
        let started = Instant::now();
        let mut loaded = started;
        let progress = &mut self.progress;
        let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
        let summary = task.run(&plan, &mut source, &mut sink, &mut |event| {
            match event {
                Event::Loaded => {
                    loaded = Instant::now();
                    progress.advance("load", 0, loaded - started);
                }
                // There is no file to complete: tensors are written behind the last network.
                Event::Finishing => {}
                event => progress.event(&event),
            }
        })?;
        networks.push(NetworkDone {
            name,
            plan,
            load: Some(loaded - started),
            device_peak: Some(summary.device_peak),
            disk_peak: Some(summary.disk_peak),
        });
        Ok(sink.clip)
    }
}
