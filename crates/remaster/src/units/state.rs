//! The folder beside an output in which unfinished work is kept.
//!
//! ```text
//! OUTPUT.remaster/remaster-state   the mark: only a folder with it is used; locked while a run works in the folder
//! OUTPUT.remaster/store/           the plan and what is done of it
//! OUTPUT.remaster/work/            the piece at work
//! ```
//!
//! A folder of that name without the mark belongs to someone else: it is neither written to nor removed. Removing a
//! folder of ours takes away what we know, one by one, and the mark last; other files stay.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use remaster_disk::{Folder, Kind};
use remaster_media::place;
use remaster_store::{Journal, JournalError, Store, StoreError, StoreSettings, Sweep, is_of_a_journal};
use remaster_units::{FilmPlan, Manifest, Settings, UnitsError};

use super::{make, typed};
use crate::error::Error;
use crate::event::Reporter;

/// What is added to the name of the output.
const SUFFIX: &str = ".remaster";

/// The mark. It is held locked while a run works in the folder.
const MARK: &str = "remaster-state";

/// What is in it: a format and its version.
const MARK_TEXT: &[u8] = b"remaster state 1\n";

/// The plan and what is done of it.
const STORE: &str = "store";

/// In it.
const PLAN: &str = "plan.json";

/// Where the piece at work is.
const SCRATCH: &str = "work";

/// How names there start: pieces, copies of pieces, and folders in which they and other files are made.
const SCRATCH_NAMES: [&str; 9] =
    ["piece-", "segment-", "same.", "checked.", ".piece-", ".segment-", ".same.", ".checked.", ".remaster."];

/// Tries to take a folder that a run which ends is removing.
const TRIES: usize = 16;

/// The folder, for this run alone.
pub(super) struct State {
    pub(super) folder: PathBuf,
    opened: Folder,
    lock: File,
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
    pub(super) fn take(folder: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::Write { path: folder.clone(), source };
        let name = folder.file_name().unwrap_or_default();
        let parent = Folder::make(place::parent(&folder)).map_err(failed)?;
        for _ in 0..TRIES {
            let opened = parent.make_folder(name).map_err(|source| match source.kind() {
                io::ErrorKind::NotADirectory => Error::NotOurs { folder: folder.clone() },
                _ => failed(source),
            })?;
            let (mut lock, whole) = match marked(&opened) {
                Ok(Some(found)) => found,
                Ok(None) => return Err(Error::NotOurs { folder }),
                // The folder was removed, or marked, by another run.
                Err(error) if is_passing(&error) => continue,
                Err(error) if remaster_disk::is_locked(&error) => return Err(Error::Busy { folder }),
                Err(error) => return Err(failed(error)),
            };
            // Some network file systems have no locks.
            if let Err(TryLockError::WouldBlock) = lock.try_lock() {
                return Err(Error::Busy { folder });
            }
            // Swept before it was locked. A second lock would not do for asking: Windows refuses it to the owner of the first.
            if !remaster_disk::has_name(&lock) {
                continue;
            }
            if !whole {
                let emptied = lock.rewind().and_then(|()| lock.set_len(0));
                let written = emptied.and_then(|()| opened.write(MARK, &mut lock, MARK_TEXT));
                written.map_err(failed)?;
            }
            let state = State { folder, opened, lock };
            state.clear_scratch()?;
            return Ok(state);
        }
        Err(Error::Busy { folder })
    }

    /// Removes what killed runs left where pieces are made.
    fn clear_scratch(&self) -> Result<(), Error> {
        let scratch = self.opened.make_folder(SCRATCH).map_err(|e| self.failed(SCRATCH, e))?;
        scratch.remove_ours(&mut |path, _| is_scratch(path)).map_err(|e| self.failed(SCRATCH, e))?;
        Ok(())
    }

    fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::Write { path: self.folder.join(name), source }
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
    fn store(&self) -> Result<Store, Error> {
        let folder = self.opened.make_folder(STORE).map_err(|e| self.failed(STORE, e))?;
        Ok(Store::inside(folder, StoreSettings::default())?)
    }

    /// An empty store for a new plan: what a plan that is gone left there is of no use.
    pub(super) fn empty_store(&self) -> Result<Store, Error> {
        if let Ok(store) = self.opened.folder(STORE) {
            empty(&store).map_err(|e| self.failed(STORE, e))?;
        }
        self.store()
    }

    /// Removes the work of an earlier run, or says what is in the way of a new one.
    pub(super) fn restart(self) -> Result<(), Error> {
        let not_removed =
            |name: &Path, reason: io::Error| Error::NotRemoved { path: self.folder.join(name), reason };
        let plan = Path::new(STORE).join(PLAN);
        match self.opened.about(STORE) {
            Ok(about) if about.kind != Kind::Folder => {
                return Err(not_removed(STORE.as_ref(), io::ErrorKind::NotADirectory.into()));
            }
            Ok(_) => {
                let store = self.opened.folder(STORE).map_err(|e| not_removed(STORE.as_ref(), e))?;
                match store.remove(PLAN) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(not_removed(&plan, error));
                    }
                    _ => {}
                }
            }
            Err(_) => {}
        }
        // Without the plan the rest counts for nothing.
        self.remove();
        Ok(())
    }

    /// Whether there is something to go on from.
    pub(super) fn has_work(&self) -> bool {
        self.opened.folder(STORE).and_then(|store| store.folder("units")).is_ok()
    }

    /// The work that an earlier run left, if there is any. It must be of the same settings. Without a readable plan it is of
    /// no use, and is removed.
    pub(super) fn resume(
        self,
        settings: &Settings,
        report: &Reporter<'_>,
    ) -> Result<Option<(Self, Journal, FilmPlan)>, Error> {
        let plan = self.opened.folder(STORE).and_then(|store| store.about(PLAN));
        if plan.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.remove();
            return Ok(None);
        }
        let other = |what: String| Error::OtherRun { folder: self.folder.clone(), what };
        let (journal, plan) = match make::open(self.store()?) {
            Ok(opened) => opened,
            Err(Error::Units(UnitsError::Journal(error))) if error.is_damage() && !error.is_newer() => {
                report.warn(format_args!(
                    "the unfinished work in {} is damaged; starting over",
                    self.folder.display()
                ));
                self.remove();
                return Ok(None);
            }
            Err(error) => {
                return Err(Error::UnreadableRun { folder: self.folder.clone(), reason: unreadable(&error) });
            }
        };
        // What may be mixed may differ: a device that was the first may be left out by now.
        let mut here = settings.clone();
        let (before, now) = (&plan.settings.numerics, &settings.numerics);
        if plan.settings.mix && before.threads == now.threads && before.check(now, true).is_ok() {
            here.numerics = before.clone();
        }
        if plan.settings.hash()? != here.hash()? {
            return Err(other(difference(&plan.settings, settings)));
        }
        journal.clean(Sweep::Everything)?;
        Ok(Some((self, journal, plan)))
    }

    /// Removes what a run left that was killed when its film was done: its plan is gone, or is the one of the film.
    pub(super) fn forget(folder: PathBuf, film: &Path) {
        let Ok(state) = State::take(folder) else { return };
        let plan = state.opened.folder(STORE).and_then(|store| store.about(PLAN));
        let of_the_film = || {
            let journal = Journal::open(state.store().ok()?).ok()?;
            Some(journal.plan().hash() == Manifest::of(film).ok()?.plan)
        };
        if plan.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) || of_the_film() == Some(true) {
            state.remove();
        }
    }

    /// Removes everything of ours: the film is done, or nothing of it is.
    pub(super) fn remove(self) {
        // What cannot be removed does no harm; the next run tries again.
        let _ = self.removed();
    }

    fn removed(self) -> io::Result<()> {
        let State { folder, opened, lock } = self;
        if let Ok(store) = opened.folder(STORE) {
            empty(&store)?;
            opened.remove_folder(STORE)?;
        }
        if let Ok(scratch) = opened.folder(SCRATCH) {
            scratch.remove_ours(&mut |path, _| is_scratch(path))?;
            opened.remove_folder(SCRATCH)?;
        }
        if opened.names(2)?.iter().any(|name| name != MARK) {
            return Ok(());
        }
        // Windows removes no file that is open. Elsewhere the lock is held until the folder is gone.
        let held = (!cfg!(windows)).then_some(lock);
        opened.remove(MARK)?;
        let removed = remaster_disk::remove_folder(&folder);
        drop(held);
        removed
    }
}

/// Removes the files of a journal, the plan first: without it the others count for nothing.
fn empty(store: &Folder) -> io::Result<()> {
    match store.remove(PLAN) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let ours = &mut |path: &Path, kind: Kind| match kind {
        // Those that are empty.
        Kind::Folder => true,
        _ => key(path).is_some_and(|key| is_of_a_journal(&key)),
    };
    store.remove_ours(ours).map(drop)
}

/// A path below a store as its journal names it, with the same separator on every system.
fn key(path: &Path) -> Option<String> {
    path.iter().map(OsStr::to_str).collect::<Option<Vec<_>>>().map(|parts| parts.join("/"))
}

/// Whether a path below the folder for pieces is of ours.
fn is_scratch(path: &Path) -> bool {
    let first = path.iter().next().and_then(OsStr::to_str).unwrap_or_default();
    SCRATCH_NAMES.iter().any(|start| first.starts_with(start))
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

/// The mark of a folder, and whether it is whole; `None` if the folder is not ours. An empty folder gets a mark. A run that
/// was killed early leaves the beginning of one, and nothing else. A lost or damaged mark is replaced if the plan says
/// whose folder it is.
fn marked(folder: &Folder) -> io::Result<Option<(File, bool)>> {
    let others = folder.names(64).map_or(true, |names| names.iter().any(|name| name != MARK));
    match folder.about(MARK) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match !others || has_plan(folder) {
            true => Ok(Some((folder.create(MARK)?, false))),
            false => Ok(None),
        },
        Err(error) => Err(error),
        Ok(about) if about.kind != Kind::File => Ok(None),
        Ok(_) => {
            let file = folder.edit(MARK)?;
            let mut text = Vec::new();
            (&file).take(MARK_TEXT.len() as u64 + 1).read_to_end(&mut text)?;
            let whole = text == MARK_TEXT;
            let ours = whole || !others && MARK_TEXT.starts_with(&text) || has_plan(folder);
            Ok(ours.then_some((file, whole)))
        }
    }
}

/// Whether a folder has a plan of ours, undamaged.
fn has_plan(folder: &Folder) -> bool {
    let bytes = folder.folder(STORE).and_then(|store| store.bytes(PLAN, remaster_store::MOST_PLAN));
    bytes.is_ok_and(|bytes| remaster_store::Plan::from_bytes(&bytes).is_ok())
}

/// Why the plan of an unfinished run cannot be read, without what to do about a store in general.
fn unreadable(error: &Error) -> String {
    match error {
        Error::Units(UnitsError::Plan { reason }) => format!("{PLAN}: {reason}"),
        Error::Units(UnitsError::Journal(JournalError::Store(
            StoreError::Unable { key, reason, .. } | StoreError::Failed { key, reason, .. },
        ))) => format!("{key}: {reason}"),
        Error::Units(UnitsError::Journal(JournalError::Record { key, source, .. })) => {
            format!("{key}: {source}")
        }
        error => error.to_string(),
    }
}

/// What differs between the settings of a run and those of an earlier one, in words.
fn difference(before: &Settings, now: &Settings) -> String {
    if (&before.input.bytes, &before.input.sample) != (&now.input.bytes, &now.input.sample) {
        return "the input has changed".into();
    }
    if before.input.clip != now.input.clip {
        // A folder of unfinished work may say anything.
        let word = |settings: &Settings| {
            let clip = settings.input.clip.as_deref().unwrap_or("none");
            clip.chars().filter(|c| !c.is_control()).take(300).collect::<String>()
        };
        return format!("the script gave another clip: {}; now {}", word(before), word(now));
    }
    if before.models != now.models {
        return "it used other models".into();
    }
    if before.request != now.request {
        return typed::difference(&before.request, &now.request);
    }
    if before.unit_frames != now.unit_frames {
        return format!("--unit-frames was {}, now {}", before.unit_frames, now.unit_frames);
    }
    if before.numerics.threads != now.numerics.threads {
        return format!("--encoder-threads was {}, now {}", before.numerics.threads, now.numerics.threads);
    }
    match before.numerics.check(&now.numerics, false) {
        Err(UnitsError::ResultClass { what, wanted, found }) => format!("{what} was {wanted}, now {found}"),
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
        assert!(matches!(State::take(place.clone()), Err(Error::Busy { .. })));
        drop(first);
        State::take(place.clone()).unwrap().remove();
        assert!(!place.exists());
    }

    #[test]
    fn a_folder_without_the_mark_is_not_touched() {
        let desk = tempfile::tempdir().unwrap();
        let place = desk.path().join("a.remaster");
        for names in [&["notes.txt"][..], &["lock"], &["store/plan.json", "work/piece-000000.nut"]] {
            for name in names {
                std::fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
                std::fs::write(place.join(name), "theirs").unwrap();
            }
            assert!(matches!(State::take(place.clone()), Err(Error::NotOurs { .. })), "{names:?}");
            for name in names {
                assert_eq!(std::fs::read(place.join(name)).unwrap(), b"theirs");
            }
            assert!(!place.join(MARK).exists());
            std::fs::remove_dir_all(&place).unwrap();
        }
        // A mark with other words, beside other files or not.
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join(MARK), "my own notes").unwrap();
        assert!(matches!(State::take(place.clone()), Err(Error::NotOurs { .. })));
        assert_eq!(std::fs::read(place.join(MARK)).unwrap(), b"my own notes");
    }

    #[test]
    fn what_a_kill_leaves_of_a_new_folder_is_taken_over() {
        let desk = tempfile::tempdir().unwrap();
        let place = desk.path().join("a.remaster");
        for cut in 0..=MARK_TEXT.len() {
            std::fs::create_dir(&place).unwrap();
            std::fs::write(place.join(MARK), &MARK_TEXT[..cut]).unwrap();
            State::take(place.clone()).unwrap().remove();
            assert!(!place.exists());
        }
        std::fs::create_dir(&place).unwrap();
        State::take(place.clone()).unwrap().remove();
        assert!(!place.exists());
    }

    #[test]
    fn only_what_is_ours_is_removed() {
        let desk = tempfile::tempdir().unwrap();
        let place = desk.path().join("a.remaster");
        drop(State::take(place.clone()).unwrap());
        let ours = [
            "store/plan.json",
            "store/units/000001/done.json#12",
            "store/units/000001/kept/latents-0",
            "work/piece-000000.nut",
            "work/.piece-000000.nut.abcdefgh.part/output.nut",
        ];
        let theirs = ["notes.txt", "store/units/000001/holiday.jpg", "work/holiday.jpg"];
        for name in ours.iter().chain(&theirs) {
            std::fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
            std::fs::write(place.join(name), "x").unwrap();
        }
        // Leftovers of pieces are no obstacle: they go when the folder is taken.
        let state = State::take(place.clone()).unwrap();
        assert!(!place.join("work/piece-000000.nut").exists());
        state.remove();
        assert!(ours.iter().all(|name| !place.join(name).exists()));
        assert!(theirs.iter().all(|name| place.join(name).exists()));
        assert!(place.join(MARK).exists(), "it is still recognised");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_neither_followed_nor_waited_for() {
        use std::os::unix::fs::symlink;
        let began = std::time::Instant::now();
        let desk = tempfile::tempdir().unwrap();
        let outside = desk.path().join("outside");
        let canaries = ["piece-000000.nut", "plan.json", "canary", MARK];
        std::fs::create_dir(&outside).unwrap();
        for name in canaries {
            std::fs::write(outside.join(name), "canary").unwrap();
        }
        for name in ["", MARK, SCRATCH, STORE] {
            for kind in ["folder", "file", "dangling", "pipe"] {
                let place = desk.path().join("a.remaster");
                let at = if name.is_empty() { place.clone() } else { place.join(name) };
                if !name.is_empty() {
                    drop(State::take(place.clone()).unwrap());
                    let _ = std::fs::remove_dir(&at).or_else(|_| std::fs::remove_file(&at));
                }
                match kind {
                    "folder" => symlink(&outside, &at).unwrap(),
                    "file" => symlink(outside.join("canary"), &at).unwrap(),
                    "dangling" => symlink(outside.join("new"), &at).unwrap(),
                    _ => assert!(std::process::Command::new("mkfifo").arg(&at).status().unwrap().success()),
                }
                if let Ok(state) = State::take(place.clone()) {
                    assert!(state.empty_store().is_err(), "{kind} at {name}");
                    state.remove();
                }
                assert!(at.symlink_metadata().is_ok(), "{kind} at {name} was not ours to remove");
                let _ = std::fs::remove_file(&at);
                let _ = std::fs::remove_dir_all(&place);
                for name in canaries {
                    assert_eq!(std::fs::read(outside.join(name)).unwrap(), b"canary");
                }
                assert_eq!(std::fs::read_dir(&outside).unwrap().count(), canaries.len());
            }
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }
}
