//! `remaster unit run`: units of a plan, on whatever machine this is.

use std::sync::Arc;
use std::time::Instant;

use remaster_store::JournalError;
use remaster_units::{FilmPlan, Outcome, UnitsError};
use serde::Serialize;

use super::args::{MachineArgs, UnitRunArgs};
use super::keys::Paused;
use super::worker::{Control, Way, Worker};
use super::{make, store, words};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::restore::{PHASES, RestoreArgs, Staged, staged};

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    plan: String,
    /// Units that this run did.
    done: Vec<u32>,
    /// Units that were done already, or by somebody else meanwhile.
    elsewhere: Vec<u32>,
    /// Frames that were made.
    frames: usize,
    seconds: f64,
}

pub(crate) fn run(args: &UnitRunArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let began = Instant::now();
    let (journal, plan) = make::open(store(&args.plan)?)?;
    let units = journal.plan().units();
    if let Some(unit) = args.index.0.iter().find(|unit| **unit >= units) {
        return Err(JournalError::Unit { unit: *unit, units }.into());
    }
    let there = journal.done()?;
    let (mut elsewhere, todo): (Vec<u32>, Vec<u32>) =
        args.index.0.iter().copied().partition(|unit| there.contains(unit));
    let (mut done, mut frames) = (Vec::new(), 0);
    if !todo.is_empty() {
        let planned = as_planned(&plan, &args.machine)?;
        plan.settings.input.check(&planned.input)?;
        let output = plan.output();
        staged(&planned, output, &cancel, out, interrupt, |mut stage| {
            // Units open the film where they begin.
            stage.close();
            provides(&mut stage, &plan)?;
            let mut progress = Progress::new(args.progress.mode, out);
            let of = |unit: &u32| plan.unit(*unit).map_or(0, |unit| unit.unit.frames().len());
            let all = todo.iter().map(of).sum();
            PHASES.into_iter().for_each(|phase| progress.phase(phase, Some(all)));
            let folder = args.machine.temp.clone().unwrap_or_else(|| stage.film.spill().folder.clone());
            let scratch = tempfile::tempdir_in(&folder)
                .map_err(|source| CliError::Write { path: folder.clone(), source })?;
            let control = Control {
                checkpoint: args.checkpoint,
                wait_disk: args.wait_disk,
                stop: Arc::new(|| false),
                folder: scratch.path().to_owned(),
                paused: Paused::default(),
            };
            let way = if args.leave { Way::Leave } else { Way::Restore };
            let mut worker = Worker::new(&mut stage, (&journal, &plan), control);
            for unit in todo {
                match worker.unit(unit, way, &mut progress)? {
                    Outcome::Done { frames: made } => {
                        done.push(unit);
                        frames += made;
                    }
                    Outcome::Elsewhere => elsewhere.push(unit),
                }
            }
            let _ = progress.finish();
            Ok(())
        })?;
    }
    let report =
        Report { plan: args.plan.clone(), done, elsewhere, frames, seconds: began.elapsed().as_secs_f64() };
    out.conclude(&report, || {
        let count = |n: usize| if n == 1 { "1 unit".into() } else { format!("{n} units") };
        let others = match report.elsewhere.len() {
            0 => String::new(),
            n => format!(", {} done already", count(n)),
        };
        format!(
            "did {}{others}, {} frames, in {:.1} s",
            count(report.done.len()),
            report.frames,
            report.seconds
        )
    });
    Ok(())
}

/// The restoration that was planned, on this machine.
fn as_planned(plan: &FilmPlan, machine: &MachineArgs) -> Result<RestoreArgs, CliError> {
    let input = machine.input.clone().unwrap_or_else(|| plan.settings.input.path.clone().into());
    let words = &plan.settings.words;
    let mut args = words::parsed(words, &input.display().to_string(), &plan.settings.output)?;
    let how = &mut args.how;
    let named = |role: &str| plan.model(role).map(|model| model.name.clone());
    how.models.model = machine.model.clone().or_else(|| named("transformer")).unwrap_or_default();
    how.models.vae = machine.vae.clone().or_else(|| named("vae"));
    how.models.text = machine.text.clone().or_else(|| named("text").map(Into::into));
    how.models.dirs = machine.dirs.clone();
    how.memory = machine.memory.clone().with_tiling_of(&how.memory);
    how.vram = machine.vram;
    how.device = machine.device.clone().with_dtype(&plan.settings.numerics.dtype)?;
    how.source.programs = machine.programs.clone();
    // Shots are in the plan.
    how.look.scenes = "none".into();
    Ok(args)
}

/// Refuses a machine whose results would differ.
fn provides(stage: &mut Staged<'_>, plan: &FilmPlan) -> Result<(), CliError> {
    let settings = &plan.settings;
    let here = stage.numerics(settings.numerics.threads)?;
    settings.numerics.check(&here, settings.mix)?;
    for model in stage.models()? {
        let planned = plan.model(&model.role).and_then(|planned| planned.sha256.clone());
        if planned != model.sha256 {
            let word = |hash: Option<String>| hash.unwrap_or_else(|| "no file".into());
            return Err(UnitsError::Weights {
                what: model.role,
                name: model.name,
                found: word(model.sha256),
                wanted: word(planned),
            }
            .into());
        }
    }
    if stage.shown.time_base != plan.time_base {
        let reason = "its clock is another one".into();
        return Err(UnitsError::Input { path: stage.args.input.clone(), reason }.into());
    }
    Ok(())
}
