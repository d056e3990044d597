//! Removing attempts that do not count, and what is kept of units that are done.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Object, UNITS, is_ours, parse};
use super::record::{AttemptId, Commit};
use super::{Journal, JournalError};
use crate::{Key, StoreError, local};

/// Objects that are removed at a time.
const BATCH: usize = 1000;

/// Which attempts are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Those that lost: another attempt at their unit counts; and what killed writers left in a folder. Safe at any time; a
    /// worker that is still at it can only lose.
    Losers,
    /// All that do not count and have no finished piece, and what killed writers left in a folder. Nobody may be working
    /// on the plan.
    Everything,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Attempts.
    pub attempts: u64,
    /// Their objects.
    pub objects: u64,
    /// Unfinished files of killed writers, in a folder. In a bucket such parts cannot be seen; a lifecycle rule for
    /// incomplete uploads removes them.
    pub unfinished: u64,
}

pub(super) fn clean(journal: &Journal, sweep: Sweep) -> Result<Cleaned, JournalError> {
    let store = &journal.store;
    // Commits first: what counts never changes, so that whatever is listed later is judged rightly.
    let counting: BTreeMap<u32, BTreeSet<AttemptId>> =
        journal.commits()?.whole.into_iter().map(|commit| (commit.unit, attempts_of(&commit))).collect();
    // Attempts at units that are not done and have finished pieces.
    let mut going_on: BTreeMap<u32, BTreeSet<AttemptId>> = BTreeMap::new();
    let units = journal.plan.units();
    let mut useless = |key: &Key| match parse(key) {
        // Of an earlier plan in the same place.
        Some(Object::Done(unit) | Object::Attempt(unit, _) | Object::Kept(unit, _)) if unit >= units => {
            Ok::<_, JournalError>((sweep == Sweep::Everything).then_some(None))
        }
        None | Some(Object::Done(_) | Object::Untrusted(_)) => Ok(None),
        Some(Object::Kept(unit, _)) => Ok(counting.contains_key(&unit).then_some(None)),
        Some(Object::Attempt(unit, attempt)) => match counting.get(&unit) {
            Some(winners) => Ok((!winners.contains(&attempt)).then_some(Some(attempt))),
            None if sweep == Sweep::Losers => Ok(None),
            None => {
                let known = match going_on.entry(unit) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => {
                        let pieces = journal.pieces(unit)?.whole.into_values();
                        place.insert(pieces.map(|piece| piece.file.attempt).collect())
                    }
                };
                Ok((!known.contains(&attempt)).then_some(Some(attempt)))
            }
        },
    };
    let mut cleaned = Cleaned::default();
    let mut attempts = BTreeSet::new();
    let mut batch = Vec::new();
    for listed in store.list(UNITS)? {
        let key = listed?.key;
        let Some(attempt) = useless(&key)? else { continue };
        attempts.extend(attempt);
        batch.push(key);
        cleaned.objects += 1;
        if batch.len() == BATCH {
            store.delete_many(std::mem::take(&mut batch))?;
        }
    }
    store.delete_many(batch)?;
    cleaned.attempts = attempts.len() as u64;
    if let Some(folder) = store.folder() {
        let failed = |source| StoreError::Folder { path: folder.to_owned(), source };
        cleaned.unfinished = local::sweep(folder, sweep == Sweep::Everything, &is_ours).map_err(failed)?;
    }
    Ok(cleaned)
}

/// Attempts whose files a commit names.
fn attempts_of(commit: &Commit) -> BTreeSet<AttemptId> {
    commit.files.iter().map(|file| file.attempt.clone()).chain([commit.attempt.clone()]).collect()
}
