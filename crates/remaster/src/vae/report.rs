//! What a run of the VAE says before and after the work, on video and on tensors alike.

use std::time::Duration;

use remaster_plan::{Plan, bytes};
use remaster_restore::Geometry;
use serde::Serialize;

use super::VaeRequest;
use crate::event::Reporter;
use crate::machine::rates;
use crate::media::is_pipe;
use crate::network::Network;
use crate::numbers::{clock, count};
use crate::outcome::SourceInfo;
use crate::plan::{self, Total, macs_per_frame};

/// What is known before the work.
pub(crate) struct Start<'a> {
    /// Names of the networks, and how each will run.
    pub(crate) names: &'a [&'static str],
    pub(crate) plans: &'a [Plan],
    /// The device has memory of its own.
    pub(crate) apart: bool,
    pub(crate) total: &'a Total,
    /// Frames of the clip, if anybody knows.
    pub(crate) frames: Option<usize>,
    /// Their number is sure.
    pub(crate) counted: bool,
    /// Their number was computed from duration and rate.
    pub(crate) estimated: bool,
    /// Width and height of what is written.
    pub(crate) shown: [usize; 2],
    pub(crate) notes: &'a [String],
}

/// Multiply-adds for a frame of the clip.
fn of_a_frame(plan: &Plan) -> f64 {
    macs_per_frame(plan, plan.job.picture()[0])
}

/// One line about what will be done, and details.
pub(crate) fn announce(request: &VaeRequest, network: &Network, report: &Reporter<'_>, start: &Start<'_>) {
    report.notes(start.notes);
    let verb = match *start.names {
        ["encode"] => "encoding",
        ["decode"] => "decoding",
        _ => "encoding and decoding",
    };
    let [width, height] = start.shown;
    let about = if start.estimated { "about " } else { "" };
    let frames = match start.frames {
        Some(n) => format!("{about}{}", count(n, "frame")),
        None => "an unknown number of frames".into(),
    };
    let time = network
        .rate_key()
        .and_then(|key| rates::recorded(&network.site.machine, &key))
        .zip(start.frames)
        .map(|(rate, n)| {
            let macs: f64 = start.plans.iter().map(|p| of_a_frame(p) * n as f64).sum();
            format!(", about {}", clock((macs / rate).ceil()))
        });
    report.say(format_args!(
        "{verb} {}: {frames}, {width} x {height}, on {} in {}, {} of memory{}",
        if is_pipe(&request.input) { "stdin".into() } else { request.input.display().to_string() },
        network.site.backend.numerics(),
        request.device.dtype().name(),
        bytes(start.total.ram()),
        time.unwrap_or_default()
    ));
    for p in start.plans {
        report.detail(plan::describe(p, start.apart).trim_end());
    }
    report.detail(start.total.describe());

    let work: Vec<(&'static str, f64)> =
        start.names.iter().zip(start.plans).map(|(name, p)| (*name, of_a_frame(p).max(1.0))).collect();
    report.plan(start.total.ram(), &work);
    for (p, (phase, _)) in start.plans.iter().zip(&work) {
        match (start.frames, start.counted) {
            (Some(n), true) => report.phase(phase, Some(n)),
            (Some(n), false) => report.phase_about(phase, n),
            (None, _) => report.phase(phase, None),
        }
        let whole = start.frames.unwrap_or(0);
        report.slice(phase, if p.how.slice == 0 { whole } else { p.how.slice });
    }
}

/// A network of the run, as it was planned and as it went.
pub(crate) struct NetworkDone {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    /// Time to load weights, where it was measured apart.
    pub(crate) load: Option<Duration>,
    /// Bytes of the arena and of the spill file that were used, where that is known.
    pub(crate) device_peak: Option<u64>,
    pub(crate) disk_peak: Option<u64>,
}

impl NetworkDone {
    /// Of which only the plan is known.
    pub(crate) fn new(name: &'static str, plan: Plan) -> Self {
        NetworkDone { name, plan, load: None, device_peak: None, disk_peak: None }
    }
}

/// What a run did.
pub(crate) struct End {
    /// Frames that were written.
    pub(crate) frames: usize,
    /// Width and height of what was written.
    pub(crate) shown: [usize; 2],
    pub(crate) geometry: Option<Geometry>,
    pub(crate) source: Option<SourceInfo>,
    pub(crate) notes: Vec<String>,
    pub(crate) networks: Vec<NetworkDone>,
    pub(crate) total: Total,
    /// dB against the input.
    pub(crate) psnr: Option<f64>,
}

/// What a run of the VAE took.
#[derive(Clone, Debug, Serialize)]
pub struct VaeOutcome {
    /// What was read.
    pub input: String,
    /// What was written.
    pub output: String,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Frames that were written.
    pub frames: usize,
    /// Of the output.
    pub height: usize,
    /// Of the output.
    pub width: usize,
    /// Sizes of frames on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
    /// The input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceInfo>,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of the networks.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
    /// Of the networks.
    pub phases: Vec<PhaseTook>,
    /// dB against the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr: Option<f64>,
}

/// What one network took.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseTook {
    /// Which.
    pub phase: &'static str,
    /// Time to load weights, where it was measured apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_seconds: Option<f64>,
    /// Time to compute.
    pub seconds: f64,
    /// Bytes of the device's memory that were planned.
    pub planned_bytes: u64,
    /// Bytes of it that were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Bytes that were spilled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spilled_bytes: Option<u64>,
    /// Multiply-adds of convolutions and linear layers.
    pub macs: u64,
    /// Multiply-adds of attention.
    pub attention_macs: u64,
    /// How it ran.
    pub plan: Plan,
}

/// Records the rate, and says what came out.
pub(crate) fn finish(request: &VaeRequest, network: &Network, report: &Reporter<'_>, end: End) -> VaeOutcome {
    record(network, report, &end.networks);
    let [width, height] = end.shown;
    let phases = end.networks.iter().map(|done| phase(done, report)).collect();
    VaeOutcome {
        input: request.input.display().to_string(),
        output: request.output.display().to_string(),
        backend: network.site.backend.name(),
        dtype: request.device.dtype().name(),
        frames: end.frames,
        height,
        width,
        geometry: end.geometry,
        source: end.source,
        notes: end.notes,
        plans: end.networks.into_iter().map(|done| done.plan).collect(),
        total: end.total,
        phases,
        psnr: end.psnr,
    }
}

/// Keeps multiply-adds per second for `remaster plan`.
fn record(network: &Network, report: &Reporter<'_>, networks: &[NetworkDone]) {
    let Some(key) = network.rate_key() else { return };
    let (mut macs, mut seconds) = (0.0, 0.0);
    for done in networks {
        let took = report.took(done.name);
        macs += of_a_frame(&done.plan) * took.frames as f64;
        seconds += took.busy.as_secs_f64();
    }
    if let Err(error) = rates::record(&network.site.machine, &key, macs, seconds) {
        report.detail(format_args!("cannot save the speed of this run: {error}"));
    }
}

fn phase(done: &NetworkDone, report: &Reporter<'_>) -> PhaseTook {
    let NetworkDone { name, plan, load, device_peak, disk_peak } = done;
    PhaseTook {
        phase: name,
        load_seconds: load.map(|l| l.as_secs_f64()),
        seconds: report.took(name).busy.as_secs_f64(),
        planned_bytes: plan.peaks.device,
        peak_bytes: *device_peak,
        spilled_bytes: *disk_peak,
        macs: plan.work.macs,
        attention_macs: plan.work.attention_macs,
        plan: plan.clone(),
    }
}
