//! The folder beside an output in which unfinished work is kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use remaster_store::{Journal, Settings, Store, Sweep};
use remaster_units::{FilmPlan, UnitsError};

use super::make;
use crate::error::CliError;

/// What is added to the name of the output.
const SUFFIX: &str = ".remaster";

/// Held locked while a run works in the folder.
const LOCK: &str = "lock";

/// The plan and what is done of it.
const STORE: &str = "store";

/// Where the piece at work is.
const SCRATCH: &str = "work";

/// The folder, for this run alone.
pub(super) struct State {
    pub(super) folder: PathBuf,
    lock: Option<File>,
}

impl State {
    /// Where unfinished work for `output` is: beside it, or in a folder for all films.
    pub(super) fn place(output: &Path, temp: Option<&Path>) -> PathBuf {
        let mut name = output.file_name().unwrap_or_default().to_owned();
        let Some(temp) = temp else {
            name.push(SUFFIX);
            return output.with_file_name(name);
        };
        // Films of one name from several folders do not meet there.
        let whole = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
        let hash = remaster_store::Hash::of(whole.as_os_str().as_encoded_bytes()).to_string();
        name.push(format!(".{}{SUFFIX}", hash.get(..8).unwrap_or_default()));
        temp.join(name)
    }

    /// Takes the folder, and makes it if it is missing. Two runs at a time would clean up after each other.
    pub(super) fn take(folder: PathBuf) -> Result<Self, CliError> {
        let failed = |source| CliError::Write { path: folder.clone(), source };
        fs::create_dir_all(folder.join(SCRATCH)).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK))
            .map_err(failed)?;
        let lock = match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(fs::TryLockError::WouldBlock) => return Err(CliError::Busy { folder }),
            // Some network file systems have no locks.
            Err(fs::TryLockError::Error(_)) => None,
        };
        Ok(State { folder, lock })
    }

    /// Where pieces are made.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.join(SCRATCH)
    }

    /// Where its store is.
    pub(super) fn place_of_store(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    /// The store in it.
    pub(super) fn store(&self) -> Result<Store, CliError> {
        Ok(Store::make(&self.place_of_store().display().to_string(), Settings::default())?)
    }

    /// Whether there is something to go on from.
    pub(super) fn has_work(&self) -> bool {
        self.place_of_store().join("units").is_dir()
    }

    /// The work that an earlier run left, if there is any. It must be of the same settings.
    pub(super) fn resume(
        self,
        settings: &remaster_units::Settings,
    ) -> Result<Option<(Self, Journal, FilmPlan)>, CliError> {
        if !self.place_of_store().join("plan.json").is_file() {
            return Ok(None);
        }
        let other = |what: String| CliError::OtherRun { folder: self.folder.clone(), what };
        let (journal, plan) = make::open(self.store()?).map_err(|error| other(error.to_string()))?;
        let wanted = settings.as_in(&plan.settings);
        if plan.settings.hash()? != wanted.hash()? {
            return Err(other(difference(&plan.settings, &wanted)));
        }
        journal.clean(Sweep::Everything)?;
        Ok(Some((self, journal, plan)))
    }

    /// Removes everything: the film is done, or nothing of it is.
    pub(super) fn remove(mut self) {
        // Windows removes no folder with an open file in it.
        drop(self.lock.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What differs between the settings of a run and those of an earlier one, for people.
fn difference(before: &remaster_units::Settings, now: &remaster_units::Settings) -> String {
    let joined = |words: &[String]| match words {
        [] => "no options".to_owned(),
        words => words.join(" "),
    };
    if (&before.input.bytes, &before.input.sha256) != (&now.input.bytes, &now.input.sha256) {
        return "the input has changed".into();
    }
    if before.words != now.words {
        return format!("it had {}, now {}", joined(&before.words), joined(&now.words));
    }
    if before.models != now.models {
        return "it used other models".into();
    }
    match before.numerics.check(&now.numerics, false) {
        Err(UnitsError::Numerics { what, wanted, found }) => format!("{what} was {wanted}, now {found}"),
        _ => "its settings were others".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_beside_the_output_or_where_it_was_asked_for() {
        assert_eq!(State::place(Path::new("a/b.mkv"), None), Path::new("a/b.mkv.remaster"));
        let [one, two] =
            ["/a/b.mkv", "/c/b.mkv"].map(|path| State::place(Path::new(path), Some(Path::new("/t"))));
        assert!(one != two && one.starts_with("/t"));
    }

    #[test]
    fn two_runs_do_not_share_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.remaster");
        let first = State::take(place.clone()).unwrap();
        assert!(matches!(State::take(place.clone()), Err(CliError::Busy { .. })));
        drop(first);
        State::take(place.clone()).unwrap().remove();
        assert!(!place.exists());
    }
}
