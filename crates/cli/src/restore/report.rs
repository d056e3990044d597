//! What a restoration says before, during and after the work.

use std::path::Path;

use remaster_engine::Event;
use remaster_pipeline::Geometry;
use remaster_plan::{Plan, bytes};
use remaster_restore::Done;
use serde::Serialize;

use super::args::RestoreArgs;
use super::film::Film;
use crate::error::CliError;
use crate::estimate::Estimate;
use crate::media::{Lazy, is_pipe};
use crate::numbers::count;
use crate::output::Output;
use crate::plan::{self, Total};
use crate::progress::{Progress, Summary, clock};
use crate::rates;
use crate::report::{Source, conclude, is_detail, say_notes, warn_of_children};

/// The phases, in the order of the networks.
pub(crate) const PHASES: [&str; 3] = ["encode", "restore", "decode"];

/// Multiply-adds for a frame of the picture.
fn macs_per_frame(plan: &Plan, frames: usize) -> f64 {
    plan.work.macs.saturating_add(plan.work.attention_macs) as f64 / frames.max(1) as f64
}

impl Film<'_> {
    /// Work of a frame in each phase. Windows share latents, which are computed twice.
    pub(crate) fn work(&self) -> [f64; 3] {
        let frames = |i: usize| self.plans[i].job.picture()[0];
        let windows = self.recipe.sampling.windows;
        let steps = self.plans[1].job.cells.steps;
        let new = if steps == windows.length() { windows.step() * 4 } else { (steps - 1) * 4 + 1 };
        [
            macs_per_frame(&self.plans[0], frames(0)),
            macs_per_frame(&self.plans[1], new),
            macs_per_frame(&self.plans[2], frames(2)),
        ]
    }

    /// Keeps how fast the networks were, for the next run and for `remaster plan`.
    fn record(&self, summary: &Summary, out: &Output) {
        let ([encode, restore, decode], keys) = (self.work(), self.networks.rate_keys(self.place));
        let of = |parts: &[(&str, f64)]| {
            let phases = parts.iter().filter_map(|(name, work)| {
                let phase = summary.phases.iter().find(|p| p.phase == *name)?;
                Some((work * phase.frames as f64, phase.seconds))
            });
            phases.fold((0.0, 0.0), |sum, (macs, seconds)| (sum.0 + macs, sum.1 + seconds))
        };
        let vae = of(&[(PHASES[0], encode), (PHASES[2], decode)]);
        for (key, (macs, seconds)) in keys.into_iter().zip([vae, of(&[(PHASES[1], restore)])]) {
            if let Some(Err(error)) = key.map(|key| rates::record(&key, macs, seconds)) {
                out.detail(format_args!("cannot save the speed of this run: {error}"));
            }
        }
    }

    /// Bytes of all latents, as far as the length of the film is known.
    pub(crate) fn kept_bytes(&self) -> Option<u64> {
        let frames = self.format.frames? as u64;
        let latent = self.latent();
        Some((frames.div_ceil(4) + 1).saturating_mul(latent))
    }

    /// Groups of shots, about: one that does not fill its room to the end leaves more for the next.
    pub(crate) fn groups(&self) -> Option<u64> {
        Some(self.kept_bytes()?.div_ceil(self.room.bytes.max(1)).max(1))
    }

    /// Bytes of latents that wait at most.
    pub(crate) fn latent_bytes(&self) -> Option<u64> {
        Some(self.kept_bytes()?.min(self.room.bytes))
    }
}

/// One line about what will be done, and the models; the plan with `-v`.
pub(crate) fn announce(film: &Film<'_>, input: &Path, counted: bool, out: &Output, progress: &mut Progress) {
    say_notes(&film.notes, out);
    let [_, vae] = &film.networks.names;
    out.say(format_args!("model {}", film.networks.title));
    out.detail(format_args!("VAE {vae}"));
    let [width, height] = film.recipe.shown;
    let frames = match (film.format.frames, counted) {
        (Some(n), true) => count(n, "frame"),
        (Some(n), false) => format!("about {}", count(n, "frame")),
        (None, _) => "an unknown number of frames".into(),
    };
    out.say(format_args!(
        "restoring {}: {frames}, {} x {} to {width} x {height}, on {} in {}, {} of memory",
        if is_pipe(input) { "stdin".into() } else { input.display().to_string() },
        film.format.width,
        film.format.height,
        film.place.backend.numerics(),
        film.place.build.dtype.name(),
        bytes(film.total.ram()),
    ));
    if let Some(estimate) = Estimate::before(film, out) {
        out.say(format_args!("this takes {estimate}"));
    }
    for p in &film.plans {
        out.detail(plan::describe(p, film.apart).trim_end());
    }
    out.detail(film.total.describe());
    if let Some(groups) = film.groups() {
        out.detail(format_args!("  {:12} {}", "groups", turns(groups)));
    }
    if let (Some(latents), true) = (film.latent_bytes(), film.room.folder.is_some()) {
        out.detail(format_args!("  {:12} {} of latents", "disk", bytes(latents)));
    }
    let work = film.work();
    let each: Vec<(&'static str, f64)> = PHASES.into_iter().zip(work.map(|w| w.max(1.0))).collect();
    progress.plan(film.total.ram(), &each);
    for (phase, plan) in PHASES.into_iter().zip(&film.plans) {
        match (film.format.frames, counted) {
            (Some(n), true) => progress.phase(phase, Some(n)),
            (Some(n), false) => progress.phase_about(phase, n),
            (None, _) => progress.phase(phase, None),
        }
        let slice = match phase {
            "restore" => film.recipe.sampling.windows.step() * 4,
            _ => plan.how.slice,
        };
        progress.slice(phase, if slice == 0 { film.format.frames.unwrap_or(0) } else { slice });
    }
    progress.phase("finish", Some(0));
}

/// How often networks are loaded.
fn turns(groups: u64) -> String {
    match groups {
        1 => "1: each network is loaded once".into(),
        n => format!("about {n}: each network is loaded as often"),
    }
}

/// The JSON document of a plan.
#[derive(Debug, Serialize)]
struct PlannedFilm {
    input: String,
    model: String,
    vae: String,
    backend: &'static str,
    dtype: &'static str,
    geometry: Geometry,
    source: Source,
    notes: Vec<String>,
    plans: Vec<Plan>,
    total: Total,
    #[serde(skip_serializing_if = "Option::is_none")]
    latent_bytes: Option<u64>,
    /// How often the networks take turns, if the length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<u64>,
    macs_per_frame: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_per_frame: Option<f64>,
    /// What the times rest on.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<&'static str>,
}

/// Says what a restoration will take.
pub(super) fn planned(film: Film<'_>, input: &Path, out: &Output) {
    let (work, groups) = (film.work().iter().sum(), film.groups());
    let (time, title) = (Estimate::of(&film, out), film.networks.title.clone());
    let latent_bytes = film.latent_bytes().filter(|_| film.room.folder.is_some());
    let (apart, [width, height]) = (film.apart, film.recipe.shown);
    let [model, vae] = film.networks.names;
    let planned = PlannedFilm {
        input: input.display().to_string(),
        model,
        vae,
        backend: film.place.backend.name(),
        dtype: film.place.build.dtype.name(),
        geometry: film.recipe.geometry,
        source: Source { format: film.format, frames_estimated: film.estimated },
        notes: film.notes,
        plans: film.plans,
        total: film.total,
        latent_bytes,
        groups,
        macs_per_frame: work,
        seconds: time.and_then(|time| time.seconds),
        seconds_per_frame: time.map(|time| time.seconds_per_frame),
        basis: time.map(|time| time.basis),
    };
    out.result(&planned, || {
        let frames = match planned.source.format.frames {
            Some(n) => {
                let about = if planned.source.frames_estimated { "about " } else { "" };
                format!("{about}{}", count(n, "frame"))
            }
            None => "unknown number of frames".into(),
        };
        let mut text = format!("{}: {frames}, restored at {width} x {height}\n", planned.input);
        let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
        line("model", title);
        for note in planned.notes.iter().filter(|note| out.is_verbose() || !is_detail(note)) {
            line("note", note.clone());
        }
        line("memory", bytes(planned.total.ram()));
        if apart {
            line("GPU memory", bytes(planned.plans.iter().map(|p| p.peaks.device).max().unwrap_or(0)));
        }
        let spilled = planned.plans.iter().map(|p| p.peaks.disk).max().unwrap_or(0);
        line(
            "disk",
            format!("{} of temporary data", bytes(spilled.saturating_add(latent_bytes.unwrap_or(0)))),
        );
        if let Some(time) = time {
            line("time", time.to_string());
        }
        if !out.is_verbose() {
            return text;
        }
        line("VAE", planned.vae.clone());
        for (phase, p) in PHASES.into_iter().zip(&planned.plans) {
            line(phase, p.how.describe());
        }
        if let Some(groups) = planned.groups {
            line("groups", turns(groups));
        }
        let all = planned.macs_per_frame * planned.source.format.frames.unwrap_or(1) as f64;
        line("work", format!("{:.2} TFLOP", 2.0 * all / 1e12));
        text + &planned.total.describe() + "\n"
    });
}

/// What the networks say.
pub(crate) fn event(progress: &mut Progress, event: &Event<'_>) {
    let phase = |network: &str| match network {
        "encode" => PHASES[0],
        "decode" => PHASES[2],
        _ => PHASES[1],
    };
    match event {
        Event::SliceStarted { network, .. } => {
            progress.enter(phase(network));
            progress.working(phase(network), 0, 1);
        }
        Event::Working { network, done, of } => progress.working(phase(network), *done, *of),
        Event::SliceDone { network, frames, busy, .. } => {
            progress.enter(phase(network));
            progress.advance(phase(network), *frames, *busy);
        }
        // From here on the number is no guess.
        Event::Counted(frames) => PHASES.into_iter().for_each(|phase| progress.phase(phase, Some(*frames))),
        other => progress.event(other),
    }
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    model: String,
    vae: String,
    seed: u64,
    backend: &'static str,
    dtype: &'static str,
    frames: usize,
    height: usize,
    width: usize,
    geometry: Geometry,
    source: Source,
    /// First frame of every shot.
    shots: Vec<usize>,
    groups: usize,
    latent_bytes: u64,
    load_seconds: f64,
    /// Units that could not be restored and have frames of the input.
    left: Vec<u32>,
    notes: Vec<String>,
    plans: Vec<Plan>,
    total: Total,
    summary: Summary,
}

/// Says what came out: one line, a block with `-v`, or the document.
pub(crate) fn finish(
    film: Film<'_>,
    args: &RestoreArgs,
    output: &Path,
    done: Done,
    tools: &Lazy<'_>,
    mut progress: Progress,
    out: &Output,
) -> Result<(), CliError> {
    warn_of_children(&mut progress, tools, &film.total);
    progress.advance("finish", 0, done.finishing);
    let summary = progress.finish();
    // Several devices share the machine: how fast each was says little about one that has it alone.
    if args.local.devices.is_empty() {
        film.record(&summary, out);
    }
    let [model, vae] = film.networks.names;
    let [width, height] = film.recipe.shown;
    let report = Report {
        input: args.input.display().to_string(),
        output: output.display().to_string(),
        model,
        vae,
        seed: args.how.look.seed,
        backend: film.place.backend.name(),
        dtype: film.place.build.dtype.name(),
        frames: done.frames,
        height,
        width,
        geometry: film.recipe.geometry,
        source: Source { format: film.format, frames_estimated: film.estimated },
        shots: done.shots,
        groups: done.groups,
        latent_bytes: done.latent_bytes,
        load_seconds: done.loading.as_secs_f64(),
        left: film.left,
        notes: film.notes,
        plans: film.plans,
        total: film.total,
        summary,
    };
    let text = || {
        let text = if out.is_verbose() {
            report.summary.to_string()
        } else {
            wrote(&report.output, report.frames, &report.shots, [width, height], &report.summary)
        };
        match report.left.len() {
            0 => text,
            1 => format!("{text}; 1 unit is not restored"),
            n => format!("{text}; {n} units are not restored"),
        }
    };
    conclude(&report, text, output, args.progress.mode, out);
    Ok(())
}

/// The last line: what was written, and how long it took.
pub(super) fn wrote(
    output: &str,
    frames: usize,
    shots: &[usize],
    [width, height]: [usize; 2],
    summary: &Summary,
) -> String {
    let frames = count(frames, "frame");
    let shots = if shots.len() > 1 { format!(" in {} shots", shots.len()) } else { String::new() };
    let seconds = summary.total_seconds;
    let took = if seconds < 60.0 { format!("{seconds:.1} s") } else { clock(seconds.round()) };
    let output = if output == "-" { "stdout" } else { output };
    format!("wrote {output}: {frames}{shots}, {width} x {height}, in {took}")
}
