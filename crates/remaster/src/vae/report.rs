//! What a run of the VAE says before and after the work, on video and on tensors alike.

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

/// The networks of a run and how they will run.
pub(crate) struct Found {
    pub(crate) names: Vec<&'static str>,
    pub(crate) plans: Vec<Plan>,
    /// The device has memory of its own.
    pub(crate) apart: bool,
    pub(crate) total: Total,
}

/// What is known before the work.
pub(crate) struct Start<'a> {
    pub(crate) found: &'a Found,
    /// Frames of the clip, if known.
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
    let Found { names, plans, apart, total } = start.found;
    let verb = match names[..] {
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
            let macs: f64 = plans.iter().map(|p| of_a_frame(p) * n as f64).sum();
            format!(", about {}", clock((macs / rate).ceil()))
        });
    report.say(format_args!(
        "{verb} {}: {frames}, {width} x {height}, on {} in {}, {} of memory{}",
        if is_pipe(&request.input) { "stdin".into() } else { request.input.display().to_string() },
        network.site.backend.numerics(),
        request.device.dtype().name(),
        bytes(total.ram()),
        time.unwrap_or_default()
    ));
    for p in plans {
        report.detail(plan::describe(p, *apart).trim_end());
    }
    report.detail(total.describe());

    let work: Vec<(&'static str, f64)> =
        names.iter().zip(plans).map(|(name, p)| (*name, of_a_frame(p).max(1.0))).collect();
    report.plan(total.ram(), &work);
    for (p, (phase, _)) in plans.iter().zip(&work) {
        report.phase_about(phase, start.frames, start.counted);
        let whole = start.frames.unwrap_or(0);
        report.slice(phase, if p.how.slice == 0 { whole } else { p.how.slice });
    }
}

/// What a run of the VAE took.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
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

impl PhaseTook {
    /// Of which only the plan and the time are known.
    pub(crate) fn new(phase: &'static str, plan: &Plan, report: &Reporter<'_>) -> Self {
        PhaseTook {
            phase,
            load_seconds: None,
            seconds: report.took(phase).busy.as_secs_f64(),
            planned_bytes: plan.peaks.device,
            peak_bytes: None,
            spilled_bytes: None,
            macs: plan.work.macs,
            attention_macs: plan.work.attention_macs,
            plan: plan.clone(),
        }
    }
}

/// Records the rate, and says what came out: frames of a width and height.
pub(crate) fn finish(
    request: &VaeRequest,
    network: &Network,
    report: &Reporter<'_>,
    (frames, [width, height]): (usize, [usize; 2]),
    found: Found,
    phases: Vec<PhaseTook>,
) -> VaeOutcome {
    record(network, report, &phases);
    VaeOutcome {
        input: request.input.display().to_string(),
        output: request.output.display().to_string(),
        backend: network.site.backend.name(),
        dtype: request.device.dtype().name(),
        frames,
        height,
        width,
        geometry: None,
        source: None,
        notes: Vec::new(),
        plans: found.plans,
        total: found.total,
        phases,
        psnr: None,
    }
}

/// Keeps multiply-adds per second for `remaster plan`.
fn record(network: &Network, report: &Reporter<'_>, phases: &[PhaseTook]) {
    let Some(key) = network.rate_key() else { return };
    let (mut macs, mut seconds) = (0.0, 0.0);
    for PhaseTook { phase, plan, .. } in phases {
        let took = report.took(phase);
        macs += of_a_frame(plan) * took.frames as f64;
        seconds += took.busy.as_secs_f64();
    }
    rates::record(&network.site.machine, &key, (macs, seconds), report);
}
