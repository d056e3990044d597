//! Joining what is done into the film.

use std::path::{Path, PathBuf};

use remaster_media::MediaError;
use remaster_plan::Windows;
use remaster_restore::Pool;
use remaster_store::{Commit, File, Journal, JournalError, StoreError};

use crate::error::UnitsError;
use crate::plan::FilmPlan;

/// Copies of finished pieces in order, one at a time: the one before is removed when the next is asked for.
pub struct Segments<'a> {
    journal: &'a Journal,
    left: std::vec::IntoIter<(&'a Commit, &'a File)>,
    folder: &'a Path,
    last: Option<PathBuf>,
    number: usize,
    /// What went wrong, in full.
    error: Option<UnitsError>,
}

impl Segments<'_> {
    fn forget(&mut self) {
        if let Some(path) = self.last.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<PathBuf, MediaError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.forget();
        let (commit, file) = self.left.next()?;
        let path = self.folder.join(format!("segment-{:08}.nut", self.number));
        self.number += 1;
        match self.journal.fetch(commit, file, &path) {
            Ok(()) => {
                self.last = Some(path.clone());
                Some(Ok(path))
            }
            Err(error) => {
                let source = std::io::Error::other(error.to_string());
                let media = match &error {
                    JournalError::Store(StoreError::Full { .. }) => {
                        MediaError::NoSpace { folder: self.folder.to_owned() }
                    }
                    _ => MediaError::Io { doing: format!("read unit {}", commit.unit), source },
                };
                self.error = Some(error.into());
                Some(Err(media))
            }
        }
    }
}

impl Drop for Segments<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Joins the units of a plan. `join` gets their pieces in order and makes the film; what it used is pinned before.
/// Returns the commits that became the film.
pub fn assemble(
    journal: &Journal,
    plan: &FilmPlan,
    (windows, pool): (&Windows, Pool),
    folder: &Path,
    join: &mut dyn FnMut(&mut Segments<'_>) -> Result<(), UnitsError>,
) -> Result<Vec<Commit>, UnitsError> {
    let commits = journal.commits()?;
    let units = journal.plan().units();
    let missing = (units as usize).saturating_sub(commits.len());
    if missing > 0 {
        let gap = (0u32..).zip(&commits).find(|(i, commit)| *i != commit.unit);
        let first = gap.map_or(commits.len() as u32, |(i, _)| i);
        return Err(UnitsError::Missing { missing, units, first });
    }
    for (commit, planned) in commits.iter().zip(&plan.units) {
        let pieces = planned.unit.pieces(plan.piece_frames, windows, pool).len() as u64;
        let frames = planned.unit.frames().len() as u64;
        let pairs = [("frames", commit.frames, frames), ("pieces", commit.files.len() as u64, pieces)];
        if let Some((what, found, wanted)) = pairs.into_iter().find(|(_, found, wanted)| found != wanted) {
            return Err(UnitsError::Commit { unit: commit.unit, what, found, wanted });
        }
    }
    journal.assemble(commits.iter().map(|commit| Some(commit.attempt.clone())).collect())?;
    let pieces: Vec<(&Commit, &File)> =
        commits.iter().flat_map(|commit| commit.files.iter().map(move |file| (commit, file))).collect();
    let mut segments =
        Segments { journal, left: pieces.into_iter(), folder, last: None, number: 0, error: None };
    let joined = join(&mut segments);
    let error = segments.error.take();
    drop(segments);
    // The store knows better than the muxer what went wrong with it.
    match (joined, error) {
        (Err(_), Some(error)) => Err(error),
        (joined, _) => joined.map(|()| commits),
    }
}
