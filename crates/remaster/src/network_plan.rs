//! Plans of one network, or of the VAE's round trip of a file.

use std::path::Path;

use remaster_compute::Backend;
use remaster_engine::{Planner, Task, device_sizing};
use remaster_media::ffmpeg_memory;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_picture::Edges;
use remaster_plan::{Clip, Plan};
use remaster_restore::Geometry;
use remaster_weights::FormulaParams;
use serde::Serialize;

use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::estimate::{NETWORK_SHARE, recorded_or_measured};
use crate::event::{Event, Reporter};
use crate::limits::{Limits, Room};
use crate::machine::host::Machine;
use crate::machine::rates::Key;
use crate::machine::{calibrate, devices};
use crate::media::{Lazy, Opened, Size as MediaSize, Source, is_pipe};
use crate::network;
use crate::outcome::SourceInfo;
use crate::plan::{self, Search, Total};
use crate::transformer::{Size, Transformer, in_flight_bytes};
use crate::vae::video;

/// A network that can be planned alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// The VAE's encoder.
    Encode,
    /// The VAE's decoder.
    Decode,
    /// The diffusion transformer.
    Transformer,
}

/// What a network would run on.
#[derive(Clone, Debug)]
pub struct NetworkPlanRequest {
    /// Model file, or a name of generated weights; the published network, which need not be installed, if `None`.
    pub weights: Option<String>,
    /// Memory and disk.
    pub limits: Limits,
    /// What computes.
    pub device: Device,
}

/// A plan of one network.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NetworkPlan {
    /// How it would run.
    #[serde(flatten)]
    pub plan: Plan,
    /// Memory of the whole run.
    pub total: Total,
    /// How long it would take, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<NetworkTime>,
    /// The device has memory of its own.
    #[serde(skip)]
    pub apart: bool,
}

/// A plan of the VAE's round trip of a file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RoundtripPlan {
    /// What is read.
    pub input: String,
    /// Sizes of frames on their way.
    pub geometry: Geometry,
    /// The input.
    pub source: SourceInfo,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of encoder and decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
    /// How long it would take, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<NetworkTime>,
    /// The device has memory of its own.
    #[serde(skip)]
    pub apart: bool,
}

/// How long a network takes.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct NetworkTime {
    /// All of it.
    pub seconds: f64,
    /// What that rests on.
    pub macs_per_second: f64,
    /// `recorded` by the last run like this, or `calibrated` just now.
    pub basis: &'static str,
}

/// Plans one network for a clip of so many frames of this height and width.
pub fn plan_network(
    request: &NetworkPlanRequest,
    kind: NetworkKind,
    [frames, height, width]: [usize; 3],
    machine: &Machine,
    events: &mut dyn FnMut(Event),
) -> Result<NetworkPlan, Error> {
    let report = &Reporter::new(events);
    let direction = match kind {
        NetworkKind::Encode => Direction::Encode,
        NetworkKind::Decode => Direction::Decode,
        NetworkKind::Transformer => return of_transformer(request, [frames, height, width], machine),
    };
    let config = request.config()?;
    let clip = Clip::new(frames, height, width).map_err(|source| Error::Sizes { source })?;
    let (backend, build) = (request.device.backend(machine)?, request.device.build());
    // Sizes follow from the shape of the network alone, so no weights are needed.
    let built = direction.network(&config, &mut FormulaParams, build);
    let task = Task::new(built, clip.cells(), backend, build.dtype);
    let mut planner = request.planner(&task, &backend);
    let size = [width, height];
    let geometry = Geometry { source: size, shown: size, padded: size, edges: Edges::Black, alpha: false };
    let children = children(direction, width.saturating_mul(height), &request.limits, machine)?;
    let search = request.search(backend, children, machine);
    let (plan, budget, held) = search.run(&geometry, &clip, |budget, wish| planner.plan(budget, wish))?;
    let total = Total::of(std::slice::from_ref(&plan), budget.is_apart(), held);
    let time = request.time(&backend, &config, std::slice::from_ref(&plan), machine, report);
    Ok(NetworkPlan { plan, total, time, apart: budget.is_apart() })
}

/// The transformer over a whole clip at once.
fn of_transformer(
    request: &NetworkPlanRequest,
    [frames, height, width]: [usize; 3],
    machine: &Machine,
) -> Result<NetworkPlan, Error> {
    let size = Size::new(frames, height, width)?;
    let (backend, build) = (request.device.backend(machine)?, request.device.build());
    let weights = request.weights.as_deref().unwrap_or("formula:3b");
    let task = Transformer::open(weights)?.task(&size, backend, build);
    let mut planner = request.planner(&task, &backend);
    let search = request.search(backend, 0, machine);
    let (plan, budget, held) =
        search.once(in_flight_bytes(&task), |budget, wish| planner.plan(budget, wish))?;
    let total = Total::of(std::slice::from_ref(&plan), budget.is_apart(), held);
    Ok(NetworkPlan { plan, total, time: None, apart: budget.is_apart() })
}

/// Plans the VAE's round trip of a file.
pub fn plan_roundtrip(
    request: &NetworkPlanRequest,
    (input, source, size): (&Path, &Source, &MediaSize),
    machine: &Machine,
    control: &Control,
    events: &mut dyn FnMut(Event),
) -> Result<RoundtripPlan, Error> {
    let report = &Reporter::new(events);
    if is_pipe(input) {
        return Err(Error::PlanPipe);
    }
    let (config, room) = (request.config()?, &Room::of_plan(machine));
    let threads = plan::threads(&request.limits, room)?;
    let mut tools = Lazy::new(source, machine, control).with_threads(threads);
    let opened = source.open(input, request.limits.allowed(room)?, &mut tools)?;
    let estimated = opened.is_estimated();
    let format = opened.source.format().clone();
    let geometry = size.geometry(&format).with_alpha(format.layout.alpha);
    let (clip, open_ended) = video::clip(&geometry, format.frames, opened.counted)?;
    let children = file_children(source, &opened, &geometry, threads);
    drop(opened.source);
    let (backend, build) = (request.device.backend(machine)?, request.device.build());
    let [encoder, decoder] = [Direction::Encode, Direction::Decode].map(|direction| {
        let network = direction.network(&config, &mut FormulaParams, build);
        let mut task = Task::new(network, clip.cells(), backend, build.dtype);
        task.job.open_ended = open_ended;
        task
    });
    let [mut first, mut second] = [&encoder, &decoder].map(|task| request.planner(task, &backend));
    let search = request.search(backend, children, machine);
    let (plans, budget, held) = search.run(&geometry, &clip, |budget, wish| {
        Planner::joint(&mut [&mut [&mut first, &mut second]], budget, wish)
    })?;
    Ok(RoundtripPlan {
        input: input.display().to_string(),
        geometry,
        source: SourceInfo { format, frames_estimated: estimated },
        notes: opened.notes,
        total: Total::of(&plans, budget.is_apart(), held),
        time: request.time(&backend, &config, &plans, machine, report),
        plans,
        apart: budget.is_apart(),
    })
}

impl NetworkPlanRequest {
    fn config(&self) -> Result<VaeConfig, Error> {
        self.weights.as_deref().map_or(Ok(VaeConfig::full()), network::config)
    }

    fn search<'a>(&'a self, backend: Backend, children: u64, machine: &'a Machine) -> Search<'a> {
        Search { backend, limits: &self.limits, room: Room::of_plan(machine), children }
    }

    fn planner<'a>(&self, task: &'a Task, backend: &Backend) -> Planner<'a> {
        match self.is_imagined(backend) {
            true => task.planner_for(device_sizing),
            false => task.planner(),
        }
    }

    /// True if the plan is for a card that this machine need not have.
    fn is_imagined(&self, backend: &Backend) -> bool {
        self.limits.vram.is_some() && !devices::has_memory(backend)
    }

    fn time(
        &self,
        backend: &Backend,
        config: &VaeConfig,
        plans: &[Plan],
        machine: &Machine,
        report: &Reporter<'_>,
    ) -> Option<NetworkTime> {
        // The naive loops take too long, and a card that is not there cannot be timed.
        if matches!(backend, Backend::Reference) || self.is_imagined(backend) {
            return None;
        }
        let dtype = self.device.dtype();
        let macs: u64 = plans.iter().map(|p| p.work.macs.saturating_add(p.work.attention_macs)).sum();
        let key = Key::of(backend, dtype, config);
        let (rate, basis) = recorded_or_measured(machine, &key, report, || {
            Ok(calibrate::convolutions(*backend, dtype, key.channels)? * NETWORK_SHARE)
        })?;
        Some(NetworkTime { seconds: macs as f64 / rate, macs_per_second: rate, basis })
    }
}

/// What ffmpeg takes for a clip that is not known yet: H.264 in, or H.264 out.
fn children(direction: Direction, pixels: usize, limits: &Limits, machine: &Machine) -> Result<u64, Error> {
    let (size, threads) =
        (ffmpeg_memory::Size::plain(pixels), plan::threads(limits, &Room::of_plan(machine))?);
    Ok(match direction {
        Direction::Encode => ffmpeg_memory::decoder("h264", size, threads),
        Direction::Decode => ffmpeg_memory::encoder("libx264", size, threads),
    })
}

/// What ffmpeg takes to decode this file and to write H.264.
fn file_children(source: &Source, opened: &Opened, geometry: &Geometry, threads: usize) -> u64 {
    if opened.probe.is_none() {
        return 0;
    }
    let [width, height] = geometry.shown;
    let size = ffmpeg_memory::Size::new(&opened.source.format().layout, width, height);
    source.ffmpeg_memory(opened, threads).saturating_add(ffmpeg_memory::encoder("libx264", size, threads))
}
