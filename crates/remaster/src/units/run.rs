//! Units of a plan, on whatever machine this is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use remaster_media::place::Scratch;
use remaster_store::{Journal, JournalError};
use remaster_units::{FilmPlan, First, Outcome, ResultClass, UnitsError};
use serde::Serialize;

use super::pinned::{self, Repeated};
use super::todo::Todo;
use super::worker::{Pace, Treatment, Worker};
use super::{make, store, tidy};
use crate::device::Device;
use crate::error::Error;
use crate::event::{PHASES, Reporter};
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::Limits;
use crate::machine::host::Machine;
use crate::machine::producers;
use crate::media::{Programs, Scripts};
use crate::models;
use crate::request::{Request, Shots};
use crate::restore::{PROGRAM, Staged, UPSCALER_ROLE};

/// Units of a plan to do, on whatever machine this is.
#[derive(Clone, Debug)]
pub struct UnitsRequest {
    /// Folder or URL of the plan.
    pub plan: OsString,
    /// Which units.
    pub index: Indices,
    /// The film that was planned.
    pub input: PathBuf,
    /// Networks that are named otherwise here than in the plan, and where to look for them.
    pub models: OwnModels,
    /// Filters and encoder options that the plan cannot hold.
    pub repeated: Repeated,
    /// Where ffmpeg is.
    pub programs: Programs,
    /// The input, if it is a script that the planning run was allowed to run.
    pub scripts: Scripts,
    /// Memory and disk.
    pub limits: Limits,
    /// What computes. Its format is that of the plan.
    pub device: Device,
    /// Folder for the segment at work; that of temporary data if `None`.
    pub temp: Option<PathBuf>,
    /// How often to save unfinished work.
    pub checkpoint: Duration,
    /// How long to wait for space on a full disk.
    pub wait_disk: Duration,
    /// Write the input frames instead of restoring them.
    pub leave: bool,
    /// The plan was made on this machine for this very run, so the film is compared as a whole.
    pub planned_here: bool,
}

/// Which units of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indices {
    /// These.
    These(Vec<u32>),
    /// All that are not done.
    Missing,
}

/// Networks of a plan as they are named on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnModels {
    /// The transformer; a file of the plan's name if `None`.
    pub model: Option<String>,
    /// The VAE.
    pub vae: Option<String>,
    /// The text embedding.
    pub text: Option<PathBuf>,
    /// Folder that is searched first.
    pub folder: Option<PathBuf>,
}

/// Units that were done.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct UnitsDone {
    /// Where the plan is.
    pub plan: String,
    /// Units that this run did.
    pub done: Vec<u32>,
    /// Units that were done already, or by another run meanwhile.
    pub elsewhere: Vec<u32>,
    /// Frames that were made.
    pub frames: usize,
    /// How long it took.
    pub seconds: f64,
    /// There was something to do.
    #[serde(skip)]
    pub tried: bool,
}

/// Opens the plan, and networks and film if a unit is left to do. The job does the units. Any number of machines may do so at the
/// same time, and any unit any number of times: the first result counts.
impl Prepare for UnitsRequest {
    type Job = Job<UnitsDone>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        #[cfg(debug_assertions)]
        super::faults::at_start(&self.device)?;
        let began = Instant::now();
        let (journal, plan) = make::open(store(&self.plan, context.machine)?)?;
        producers::distrust(&journal, context.machine)?;
        let near = [self.temp.as_deref(), self.limits.spill.as_deref(), plan.output().parent()];
        tidy(context.machine, near.into_iter().flatten());
        let units = journal.plan().units();
        let there = journal.done()?;
        let (elsewhere, todo): (Vec<u32>, Vec<u32>) = match &self.index {
            Indices::These(list) => {
                if let Some(unit) = list.iter().find(|unit| **unit >= units) {
                    return Err(JournalError::Unit { unit: *unit, units }.into());
                }
                list.iter().copied().partition(|unit| there.contains(unit))
            }
            Indices::Missing => (Vec::new(), missing(units, &there)),
        };
        let (name, tried) = (self.plan.to_string_lossy().into_owned(), !todo.is_empty());
        let mut result = UnitsDone { plan: name, elsewhere, tried, ..UnitsDone::default() };
        let mut stage = match tried {
            true => Some(self.staged(&plan, context)?),
            // Another film is a mistake, whatever is left to do.
            false => plan.settings.input.check(&self.input).map(|()| None)?,
        };
        let known = stage.as_ref().map_or_else(Known::default, |stage| stage.film.known(None));
        let prepared = began.elapsed();
        Ok(Job::new(known, move |report| {
            let began = Instant::now();
            if let Some(stage) = &mut stage {
                todo_units(stage, &self, (&journal, &plan), todo, &mut result, report)?;
            }
            result.seconds = (prepared + began.elapsed()).as_secs_f64();
            Ok(result)
        }))
    }
}

impl UnitsRequest {
    /// The restoration that was planned, ready on this machine.
    fn staged(&self, plan: &FilmPlan, context: &Context<'_, '_>) -> Result<Staged, Error> {
        // No process is started for a plan of another program.
        let pinned = &plan.settings.numerics;
        let here = ResultClass { program: PROGRAM.into(), ..pinned.clone() };
        pinned.check(&here, plan.settings.mix)?;
        let planned = as_planned(plan, self, context.machine)?;
        plan.settings.input.check(&planned.input)?;
        let mut stage = Staged::new(planned, plan.output().to_owned(), context)?;
        // Units open the film where they begin.
        stage.close();
        provides(&mut stage, plan)?;
        Ok(stage)
    }
}

/// Does the units that are left to do.
fn todo_units(
    stage: &mut Staged,
    request: &UnitsRequest,
    (journal, plan): (&Journal, &FilmPlan),
    todo: Vec<u32>,
    result: &mut UnitsDone,
    report: &Reporter<'_>,
) -> Result<(), Error> {
    let todo = todo.into_iter().map(|unit| Todo::new(journal, plan, unit)).collect::<Result<Vec<_>, _>>()?;
    let all = todo.iter().map(|todo| todo.frames).sum();
    let mut reached = todo.iter().map(|todo| todo.adopted).sum();
    report.only(stage.film.phases());
    report.plan(stage.film.total.ram(), &stage.film.weights());
    report.film(all, stage.shown.rate);
    PHASES.into_iter().for_each(|phase| report.phase(phase, Some(all)));
    report.reach_all(reached);
    let folder = request.temp.clone().unwrap_or_else(|| stage.film.site.spill.folder.clone());
    let scratch = Scratch::new(Some(&folder)).map_err(Error::writing(&folder))?;
    let pace = Pace {
        checkpoint: request.checkpoint,
        wait_disk: request.wait_disk,
        folder: scratch.path().to_owned(),
        first: if request.planned_here { First::Whole } else { First::Samples },
    };
    let treatment = if request.leave { Treatment::PassThrough } else { Treatment::Restore };
    let mut worker = Worker::new(stage, (journal, plan), pace);
    for Todo { unit, frames, adopted } in todo {
        #[cfg(debug_assertions)]
        super::faults::at_work(&request.device, &request.limits, unit, request.leave)?;
        match worker.unit((unit, reached - adopted), treatment, report)? {
            Outcome::Done { frames: made } => {
                result.done.push(unit);
                result.frames += made;
            }
            Outcome::Elsewhere => result.elsewhere.push(unit),
        }
        reached += frames - adopted;
        report.reach_all(reached);
    }
    Ok(())
}

/// Units that are not done. Workers that ask for them at the same time begin at different ones, by chance: there is
/// no dispatcher.
fn missing(units: u32, done: &BTreeSet<u32>) -> Vec<u32> {
    let mut missing: Vec<u32> = (0..units).filter(|unit| !done.contains(unit)).collect();
    let chance = RandomState::new().hash_one(units) as usize;
    let first = chance % missing.len().max(1);
    missing.rotate_left(first);
    missing
}

/// The restoration that was planned, on this machine.
fn as_planned(plan: &FilmPlan, own: &UnitsRequest, machine: &Machine) -> Result<Request, Error> {
    let pinned = &plan.settings.request;
    let mut request = pinned::planned(plan.settings.asked(), &own.repeated, &own.input, plan.output())?;
    let (how, models) = (&mut request.how, &own.models);
    let folder = models.folder.as_deref();
    let named = |given: &Option<String>, role: &str, option: &'static str| match (given, plan.model(role)) {
        (Some(word), _) => Ok(Some(word.clone())),
        (None, Some(model)) => models::of_plan(&model.name, option, folder, machine).map(Some),
        (None, None) => Ok(None),
    };
    let role = if plan.model(UPSCALER_ROLE).is_some() { UPSCALER_ROLE } else { "transformer" };
    how.models.model = named(&models.model, role, "--model")?.unwrap_or_default();
    how.models.vae = named(&models.vae, "vae", "--vae")?;
    how.models.text = match &models.text {
        Some(text) => Some(text.clone()),
        None => named(&None, "text", "--text")?.map(Into::into),
    };
    how.models.folder = models.folder.clone();
    how.limits = own.limits.clone().with_tiles(pinned.tiles);
    how.device = own.device.clone().with_dtype(&plan.settings.numerics.dtype)?;
    how.source.programs = own.programs.clone();
    how.source.scripts = own.scripts.clone();
    // Shots are in the plan.
    how.look.shots = Shots::One;
    Ok(request)
}

/// Refuses a machine whose results would differ.
fn provides(stage: &mut Staged, plan: &FilmPlan) -> Result<(), Error> {
    let settings = &plan.settings;
    let here = stage.result_class(settings.numerics.threads)?;
    let mut here = ResultClass { sample: settings.numerics.sample, ..here };
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
    if stage.clip != settings.input.clip {
        let reason = "as a script it gives another clip".into();
        return Err(UnitsError::Input { path: stage.request.input.clone(), reason }.into());
    }
    if stage.shown.time_base != plan.time_base {
        let reason = "its clock is another one".into();
        return Err(UnitsError::Input { path: stage.request.input.clone(), reason }.into());
    }
    // The encoder runs with options of the plan, where all the rest agrees.
    here.sample = stage.sample(&here.encoder)?;
    settings.numerics.check(&here, settings.mix)?;
    Ok(())
}
