//! What a restoration will take, and what it took.

use std::path::Path;

use remaster_media::Format;
use remaster_pipeline::Geometry;
use remaster_plan::Plan;
use remaster_restore::Done;
use serde::Serialize;

use super::film::Film;
use crate::estimate::Estimate;
use crate::event::{Event, Reporter};
use crate::plan::Total;
use crate::request::Request;

/// What was read, and how far to trust it.
#[derive(Clone, Debug, Serialize)]
pub struct SourceInfo {
    /// Size, rate, number of frames.
    #[serde(flatten)]
    pub format: Format,
    /// `frames` was computed from duration and rate.
    pub frames_estimated: bool,
}

/// What a restoration will take.
#[derive(Clone, Debug, Serialize)]
pub struct FilmPlan {
    /// What is read.
    pub input: String,
    /// File or name of the transformer.
    pub model: String,
    /// File or name of the VAE.
    pub vae: String,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Sizes of frames on their way.
    pub geometry: Geometry,
    /// The input.
    pub source: SourceInfo,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of encoder, transformer and decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
    /// Latents that wait on disk at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_bytes: Option<u64>,
    /// How often the networks take turns, if the length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Multiply-adds of a frame.
    pub macs_per_frame: f64,
    /// Of the whole film.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Of a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_frame: Option<f64>,
    /// What the times rest on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<&'static str>,
    /// Display name of the model.
    #[serde(skip)]
    pub title: String,
    /// Kernels that compute.
    #[serde(skip)]
    pub numerics: String,
    /// Width and height of the output.
    #[serde(skip)]
    pub shown: [usize; 2],
    /// The number of frames is sure.
    #[serde(skip)]
    pub counted: bool,
    /// The device has memory of its own.
    #[serde(skip)]
    pub apart: bool,
    /// The time, in words.
    #[serde(skip)]
    pub time: Option<Estimate>,
}

impl Film {
    /// Tells what will be done, and how long it takes, which may take a second to measure.
    pub(crate) fn announce(&self, input: &Path, counted: bool, report: &Reporter<'_>) {
        report.emit(Event::Prepared(Box::new(self.planned(input, counted, None))));
        if let Some(time) = Estimate::before(self, report) {
            report.emit(Event::Estimated(time));
        }
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
            groups: self.groups(),
            macs_per_frame: self.work().iter().sum(),
            seconds: time.and_then(|time| time.seconds),
            seconds_per_frame: time.map(|time| time.seconds_per_frame),
            basis: time.map(|time| time.basis),
            title: self.networks.title.clone(),
            numerics: self.site.backend.numerics(),
            shown: self.recipe.shown,
            counted,
            apart: self.apart,
            time,
        }
    }
}

/// What a restoration took.
#[derive(Clone, Debug, Serialize)]
pub struct FilmOutcome {
    /// What was read.
    pub input: String,
    /// What was written.
    pub output: String,
    /// File or name of the transformer.
    pub model: String,
    /// File or name of the VAE.
    pub vae: String,
    /// Of the noise.
    pub seed: u64,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Frames that were written.
    pub frames: usize,
    /// Of the output.
    pub height: usize,
    /// Of the output.
    pub width: usize,
    /// Sizes of frames on their way.
    pub geometry: Geometry,
    /// The input.
    pub source: SourceInfo,
    /// First frame of every shot.
    pub shots: Vec<usize>,
    /// How often the networks took turns.
    pub groups: usize,
    /// Latents that waited at most.
    pub latent_bytes: u64,
    /// Time that networks took to load.
    pub load_seconds: f64,
    /// Units that could not be restored and have frames of the input.
    pub left: Vec<u32>,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of encoder, transformer and decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
}

impl Film {
    /// Ends a run: keeps how fast it was, and says what came out.
    pub(crate) fn finished(
        self,
        request: &Request,
        output: &Path,
        done: Done,
        children_peak: u64,
        report: &Reporter<'_>,
    ) -> FilmOutcome {
        warn_of_children(report, children_peak, &self.total);
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
            notes: self.notes,
            plans: self.plans,
            total: self.total,
        }
    }
}

/// Tells of children that took more than was reserved for them.
pub(crate) fn warn_of_children(report: &Reporter<'_>, took: u64, total: &Total) {
    let reserved = total.children();
    if took > reserved {
        report.warn(format_args!(
            "ffmpeg took {}, but only {} of --ram were reserved for it",
            remaster_plan::bytes(took),
            remaster_plan::bytes(reserved)
        ));
    }
}
