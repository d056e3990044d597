//! A file is there whole or not at all: it is made in a folder of its own beside its place, and renamed.
//!
//! Whatever an encoder makes on the way lies in that folder, under a name of ours, so cleaning up is removing one
//! folder that this process made. The process knows all of its folders and removes them should it have to end at
//! once. After a crash or `kill -9` they stay; the next run with the same output removes them. A finished output that another
//! program keeps from its place stays.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use remaster_disk::{Folder, MOST_NAMES};
// The program may have chosen another folder than the system's.
use tempfile::env as temporary;

use crate::error::MediaError;

/// Held locked in the folder of a part for as long as its process lives.
const LOCK: &str = "lock";
/// What is in it. A writer that was killed early leaves less.
const MARK: &[u8] = b"remaster part\n";
/// What is behind it if what lies beside it is finished.
const FINISHED: &[u8] = b"finished\n";
/// How the names of folders for temporary files start.
const SCRATCH: &str = ".remaster.";
/// How they and those of parts end.
const ENDING: &str = ".part";
/// Folders that are tried: a sweeping process can take a new one for a leftover until it is locked.
const TRIES: usize = 16;

/// Delay before a folder without a lock counts as a leftover: another process may be creating it.
const NEWBORN: Duration = Duration::from_millis(20);
/// How long a finished output waits while a scanner, an indexer or a player has it or the old file open.
const HELD: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// How often it tries meanwhile.
const PAUSE: Duration = Duration::from_millis(100);
/// Random letters in the name of a part's folder.
const RANDOM: usize = 8;
/// Bytes of an output's name in it: names may have 255 in all.
const NAME: usize = 160;

/// The folders that this process made. A signal ends the process and not one run in it, so the list is the process's.
struct Parts {
    made: Vec<Made>,
    closed: bool,
}

/// A folder of ours. It is emptied through its handle: whatever has its name by then is not looked into.
struct Made {
    parent: Folder,
    folder: Folder,
    lock: File,
    /// What is finished in it and waits for its place.
    finished: Option<PathBuf>,
}

impl Made {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn remove(self) {
        let Made { parent, folder, lock, .. } = self;
        remove(&parent, folder, lock);
    }

    /// With something else in its lock no later run takes it for a leftover.
    fn keep(&mut self, finished: &Path) {
        if self.finished.replace(finished.to_owned()).is_none() {
            let _ = self.lock.write_all(FINISHED);
        }
    }
}

static PARTS: Mutex<Parts> = Mutex::new(Parts { made: Vec::new(), closed: false });

fn parts() -> MutexGuard<'static, Parts> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every part that this process made and lets it make no more: for a process that has to end at once. Outputs that
/// are finished and wait for their place stay; these are their paths.
pub fn abandon() -> Vec<PathBuf> {
    let mut parts = parts();
    parts.closed = true;
    let (finished, unfinished): (Vec<Made>, Vec<Made>) =
        parts.made.drain(..).partition(|made| made.finished.is_some());
    unfinished.into_iter().for_each(Made::remove);
    finished.into_iter().filter_map(|made| made.finished).collect()
}

/// An output on its way. Dropping it removes everything that was made of it.
#[derive(Debug)]
pub struct PartialFile {
    folder: Scratch,
    path: PathBuf,
    place: PathBuf,
    replace: bool,
}

impl PartialFile {
    /// Room for a file or a folder that is to be `place`. `replace` allows a file to be there already.
    pub fn beside(place: &Path, replace: bool) -> Result<Self, MediaError> {
        let refused = |reason: String| MediaError::Place { path: place.to_owned(), reason };
        let Some(name) = place.file_name() else {
            return Err(refused("it has no file name".into()));
        };
        remaster_disk::check_path(place).map_err(|error| refused(error.to_string()))?;
        // A link is written through, as it would be by a program that opens it.
        let target = match fs::symlink_metadata(place) {
            Ok(found) if !replace => {
                return Err(match found.is_dir() {
                    true => refused("it is a folder; choose another name".into()),
                    false => MediaError::Exists { path: place.to_owned() },
                });
            }
            Ok(found) if found.is_symlink() => fs::canonicalize(place).unwrap_or_else(|_| place.to_owned()),
            _ => place.to_owned(),
        };
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => {
                return Err(refused("it is a folder; choose another name".into()));
            }
            Ok(found) if !found.is_file() => {
                return Err(refused("it is not a regular file; use -o - to write to stdout".into()));
            }
            _ => {}
        }
        let parent = parent(&target);
        if !parent.is_dir() {
            return Err(refused(format!("there is no folder {}; create it first", parent.display())));
        }
        let folder = claim(&start(name), Some(parent)).map_err(|source| {
            // The system names the folder that could not be made, not the one that was asked for.
            let source =
                source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
            match source.kind() {
                io::ErrorKind::Interrupted => MediaError::Cancelled,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    refused(format!("cannot create files in {}: {source}", parent.display()))
                }
                _ => MediaError::writing(place, source),
            }
        })?;
        let mut inner = OsString::from("output");
        if let Some(ending) = place.extension() {
            inner.push(".");
            inner.push(ending);
        }
        Ok(PartialFile { path: folder.join(inner), folder: Scratch(folder), place: target, replace })
    }

    /// Where it is made. Nothing is there yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves what was made to its place. A file that is replaced passes its permissions on. What other programs keep from its
    /// place stays where it is, and the error says where.
    pub fn put(self) -> Result<(), MediaError> {
        let began = Instant::now();
        let mut held = false;
        loop {
            let Err(source) = self.moved() else { return Ok(()) };
            let in_use = remaster_disk::is_in_use(&source);
            if in_use && began.elapsed() < HELD {
                held = true;
                self.folder.keep(&self.path);
                std::thread::sleep(PAUSE);
            } else if in_use || held {
                let PartialFile { folder, path: kept, place: path, .. } = self;
                folder.leave(&kept);
                return Err(MediaError::Held { path, kept, source });
            } else {
                return Err(MediaError::writing(&self.place, source));
            }
        }
    }

    fn moved(&self) -> io::Result<()> {
        if self.path.is_dir() {
            // Only an empty folder could be replaced by this.
            return remaster_disk::rename(&self.path, &self.place);
        }
        // A rename can reach the disk before what is in the file: after a power failure the name would stand for
        // less than it says.
        remaster_disk::sync_written(&self.path)?;
        if !self.replace {
            return remaster_disk::rename_new(&self.path, &self.place);
        }
        #[cfg(unix)]
        if let Ok(before) = fs::metadata(&self.place) {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&self.path, fs::Permissions::from_mode(before.permissions().mode() & 0o777))?;
        }
        remaster_disk::rename(&self.path, &self.place)
    }
}

/// A folder for temporary files. Dropping it removes it with everything in it; after a kill the next one that is made
/// in the same place does.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// In the system's folder for temporary files, or in `parent`.
    pub fn new(parent: Option<&Path>) -> io::Result<Self> {
        claim(SCRATCH, parent).map(Scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Lets a finished file in it outlive the process, unless the folder is dropped before.
    fn keep(&self, finished: &Path) {
        let mut parts = parts();
        if let Some(made) = parts.made.iter_mut().find(|made| made.path() == self.0) {
            made.keep(finished);
        }
    }

    /// Leaves it with its finished file where it is, for good.
    fn leave(self, finished: &Path) {
        let mut parts = parts();
        let found = parts.made.iter().position(|made| made.path() == self.0);
        if let Some(mut made) = found.map(|i| parts.made.swap_remove(i)) {
            made.keep(finished);
            drop(made.lock);
            let _ = made.folder.remove(LOCK);
        }
        // Dropping it finds nothing to remove, and asks for the same lock.
        drop(parts);
    }

    /// Removes those that killed processes left in a folder.
    pub fn sweep(folder: &Path) {
        if let Ok(folder) = Folder::open(folder) {
            sweep(&folder, SCRATCH);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        release(&self.0);
    }
}

/// Makes a folder of our own, locked, and removes those of processes that are gone.
fn claim(start: &str, parent: Option<&Path>) -> io::Result<PathBuf> {
    let place = parent.map_or_else(temporary::temp_dir, Path::to_owned);
    let parent = Folder::open(&place)?;
    sweep(&parent, start);
    for _ in 0..TRIES {
        // Made and noted under one lock: `abandon` cannot come between.
        let mut parts = parts();
        if parts.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let folder = match parent.new_folder(format!("{start}{}{ENDING}", random()), true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            // Between making and opening it, another process took it for a leftover.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            folder => folder?,
        };
        let Some(lock) = lock(&folder) else { continue };
        let path = folder.path().to_owned();
        parts.made.push(Made { parent, folder, lock, finished: None });
        return Ok(path);
    }
    // Windows answers so where it guards folders against programs that it does not know.
    let reason = match cfg!(windows) {
        true => {
            "new folders there vanish: another process removes them, or Windows' controlled folder access forbids them"
        }
        false => "another process removes new folders there",
    };
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

/// Unique letters: the standard library seeds its hash maps with bits from the system.
fn random() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let bits = RandomState::new().hash_one((std::process::id(), count));
    format!("{bits:016x}")[..RANDOM].to_owned()
}

/// Removes a folder of our own.
fn release(folder: &Path) {
    // Held until the end: `abandon` must not end the process halfway through.
    let mut parts = parts();
    let found = parts.made.iter().position(|made| made.path() == folder);
    found.map(|i| parts.made.swap_remove(i)).into_iter().for_each(Made::remove);
}

/// `bytes` as the file `path`, whole or not at all.
pub fn write(path: &Path, bytes: &[u8], replace: bool) -> Result<(), MediaError> {
    let part = PartialFile::beside(path, replace)?;
    let written = remaster_disk::create(part.path())
        .and_then(|mut file| remaster_disk::write_all(part.path(), &mut file, bytes));
    written.map_err(|source| MediaError::writing(path, source))?;
    part.put()
}

/// Whether a file or folder could be made at `path`: it makes one beside it and takes it away.
pub fn check(path: &Path, replace: bool) -> Result<(), MediaError> {
    PartialFile::beside(path, replace).map(drop)
}

/// An error if a file that is at `path` could not be replaced.
pub fn check_replaceable(path: &Path) -> Result<(), MediaError> {
    let refused = |error: io::Error| MediaError::Place { path: path.to_owned(), reason: error.to_string() };
    if path.is_file() { remaster_disk::check_replaceable(path).map_err(refused) } else { Ok(()) }
}

/// The folder that `path` is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How the names of the folders of one output's parts start.
fn start(name: &OsStr) -> String {
    let mut short = name.to_string_lossy().into_owned();
    while short.len() > NAME {
        short.pop();
    }
    format!(".{short}.")
}

/// Marks a folder as that of a living process. `None` if another process took it for a leftover meanwhile. Some network
/// file systems have no locks; there a folder is never taken for a leftover.
fn lock(folder: &Folder) -> Option<File> {
    let mut lock = folder.create(LOCK).ok()?;
    if !remaster_disk::is_ours(&lock) {
        return None;
    }
    // On a full disk less is in it.
    let _ = folder.write(LOCK, &mut lock, MARK);
    Some(lock)
}

/// Removes parts whose process is gone: the system let go of their locks.
fn sweep(parent: &Folder, start: &str) {
    let is_ours = |name: &OsString| {
        let random = name.to_str().and_then(|text| text.strip_prefix(start)?.strip_suffix(ENDING));
        random.is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let is_left = |name: &OsString| {
        let Ok(folder) = parent.folder(name) else { return false };
        dead(&folder).is_some() || folder.names(1).is_ok_and(|names| names.is_empty())
    };
    let names = parent.names(MOST_NAMES).unwrap_or_default().into_iter();
    let left: Vec<OsString> = names.filter(|name| is_ours(name) && is_left(name)).collect();
    if !left.is_empty() {
        std::thread::sleep(NEWBORN);
    }
    for name in left {
        let Ok(folder) = parent.folder(&name) else { continue };
        match dead(&folder) {
            Some(lock) => remove(parent, folder, lock),
            // Its process ended before it had a lock; fails unless it is empty.
            None => drop(parent.remove_folder(&name)),
        }
    }
}

/// The lock of a part, if its process is gone.
fn dead(folder: &Folder) -> Option<File> {
    let file = folder.edit(LOCK).ok()?;
    let mut mark = Vec::new();
    (&file).take(MARK.len() as u64 + 1).read_to_end(&mut mark).ok()?;
    (MARK.starts_with(&mark) && file.try_lock().is_ok()).then_some(file)
}

/// Removes a folder into which a dying encoder may still write. Its lock is held until nothing is in it: Windows removes no
/// folder with an open file.
fn remove(parent: &Folder, folder: Folder, lock: File) {
    let Some(name) = folder.path().file_name().map(OsStr::to_owned) else { return };
    let mut lock = Some(lock);
    for _ in 0..5 {
        let emptied = empty(&folder);
        lock = lock.filter(|_| emptied.is_err());
        match emptied.and_then(|()| parent.remove_folder(&name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}

/// The lock goes last: without it a folder that is not empty has no owner.
fn empty(folder: &Folder) -> io::Result<()> {
    for name in folder.names(MOST_NAMES)?.into_iter().filter(|name| name != LOCK) {
        match folder.about(&name)?.kind {
            remaster_disk::Kind::Folder => folder.remove_tree(&name)?,
            _ => folder.remove(&name)?,
        }
    }
    match folder.remove(LOCK) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(windows)]
#[cfg(test)]
mod tests {
    use std::os::windows::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn a_finished_file_that_is_kept_from_its_place_stays_and_is_named() {
        let desk = tempfile::tempdir().unwrap();
        let place = desk.path().join("film.mkv");
        fs::write(&place, "old").unwrap();
        let part = PartialFile::beside(&place, true).unwrap();
        fs::write(part.path(), "new").unwrap();
        // As a player opens a film.
        let held = File::options().read(true).share_mode(1).open(&place).unwrap();
        let MediaError::Held { kept, .. } = part.put().unwrap_err() else { unreachable!() };
        drop(held);
        // No later run takes it for a leftover.
        drop(PartialFile::beside(&place, true).unwrap());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "new");
        assert_eq!(fs::read_to_string(&place).unwrap(), "old");
        let part = PartialFile::beside(&place, true).unwrap();
        fs::write(part.path(), "newer").unwrap();
        let held = File::options().read(true).share_mode(1).open(&place).unwrap();
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            drop(held);
        });
        part.put().unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "newer");
    }
}
