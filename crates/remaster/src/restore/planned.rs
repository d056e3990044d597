//! A film in the words of its plan and of its outcome.

use std::path::Path;

use remaster_restore::Done;

use super::film::Film;
use crate::event::{Event, Reporter};
use crate::job::Known;
use crate::outcome::{Estimate, FilmOutcome, FilmPlan, SourceInfo};
use crate::request::Request;

impl Film {
    /// Tells what will be done in which phases, and how long it takes, which may take a second to measure. Returns that.
    pub(crate) fn announce(&self, input: &Path, counted: bool, report: &Reporter<'_>) -> Option<Estimate> {
        report.emit(Event::Prepared(Box::new(self.planned(input, counted, None))));
        let time = Estimate::before(self, true, report);
        if let Some(time) = time {
            report.emit(Event::Estimated(time));
        }
        self.declare(counted, report);
        time
    }

    /// What is known before the run.
    pub(crate) fn known(&self, output: Option<&Path>) -> Known {
        Known { output: output.map(Path::to_owned), notes: self.notes.clone(), total: Some(self.total) }
    }

    /// What it will take.
    pub(crate) fn planned(&self, input: &Path, counted: bool, time: Option<Estimate>) -> FilmPlan {
        let [model, vae] = self.networks.names.clone();
        FilmPlan {
            input: input.display().to_string(),
            model,
            vae,
            backend: self.site.backend.name(),
            dtype: self.site.build.dtype.name(),
            geometry: self.recipe.geometry,
            source: SourceInfo { format: self.format.clone(), frames_estimated: self.estimated },
            notes: self.notes.clone(),
            plans: self.plans.clone(),
            total: self.total,
            latent_bytes: self.latent_bytes().filter(|_| self.room.folder.is_some()),
            checkpoint_bytes: self.checkpoint_bytes(),
            groups: self.groups(),
            macs_per_frame: self.work().iter().sum(),
            time,
            card: None,
            title: self.networks.title.clone(),
            numerics: self.site.backend.numerics(),
            shown: self.recipe.shown,
            counted,
            apart: self.apart,
        }
    }

    /// Ends a run: keeps how fast it was, and says what came out.
    pub(crate) fn finished(
        self,
        request: &Request,
        output: &Path,
        done: Done,
        children_peak: u64,
        report: &Reporter<'_>,
    ) -> FilmOutcome {
        report.children(children_peak, &self.total);
        report.advance("finish", 0, done.finishing);
        // Several devices share the machine: how fast each was says little about one that has it alone. A pause is no work.
        if request.units.devices.is_empty() && !self.site.control.was_paused() {
            self.record(report);
        }
        let [model, vae] = self.networks.names;
        let [width, height] = self.recipe.shown;
        FilmOutcome {
            input: request.input.display().to_string(),
            output: output.display().to_string(),
            model,
            vae,
            seed: request.how.look.seed,
            backend: self.site.backend.name(),
            dtype: self.site.build.dtype.name(),
            frames: done.frames,
            height,
            width,
            geometry: self.recipe.geometry,
            source: SourceInfo { format: self.format, frames_estimated: self.estimated },
            shots: done.shots,
            groups: done.groups,
            latent_bytes: done.latent_bytes,
            load_seconds: done.loading.as_secs_f64(),
            left: self.left,
            manifest: self.manifest.map(|path| path.display().to_string()),
            notes: self.notes,
            plans: self.plans,
            total: self.total,
        }
    }
}
