//! A film on this machine: planned, done unit by unit, joined; and gone on with if it was stopped.

use std::path::Path;
use std::sync::Arc;

use remaster_media::{MediaError, check_tag, place};
use remaster_restore::Done;
use remaster_store::Journal;
use remaster_units::{FilmPlan, Manifest, Settings};

use super::disks::Disks;
use super::keys::Paused;
use super::state::State;
use super::worker::{Control, Way, Worker};
use super::{assemble, children, make};
use crate::error::CliError;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::Output;
use crate::progress::Progress;
use crate::restore::{PHASES, Ran, Staged, announce, finish};

/// Restores a film by units.
pub(crate) fn run(
    mut stage: Staged<'_>,
    unit_frames: usize,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<Ran, CliError> {
    let (args, output) = (stage.args, stage.output);
    if args.local.embed_manifest {
        check_tag(output)?;
    }
    let mut progress = Progress::new(args.progress.mode, out);
    progress.about(stage.film.label(&args.input, output));
    // What is there is looked at below.
    stage.rehearse(args.yes || args.skip_done, out)?;
    let settings = stage.settings(&args.local.cut, unit_frames)?;
    if args.skip_done && !args.yes && output.exists() {
        return match is_done(output, &settings)? {
            true => Ok(Ran::Skipped),
            false => Err(MediaError::Exists { path: output.to_owned() }.into()),
        };
    }
    let folder = State::place(output, args.local.temp.as_deref());
    if args.local.restart && folder.is_dir() {
        State::take(folder.clone())?.remove();
    }
    let left = match folder.is_dir() {
        true => State::take(folder.clone())?.resume(&settings)?,
        false => None,
    };
    let fresh = left.is_none();
    if fresh {
        make::declare(&stage, &mut progress);
    }
    announce(&stage.film, &args.input, stage.counted, out, &mut progress);
    let (state, journal, plan) = match left {
        Some(left) => left,
        None => {
            // The folder is made when there is something to keep.
            let plan = make::plan(&mut stage, settings, &mut progress)?;
            stage.check_list(plan.frames)?;
            let state = State::take(folder)?;
            let journal = make::put(state.store()?, &plan)?;
            (state, journal, plan)
        }
    };
    // Units open the film where they begin.
    stage.close();
    let kept = format!(
        "unfinished work is kept in {}; run the same command again to resume",
        state.folder.display()
    );
    let parting = interrupt.pending(out.parting(kept.clone()));
    let work = Run { state: &state, journal: &journal, plan: &plan, fresh };
    let done = work.film(&mut stage, &mut progress, out, interrupt);
    drop(parting);
    match done {
        Ok(done) => {
            if !args.local.keep {
                state.remove();
            }
            finish(stage.film, args, output, done, &stage.tools, progress, out)?;
            Ok(Ran::Done)
        }
        Err(error) => {
            // Without a finished piece there is nothing to go on from.
            if fresh && !state.has_work() {
                drop(journal);
                state.remove();
            } else {
                out.say(kept);
            }
            Err(error)
        }
    }
}

/// Whether a film was made of the same input with the same settings, and is as it was written.
fn is_done(film: &Path, settings: &Settings) -> Result<bool, CliError> {
    let Ok(manifest) = Manifest::of(film) else { return Ok(false) };
    let wanted = settings.as_in(&manifest.settings);
    Ok(manifest.settings.hash()? == wanted.hash()? && manifest.is(film)?)
}

struct Run<'a> {
    state: &'a State,
    journal: &'a Journal,
    plan: &'a FilmPlan,
    /// Nothing was there before.
    fresh: bool,
}

impl Run<'_> {
    fn film(
        &self,
        stage: &mut Staged<'_>,
        progress: &mut Progress,
        out: &Output,
        interrupt: &Interrupt,
    ) -> Result<Done, CliError> {
        let Run { journal, plan, .. } = self;
        let args = stage.args;
        let done = journal.done()?;
        let mut todo: Vec<u32> = (0..journal.plan().units()).filter(|unit| !done.contains(unit)).collect();
        let frames_of = |unit: &u32| plan.unit(*unit).map_or(0, |unit| unit.unit.frames().len());
        let frames: usize = todo.iter().map(frames_of).sum();
        if !self.fresh {
            out.say(format_args!(
                "resuming an earlier run: {} of {} units are done",
                done.len(),
                plan.units.len()
            ));
        }
        for phase in PHASES {
            progress.phase(phase, Some(frames));
        }
        let until = args.local.until;
        let stop = move || until.is_some_and(|until| until.is_over());
        let mut total = Done::default();
        if args.local.devices.is_empty() {
            total = self.here(stage, todo, stop, progress, out, interrupt)?;
        } else {
            // The longest first, so that none is left for the end.
            todo.sort_by_key(|unit| std::cmp::Reverse(frames_of(unit)));
            children::run(stage, self.state, todo, &stop, progress, interrupt)?;
        }
        let scratch = self.state.scratch();
        let disks = Disks {
            folders: vec![scratch.clone(), place::parent(stage.output).to_owned()],
            wait: args.local.wait_disk,
            cancel: stage.cancel,
        };
        let goal = assemble::Goal {
            input: &args.input,
            path: stage.output,
            overwrite: args.yes,
            format: &stage.shown,
            from: stage.probe.as_ref(),
            target: &stage.target,
            folder: &scratch,
            windows: stage.film.recipe.sampling.windows,
            pool: stage.film.recipe.finish.pool,
            manifest: !args.local.no_manifest,
            embed: args.local.embed_manifest,
        };
        let tools = &mut stage.tools;
        let joined = disks
            .waited_for(progress, |progress| assemble::join_units((journal, plan), tools, &goal, progress))?;
        stage.film.notes.extend(joined.notes);
        let mut shots = Vec::new();
        for planned in &plan.units {
            let starts = planned.unit.shots.iter().filter(|shot| shot.stretch.made.start == 0);
            shots.extend(starts.map(|shot| shot.first));
        }
        Ok(Done { frames: plan.frames, shots, groups: plan.units.len(), finishing: joined.took, ..total })
    }

    /// Does units in this process, one after the other.
    fn here(
        &self,
        stage: &mut Staged<'_>,
        todo: Vec<u32>,
        stop: impl Fn() -> bool + Copy + Send + Sync + 'static,
        progress: &mut Progress,
        out: &Output,
        interrupt: &Interrupt,
    ) -> Result<Done, CliError> {
        let local = &stage.args.local;
        let (paused, _keys) = Paused::listen(stage.cancel, interrupt, out);
        let control = Control {
            checkpoint: local.checkpoint,
            wait_disk: local.wait_disk,
            stop: Arc::new(stop),
            folder: self.state.scratch(),
            paused,
        };
        let mut worker = Worker::new(stage, (self.journal, self.plan), control);
        for unit in todo {
            match worker.unit(unit, Way::Restore, progress) {
                Ok(_) => {}
                Err(error) if error.exit_code() == INTERRUPTED && stop() => return Err(CliError::Until),
                Err(error) if local.keep_going && can_be_left(&error) => {
                    worker.unit(unit, Way::Leave, progress)?;
                    progress.warn(format!("unit {unit} failed and keeps its input frames: {error}"));
                }
                Err(error) => return Err(error),
            }
            if stop() {
                return Err(CliError::Until);
            }
        }
        Ok(worker.total)
    }
}

/// Whether a film can go on without the unit that failed so.
fn can_be_left(error: &CliError) -> bool {
    error.exit_code() != INTERRUPTED && !matches!(error, CliError::Full { .. })
}
