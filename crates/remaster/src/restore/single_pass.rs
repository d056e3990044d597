//! A film that is restored in one go: what is piped, pictures, and what has no room for units.

use std::path::Path;

use remaster_media::Format;
use remaster_restore::{About, Film as Whole, Footage, LatentWriter, Origin, Restored};
use remaster_units::{First, Input};

use super::film::Film;
use super::networks::Diffusion;
use super::stage::Staged;
use crate::destination::{self, Size};
use crate::error::Error;
use crate::event::Reporter;
use crate::media::{Checked, is_pipe};
use crate::outcome::FilmOutcome;
use crate::request::UPSCALER;
use crate::units::{unchanged, watch};

/// Restores a film.
pub(super) fn run(mut stage: Staged, report: &Reporter<'_>) -> Result<FilmOutcome, Error> {
    let (mut sink, notes) = stage.create()?;
    stage.film.notes.extend(notes);
    let input = stage.request.input.clone();
    if !is_pipe(&input) {
        let watch = watch(&input, &Input::of(&input)?, First::Samples, &stage.control);
        let watch = watch.and(stage.used.clone());
        sink = Box::new(Checked { sink, check: Box::new(move || unchanged(&watch)) });
    }
    stage.announce(report);
    let source = stage.source()?;
    let second = stage.second()?;
    let Staged { request, output, mut film, mut tools, late, shown, .. } = stage;
    // It fitted when it was opened first; what is free now says nothing.
    let again = || Ok(request.how.source.open(&input, u64::MAX, &mut tools)?.source);
    let footage = match is_pipe(&input) {
        true => Footage::from(source),
        false => Footage { source, again: Some(Box::new(again)) },
    };
    let keep = match &request.keep_latents {
        Some(path) => Some(film.keep((path, request.overwrite), &input, &shown)?),
        None => None,
    };
    let done = film.restore(Whole { footage, input: second, sink, keep }, report)?;
    report.late(&late, &mut film.notes);
    if let Some(listed) = film.recipe.cuts.listed().filter(|n| *n != done.frames as u64) {
        let note = format!("the list of shots is of {listed} frames, but the input has {}", done.frames);
        report.warn(&note);
        film.notes.push(note);
    }
    Ok(film.finished(&request, &output, done, tools.children_peak(), report))
}

impl Film {
    /// A file for restored latents.
    fn keep(
        &self,
        (path, overwrite): (&Path, bool),
        input: &Path,
        shown: &Format,
    ) -> Result<LatentWriter, Error> {
        let Some(Diffusion { vae, .. }) = self.networks.diffusion() else {
            return Err(Error::NoEffect { flag: "--keep-latents", what: UPSCALER });
        };
        if let Some(bytes) = self.kept_bytes() {
            destination::check_room(path, bytes, Size::Exact, &self.site.machine)?;
        }
        let origin =
            if is_pipe(input) { None } else { Origin::of(input, 0, 0).map_err(Error::reading(input))? };
        let mut about = About::new(shown, self.recipe.geometry, vae.identity()?, origin);
        about.restored = Some(Restored {
            model: self.networks.names[0].clone(),
            seed: self.how.look.seed,
            window: self.recipe.sampling.windows.frames(),
            shown: self.recipe.shown,
            read: self.how.source.reading(),
        });
        Ok(LatentWriter::create(path, overwrite, &about, vae.latent())?)
    }
}
