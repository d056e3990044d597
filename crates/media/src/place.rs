//! A file is there whole or not at all: it is made in a folder of its own beside its place, and renamed.
//!
//! Whatever an encoder makes on the way lies in that folder, under a name of ours, so cleaning up is removing one
//! folder that this process made. The process knows all of its folders and removes them should it have to end at
//! once. After a crash or `kill -9` they stay; the next run with the same output removes them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempPath;

use crate::error::MediaError;

/// Held locked in the folder of a part for as long as its process lives.
const LOCK: &str = "lock";
/// What is in it.
const MARK: &[u8] = b"remaster part\n";
/// Random letters in the name of a part's folder.
const RANDOM: usize = 8;
/// Bytes of an output's name in it: names may have 255 in all.
const NAME: usize = 160;

/// The folders that this process made, with their locks. A signal ends the process and not one run in it, so the list
/// is the process's.
struct Parts {
    made: Vec<(PathBuf, Option<File>)>,
    closed: bool,
}

static PARTS: Mutex<Parts> = Mutex::new(Parts { made: Vec::new(), closed: false });

fn parts() -> MutexGuard<'static, Parts> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every part that this process made and lets it make no more: for a process that has to end at once.
pub fn abandon() {
    let mut parts = parts();
    parts.closed = true;
    for (folder, lock) in parts.made.drain(..) {
        // Windows removes no folder with an open file in it.
        drop(lock);
        remove(&folder);
    }
}

/// An output on its way. Dropping it removes everything that was made of it.
#[derive(Debug)]
pub struct Part {
    folder: PathBuf,
    path: PathBuf,
    place: PathBuf,
    replace: bool,
}

impl Part {
    /// Room for a file or a folder that is to be `place`. `replace` allows a file to be there already.
    pub fn beside(place: &Path, replace: bool) -> Result<Self, MediaError> {
        let refused = |reason: String| MediaError::Place { path: place.to_owned(), reason };
        let Some(name) = place.file_name() else {
            return Err(refused("it has no file name".into()));
        };
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
        let start = start(name);
        sweep(parent, &start);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&start).suffix(".part").rand_bytes(RANDOM);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        // Made and noted under one lock: `abandon` cannot come between.
        let mut parts = parts();
        if parts.closed {
            return Err(MediaError::Cancelled);
        }
        let made = builder.tempdir_in(parent).map_err(|source| {
            // The system names the folder that could not be made, which nobody asked for.
            let source =
                source.raw_os_error().map_or_else(|| source.kind().into(), std::io::Error::from_raw_os_error);
            let kind = source.kind();
            match kind {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    refused(format!("cannot create files in {}: {source}", parent.display()))
                }
                _ => MediaError::writing(place, source),
            }
        })?;
        let folder = made.keep();
        let lock = lock(&folder);
        parts.made.push((folder.clone(), lock));
        let mut inner = OsString::from("output");
        if let Some(ending) = place.extension() {
            inner.push(".");
            inner.push(ending);
        }
        Ok(Part { path: folder.join(inner), folder, place: target, replace })
    }

    /// Where it is made. Nothing is there yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves what was made to its place. A file that is replaced passes its permissions on.
    pub fn put(self) -> Result<(), MediaError> {
        self.moved().map_err(|source| MediaError::writing(&self.place, source))
    }

    fn moved(&self) -> std::io::Result<()> {
        if self.path.is_dir() {
            // Only an empty folder could be replaced by this.
            return fs::rename(&self.path, &self.place);
        }
        // A rename can reach the disk before what is in the file: after a power failure the name would stand for
        // less than it says.
        fs::OpenOptions::new().write(true).open(&self.path)?.sync_all()?;
        if !self.replace {
            let part = TempPath::try_from_path(&self.path)?;
            return part.persist_noclobber(&self.place).map_err(|e| e.error);
        }
        #[cfg(unix)]
        if let Ok(before) = fs::metadata(&self.place) {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&self.path, fs::Permissions::from_mode(before.permissions().mode() & 0o777))?;
        }
        fs::rename(&self.path, &self.place)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Held until the end: `abandon` must not end the process halfway through.
        let mut parts = parts();
        let found = parts.made.iter().position(|(folder, _)| *folder == self.folder);
        let lock = found.map(|i| parts.made.swap_remove(i));
        drop(lock);
        remove(&self.folder);
    }
}

/// `bytes` as the file `path`, whole or not at all.
pub fn write(path: &Path, bytes: &[u8], replace: bool) -> Result<(), MediaError> {
    let part = Part::beside(path, replace)?;
    fs::write(part.path(), bytes).map_err(|source| MediaError::writing(path, source))?;
    part.put()
}

/// Whether a file or folder could be made at `path`: it makes one beside it and takes it away.
pub fn check(path: &Path, replace: bool) -> Result<(), MediaError> {
    Part::beside(path, replace).map(drop)
}

/// Whether both names stand for one file, by whatever links and spellings.
pub fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        id(a).is_some_and(|a| id(b) == Some(a))
    }
    #[cfg(not(unix))]
    {
        let real = |path: &Path| fs::canonicalize(path).ok();
        real(a).is_some_and(|a| real(b) == Some(a))
    }
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

/// Marks a folder as that of a living process. The lock is taken before the file has its name, so whoever sees it sees
/// it locked. Some network file systems have no locks: the mark is left out there.
fn lock(folder: &Path) -> Option<File> {
    let fresh = folder.join("lock.new");
    let mut file = File::create_new(&fresh).ok()?;
    file.write_all(MARK).ok()?;
    file.try_lock().ok()?;
    fs::rename(&fresh, folder.join(LOCK)).ok()?;
    Some(file)
}

/// Removes parts whose process is gone: the system let go of their locks.
fn sweep(parent: &Path, start: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let random = name.strip_prefix(start).and_then(|n| n.strip_suffix(".part"));
        let ours = random.is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        if ours && entry.file_type().is_ok_and(|t| t.is_dir()) && is_dead(&entry.path()) {
            remove(&entry.path());
        }
    }
}

fn is_dead(folder: &Path) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(folder.join(LOCK));
    let Ok(file) = opened else { return false };
    let mut mark = Vec::new();
    let read = (&file).take(MARK.len() as u64 + 1).read_to_end(&mut mark);
    read.is_ok() && mark == MARK && file.try_lock().is_ok()
}

/// Removes a folder into which a dying encoder may still write.
fn remove(folder: &Path) {
    for _ in 0..5 {
        match fs::remove_dir_all(folder) {
            Ok(()) => return,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !folder.exists() => return,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
