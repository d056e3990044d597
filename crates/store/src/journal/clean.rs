//! Removing attempts that do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Object, UNITS, parse};
use super::record::AttemptId;
use super::{Journal, JournalError};
use crate::{Key, StoreError, local};

/// Objects that are removed at a time.
const BATCH: usize = 1000;

/// Which attempts are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Those that lost: another attempt at their unit counts. Safe at any time; a worker that is still at it can only
    /// lose.
    Losers,
    /// All that do not count, and what killed writers left in a folder. Nobody may be working on the plan.
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
    let counting: BTreeMap<u32, AttemptId> =
        journal.commits()?.into_iter().map(|commit| (commit.unit, commit.attempt)).collect();
    let useless = |key: &Key| match parse(key)? {
        Object::Done(_) => None,
        Object::Attempt(unit, attempt) => match counting.get(&unit) {
            Some(winner) => (*winner != attempt).then_some(attempt),
            None => (sweep == Sweep::Everything).then_some(attempt),
        },
    };
    let mut cleaned = Cleaned::default();
    let mut attempts = BTreeSet::new();
    let mut batch = Vec::new();
    for listed in store.list(UNITS)? {
        let key = listed?.key;
        let Some(attempt) = useless(&key) else { continue };
        attempts.insert(attempt);
        batch.push(key);
        cleaned.objects += 1;
        if batch.len() == BATCH {
            store.delete_many(std::mem::take(&mut batch))?;
        }
    }
    store.delete_many(batch)?;
    cleaned.attempts = attempts.len() as u64;
    if let (Sweep::Everything, Some(folder)) = (sweep, store.folder()) {
        let failed = |source| StoreError::Folder { path: folder.to_owned(), source };
        cleaned.unfinished = local::sweep(folder).map_err(failed)?;
    }
    Ok(cleaned)
}
