//! What a run says before and after the work: of the VAE, on video and on tensors alike, and what all runs share.

use std::path::Path;
use std::time::Duration;

use remaster_media::{Format, Late};
use remaster_pipeline::Geometry;
use remaster_plan::{Plan, bytes};
use serde::Serialize;

use crate::args::VaeArgs;
use crate::error::CliError;
use crate::media::{Lazy, is_pipe};
use crate::network::Network;
use crate::numbers::count;
use crate::output::Output;
use crate::plan::{self, Total};
use crate::progress::{Progress, ProgressMode, Summary, clock};
use crate::rates;

/// What was read, and how far to trust it.
#[derive(Debug, Serialize)]
pub(crate) struct Source {
    #[serde(flatten)]
    pub(crate) format: Format,
    /// `frames` was computed from duration and rate.
    pub(crate) frames_estimated: bool,
}

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

/// Notes that only matter to people who ask for details.
pub(crate) fn is_detail(note: &str) -> bool {
    note.starts_with("untagged")
}

/// One line about what will be done; the plan with `-v`.
pub(crate) fn announce(
    args: &VaeArgs,
    network: &Network,
    out: &Output,
    progress: &mut Progress,
    start: &Start<'_>,
) {
    say_notes(start.notes, out);
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
    let time = network.rate_key().and_then(|key| rates::recorded(&key)).zip(start.frames).map(|(rate, n)| {
        let macs: f64 = start.plans.iter().map(|p| macs_per_frame(p) * n as f64).sum();
        format!(", about {}", clock((macs / rate).ceil()))
    });
    out.say(format_args!(
        "{verb} {}: {frames}, {width} x {height}, on {} in {}, {} of memory{}",
        if is_pipe(&args.input) { "stdin".into() } else { args.input.display().to_string() },
        network.backend.numerics(),
        args.device.dtype.name(),
        bytes(start.total.ram()),
        time.unwrap_or_default()
    ));
    for p in start.plans {
        out.detail(plan::describe(p, start.apart).trim_end());
    }
    out.detail(start.total.describe());

    let work: Vec<(&'static str, f64)> =
        start.names.iter().zip(start.plans).map(|(name, p)| (*name, macs_per_frame(p).max(1.0))).collect();
    progress.plan(start.total.ram(), &work);
    for (p, (phase, _)) in start.plans.iter().zip(&work) {
        match (start.frames, start.counted) {
            (Some(n), true) => progress.phase(phase, Some(n)),
            (Some(n), false) => progress.phase_about(phase, n),
            (None, _) => progress.phase(phase, None),
        }
        let whole = start.frames.unwrap_or(0);
        progress.slice(phase, if p.how.slice == 0 { whole } else { p.how.slice });
    }
}

fn macs_per_frame(plan: &Plan) -> f64 {
    let [frames, ..] = plan.job.picture();
    plan.work.macs.saturating_add(plan.work.attention_macs) as f64 / frames.max(1) as f64
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
    pub(crate) source: Option<Source>,
    pub(crate) notes: Vec<String>,
    pub(crate) networks: Vec<NetworkDone>,
    pub(crate) total: Total,
    /// dB against the input.
    pub(crate) psnr: Option<f64>,
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    backend: &'static str,
    dtype: &'static str,
    frames: usize,
    height: usize,
    width: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    geometry: Option<Geometry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    notes: Vec<String>,
    plans: Vec<Plan>,
    total: Total,
    phases: Vec<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    psnr: Option<f64>,
    summary: Summary,
}

/// What one network took.
#[derive(Debug, Serialize)]
struct Phase {
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_seconds: Option<f64>,
    seconds: f64,
    planned_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spilled_bytes: Option<u64>,
    macs: u64,
    attention_macs: u64,
    plan: Plan,
}

/// Records the rate, and says what came out: one line, a block with `-v`, or the document.
pub(crate) fn finish(
    args: &VaeArgs,
    network: &Network,
    out: &Output,
    progress: Progress,
    end: End,
) -> Result<(), CliError> {
    let summary = progress.finish();
    record(network, out, &summary, &end.networks);
    let [width, height] = end.shown;
    let phases = end.networks.iter().map(|done| phase(done, &summary)).collect();
    let report = Report {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        backend: network.backend.name(),
        dtype: args.device.dtype.name(),
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
        summary,
    };
    let text = || if out.is_verbose() { block(&report) } else { line(&report) };
    conclude(&report, text, &args.output, args.progress.mode, out);
    Ok(())
}

/// Says what came out. Where stdout carries the frames it is said on stderr; `--progress json` has said it already.
pub(crate) fn conclude<T: Serialize>(
    report: &T,
    text: impl FnOnce() -> String,
    output: &Path,
    mode: ProgressMode,
    out: &Output,
) {
    match (is_pipe(output), mode) {
        (false, _) => out.conclude(report, text),
        (true, ProgressMode::Json) => {}
        (true, _) => out.say(text().trim_end()),
    }
}

/// What was guessed or dropped; small things with `-v` only.
pub(crate) fn say_notes(notes: &[String], out: &Output) {
    for note in notes {
        match is_detail(note) {
            true => out.detail(format_args!("note: {note}")),
            false => out.say(format_args!("note: {note}")),
        }
    }
}

/// Tells what the input was like, once all of it was read.
pub(crate) fn warn_late(late: &Late, progress: &mut Progress, notes: &mut Vec<String>) {
    for note in late.take() {
        progress.warn(&note);
        notes.push(note);
    }
}

/// Tells of children that took more than was reserved for them.
pub(crate) fn warn_of_children(progress: &mut Progress, tools: &Lazy<'_>, total: &Total) {
    let (took, reserved) = (tools.children_peak(), total.children());
    if took > reserved {
        progress.warn(format!(
            "ffmpeg took {}, but only {} of --ram were reserved for it",
            bytes(took),
            bytes(reserved)
        ));
    }
}

/// Keeps multiply-adds per second for `remaster plan`.
fn record(network: &Network, out: &Output, summary: &Summary, networks: &[NetworkDone]) {
    let Some(key) = network.rate_key() else { return };
    let (mut macs, mut seconds) = (0.0, 0.0);
    for done in networks {
        if let Some(phase) = summary.phases.iter().find(|p| p.phase == done.name) {
            macs += macs_per_frame(&done.plan) * phase.frames as f64;
            seconds += phase.seconds;
        }
    }
    if let Err(error) = rates::record(&key, macs, seconds) {
        out.detail(format_args!("cannot save the speed of this run: {error}"));
    }
}

fn phase(done: &NetworkDone, summary: &Summary) -> Phase {
    let NetworkDone { name, plan, load, device_peak, disk_peak } = done;
    let seconds = summary.phases.iter().find(|p| p.phase == *name).map_or(0.0, |p| p.seconds);
    Phase {
        phase: name,
        load_seconds: load.map(|l| l.as_secs_f64()),
        seconds,
        planned_bytes: plan.peaks.device,
        peak_bytes: *device_peak,
        spilled_bytes: *disk_peak,
        macs: plan.work.macs,
        attention_macs: plan.work.attention_macs,
        plan: plan.clone(),
    }
}

fn line(report: &Report) -> String {
    let frames = count(report.frames, "frame");
    let seconds = report.summary.total_seconds;
    let took = if seconds < 60.0 { format!("{seconds:.1} s") } else { clock(seconds.round()) };
    let output = if report.output == "-" { "stdout" } else { &report.output };
    let psnr = report.psnr.map(|p| format!(", PSNR {p:.2} dB against the input")).unwrap_or_default();
    format!("wrote {output}: {frames}, {} x {}, in {took}{psnr}", report.width, report.height)
}

fn block(report: &Report) -> String {
    let mut text = report.summary.to_string();
    if let Some(psnr) = report.psnr {
        text += &format!("psnr     {psnr:.2} dB against the input\n");
    }
    text
}
