//! The VAE on plain tensors; `video` has the rest.

use std::time::Instant;

use remaster_compute::{DType, HostTensor, Shape};
use remaster_engine::{Event as EngineEvent, MemoryClip, Planner, Recovery, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Cells, Clip, Plan};

use super::report::{self as words, Found, PhaseTook, Start, VaeOutcome};
use super::{VaeRequest, VaeWork};
use crate::error::Error;
use crate::event::Reporter;
use crate::job::Job;
use crate::limits::Room;
use crate::network::Network;
use crate::plan::{Search, Total};
use crate::tensors::{self, FRAMES, LATENT};

/// Refuses what cannot be done before anything is opened.
pub(super) fn check(request: &VaeRequest) -> Result<(), Error> {
    request.size.refuse("tensors")?;
    request.source.refuse("tensors")?;
    request.target.refuse("tensors")?;
    tensors::check_output(&request.output, &request.input, request.overwrite)
}

pub(super) fn prepare(
    request: VaeRequest,
    network: Network,
    report: &Reporter<'_>,
) -> Result<Job<VaeOutcome>, Error> {
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
    let (frames, shown) = (clip.frames(), [clip.width(), clip.height()]);
    let of = format!("{}, {frames} x {} x {}", request.input.display(), shown[1], shown[0]);
    report.started("frames", network.site.about(&request.weights, &of, &request.output));
    let (tasks, found) = plan(&request, &network, directions, clip)?;
    Ok(Job::new(request.known(&[], found.total), move |report| {
        report.phase("load", Some(0));
        let start =
            Start { found: &found, frames: Some(frames), counted: true, estimated: false, shown, notes: &[] };
        words::announce(&request, &network, report, &start);
        let mut tensor = input.read()?;
        let original = (tasks.len() > 1).then(|| tensor.clone());
        let mut phases = Vec::new();
        for ((direction, task), plan) in directions.iter().zip(tasks).zip(&found.plans) {
            tensor = run_network(&task, plan, tensor, &mut phases, report)?;
            if *direction == Direction::Encode {
                tensor = Gaussian::new(&tensor).mean;
            }
        }
        let name = if directions == [Direction::Encode] { LATENT } else { FRAMES };
        tensors::write(&request.output, name, &tensor, request.overwrite)?;
        let psnr = original.map(|x| x.difference(&tensor).psnr(2.0)).filter(|p| p.is_finite());
        Ok(VaeOutcome { psnr, ..words::finish(&request, &network, report, (frames, shown), found, phases) })
    }))
}

/// Plans networks that run one after the other, before the input is read.
fn plan(
    request: &VaeRequest,
    network: &Network,
    directions: &[Direction],
    clip: Clip,
) -> Result<(Vec<Task>, Found), Error> {
    let mut tasks: Vec<Task> = directions.iter().map(|d| network.task(*d, clip, false)).collect();
    let Cells { steps, rows, columns } = clip.cells();
    let frames = Shape::new(clip.frames(), clip.height(), clip.width(), network.colours());
    let latents = Shape::new(steps, rows, columns, 3 * network.latent());
    // The whole clip is read before and kept until it is written; mean and deviation of latents, and the mean.
    let tensors = frames.bytes(DType::F32).saturating_mul(2).saturating_add(latents.bytes(DType::F32));
    let room = Room::of_run(&network.site.machine, Some(&request.output));
    let search = Search { backend: network.site.backend, limits: &request.limits, room, children: 0 };
    let (plans, budget, held) = search.once(tensors, |budget, wish| {
        let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
        let mut turns: Vec<[&mut Planner<'_>; 1]> = planners.iter_mut().map(|planner| [planner]).collect();
        let mut turns: Vec<&mut [&mut Planner<'_>]> = turns.iter_mut().map(|turn| &mut turn[..]).collect();
        Planner::joint(&mut turns, budget, wish)
    })?;
    for task in &mut tasks {
        task.settings.recovery = Some(Recovery::new(&network.site.backend, budget));
    }
    let (names, apart) = (tasks.iter().map(|task| task.network.name()).collect(), budget.is_apart());
    let total = Total::in_turns(&plans, apart, held);
    Ok((tasks, Found { names, plans, apart, total }))
}

/// Runs encoder or decoder over a clip.
fn run_network(
    task: &Task,
    plan: &Plan,
    input: HostTensor,
    phases: &mut Vec<PhaseTook>,
    report: &Reporter<'_>,
) -> Result<HostTensor, Error> {
    report.enter("load");
    let started = Instant::now();
    let mut loaded = started;
    let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
    let summary = task.run(plan, &mut source, &mut sink, &mut |event| {
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
    phases.push(PhaseTook {
        load_seconds: Some((loaded - started).as_secs_f64()),
        peak_bytes: Some(summary.device_peak),
        spilled_bytes: Some(summary.disk_peak),
        ..PhaseTook::new(task.network.name(), plan, report)
    });
    Ok(sink.clip)
}
