//! The units of a plan: which are done, and how one becomes so.

mod attempt;
mod clean;
mod damage;
mod envelope;
mod error;
mod kept;
mod layout;
mod mend;
mod producer;
mod record;
mod settle;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

pub use attempt::Attempt;
pub use clean::{Cleaned, Sweep};
pub use damage::Damage;
pub use envelope::RecordError;
pub use error::JournalError;
pub use kept::{Keeping, Piece, Pieces};
pub use layout::is_of_a_journal;
pub use producer::Producer;
pub use record::{AttemptId, Commit, File, MOST_PLAN, Notes, Plan};

use crate::{Hash, Key, Store, StoreError};
use producer::Producers;
use record::MOST_COMMIT;
use settle::{Outcome, settle};

/// Commits that are read at a time: a page of them is in memory as bytes.
const PAGE: usize = 1024;

/// A plan in a store, and what is done of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    plan: Arc<Plan>,
    /// Whose work is in what is written.
    producers: Producers,
}

/// The units that are done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// Records that can be used, in order.
    pub whole: Vec<Commit>,
    /// Units whose record is damaged. [`Journal::undo`] lets them be done again.
    pub damaged: Vec<Damage>,
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
        if let Outcome::Theirs(bytes) = settle(&store, &key, &bytes, MOST_PLAN)? {
            let there = read(&store, &key, Plan::from_bytes(&bytes))?;
            if there.hash() != plan.hash() {
                return Err(other_plan(&store, there.hash(), plan.hash()));
            }
        }
        Ok(Journal { store, plan: Arc::new(plan), producers: Producers::default() })
    }

    /// Opens the plan of a store and checks its hash.
    pub fn open(store: Store) -> Result<Self, JournalError> {
        let key = layout::plan()?;
        let bytes = store.get(&key, MOST_PLAN)?;
        let plan = read(&store, &key, Plan::from_bytes(&bytes))?;
        Ok(Journal { store, plan: Arc::new(plan), producers: Producers::default() })
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
            return Err(other_plan(&self.store, self.plan.hash(), commit.plan));
        }
        let key = layout::done(commit.unit)?;
        let bytes =
            commit.to_bytes().map_err(|source| JournalError::Write { key: key.to_string(), source })?;
        commit.files.iter().try_for_each(|file| self.whole(commit.unit, file))?;
        let mut tries = self.store.core().limits.tries.max(1);
        loop {
            tries -= 1;
            let there = match settle(&self.store, &key, &bytes, MOST_COMMIT)? {
                Outcome::Ours => return Ok(Verdict::Won(commit.clone())),
                Outcome::Theirs(bytes) => self.checked(&key, commit.unit, &bytes)?,
            };
            // Ours, committed again with other notes.
            if there.attempt == commit.attempt {
                return Ok(Verdict::Won(there));
            }
            match self.trusted(&key, &there.producers) {
                Ok(()) => return Ok(Verdict::Lost(there)),
                // It gives way to work that counts.
                Err(JournalError::Untrusted { .. }) if tries > 0 => self.store.delete(&key)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// A file of an attempt is there, in full size. Its hash was computed as it was written, and is checked when it is
    /// read.
    fn whole(&self, unit: u32, file: &File) -> Result<(), JournalError> {
        let key = layout::file(unit, &file.attempt, &file.name)?;
        match self.store.size(&key) {
            Ok(bytes) if bytes == file.bytes => Ok(()),
            Ok(_) | Err(StoreError::Missing { .. }) => {
                Err(JournalError::NotWhole { place: self.store.place(), key: key.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The units that are done. One listing finds out; records are read only if work of a producer does not count.
    pub fn done(&self) -> Result<BTreeSet<u32>, JournalError> {
        let (done, untrusted) = self.recorded()?;
        if untrusted.is_empty() {
            return Ok(done);
        }
        let Commits { whole, .. } = self.read_commits(&done, &BTreeSet::new())?;
        let is_undone =
            |commit: &Commit| commit.producers.iter().any(|producer| untrusted.contains(producer));
        let undone: BTreeSet<u32> =
            whole.iter().filter(|it| is_undone(it)).map(|commit| commit.unit).collect();
        Ok(done.difference(&undone).copied().collect())
    }

    /// Units that have a commit, and producers whose work does not count.
    fn recorded(&self) -> Result<(BTreeSet<u32>, BTreeSet<Producer>), JournalError> {
        self.listing(
            layout::UNITS,
            |(units, untrusted): &mut (BTreeSet<_>, BTreeSet<_>), object| match object {
                // Units that the plan does not have are of an earlier plan in the same place.
                layout::Object::Done(unit) if self.known(unit).is_ok() => drop(units.insert(unit)),
                layout::Object::Untrusted(producer) => drop(untrusted.insert(producer)),
                _ => {}
            },
        )
    }

    /// Collects what is listed below a folder.
    fn listing<T: Default>(
        &self,
        below: &str,
        mut add: impl FnMut(&mut T, layout::Object),
    ) -> Result<T, JournalError> {
        let limits = self.store.core().limits;
        let mut tries = 1;
        loop {
            let mut found = T::default();
            let listed = self.store.list(below).and_then(|mut listing| {
                listing.try_for_each(|listed| {
                    layout::parse(&listed?.key).into_iter().for_each(|object| add(&mut found, object));
                    Ok(())
                })
            });
            match listed {
                Ok(()) => return Ok(found),
                // A listing has no place to go on from that all stores agree about: it begins again.
                Err(error) if error.may_pass() && tries < limits.tries => {
                    std::thread::sleep(limits.pause(tries));
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The commits of all units that are done, in order. They are read many at a time.
    pub fn commits(&self) -> Result<Commits, JournalError> {
        let (done, untrusted) = self.recorded()?;
        self.read_commits(&done, &untrusted)
    }

    fn read_commits(
        &self,
        done: &BTreeSet<u32>,
        untrusted: &BTreeSet<Producer>,
    ) -> Result<Commits, JournalError> {
        let keys = done.iter().map(|unit| layout::done(*unit)).collect::<Result<Vec<Key>, _>>()?;
        let mut commits = Commits::default();
        for page in keys.chunks(PAGE) {
            let records = match self.store.get_many(page.to_vec(), MOST_COMMIT) {
                Ok(records) => records.into_iter().map(|(key, bytes)| (key, Ok(bytes))).collect(),
                // One of them is no record. Which one is found by asking for each.
                Err(StoreError::Missing { .. } | StoreError::TooLarge { .. }) => {
                    let one = |key: &Key| (key.clone(), self.store.get(key, MOST_COMMIT));
                    page.iter().map(one).collect::<Vec<_>>()
                }
                Err(error) => return Err(error.into()),
            };
            for (key, bytes) in records {
                let Some(layout::Object::Done(unit)) = layout::parse(&key) else { continue };
                let commit = bytes.map_err(JournalError::from);
                let commit = commit.and_then(|bytes| self.checked(&key, unit, &bytes)).and_then(|commit| {
                    self.trusted_by(untrusted, &key, &commit.producers)?;
                    Ok(commit)
                });
                match commit {
                    Ok(commit) => commits.whole.push(commit),
                    // It was undone meanwhile.
                    Err(JournalError::Store(StoreError::Missing { .. })) => {}
                    Err(error) => commits.damaged.push(Damage::of(unit, key.as_str(), error)?),
                }
            }
        }
        commits.whole.sort_by_key(|commit| commit.unit);
        Ok(commits)
    }

    /// Makes a unit count as not done, because its commit or what that names is damaged. Its files stay until it is
    /// swept; whoever does the unit next writes others. Nothing is gone on from: what a worker that died behind its commit
    /// kept names the same files.
    pub fn undo(&self, unit: u32) -> Result<(), JournalError> {
        self.drop_kept(unit)?;
        Ok(self.store.delete(&layout::done(unit)?)?)
    }

    /// Makes room where something of another kind is in the place of a folder or an object of a unit, and returns what that
    /// was. Links, pipes and what is empty are removed, anything else gets another name. Only a folder can hold such things.
    pub fn mend(&self, unit: u32) -> Result<Vec<Damage>, JournalError> {
        self.known(unit)?;
        match self.store.folder() {
            Some(root) => Ok(mend::mend(root, unit)?),
            None => Ok(Vec::new()),
        }
    }

    /// The commit of a unit, if it is done.
    pub fn commit_of(&self, unit: u32) -> Result<Option<Commit>, JournalError> {
        self.known(unit)?;
        let key = layout::done(unit)?;
        match self.store.get(&key, MOST_COMMIT) {
            Ok(bytes) => {
                let commit = self.checked(&key, unit, &bytes)?;
                self.trusted(&key, &commit.producers)?;
                Ok(Some(commit))
            }
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies a file of a committed attempt to a local path and checks its size and hash.
    pub fn fetch(&self, commit: &Commit, file: &File, to: &Path) -> Result<(), JournalError> {
        let key = layout::file(commit.unit, &file.attempt, &file.name)?;
        Ok(self.store.fetch(&key, to, &file.content())?)
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
        self.is_of(key, commit.plan, commit.unit == unit)?;
        Ok(commit)
    }

    /// A record is of this plan and, as `unit` says, of the unit that was asked for.
    fn is_of(&self, key: &Key, plan: Hash, unit: bool) -> Result<(), JournalError> {
        let what = match plan == self.plan.hash() {
            true if unit => return Ok(()),
            true => "unit",
            false => "plan",
        };
        Err(JournalError::Foreign { place: self.store.place(), key: key.to_string(), what })
    }
}

/// A record that was read, or an error that says where it is.
fn read<T>(store: &Store, key: &Key, record: Result<T, RecordError>) -> Result<T, JournalError> {
    record.map_err(|source| JournalError::Record { place: store.place(), key: key.to_string(), source })
}

fn other_plan(store: &Store, found: Hash, expected: Hash) -> JournalError {
    JournalError::OtherPlan { place: store.place(), found, expected }
}
