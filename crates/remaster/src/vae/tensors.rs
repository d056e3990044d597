//! The VAE on plain tensors; `video` has the rest.

use std::time::Instant;

use remaster_compute::{DType, HostTensor, Shape};
use remaster_engine::{Event as EngineEvent, MemoryClip, Planner, Recovery, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Budget, Cells, Clip, Plan};

use super::report::{self as words, End, NetworkDone, Start, VaeOutcome};
use super::{VaeRequest, VaeWork};
use crate::control::Control;
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::limits::{Held, Room};
use crate::machine::host::Machine;
use crate::network::Network;
use crate::plan::{Search, Total};
use crate::tensors::{self, FRAMES, LATENT};

pub(super) fn run(
    request: &VaeRequest,
    machine: &Machine,
    control: &Control,
    report: &Reporter<'_>,
) -> Result<VaeOutcome, Error> {
    request.size.refuse("tensors")?;
    request.source.refuse("tensors")?;
    request.target.refuse("tensors")?;
    tensors::check_output(&request.output, &request.input, request.overwrite)?;
    report.started("frames", About::default());
    let network = super::open(request, machine, control, report)?;
    if network.is_identity() {
        // A tensor of latents is the mean of a distribution, which the identity does not make.
        return Err(Error::Weights { word: request.weights.clone() });
    }
    let (name, channels, directions): (_, _, &[Direction]) = match request.work {
        VaeWork::Encode => (FRAMES, network.colours(), &[Direction::Encode]),
        VaeWork::Decode => (LATENT, network.latent(), &[Direction::Decode]),
        VaeWork::Roundtrip => (FRAMES, network.colours(), &[Direction::Encode, Direction::Decode]),
    };
    let input = tensors::open(&request.input, name, channels)?;
    let size = |source| Error::Size { path: request.input.clone(), source };
    let Shape { t, h, w, .. } = input.shape;
    let clip = if name == LATENT { Clip::of_latents(t, h, w) } else { Clip::new(t, h, w) }.map_err(size)?;
    let about = About {
        device: format!("{}, {}", network.site.backend.numerics(), request.device.dtype().name()),
        model: request.weights.clone(),
        input: format!(
            "{}, {} x {} x {}",
            request.input.display(),
            clip.frames(),
            clip.height(),
            clip.width()
        ),
        output: request.output.display().to_string(),
    };
    report.started("frames", about);
    let run = Run { network: &network, request, report };
    let ways = run.plan(directions, clip)?;
    let plans: Vec<Plan> = ways.iter().map(|w| w.plan.clone()).collect();
    let names: Vec<&str> = ways.iter().map(|w| w.task.network.name()).collect();
    let apart = ways.iter().any(|w| w.budget.is_apart());
    // The networks run one after the other.
    let totals = ways.iter().map(|w| Total::of(std::slice::from_ref(&w.plan), apart, w.held));
    let total = totals.max_by_key(Total::ram).ok_or(Error::Interrupted)?;
    report.phase("load", Some(0));
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
    words::announce(request, &network, report, &start);
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
    tensors::write(&request.output, name, &tensor, request.overwrite)?;
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
    Ok(words::finish(request, &network, report, end))
}

struct Run<'a, 'r> {
    network: &'a Network,
    request: &'a VaeRequest,
    report: &'a Reporter<'r>,
}

/// A network and how it will run.
struct Way {
    task: Task,
    plan: Plan,
    budget: Budget,
    held: Held,
}

impl Run<'_, '_> {
    /// Plans networks that run one after the other, before the input is read.
    fn plan(&self, directions: &[Direction], clip: Clip) -> Result<Vec<Way>, Error> {
        let tasks: Vec<Task> = directions.iter().map(|d| self.network.task(*d, clip, false)).collect();
        let Cells { steps, rows, columns } = clip.cells();
        let frames = Shape::new(clip.frames(), clip.height(), clip.width(), self.network.colours());
        let latents = Shape::new(steps, rows, columns, 3 * self.network.latent());
        // The whole clip is read before and kept until it is written; mean and deviation of latents, and the mean.
        let tensors = frames.bytes(DType::F32).saturating_mul(2).saturating_add(latents.bytes(DType::F32));
        let search = Search {
            backend: self.network.site.backend,
            limits: &self.request.limits,
            room: Room::of_run(&self.network.site.machine, Some(&self.request.output)),
            children: 0,
        };
        let (plans, budget, held) = search.once(tensors, |budget, wish| {
            let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
            let mut turns: Vec<[&mut Planner<'_>; 1]> =
                planners.iter_mut().map(|planner| [planner]).collect();
            let mut turns: Vec<&mut [&mut Planner<'_>]> =
                turns.iter_mut().map(|turn| &mut turn[..]).collect();
            Planner::joint(&mut turns, budget, wish)
        })?;
        let recovery = Some(Recovery::new(&self.network.site.backend, budget));
        let way = |(mut task, plan): (Task, Plan)| {
            task.settings.recovery = recovery;
            Way { task, plan, budget, held }
        };
        Ok(tasks.into_iter().zip(plans).map(way).collect())
    }

    /// Runs encoder or decoder over a clip.
    fn network(
        &self,
        way: Way,
        input: HostTensor,
        networks: &mut Vec<NetworkDone>,
    ) -> Result<HostTensor, Error> {
        let Way { task, plan, .. } = way;
        let name = task.network.name();
        self.report.enter("load");
        let started = Instant::now();
        let mut loaded = started;
        let report = self.report;
        let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
        let summary = task.run(&plan, &mut source, &mut sink, &mut |event| {
            match event {
                EngineEvent::Loaded => {
                    loaded = Instant::now();
                    report.advance("load", 0, loaded - started);
                }
                // There is no file to complete: tensors are written behind the last network.
                EngineEvent::Finishing => {}
                event => report.engine(&event),
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
