//! A film on this machine: planned, done unit by unit, joined; and gone on with if it was stopped.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use remaster_compute::CancelToken;
use remaster_media::{MediaError, check_tag, place};
use remaster_restore::Done;
use remaster_store::{Commits, Damage, Journal};
use remaster_units::{FilmPlan, First, Manifest, Settings, UnitsError};

use super::disks::Disks;
use super::keys::Paused;
use super::state::State;
use super::worker::{Control, Way, Worker};
use super::{assemble, children, make};
use crate::error::CliError;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::numbers::grouped;
use crate::output::Output;
use crate::progress::Progress;
use crate::restore::{PHASES, Ran, Staged, announce, finish};

/// How often units are done and joined while finished ones turn out to be damaged. A disk that damages more is broken.
const ROUNDS: u32 = 3;

/// Restores a film by units.
pub(crate) fn run(
    stage: Staged<'_>,
    unit_frames: usize,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<Ran, CliError> {
    // Unfinished work elsewhere leaves a lock beside the output, where all runs that would write it meet.
    let beside = match stage.args.local.temp {
        Some(_) => Some(State::take(State::place(stage.output, None))?),
        None => None,
    };
    let ran = resumed(stage, unit_frames, out, interrupt);
    if let Some(beside) = beside.filter(|beside| !beside.place_of_store().exists()) {
        beside.remove();
    }
    ran
}

/// Restores it from where an earlier run was stopped.
fn resumed(
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
    // Encoders are tried in temporary folders, which may be full like any other.
    let early = Disks {
        folders: vec![tempfile::env::temp_dir(), place::parent(output).to_owned()],
        wait: args.local.wait_disk,
        cancel: stage.cancel,
    };
    // An output that is there is looked at below.
    early.waited_for(&mut progress, |_| stage.rehearse(true, out))?;
    let settings = early.waited_for(&mut progress, |_| stage.settings(&args.local.cut, unit_frames))?;
    let folder = State::place(output, args.local.temp.as_deref());
    let there = !args.yes && output.symlink_metadata().is_ok();
    super::tidy([]);
    if args.local.restart && is_there(&folder) {
        State::take(folder.clone())?.remove();
    }
    let left = match is_there(&folder) {
        true => State::take(folder.clone())?.resume(&settings, out)?,
        false => None,
    };
    if let Some((_, _, plan)) = &left
        && !is_same(&plan.settings, &args.input, stage.cancel)?
    {
        return Err(CliError::OtherRun { folder, what: "the input has changed".into() });
    }
    // A run that was killed behind its last step has put the film there, which shows when it is joined again.
    let joins_again = match &left {
        Some((_, journal, plan)) => journal.done()?.len() == plan.units.len(),
        None => false,
    };
    if there && !joins_again {
        return Err(MediaError::Exists { path: output.to_owned() }.into());
    }
    if !args.local.no_manifest {
        assemble::check_manifest(output, args.yes)?;
    }
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
            let state = early.waited_for(&mut progress, |_| State::take(folder.clone()))?;
            let journal = early.waited_for(&mut progress, |_| make::put(state.empty_store()?, &plan))?;
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

/// Whether an input is, for sure, the one that settings are about.
pub(super) fn is_same(settings: &Settings, input: &Path, cancel: &CancelToken) -> Result<bool, CliError> {
    let mut go_on = |_| match cancel.is_cancelled() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    match settings.input.check_whole(input, &mut go_on) {
        Ok(()) => Ok(true),
        Err(UnitsError::Input { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a folder may hold unfinished work for an output, or a manifest say that it is done: a film that is there is then
/// no reason to refuse a run at once.
pub(crate) fn may_be_done(output: &Path, args: &super::LocalArgs) -> bool {
    is_there(&Manifest::beside(output)) || is_there(&State::place(output, args.temp.as_deref()))
}

/// Removes what a run left that was killed when its film was done.
pub(crate) fn forget(output: &Path, args: &super::LocalArgs) {
    super::tidy([]);
    // Beside the output there is a lock, also if the work is elsewhere.
    for folder in [State::place(output, args.temp.as_deref()), State::place(output, None)] {
        if !args.keep && is_there(&folder) {
            State::forget(folder, output);
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
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
        let (plan, args) = (self.plan, stage.args);
        let (mut todo, mut reached) = self.left(&self.whole_units(progress)?)?;
        if !self.fresh {
            out.say(format_args!("resuming at frame {} of {}", grouped(reached), grouped(plan.frames)));
        }
        for phase in PHASES {
            progress.phase(phase, Some(plan.frames));
            progress.reach(phase, reached);
        }
        let until = args.local.until;
        let stop = move || until.is_some_and(|until| until.is_over());
        let (mut total, mut rounds) = (Done::default(), ROUNDS);
        let joined = loop {
            rounds -= 1;
            let (paused, _keys) = Paused::listen(stage.cancel, interrupt, progress.pause(), out);
            if args.local.devices.is_empty() {
                let took = self.here(stage, (todo, reached), stop, paused, progress)?;
                total.loading += took.loading;
                total.latent_bytes = total.latent_bytes.max(took.latent_bytes);
            } else {
                // The longest first, so that none is left for the end.
                todo.sort_by_key(|todo| std::cmp::Reverse(todo.frames - todo.adopted));
                let work = (&*stage, self.state);
                children::run(work, (todo, reached), &stop, &paused, progress, interrupt)?;
            }
            match self.join(stage, progress) {
                Err(CliError::Units(UnitsError::Undone { units, damaged })) if rounds > 0 => {
                    say_damage(&damaged, progress);
                    let again = |unit| Todo { unit, frames: self.frames_of(unit), adopted: 0 };
                    todo = units.into_iter().map(again).collect();
                    reached = plan.frames.saturating_sub(todo.iter().map(|todo| todo.frames).sum());
                }
                joined => break joined?,
            }
        };
        stage.film.notes.extend(joined.notes);
        stage.film.left = joined.left;
        let mut shots = Vec::new();
        for planned in &plan.units {
            let starts = planned.unit.shots.iter().filter(|shot| shot.stretch.made.start == 0);
            shots.extend(starts.map(|shot| shot.first));
        }
        Ok(Done { frames: plan.frames, shots, groups: plan.units.len(), finishing: joined.took, ..total })
    }

    fn frames_of(&self, unit: u32) -> usize {
        self.plan.unit(unit).map_or(0, |unit| unit.unit.frames().len())
    }

    /// Units that are not done, and frames of the film that are.
    fn left(&self, done: &BTreeSet<u32>) -> Result<(Vec<Todo>, usize), CliError> {
        let (mut todo, mut reached) = (Vec::new(), 0);
        for unit in 0..self.journal.plan().units() {
            let frames = self.frames_of(unit);
            if done.contains(&unit) {
                reached += frames;
                continue;
            }
            let adopted = adopted(self.journal, unit, frames)?;
            todo.push(Todo { unit, frames, adopted });
            reached += adopted;
        }
        Ok((todo, reached))
    }

    /// Units that are done and whole. Those with a damaged record are done again.
    fn whole_units(&self, progress: &mut Progress) -> Result<BTreeSet<u32>, CliError> {
        let Commits { whole, damaged } = self.journal.commits()?;
        say_damage(&damaged, progress);
        damaged.iter().try_for_each(|damage| self.journal.undo(damage.unit))?;
        Ok(whole.into_iter().map(|commit| commit.unit).collect())
    }

    /// Joins what is done into the film.
    fn join(&self, stage: &mut Staged<'_>, progress: &mut Progress) -> Result<assemble::Joined, CliError> {
        let args = stage.args;
        let scratch = self.state.scratch();
        let disks = Disks {
            folders: vec![scratch.clone(), place::parent(stage.output).to_owned()],
            wait: args.local.wait_disk,
            cancel: stage.cancel,
        };
        let goal = assemble::Goal {
            watch: assemble::watch(&args.input, self.plan, stage.cancel),
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
        let (units, tools) = ((self.journal, self.plan), &mut stage.tools);
        disks.waited_for(progress, |progress| assemble::join_units(units, tools, &goal, progress))
    }

    /// Does units in this process, one after the other.
    fn here(
        &self,
        stage: &mut Staged<'_>,
        (todo, mut reached): (Vec<Todo>, usize),
        stop: impl Fn() -> bool + Copy + Send + Sync + 'static,
        paused: Paused,
        progress: &mut Progress,
    ) -> Result<Done, CliError> {
        let local = &stage.args.local;
        let control = Control {
            checkpoint: local.checkpoint,
            wait_disk: local.wait_disk,
            stop: Arc::new(stop),
            folder: self.state.scratch(),
            first: First::Whole,
            paused,
        };
        let mut worker = Worker::new(stage, (self.journal, self.plan), control);
        for Todo { unit, frames, adopted } in todo {
            match worker.unit(unit, Way::Restore, progress) {
                Ok(_) => {}
                Err(error) if error.exit_code() == INTERRUPTED && stop() => return Err(CliError::Until),
                Err(error) if local.keep_going && can_be_left(&error) => {
                    worker.unit(unit, Way::Leave, progress)?;
                    progress.warn(format!("unit {unit} failed and keeps its input frames: {error}"));
                }
                Err(error) => return Err(error),
            }
            // Frames that were in the store are not made again.
            reached += frames - adopted;
            PHASES.into_iter().for_each(|phase| progress.reach(phase, reached));
            if stop() {
                return Err(CliError::Until);
            }
        }
        Ok(worker.total)
    }
}

/// Says once what was damaged and is made again.
fn say_damage(damaged: &[Damage], progress: &mut Progress) {
    for damage in damaged {
        progress.warn(format!("{damage}; unit {} is done again", damage.unit));
    }
}

/// A unit that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Todo {
    pub(super) unit: u32,
    pub(super) frames: usize,
    /// Of these, frames in pieces that an earlier attempt finished.
    pub(super) adopted: usize,
}

/// Frames of a unit that are in finished pieces.
pub(super) fn adopted(journal: &Journal, unit: u32, frames: usize) -> Result<usize, CliError> {
    let kept: u64 = journal.pieces(unit)?.whole.values().map(|piece| piece.frames).sum();
    Ok(usize::try_from(kept).unwrap_or(frames).min(frames))
}

/// Whether a film can go on without the unit that failed so: its frames cannot be read or restored. What ends every other
/// unit, too, as a device that is gone, ends the run, so that no film is passed through for want of what restores it.
fn can_be_left(error: &CliError) -> bool {
    error.exit_code() == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use remaster_compute::ComputeError;
    use remaster_media::MediaError;

    #[test]
    fn a_film_is_not_passed_through_for_want_of_a_device_memory_or_disk() {
        let gone = ComputeError::DeviceLost { device: "vulkan:0".into(), reason: "reset".into() };
        let full = CliError::Full { folder: "/tmp".into() };
        let wrong = CliError::NoEffect { flag: "--x", what: "a unit" };
        for error in [gone.into(), full, wrong, CliError::Interrupted] {
            assert!(!can_be_left(&error), "{error}");
        }
        let damaged = MediaError::Broken { what: "the film", reason: "frame 7".into() };
        assert!(can_be_left(&damaged.into()));
    }
}
