//! A film without room for units: restored in one go, and written as the units would have been, to the same bytes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use remaster_media::place::{self, Scratch};
use remaster_media::{Film, FrameSink, MediaError, join};
use remaster_picture::Frame;
use remaster_restore::{Film as Whole, Footage};
use remaster_units::{First, NewPiece, Settings};

use super::{assemble, make};
use crate::control::lock;
use crate::error::Error;
use crate::event::Reporter;
use crate::outcome::FilmOutcome;
use crate::restore::Staged;

/// Restores a film with the settings that its units would have had.
pub(crate) fn run(
    mut stage: Staged,
    settings: Settings,
    report: &Reporter<'_>,
) -> Result<FilmOutcome, Error> {
    let (kind, threads) = (settings.segments, settings.numerics.threads);
    make::declare(&stage, report);
    stage.announce(report);
    let plan = make::plan(&mut stage, settings, report)?;
    let (windows, pool) = (stage.film.recipe.sampling.windows, stage.film.recipe.finish.pool);
    let pieces = plan.units.iter().flat_map(|unit| unit.unit.pieces(plan.piece_frames, &windows, pool));
    let pieces: Vec<Range<usize>> = pieces.collect();
    // What is encoded has the size of the film, so it waits where the film will be.
    let beside = place::parent(&stage.output).to_owned();
    let folder = Scratch::new(Some(&beside)).map_err(Error::writing(&beside))?;
    let (input, whole) = (&plan.settings.input, First::Whole);
    let watch = assemble::watch(&stage.request.input, input, whole, &stage.control).and(stage.used.clone());
    watch.check()?;
    let made = Made::default();
    let sink = Segmented {
        left: pieces.into_iter(),
        open: None,
        next: 0,
        new: stage.new_piece(kind, threads)?,
        folder: folder.path().to_owned(),
        made: made.clone(),
    };
    stage.close();
    let (source, input) = (stage.source()?, stage.second()?);
    let found = stage.tools.get()?.clone();
    let Staged { request, output, mut film, mut tools, late, shown, probe, control, .. } = stage;
    // It fitted when it was opened first; what is free now says nothing.
    let again = || Ok(request.how.source.open(&request.input, u64::MAX, &mut tools)?.source);
    let footage = Footage { source, again: Some(Box::new(again)) };
    let whole = Whole { footage, input, sink: Box::new(sink), keep: None };
    let done = film.restore(whole, report).map_err(|error| match watch.check() {
        // What went wrong is of no interest then.
        Err(changed) if !control.is_cancelled() => changed.into(),
        _ => error,
    })?;
    report.late(&late, &mut film.notes);
    let options = request.target.write_options(request.overwrite, threads);
    let joined = Film { path: &output, format: &shown, from: probe.as_ref(), options: &options, kind };
    let segments = std::mem::take(&mut *lock(&made));
    let inputs = tools.inputs();
    // An input that shrank or was replaced meanwhile is said before the film is in its place.
    let checks =
        std::iter::once_with(|| inputs.check()).chain(std::iter::once_with(|| assemble::unchanged(&watch)));
    let mut checked = segments.into_iter().map(Ok).chain(checks.filter_map(Result::err).map(Err));
    film.notes.extend(join(&found, &joined, plan.frames, &mut checked)?);
    Ok(film.finished(&request, &output, done, tools.children_peak(), report))
}

/// Segments that are whole.
type Made = Arc<Mutex<Vec<PathBuf>>>;

/// Writes frames into one segment after the other.
struct Segmented {
    left: std::vec::IntoIter<Range<usize>>,
    open: Option<(usize, PathBuf, Box<dyn FrameSink>)>,
    /// Number of the next frame.
    next: usize,
    new: NewPiece,
    folder: PathBuf,
    made: Made,
}

impl FrameSink for Segmented {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        if self.open.is_none() {
            let Some(frames) = self.left.next() else {
                return Err(broken("it has more frames than planned"));
            };
            let path = self.folder.join(format!("piece-{:09}.nut", frames.start));
            let sink = (self.new)(Path::new(&path))?;
            self.open = Some((frames.end, path, sink));
        }
        if let Some((_, _, sink)) = &mut self.open {
            sink.write(frame, pts)?;
        }
        self.next += 1;
        if let Some((_, path, sink)) = self.open.take_if(|(end, ..)| *end <= self.next) {
            sink.finish()?;
            lock(&self.made).push(path);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        match (&self.open, self.left.len()) {
            (None, 0) => Ok(()),
            _ => Err(broken("it has fewer frames than planned")),
        }
    }
}

fn broken(reason: &str) -> MediaError {
    MediaError::Broken { what: "the film", reason: reason.into() }
}
