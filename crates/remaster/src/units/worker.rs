//! Units on this machine, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use remaster_engine::Event;
use remaster_restore::Done;
use remaster_store::{Journal, Producer};
use remaster_units::{
    Checkpoints, FilmPlan, First, Outcome, Progress, Restoring, UnitsError, Watch, Work, pass_through, work,
};

use super::assemble::watch;
use super::cursors::Cursors;
use super::disks::Disks;
use super::frame_opener::FrameOpener;
use crate::error::{Blame, Error};
use crate::event::{PHASES, Reporter};
use crate::machine::producers::{producer, refuse_wrong};
use crate::media::MAX_LEAD;
use crate::numbers::grouped;
use crate::request::checkpoint_of_frames;
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
    /// How often work is saved.
    pub(super) checkpoint: Duration,
    /// How long a full disk is waited for.
    pub(super) wait_disk: Duration,
    /// Where the piece at work is.
    pub(super) folder: PathBuf,
    /// How much of the film is read before the first unit.
    pub(super) first: First,
}

/// What a unit at work saves, told now and then.
struct Saving<'a> {
    progress: &'a Progress,
    /// Frames of the film that are saved elsewhere.
    others: usize,
    /// The first frame of the unit.
    first: usize,
    /// How often values of networks were saved.
    values: usize,
}

impl Saving<'_> {
    /// Tells what is new, before any more is told that is done.
    fn tell(&mut self, report: &Reporter<'_>) {
        // An upscaler has one phase, and the last one of others makes frames.
        if let (Some(end), Some(phase)) = (self.progress.end(), report.phases().last()) {
            report.save(phase, self.others + end.saturating_sub(self.first));
        }
        let values = self.progress.values();
        if values > std::mem::replace(&mut self.values, values) {
            report.save_so_far(&PHASES[..2]);
        }
        self.progress.warnings().into_iter().for_each(|text| report.warn(text));
    }
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
    cursors: Cursors,
    /// It was said that the film is read from far before a unit.
    is_told: bool,
    /// What the work of the device is called, if it may turn out to be wrong.
    producer: Option<Producer>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        stage: &'a mut Staged,
        (journal, plan): (&'a Journal, &'a FilmPlan),
        pace: Pace,
    ) -> Self {
        let watch = watch(&stage.request.input, &plan.settings.input, pace.first, &stage.control);
        let watch = watch.and(stage.used.clone());
        let cursors = Cursors::new(stage.film.decoders);
        let producer = producer(&stage.film.site.backend, stage.machine());
        Worker {
            stage,
            journal,
            plan,
            pace,
            total: Done::default(),
            watch,
            cursors,
            is_told: false,
            producer,
        }
    }

    /// Does a unit; waits while a disk is full. `others` frames of the film are saved elsewhere. If its device computes wrong
    /// numbers, nothing in the store that it made counts any more.
    pub(super) fn unit(
        &mut self,
        (index, others): (u32, usize),
        treatment: Treatment,
        report: &Reporter<'_>,
    ) -> Result<Outcome, Error> {
        let is_right = refuse_wrong(&self.stage.film.site.backend, self.stage.machine());
        let ended = is_right.and_then(|()| self.waited_for((index, others), treatment, report));
        let is_wrong = ended.as_ref().is_err_and(|error| error.blame() == Blame::WrongDevice);
        if let Some(producer) = self.producer.as_ref().filter(|_| is_wrong) {
            // If it cannot be said now, the next run on this machine says it.
            match self.journal.distrust(producer) {
                Ok(()) => report.warn("what this device made of the film is not used; it is made again"),
                Err(error) => {
                    report.warn(format!("what this device made of the film is still there: {error}"))
                }
            }
        }
        ended
    }

    fn waited_for(
        &mut self,
        (index, others): (u32, usize),
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
                match self.attempt((index, others), treatment, report) {
                    // A file of the store was lost while the unit was done. The next look finds which one.
                    Err(Error::Units(UnitsError::Journal(error))) if error.is_damage() && tries > 0 => {
                        report.warn(format!("unit {index} is done again: {error}"));
                    }
                    ended => return ended,
                }
            }
        })
    }

    fn attempt(
        &mut self,
        (index, others): (u32, usize),
        treatment: Treatment,
        report: &Reporter<'_>,
    ) -> Result<Outcome, Error> {
        let Worker { stage, journal, plan, pace, total, watch, cursors, is_told, producer } = self;
        let (control, asked, cancelled) =
            (stage.control.clone(), stage.control.clone(), stage.control.clone());
        let planned = plan.unit(index)?;
        let windows = stage.film.recipe.sampling.windows;
        let new = stage.new_piece(plan.settings.segments, plan.settings.numerics.threads)?;
        let name = stage.film.site.worker();
        let progress = Arc::<Progress>::default();
        let mut saved = Saving { progress: &progress, others, first: planned.unit.frames().start, values: 0 };
        let setup = Work {
            journal,
            plan,
            windows,
            pool: stage.film.recipe.finish.pool,
            folder: &pace.folder,
            every: pace.checkpoint,
            most_kept: stage.most_kept(),
            checkpoints: stage.film.checkpoint_room().map(|room| Checkpoints {
                every: checkpoint_of_frames(pace.checkpoint),
                room,
                is_cancelled: Arc::new(move || cancelled.is_cancelled()),
            }),
            progress: Arc::clone(&progress),
            stop: Arc::new(move || asked.should_stop()),
            watch: watch.clone(),
            // A driver names its device.
            worker: name.chars().filter(|c| !c.is_control()).take(100).collect(),
            producer: producer.clone(),
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
            cursors: cursors.clone(),
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
                saved.tell(report);
                report.networks(&told);
            };
            let done = film.restore_unit(restoring, &mut open, &mut events)?;
            total.loading += done.loading;
            total.latent_bytes = total.latent_bytes.max(done.latent_bytes);
            Ok(())
        };
        let mut damaged = Vec::new();
        let worked = work(&setup, index, new, restore, &mut damaged);
        saved.tell(report);
        let lead = cursors.lead();
        if lead > MAX_LEAD && !std::mem::replace(is_told, true) {
            report.detail(format_args!(
                "{} frames were read before those of unit {index}: no nearer one is proven to need none before it",
                grouped(lead)
            ));
        }
        // Said whatever came of it.
        for damage in damaged {
            report.warn(format!("{damage}; it is made again"));
        }
        Ok(worked?)
    }
}
