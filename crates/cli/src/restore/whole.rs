//! A film that is restored in one go: what is piped, pictures, and what has no room for units.

use std::path::Path;
use std::sync::Arc;

use remaster_media::Format;
use remaster_pipeline::{About, Footage, LatentWriter, Origin, Restored};
use remaster_restore::Film as Whole;
use remaster_units::{First, Input, Watch};

use super::film::Film;
use super::report;
use super::stage::Staged;
use crate::destination::{self, Size};
use crate::error::CliError;
use crate::media::{Checked, is_pipe};
use crate::output::Output;
use crate::progress::Progress;
use crate::report::warn_late;
use crate::units::unchanged;

/// Restores a film.
pub(super) fn run(mut stage: Staged<'_>, out: &Output) -> Result<(), CliError> {
    let (args, output) = (stage.args, stage.output);
    let mut progress = Progress::new(args.progress.mode, out);
    progress.about(stage.film.label(&args.input, output));
    if let (Some(frames), false) = (stage.film.format.frames, stage.film.estimated) {
        stage.check_list(frames)?;
    }
    stage.rehearse(args.yes, out)?;
    let (mut sink, notes) = stage.create()?;
    stage.film.notes.extend(notes);
    if !is_pipe(&args.input) {
        let cancel = stage.cancel.clone();
        let stop = Arc::new(move || cancel.is_cancelled());
        let watch = Watch::new(&args.input, &Input::of(&args.input)?, First::Samples, stop);
        let watch = watch.and(stage.used.clone());
        sink = Box::new(Checked { sink, check: Box::new(move || unchanged(&watch)) });
    }
    report::announce(&stage.film, &args.input, stage.counted, out, &mut progress);
    let source = stage.source()?;
    let input = match stage.second.take() {
        Some(second) => second,
        None => stage.reopened()?,
    };
    let Staged { mut film, mut tools, late, shown, .. } = stage;
    // It fitted when it was opened first; what is free now says nothing.
    let again = || Ok(args.how.source.open(&args.input, u64::MAX, &mut tools)?.source);
    let footage = match is_pipe(&args.input) {
        true => Footage::from(source),
        false => Footage { source, again: Some(Box::new(again)) },
    };
    let keep = match &args.keep_latents {
        Some(path) => Some(film.keep((path, args.yes), &args.input, &shown)?),
        None => None,
    };
    let done = film.restore(Whole { footage, input, sink, keep }, &mut progress)?;
    warn_late(&late, &mut progress, &mut film.notes);
    if let Some(listed) = film.recipe.cuts.listed().filter(|n| *n != done.frames as u64) {
        let note = format!("the list of shots is of {listed} frames, but the input has {}", done.frames);
        progress.warn(&note);
        film.notes.push(note);
    }
    report::finish(film, args, output, done, &tools, progress, out)
}

impl Film<'_> {
    /// A file for restored latents.
    fn keep(
        &self,
        (path, overwrite): (&Path, bool),
        input: &Path,
        shown: &Format,
    ) -> Result<LatentWriter, CliError> {
        let vae = &self.networks.vae;
        if let Some(bytes) = self.kept_bytes() {
            destination::check_room(path, bytes, Size::Exact)?;
        }
        let failed = |source| CliError::Read { path: input.to_owned(), source };
        let origin = if is_pipe(input) { None } else { Origin::of(input, 0, 0).map_err(failed)? };
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
