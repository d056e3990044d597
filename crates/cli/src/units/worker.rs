//! Units on this machine, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use remaster_engine::Event;
use remaster_restore::Done;
use remaster_store::Journal;
use remaster_units::{FilmPlan, First, Outcome, Restoring, UnitsError, Watch, Work, leave, work};

use super::disks::Disks;
use super::keys::Paused;
use super::reel::Reel;
use crate::error::CliError;
use crate::progress::Progress;
use crate::restore::{Staged, event};

/// Attempts at a unit while files of the store are lost meanwhile.
const TRIES: u32 = 3;

/// What becomes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is restored.
    Restore,
    /// It gets the frames of the input, resized.
    Leave,
}

/// When a worker keeps, waits and stops.
pub(super) struct Control {
    /// How often latents are kept.
    pub(super) checkpoint: Duration,
    /// How long a full disk is waited for.
    pub(super) wait_disk: Duration,
    /// Whether to stop behind the next piece.
    pub(super) stop: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Where the piece at work is.
    pub(super) folder: PathBuf,
    /// How much of the film is read before the first unit.
    pub(super) first: First,
    /// A person can make it wait.
    pub(super) paused: Paused,
}

/// Does units of a plan.
pub(super) struct Worker<'a, 's> {
    pub(super) stage: &'a mut Staged<'s>,
    pub(super) journal: &'a Journal,
    pub(super) plan: &'a FilmPlan,
    pub(super) control: Control,
    /// What all units took.
    pub(super) total: Done,
    /// The film that is read.
    watch: Watch,
}

impl<'a, 's> Worker<'a, 's> {
    pub(super) fn new(
        stage: &'a mut Staged<'s>,
        (journal, plan): (&'a Journal, &'a FilmPlan),
        control: Control,
    ) -> Self {
        let cancel = stage.cancel.clone();
        let stop = Arc::new(move || cancel.is_cancelled());
        let watch = Watch::new(&stage.args.input, &plan.settings.input, control.first, stop);
        let watch = watch.and(stage.used.clone());
        Worker { stage, journal, plan, control, total: Done::default(), watch }
    }

    /// Does a unit; waits while a disk is full.
    pub(super) fn unit(
        &mut self,
        index: u32,
        way: Way,
        progress: &mut Progress,
    ) -> Result<Outcome, CliError> {
        let spill = self.stage.film.spill().folder.as_path();
        let folders = [Some(self.control.folder.as_path()), self.journal.store().folder(), Some(spill)];
        let disks = Disks {
            folders: folders.into_iter().flatten().map(ToOwned::to_owned).collect(),
            wait: self.control.wait_disk,
            cancel: self.stage.cancel,
        };
        disks.waited_for(progress, |progress| {
            let mut tries = TRIES;
            loop {
                tries -= 1;
                match self.attempt(index, way, progress) {
                    // A file of the store was lost while the unit was done. The next look finds which one.
                    Err(CliError::Units(UnitsError::Journal(error))) if error.is_damage() && tries > 0 => {
                        progress.warn(format!("unit {index} is done again: {error}"));
                    }
                    ended => return ended,
                }
            }
        })
    }

    fn attempt(&mut self, index: u32, way: Way, progress: &mut Progress) -> Result<Outcome, CliError> {
        let Worker { stage, journal, plan, control, total, watch } = self;
        let planned = plan.unit(index)?;
        let windows = stage.film.recipe.sampling.windows;
        let new = stage.new_piece(plan.settings.segments, plan.settings.numerics.threads)?;
        let name = stage.film.place.worker();
        let setup = Work {
            journal,
            plan,
            windows,
            pool: stage.film.recipe.finish.pool,
            folder: &control.folder,
            every: control.checkpoint,
            most_kept: stage.most_kept(),
            stop: Arc::clone(&control.stop),
            watch: watch.clone(),
            // A driver names its device.
            worker: name.chars().filter(|c| !c.is_control()).take(100).collect(),
            left: way == Way::Leave,
        };
        let Staged { args, film, tools, shown, probe, .. } = &mut **stage;
        let reel = Reel {
            source: &args.how.source,
            path: &args.input,
            probe: probe.as_ref(),
            clock: plan.time_base,
            first: planned.unit.read(&windows, film.look_back()).start,
            anchor: planned.anchor,
        };
        let end = planned.unit.frames().end;
        let restore = &mut |restoring: Restoring<'_>| {
            let mut open = |frames| reel.open(frames, tools);
            if way == Way::Leave {
                let source = open(restoring.from..end)?;
                return leave(source, restoring.sink, [shown.width, shown.height]);
            }
            let mut events = |told: Event<'_>| {
                control.paused.wait(&*control.stop);
                #[cfg(debug_assertions)]
                super::faults::slow(&told);
                event(progress, &told);
            };
            let done = film.restore_unit(restoring, &mut open, &mut events)?;
            total.loading += done.loading;
            total.latent_bytes = total.latent_bytes.max(done.latent_bytes);
            Ok(())
        };
        let mut damaged = Vec::new();
        let worked = work(&setup, index, new, restore, &mut damaged);
        // Said whatever came of it.
        for damage in damaged {
            progress.warn(format!("{damage}; it is made again"));
        }
        Ok(worked?)
    }
}
