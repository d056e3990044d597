//! `remaster unit run`: units of a plan, on whatever machine this is.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use remaster_media::place::Scratch;
use remaster_store::JournalError;
use remaster_units::{FilmPlan, First, Outcome, UnitsError};
use serde::Serialize;

use super::args::{Indices, MachineArgs, UnitRunArgs};
use super::keys::Paused;
use super::local::adopted;
use super::worker::{Control, Way, Worker};
use super::{make, request, store, tidy};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::models;
use crate::numbers::count;
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
    #[cfg(debug_assertions)]
    super::faults::at_start(args)?;
    let began = Instant::now();
    let (journal, plan) = make::open(store(&args.plan)?)?;
    let near = [args.machine.temp.as_deref(), args.machine.memory.spill_folder(), plan.output().parent()];
    tidy(near.into_iter().flatten());
    let units = journal.plan().units();
    let there = journal.done()?;
    let (mut elsewhere, todo): (Vec<u32>, Vec<u32>) = match &args.index {
        Indices::These(list) => {
            if let Some(unit) = list.iter().find(|unit| **unit >= units) {
                return Err(JournalError::Unit { unit: *unit, units }.into());
            }
            list.iter().copied().partition(|unit| there.contains(unit))
        }
        Indices::Missing => (Vec::new(), missing(units, &there)),
    };
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
            let mut kept = Vec::new();
            for unit in &todo {
                kept.push(adopted(&journal, *unit, of(unit))?);
            }
            let mut reached = kept.iter().sum();
            for phase in PHASES {
                progress.phase(phase, Some(all));
                progress.reach(phase, reached);
            }
            let folder = args.machine.temp.clone().unwrap_or_else(|| stage.film.spill().folder.clone());
            let scratch = Scratch::new(Some(&folder))
                .map_err(|source| CliError::Write { path: folder.clone(), source })?;
            let stop = Arc::new(AtomicBool::new(false));
            let (paused, _hearing) = match args.obey_stdin {
                true => {
                    let heard = Paused::obey(&cancel, interrupt, progress.pause(), Arc::clone(&stop))?;
                    (heard.0, Some(heard.1))
                }
                false => (Paused::default(), None),
            };
            let control = Control {
                checkpoint: args.checkpoint,
                wait_disk: args.wait_disk,
                stop: Arc::new(move || stop.load(Relaxed)),
                folder: scratch.path().to_owned(),
                // The parent planned it on this machine.
                first: if args.obey_stdin { First::Whole } else { First::Samples },
                paused,
            };
            let way = if args.leave { Way::Leave } else { Way::Restore };
            let mut worker = Worker::new(&mut stage, (&journal, &plan), control);
            for (unit, kept) in todo.into_iter().zip(kept) {
                #[cfg(debug_assertions)]
                super::faults::at_work(args, unit)?;
                match worker.unit(unit, way, &mut progress)? {
                    Outcome::Done { frames: made } => {
                        done.push(unit);
                        frames += made;
                    }
                    Outcome::Elsewhere => elsewhere.push(unit),
                }
                reached += of(&unit) - kept;
                PHASES.into_iter().for_each(|phase| progress.reach(phase, reached));
            }
            let _ = progress.finish();
            Ok(())
        })?;
    }
    let plan = args.plan.to_string_lossy().into_owned();
    let report = Report { plan, done, elsewhere, frames, seconds: began.elapsed().as_secs_f64() };
    out.conclude(&report, || {
        let others = match report.elsewhere.len() {
            0 => String::new(),
            n => format!(", {} done already", count(n, "unit")),
        };
        format!(
            "did {}{others}, {}, in {:.1} s",
            count(report.done.len(), "unit"),
            count(report.frames, "frame"),
            report.seconds
        )
    });
    Ok(())
}

/// Units that are not done. Workers that ask for them at the same time begin at different ones, by chance: nobody
/// hands units out.
fn missing(units: u32, done: &BTreeSet<u32>) -> Vec<u32> {
    let mut missing: Vec<u32> = (0..units).filter(|unit| !done.contains(unit)).collect();
    let chance = RandomState::new().hash_one(units) as usize;
    let first = chance % missing.len().max(1);
    missing.rotate_left(first);
    missing
}

/// The restoration that was planned, on this machine.
fn as_planned(plan: &FilmPlan, machine: &MachineArgs) -> Result<RestoreArgs, CliError> {
    let request = &plan.settings.request;
    let mut args = request::planned(plan.settings.asked(), &machine.typed, &machine.input, plan.output())?;
    let how = &mut args.how;
    let named = |role: &'static str, option: &'static str| match plan.model(role) {
        Some(model) => models::of_plan(&model.name, option, &machine.dirs).map(Some),
        None => Ok(None),
    };
    how.models.model = match &machine.model {
        Some(model) => model.clone(),
        None => named("transformer", "--model")?.unwrap_or_default(),
    };
    how.models.vae = match &machine.vae {
        Some(vae) => Some(vae.clone()),
        None => named("vae", "--vae")?,
    };
    how.models.text = match &machine.text {
        Some(text) => Some(text.clone()),
        None => named("text", "--text")?.map(Into::into),
    };
    how.models.dirs = machine.dirs.clone();
    how.memory = machine.memory.clone().with_tiles(request.tiles);
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
