//! Restores a film on this machine unit by unit, and resumes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use remaster_media::{MediaError, check_tag, place};
use remaster_restore::Done;
use remaster_store::{Commits, Damage, Journal};
use remaster_units::{FilmPlan, First, Manifest, Settings, UnitsError};

use super::disks::Disks;
use super::members::Member;
use super::scheduler::Scheduler;
use super::state::State;
use super::todo::{Todo, frames_of};
use super::worker::{Pace, Treatment, Worker};
use super::{assemble, children, make};
use crate::control::Control;
use crate::error::{Blame, Error};
use crate::event::{Event, PHASES, Reporter};
use crate::machine::host::Machine;
use crate::machine::producers;
use crate::numbers::grouped;
use crate::outcome::{Estimate, FilmOutcome};
use crate::request::{Units, checkpoint_of_frames};
use crate::restore::Staged;
use crate::worker::WorkerProgram;

/// How often units are done and joined while finished ones turn out to be damaged. A disk that damages more is broken.
const ROUNDS: u32 = 3;

/// A film that is ready to be restored by units, from where an earlier run was stopped.
pub(crate) struct LocalFilm {
    pub(crate) stage: Staged,
    members: Vec<Member>,
    settings: Settings,
    /// Where unfinished work is.
    folder: PathBuf,
    /// What an earlier run left.
    left: Option<(State, Journal, FilmPlan)>,
    /// Unfinished work elsewhere leaves a lock beside the output, where all runs that would write it meet.
    beside: Option<Beside>,
}

/// Encoders are tried in temporary folders, which may be full like any other.
fn early_disks(stage: &Staged) -> Disks {
    let folders = [stage.machine().temporary.as_path(), place::parent(&stage.output)];
    Disks::of(stage, stage.request.units.wait_disk, folders)
}

impl LocalFilm {
    /// Looks for unfinished work, and refuses what cannot be done before it is begun.
    pub(crate) fn prepare(
        mut stage: Staged,
        members: Vec<Member>,
        unit_frames: usize,
        report: &Reporter<'_>,
    ) -> Result<Self, Error> {
        let units = stage.request.units.clone();
        let (overwrite, output) = (stage.request.overwrite, stage.output.clone());
        let beside = match units.temp {
            Some(_) => Some(Beside(Some(State::take(State::place(&output, None))?))),
            None => None,
        };
        if units.embed_manifest {
            check_tag(&output)?;
        }
        let early = early_disks(&stage);
        // An existing output is checked below.
        early.waited_for(report, || stage.rehearse(true, report))?;
        let settings = early.waited_for(report, || stage.settings(&units.cut, unit_frames))?;
        let folder = State::place(&output, units.temp.as_deref());
        let there = !overwrite && output.symlink_metadata().is_ok();
        super::tidy(stage.machine(), []);
        if units.restart && is_there(&folder) {
            State::take(folder.clone())?.restart()?;
        }
        let left = match is_there(&folder) {
            true => State::take(folder.clone())?.resume(&settings, report)?,
            false => None,
        };
        if let Some((_, journal, _)) = &left {
            producers::distrust(journal, stage.machine())?;
        }
        if let Some((_, _, plan)) = &left
            && !is_same(&plan.settings, &stage.request.input, &stage.control)?
        {
            return Err(Error::OtherRun { folder, what: "the input has changed".into() });
        }
        // A run that was killed behind its last step has put the film there, which shows when it is joined again.
        let joins_again = match &left {
            Some((_, journal, plan)) => journal.done()?.len() == plan.units.len(),
            None => false,
        };
        if there && !joins_again {
            return Err(MediaError::Exists { path: output }.into());
        }
        if units.manifest {
            assemble::check_manifest(&output, overwrite)?;
        }
        Ok(LocalFilm { stage, members, settings, folder, left, beside })
    }

    /// Restores the film.
    pub(crate) fn run(self, worker: &WorkerProgram, report: &Reporter<'_>) -> Result<FilmOutcome, Error> {
        let LocalFilm { mut stage, members, settings, folder, left, beside: _beside } = self;
        let fresh = left.is_none();
        stage.control.begin();
        if fresh {
            make::declare(&stage, report);
        }
        let time = stage.announce(report);
        let early = early_disks(&stage);
        let (state, journal, plan) = match left {
            Some(left) => left,
            None => {
                // The folder is made when there is something to keep.
                let plan = make::plan(&mut stage, settings, report)?;
                if !members.is_empty() {
                    report.notes(make::apart_note(&mut stage, &plan)?.as_slice());
                }
                let state = early.waited_for(report, || State::take(folder.clone()))?;
                let journal = early.waited_for(report, || make::put(state.empty_store()?, &plan))?;
                (state, journal, plan)
            }
        };
        // Units open the film where they begin.
        stage.close();
        if !Estimate::is_short(&stage.film) {
            let (longest, every) =
                (plan.piece_frames.min(plan.frames), checkpoint_of_frames(stage.request.units.checkpoint));
            let each = time.map(|time| time.seconds_per_frame);
            report.notes(stage.film.cost_of_a_stop((longest, each), every, &state.folder).as_slice());
        }
        report.film(plan.frames, stage.shown.rate);
        let (folder, saved) = (state.folder.display().to_string(), report.saved());
        let kept = move || {
            let saved = saved().map_or(String::new(), |saved| format!(", {saved}"));
            format!("unfinished work is kept in {folder}{saved}; run the same command again to resume")
        };
        stage.control.note_on_abort(Some(Box::new(kept.clone())));
        let work = Run { state: &state, journal: &journal, plan: &plan, fresh, worker, members: &members };
        let done = work.film(&mut stage, report);
        stage.control.note_on_abort(None);
        match done {
            Ok(done) => {
                if !stage.request.units.keep {
                    state.remove();
                }
                let Staged { request, output, film, tools, .. } = stage;
                Ok(film.finished(&request, &output, done, tools.children_peak(), report))
            }
            Err(error) => {
                // Without a finished piece there is nothing to go on from.
                if fresh && !state.has_work() {
                    drop(journal);
                    state.remove();
                } else {
                    report.say(kept());
                }
                Err(error)
            }
        }
    }
}

/// The lock beside the output. It goes with the run, unless unfinished work is there, too.
struct Beside(Option<State>);

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(state) = self.0.take().filter(|state| !state.place_of_store().exists()) {
            state.remove();
        }
    }
}

/// Whether an input is, for sure, the one that settings are about.
pub(super) fn is_same(settings: &Settings, input: &Path, control: &Control) -> Result<bool, Error> {
    match settings.input.check_whole(input, &mut |_| control.flow()) {
        Ok(()) => Ok(true),
        Err(UnitsError::Input { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a folder may hold unfinished work for an output, or a manifest say that it is done: a film that is there is then
/// no reason to refuse a run at once.
pub(crate) fn may_be_done(output: &Path, units: &Units) -> bool {
    is_there(&Manifest::beside(output)) || is_there(&State::place(output, units.temp.as_deref()))
}

/// Removes what a run left that was killed when its film was done.
pub(super) fn forget(output: &Path, units: &Units, machine: &Machine) {
    super::tidy(machine, []);
    // Beside the output there is a lock, also if the work is elsewhere.
    for folder in [State::place(output, units.temp.as_deref()), State::place(output, None)] {
        if !units.keep && is_there(&folder) {
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
    worker: &'a WorkerProgram,
    members: &'a [Member],
}

impl Run<'_> {
    fn film(&self, stage: &mut Staged, report: &Reporter<'_>) -> Result<Done, Error> {
        let plan = self.plan;
        let (mut todo, mut reached) = self.left(&self.whole_units(report)?)?;
        if !self.fresh {
            report.say(format_args!("resuming at frame {} of {}", grouped(reached), grouped(plan.frames)));
        }
        PHASES.into_iter().for_each(|phase| report.phase(phase, Some(plan.frames)));
        report.reach_all(reached);
        report.emit(Event::Pausable);
        let (mut total, mut rounds) = (Done::default(), ROUNDS);
        let devices = self.members.iter().map(Member::named).collect();
        let mut scheduler = Scheduler::new(devices, stage.request.units.keep_going);
        let joined = loop {
            rounds -= 1;
            if stage.request.units.devices.is_empty() {
                let took = self.here(stage, (todo, reached), report)?;
                total.loading += took.loading;
                total.latent_bytes = total.latent_bytes.max(took.latent_bytes);
            } else {
                // The longest first, so that none is left for the end.
                todo.sort_by_key(|todo| std::cmp::Reverse(todo.frames - todo.adopted));
                let (work, workers) = ((&*stage, self.state), (self.worker, self.members, &mut scheduler));
                children::run(work, workers, (todo, reached), report)?;
            }
            match self.join(stage, report) {
                Err(Error::Units(UnitsError::Undone { units, damaged })) if rounds > 0 => {
                    say_damage(&damaged, report);
                    let again = |unit| Todo { unit, frames: frames_of(plan, unit), adopted: 0 };
                    todo = units.into_iter().map(again).collect();
                    reached = plan.frames.saturating_sub(todo.iter().map(|todo| todo.frames).sum());
                }
                joined => break joined?,
            }
        };
        stage.film.notes.extend(joined.notes);
        stage.film.left = joined.left;
        stage.film.manifest = joined.manifest;
        let mut shots = Vec::new();
        for planned in &plan.units {
            let starts = planned.unit.shots.iter().filter(|shot| shot.range.made.start == 0);
            shots.extend(starts.map(|shot| shot.first));
        }
        Ok(Done { frames: plan.frames, shots, groups: plan.units.len(), finishing: joined.took, ..total })
    }

    /// Units that are not done, and frames of the film that are.
    fn left(&self, done: &BTreeSet<u32>) -> Result<(Vec<Todo>, usize), Error> {
        let (mut todo, mut reached) = (Vec::new(), 0);
        for unit in 0..self.journal.plan().units() {
            if done.contains(&unit) {
                reached += frames_of(self.plan, unit);
                continue;
            }
            let unit = Todo::new(self.journal, self.plan, unit)?;
            reached += unit.adopted;
            todo.push(unit);
        }
        Ok((todo, reached))
    }

    /// Units that are done and whole. Those with a damaged record are done again.
    fn whole_units(&self, report: &Reporter<'_>) -> Result<BTreeSet<u32>, Error> {
        let Commits { whole, damaged } = self.journal.commits()?;
        say_damage(&damaged, report);
        damaged.iter().try_for_each(|damage| self.journal.undo(damage.unit))?;
        Ok(whole.into_iter().map(|commit| commit.unit).collect())
    }

    /// Joins what is done into the film.
    fn join(&self, stage: &mut Staged, report: &Reporter<'_>) -> Result<assemble::Joined, Error> {
        // Another run on one of its devices may have found it wrong.
        producers::distrust(self.journal, stage.machine())?;
        let request = &stage.request;
        let scratch = self.state.scratch();
        let folders = [scratch.as_path(), place::parent(&stage.output)];
        let disks = Disks::of(stage, request.units.wait_disk, folders);
        let goal = assemble::Goal {
            watch: assemble::watch(&request.input, &self.plan.settings.input, First::Whole, &stage.control),
            path: &stage.output,
            overwrite: request.overwrite,
            format: &stage.shown,
            from: stage.probe.as_ref(),
            target: &request.target,
            folder: &scratch,
            windows: stage.film.recipe.sampling.windows,
            pool: stage.film.recipe.finish.pool,
            manifest: request.units.manifest,
            embed: request.units.embed_manifest,
        };
        let (units, tools) = ((self.journal, self.plan), &mut stage.tools);
        disks.waited_for(report, || assemble::join_units(units, tools, &goal, report))
    }

    /// Does units in this process, one after the other.
    fn here(
        &self,
        stage: &mut Staged,
        (todo, mut reached): (Vec<Todo>, usize),
        report: &Reporter<'_>,
    ) -> Result<Done, Error> {
        let (units, control) = (stage.request.units.clone(), stage.control.clone());
        let pace = Pace {
            checkpoint: units.checkpoint,
            wait_disk: units.wait_disk,
            folder: self.state.scratch(),
            first: First::Whole,
        };
        let mut worker = Worker::new(stage, (self.journal, self.plan), pace);
        for Todo { unit, frames, adopted } in todo {
            // Nothing is begun that would have to be stopped at once.
            if control.should_stop() {
                return Err(Error::Until);
            }
            let this = (unit, reached - adopted);
            match worker.unit(this, Treatment::Restore, report) {
                Ok(_) => {}
                Err(error) if error.is_stop() && control.should_stop() => return Err(Error::Until),
                Err(error) if units.keep_going && error.blame() == Blame::Input => {
                    worker.unit(this, Treatment::PassThrough, report)?;
                    report.warn(format!("unit {unit} failed and keeps its input frames: {error}"));
                }
                Err(error) => return Err(error),
            }
            // Frames that were in the store are not made again.
            reached += frames - adopted;
            report.reach_all(reached);
        }
        if control.should_stop() { Err(Error::Until) } else { Ok(worker.total) }
    }
}

/// Says once what was damaged and is made again.
fn say_damage(damaged: &[Damage], report: &Reporter<'_>) {
    for damage in damaged {
        report.warn(format!("{damage}; unit {} is done again", damage.unit));
    }
}
