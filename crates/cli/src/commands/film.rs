//! What a restoration says before and after the work.

use std::path::Path;

use remaster::numbers::count;
use remaster::{FilmOutcome, FilmPlan, describe_plan, is_detail, is_pipe, time_in_words};
use remaster_plan::bytes;

use super::{frames, took};
use crate::args::ProgressMode;
use crate::output::Output;
use crate::progress::{Summary, Summed};

/// Names of the networks' phases.
const PHASES: [&str; 3] = ["encode", "restore", "decode"];

/// One line about what will be done, and the models; the plan with `-v`.
pub(crate) fn announce(plan: &FilmPlan, out: &Output) {
    // What was guessed or dropped; small things with `-v` only.
    for note in &plan.notes {
        match is_detail(note) {
            true => out.detail(format_args!("note: {note}")),
            false => out.say(format_args!("note: {note}")),
        }
    }
    out.say(format_args!("model {}", plan.title));
    if !plan.vae.is_empty() {
        out.detail(format_args!("VAE {}", plan.vae));
    }
    let [width, height] = plan.shown;
    let source = &plan.source.format;
    let frames = frames(source.frames, !plan.counted, "an unknown number of frames");
    let input = if is_pipe(Path::new(&plan.input)) { "stdin" } else { &plan.input };
    let sizes = format!("{} x {} to {width} x {height}", source.width, source.height);
    let by = match plan.plans.is_empty() {
        true => "without a network".to_owned(),
        false => format!("on {} in {}", plan.numerics, plan.dtype),
    };
    let on = format!("{by}, {} of memory", bytes(plan.total.ram()));
    out.say(format_args!("restoring {input}: {frames}, {sizes}, {on}"));
    for p in &plan.plans {
        out.detail(describe_plan(p, plan.apart).trim_end());
    }
    out.detail(plan.total.describe());
    if let Some(groups) = plan.groups {
        out.detail(format_args!("  {:12} {}", "groups", turns(groups)));
    }
    if let Some(latents) = plan.latent_bytes {
        out.detail(format_args!("  {:12} {} of latents", "disk", bytes(latents)));
    }
}

/// How often networks are loaded.
fn turns(groups: u64) -> String {
    match groups {
        1 => "1: each network is loaded once".into(),
        n => format!("about {n}: each network is loaded as often"),
    }
}

/// What a restoration will take.
pub(crate) fn describe(plan: &FilmPlan, verbose: bool) -> String {
    let [width, height] = plan.shown;
    let source = &plan.source;
    let frames = frames(source.format.frames, source.frames_estimated, "unknown number of frames");
    let mut text = format!("{}: {frames}, restored at {width} x {height}\n", plan.input);
    let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
    line("model", plan.title.clone());
    for note in plan.notes.iter().filter(|note| verbose || !is_detail(note)) {
        line("note", note.clone());
    }
    if let Some(card) = &plan.card {
        let (allowed, all) = (bytes(card.allowed_bytes), bytes(card.memory_bytes));
        line("card", format!("{}: a run may use {allowed} of {all}", card.name));
        line("on the card", card.stays_in_words());
        line("streamed", card.streamed_in_words());
    }
    line("memory", bytes(plan.total.ram()));
    if plan.apart {
        line("GPU memory", bytes(plan.plans.iter().map(|p| p.peaks.device).max().unwrap_or(0)));
    }
    let spilled = plan.plans.iter().map(|p| p.peaks.disk).max().unwrap_or(0);
    let disk = spilled.saturating_add(plan.latent_bytes.unwrap_or(0));
    line("disk", format!("{} of temporary data", bytes(disk)));
    if let Some(time) = plan.time {
        line("time", time.to_string());
    }
    if let Some(ceiling) = plan.card.as_ref().and_then(|card| card.ceiling.as_ref()) {
        let all = ceiling.seconds.map_or(String::new(), |all| format!("{}, ", time_in_words(all)));
        let (each, networks) = (ceiling.seconds_per_frame, ceiling.networks.join(" and "));
        line("ceiling", format!("{all}{each:.2} s a frame: the least for {networks} in long shots"));
    }
    if !verbose {
        return text;
    }
    // An upscaler is one network, and has no VAE.
    let phases = if plan.vae.is_empty() { &PHASES[1..2] } else { &PHASES[..] };
    if !plan.vae.is_empty() {
        line("VAE", plan.vae.clone());
    }
    for (phase, p) in phases.iter().zip(&plan.plans) {
        line(phase, p.how.describe());
    }
    if let Some(groups) = plan.groups.filter(|_| !plan.vae.is_empty()) {
        line("groups", turns(groups));
    }
    let all = plan.macs_per_frame * plan.source.format.frames.unwrap_or(1) as f64;
    line("work", format!("{:.2} TFLOP", 2.0 * all / 1e12));
    text + &plan.total.describe() + "\n"
}

/// Says what came out: one line, a block with `-v`, or the document.
pub(crate) fn conclude(outcome: &FilmOutcome, summary: &Summary, mode: ProgressMode, out: &Output) {
    let text = || {
        let FilmOutcome { output, frames, shots, width, height, .. } = outcome;
        let mut text = ended(output, *frames, shots, [*width, *height], summary, out);
        if let Some(manifest) = outcome.manifest.as_deref().filter(|_| !out.is_verbose()) {
            let name = Path::new(manifest).file_name().unwrap_or_default();
            text += &format!("; {} beside it says how it was made", name.to_string_lossy());
        }
        match outcome.left.len() {
            0 => text,
            1 => format!("{text}; 1 unit is not restored"),
            n => format!("{text}; {n} units are not restored"),
        }
    };
    super::conclude(&Summed { outcome, summary }, text, Path::new(&outcome.output), mode, out);
}

/// The last line: what was written, and how long it took; or a block with `-v`.
pub(crate) fn ended(
    output: &str,
    frames: usize,
    shots: &[usize],
    [width, height]: [usize; 2],
    summary: &Summary,
    out: &Output,
) -> String {
    if out.is_verbose() {
        return summary.to_string();
    }
    let frames = count(frames, "frame");
    let shots = if shots.len() > 1 { format!(" in {} shots", shots.len()) } else { String::new() };
    let output = if output == "-" { "stdout" } else { output };
    format!("wrote {output}: {frames}{shots}, {width} x {height}, in {}", took(summary.total_seconds))
}
