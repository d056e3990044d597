//! Units on this machine, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use remaster_engine::Event;
use remaster_restore::Done;
use remaster_store::Journal;
use remaster_units::{FilmPlan, First, Outcome, Restoring, UnitsError, Watch, Work, pass_through, work};

use super::assemble::watch;
use super::disks::Disks;
use super::frame_opener::FrameOpener;
use crate::error::Error;
use crate::event::Reporter;
use crate::restore::Staged;

/// Attempts at a unit while files of the store are lost meanwhile.
const TRIES: u32 = 3;

/// What becomes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is restored.
    Restore,
    /// It gets the frames of the input, resized.
    PassThrough,
}

/// Where and how often a worker saves.
pub(super) struct Pace {
    /// How often latents are kept.
    pub(super) checkpoint: Duration,
    /// How long a full disk is waited for.
    pub(super) wait_disk: Duration,
    /// Where the piece at work is.
    pub(super) folder: PathBuf,
    /// How much of the film is read before the first unit.
    pub(super) first: First,
}

/// Does units of a plan.
pub(super) struct Worker<'a> {
    pub(super) stage: &'a mut Staged,
    pub(super) journal: &'a Journal,
    pub(super) plan: &'a FilmPlan,
    pub(super) pace: Pace,
    /// What all units took.
    pub(super) total: Done,
    /// The film that is read.
    watch: Watch,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        stage: &'a mut Staged,
        (journal, plan): (&'a Journal, &'a FilmPlan),
        pace: Pace,
    ) -> Self {
        let watch = watch(&stage.request.input, &plan.settings.input, pace.first, &stage.control);
        let watch = watch.and(stage.used.clone());
        Worker { stage, journal, plan, pace, total: Done::default(), watch }
    }

    /// Does a unit; waits while a disk is full.
    pub(super) fn unit(
        &mut self,
        index: u32,
        treatment: Treatment,
        report: &Reporter<'_>,
    ) -> Result<Outcome, Error> {
        let spill = self.stage.film.site.spill.folder.as_path();
        let folders = [Some(self.pace.folder.as_path()), self.journal.store().folder(), Some(spill)];
        let disks = Disks::of(self.stage, self.pace.wait_disk, folders.into_iter().flatten());
        disks.waited_for(report, || {
            let mut tries = TRIES;
            loop {
                tries -= 1;
                match self.attempt(index, treatment, report) {
                    // A file of the store was lost while the unit was done. The next look finds which one.
                    Err(Error::Units(UnitsError::Journal(error))) if error.is_damage() && tries > 0 => {
                        report.warn(format!("unit {index} is done again: {error}"));
                    }
                    ended => return ended,
                }
            }
        })
    }

    fn attempt(&mut self, index: u32, treatment: Treatment, report: &Reporter<'_>) -> Result<Outcome, Error> {
        let Worker { stage, journal, plan, pace, total, watch } = self;
        let (control, asked) = (stage.control.clone(), stage.control.clone());
        let planned = plan.unit(index)?;
        let windows = stage.film.recipe.sampling.windows;
        let new = stage.new_piece(plan.settings.segments, plan.settings.numerics.threads)?;
        let name = stage.film.site.worker();
        let setup = Work {
            journal,
            plan,
            windows,
            pool: stage.film.recipe.finish.pool,
            folder: &pace.folder,
            every: pace.checkpoint,
            most_kept: stage.most_kept(),
            stop: Arc::new(move || asked.should_stop()),
            watch: watch.clone(),
            // A driver names its device.
            worker: name.chars().filter(|c| !c.is_control()).take(100).collect(),
            left: treatment == Treatment::PassThrough,
        };
        let Staged { request, film, tools, shown, probe, .. } = &mut **stage;
        let opener = FrameOpener {
            source: &request.how.source,
            path: &request.input,
            probe: probe.as_ref(),
            clock: plan.time_base,
            first: planned.unit.read(&windows, film.look_back()).start,
            anchor: planned.anchor,
        };
        let end = planned.unit.frames().end;
        let restore = &mut |restoring: Restoring<'_>| {
            let mut open = |frames| opener.open(frames, tools);
            if treatment == Treatment::PassThrough {
                let source = open(restoring.from..end)?;
                return pass_through(source, restoring.sink, [shown.width, shown.height]);
            }
            let mut events = |told: Event<'_>| {
                control.wait();
                #[cfg(debug_assertions)]
                super::faults::slow(&told);
                report.networks(&told);
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
            report.warn(format!("{damage}; it is made again"));
        }
        Ok(worked?)
    }
}
