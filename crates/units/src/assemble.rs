//! Joining what is done into the film.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use remaster_media::MediaError;
use remaster_plan::Windows;
use remaster_restore::Pool;
use remaster_store::{Commit, Commits, Damage, File, Journal, JournalError};

use crate::error::{UnitsError, of_frames};
use crate::plan::FilmPlan;

/// Copies of finished pieces in order, one at a time: the one before is removed when the next is asked for.
pub struct Segments<'a> {
    journal: &'a Journal,
    left: std::vec::IntoIter<(&'a Commit, &'a File)>,
    folder: &'a Path,
    last: Option<PathBuf>,
    number: usize,
    /// What went wrong with which piece, in full.
    error: Option<(&'a Commit, &'a File, JournalError)>,
}

impl Segments<'_> {
    fn forget(&mut self) {
        if let Some(path) = self.last.take() {
            let _ = remaster_disk::remove(&path);
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
                let media = of_frames(&error, &format!("read unit {}", commit.unit), self.folder);
                self.error = Some((commit, file, error));
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

/// Joins the units of a plan. `join` gets their pieces in order and makes the film. Returns the commits that became it.
/// Units that turn out to be damaged count as not done from then on.
pub fn assemble(
    journal: &Journal,
    plan: &FilmPlan,
    (windows, pool): (&Windows, Pool),
    folder: &Path,
    join: &mut dyn FnMut(&mut Segments<'_>) -> Result<(), UnitsError>,
) -> Result<Vec<Commit>, UnitsError> {
    let Commits { whole: commits, mut damaged } = journal.commits()?;
    for commit in &commits {
        let unit = &plan.unit(commit.unit)?.unit;
        let pieces = unit.pieces(plan.piece_frames, windows, pool).len() as u64;
        let pairs = [
            ("frames", commit.frames, unit.frames().len() as u64),
            ("pieces", commit.files.len() as u64, pieces),
        ];
        if let Some((what, found, wanted)) = pairs.into_iter().find(|(_, found, wanted)| found != wanted) {
            let reason = format!("it has {found} {what} instead of {wanted}");
            damaged.push(Damage { unit: commit.unit, key: format!("unit {}", commit.unit), reason });
        }
    }
    undo(journal, damaged)?;
    let units = journal.plan().units();
    let missing = (units as usize).saturating_sub(commits.len());
    if missing > 0 {
        let gap = (0u32..).zip(&commits).find(|(i, commit)| *i != commit.unit);
        let first = gap.map_or(commits.len() as u32, |(i, _)| i);
        return Err(UnitsError::Missing { missing, units, first });
    }
    let pieces: Vec<(&Commit, &File)> =
        commits.iter().flat_map(|commit| commit.files.iter().map(move |file| (commit, file))).collect();
    let mut segments =
        Segments { journal, left: pieces.into_iter(), folder, last: None, number: 0, error: None };
    let joined = join(&mut segments);
    let (error, left) = (segments.error.take(), segments.left.as_slice().to_vec());
    drop(segments);
    match (joined, error) {
        // The store knows better than the muxer what went wrong with it.
        (Err(_), Some((commit, file, error))) => {
            let mut damaged = vec![Damage::of(commit.unit, &name(commit, file), error)?];
            // Those behind it are looked at, too: so one more round is enough.
            for (commit, file) in left {
                let copy = folder.join("checked.nut");
                let fetched = journal.fetch(commit, file, &copy);
                let _ = remaster_disk::remove(&copy);
                match fetched {
                    Err(error) if error.is_damage() => {
                        damaged.push(Damage::of(commit.unit, &name(commit, file), error)?);
                    }
                    fetched => fetched?,
                }
            }
            undo(journal, damaged)?;
            Err(UnitsError::Missing { missing: 1, units, first: commit.unit })
        }
        (joined, _) => joined.map(|()| commits),
    }
}

/// Where a piece is, for messages.
fn name(commit: &Commit, file: &File) -> String {
    format!("{} of unit {}", file.name, commit.unit)
}

/// Makes damaged units count as not done, and says so.
fn undo(journal: &Journal, damaged: Vec<Damage>) -> Result<(), UnitsError> {
    if damaged.is_empty() {
        return Ok(());
    }
    let units: BTreeSet<u32> = damaged.iter().map(|damage| damage.unit).collect();
    units.iter().try_for_each(|unit| journal.undo(*unit))?;
    Err(UnitsError::Undone { units: units.into_iter().collect(), damaged })
}
