//! The units of a plan: which are done, and how one becomes so.

mod attempt;
mod clean;
mod envelope;
mod error;
mod kept;
mod layout;
mod record;
mod settle;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

pub use attempt::Attempt;
pub use clean::{Cleaned, Sweep};
pub use envelope::RecordError;
pub use error::JournalError;
pub use kept::Piece;
pub use record::{Assembly, AttemptId, Commit, File, Notes, Plan};

use crate::{Key, Store, StoreError};
use record::{MOST_COMMIT, MOST_PLAN};
use settle::{Outcome, settle};

/// Commits that are read at a time: a page of them is in memory as bytes.
const PAGE: usize = 1024;

/// A plan in a store, and what is done of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    plan: Arc<Plan>,
}

/// How a race for a record ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// This is the record now, and it is ours.
    Won(T),
    /// Somebody else's record counts: this one.
    Lost(T),
}

impl<T> Verdict<T> {
    /// The record that counts, whoever made it.
    pub fn record(&self) -> &T {
        match self {
            Verdict::Won(record) | Verdict::Lost(record) => record,
        }
    }
}

impl Journal {
    /// Puts a plan into a store, or goes on with it if it is there. `text` is JSON and is given back to the byte. A
    /// store has room for one plan; another one is refused.
    pub fn make(store: Store, units: u32, text: &str) -> Result<Self, JournalError> {
        let written = |source| JournalError::Write { key: layout::PLAN.into(), source };
        let plan = Plan::new(units, text).map_err(written)?;
        let key = layout::plan()?;
        let bytes = plan.to_bytes().map_err(written)?;
        match settle(&store, &key, &bytes, MOST_PLAN)? {
            Outcome::Ours => Ok(Journal { store, plan: Arc::new(plan) }),
            Outcome::Theirs(bytes) => {
                let there = read(&store, &key, Plan::from_bytes(&bytes))?;
                match there.hash() == plan.hash() {
                    true => Ok(Journal { store, plan: Arc::new(there) }),
                    false => Err(other_plan(&store, &there, &plan)),
                }
            }
        }
    }

    /// Opens the plan of a store and checks its hash.
    pub fn open(store: Store) -> Result<Self, JournalError> {
        let key = layout::plan()?;
        let bytes = store.get(&key, MOST_PLAN)?;
        let plan = read(&store, &key, Plan::from_bytes(&bytes))?;
        Ok(Journal { store, plan: Arc::new(plan) })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where it is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Begins an attempt at a unit. Nothing is written yet, and any number of them may run at the same time.
    pub fn attempt(&self, unit: u32) -> Result<Attempt, JournalError> {
        self.known(unit)?;
        Ok(Attempt::new(self.clone(), unit))
    }

    /// Makes an attempt count, whose files are in the store already. Of any number of racers one wins.
    pub fn commit(&self, commit: &Commit) -> Result<Verdict<Commit>, JournalError> {
        self.known(commit.unit)?;
        if commit.plan != self.plan.hash() {
            return Err(JournalError::OtherPlan {
                place: self.store.place(),
                found: self.plan.hash(),
                expected: commit.plan,
            });
        }
        let key = layout::done(commit.unit)?;
        let bytes =
            commit.to_bytes().map_err(|source| JournalError::Write { key: key.to_string(), source })?;
        self.whole(commit)?;
        match settle(&self.store, &key, &bytes, MOST_COMMIT)? {
            Outcome::Ours => Ok(Verdict::Won(commit.clone())),
            Outcome::Theirs(bytes) => {
                let there = self.checked(&key, commit.unit, &bytes)?;
                // Ours, committed again with other notes.
                let same = there.attempt == commit.attempt;
                Ok(if same { Verdict::Won(there) } else { Verdict::Lost(there) })
            }
        }
    }

    /// The files of a commit are there, in full size. Their hashes were computed as they were written, and are checked
    /// when they are read.
    fn whole(&self, commit: &Commit) -> Result<(), JournalError> {
        for file in &commit.files {
            let key = layout::file(commit.unit, &file.attempt, &file.name)?;
            match self.store.size(&key) {
                Ok(bytes) if bytes == file.bytes => {}
                Ok(_) | Err(StoreError::Missing { .. }) => {
                    return Err(JournalError::NotWhole { place: self.store.place(), key: key.to_string() });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The units that are done. One listing finds out; no record is read.
    pub fn done(&self) -> Result<BTreeSet<u32>, JournalError> {
        let limits = self.store.core().limits;
        let mut tries = 1;
        loop {
            match self.list_done() {
                // A listing has no place to go on from that all stores agree about: it begins again.
                Err(JournalError::Store(error)) if error.may_pass() && tries < limits.tries => {
                    std::thread::sleep(limits.pause(tries));
                    tries += 1;
                }
                listed => return listed,
            }
        }
    }

    fn list_done(&self) -> Result<BTreeSet<u32>, JournalError> {
        let mut units = BTreeSet::new();
        for listed in self.store.list(layout::UNITS)? {
            let key = listed?.key;
            if let Some(layout::Object::Done(unit)) = layout::parse(&key) {
                self.known(unit).map_err(|_| self.foreign(&key, "plan"))?;
                units.insert(unit);
            }
        }
        Ok(units)
    }

    /// The commits of all units that are done, in order. They are read many at a time.
    pub fn commits(&self) -> Result<Vec<Commit>, JournalError> {
        let keys = self.done()?.into_iter().map(layout::done).collect::<Result<Vec<Key>, _>>()?;
        let mut commits = Vec::with_capacity(keys.len());
        for page in keys.chunks(PAGE) {
            for (key, bytes) in self.store.get_many(page.to_vec(), MOST_COMMIT)? {
                let Some(layout::Object::Done(unit)) = layout::parse(&key) else { continue };
                commits.push(self.checked(&key, unit, &bytes)?);
            }
        }
        commits.sort_by_key(|commit| commit.unit);
        Ok(commits)
    }

    /// The commit of a unit, if it is done.
    pub fn commit_of(&self, unit: u32) -> Result<Option<Commit>, JournalError> {
        self.known(unit)?;
        let key = layout::done(unit)?;
        match self.store.get(&key, MOST_COMMIT) {
            Ok(bytes) => self.checked(&key, unit, &bytes).map(Some),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies a file of a committed attempt to a local path and checks its size and hash.
    pub fn fetch(&self, commit: &Commit, file: &File, to: &Path) -> Result<(), JournalError> {
        let key = layout::file(commit.unit, &file.attempt, &file.name)?;
        Ok(self.store.fetch(&key, to, &file.content())?)
    }

    /// Pins which attempts become the film. Whoever comes second gets what the first one pinned.
    pub fn assemble(&self, attempts: Vec<Option<AttemptId>>) -> Result<Verdict<Assembly>, JournalError> {
        if attempts.len() as u64 != u64::from(self.plan.units()) {
            return Err(JournalError::Assembly { found: attempts.len(), units: self.plan.units() });
        }
        let key = layout::assembly()?;
        let assembly = Assembly { plan: self.plan.hash(), attempts };
        let bytes =
            assembly.to_bytes().map_err(|source| JournalError::Write { key: key.to_string(), source })?;
        match settle(&self.store, &key, &bytes, MOST_PLAN)? {
            Outcome::Ours => Ok(Verdict::Won(assembly)),
            Outcome::Theirs(bytes) => Ok(Verdict::Lost(self.checked_assembly(&key, &bytes)?)),
        }
    }

    /// Which attempts became the film, if that is decided.
    pub fn assembly(&self) -> Result<Option<Assembly>, JournalError> {
        let key = layout::assembly()?;
        match self.store.get(&key, MOST_PLAN) {
            Ok(bytes) => self.checked_assembly(&key, &bytes).map(Some),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes attempts that do not count.
    pub fn clean(&self, sweep: Sweep) -> Result<Cleaned, JournalError> {
        clean::clean(self, sweep)
    }

    fn known(&self, unit: u32) -> Result<(), JournalError> {
        let units = self.plan.units();
        if unit < units { Ok(()) } else { Err(JournalError::Unit { unit, units }) }
    }

    fn checked(&self, key: &Key, unit: u32, bytes: &[u8]) -> Result<Commit, JournalError> {
        let commit = read(&self.store, key, Commit::from_bytes(bytes))?;
        if commit.plan != self.plan.hash() {
            return Err(self.foreign(key, "plan"));
        }
        if commit.unit != unit {
            return Err(self.foreign(key, "unit"));
        }
        Ok(commit)
    }

    fn checked_assembly(&self, key: &Key, bytes: &[u8]) -> Result<Assembly, JournalError> {
        let assembly = read(&self.store, key, Assembly::from_bytes(bytes))?;
        let units = self.plan.units();
        if assembly.plan != self.plan.hash() || assembly.attempts.len() as u64 != u64::from(units) {
            return Err(self.foreign(key, "plan"));
        }
        Ok(assembly)
    }

    fn foreign(&self, key: &Key, what: &'static str) -> JournalError {
        JournalError::Foreign { place: self.store.place(), key: key.to_string(), what }
    }
}

/// A record that was read, or an error that says where it is.
fn read<T>(store: &Store, key: &Key, record: Result<T, RecordError>) -> Result<T, JournalError> {
    record.map_err(|source| JournalError::Record { place: store.place(), key: key.to_string(), source })
}

fn other_plan(store: &Store, there: &Plan, wanted: &Plan) -> JournalError {
    JournalError::OtherPlan { place: store.place(), found: there.hash(), expected: wanted.hash() }
}
