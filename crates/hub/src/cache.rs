//! The cache of Hugging Face's tools:
//!
//! ```text
//! models--owner--name/blobs/ETAG                    the bytes; ETAG is the SHA-256 of a large file
//! models--owner--name/blobs/ETAG.incomplete         what was received so far
//! models--owner--name/snapshots/COMMIT/FILE         a relative link to the blob
//! models--owner--name/refs/main                     the newest commit that was seen
//! .locks/models--owner--name/ETAG.lock
//! ```

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use remaster_disk::hex;
use sha2::{Digest, Sha256};

use crate::caller::Caller;
use crate::error::{self, HubError};
use crate::remote::Remote;
use crate::settings::{Event, Wanted, is_sha256};

/// Names for files with the wrong hash, one per attempt. Whoever has a hundred has seen the message.
const MOST_KEPT: u32 = 100;

/// Snapshots of a repository that are looked at. A shared cache has a handful.
const MOST_SNAPSHOTS: usize = 1000;

/// The folder with all repositories.
pub(crate) struct Cache {
    pub(crate) root: PathBuf,
}

impl Cache {
    fn repo(&self, repo: &str) -> PathBuf {
        self.root.join(folder_name(repo))
    }

    fn blob(&self, remote: &Remote) -> PathBuf {
        self.repo(&remote.repo).join("blobs").join(&remote.blob)
    }

    fn snapshot(&self, remote: &Remote) -> PathBuf {
        self.repo(&remote.repo).join("snapshots").join(&remote.commit).join(&remote.file)
    }

    /// What was received so far.
    pub(crate) fn partial(&self, remote: &Remote) -> PathBuf {
        self.repo(&remote.repo).join("blobs").join(format!("{}.incomplete", remote.blob))
    }

    pub(crate) fn lock(&self, remote: &Remote) -> PathBuf {
        self.root.join(".locks").join(folder_name(&remote.repo)).join(format!("{}.lock", remote.blob))
    }

    /// Makes the folders.
    pub(crate) fn prepare(&self, remote: &Remote) -> Result<(), HubError> {
        for path in [self.blob(remote), self.lock(remote)] {
            if let Some(folder) = path.parent() {
                remaster_disk::make_folders(folder).map_err(error::write(folder))?;
            }
        }
        Ok(())
    }

    /// Bytes that may be written; `None` where the system does not say.
    pub(crate) fn free_space(&self) -> Option<u64> {
        let absolute = std::path::absolute(&self.root).ok()?;
        let there = absolute.ancestors().find(|folder| folder.is_dir())?;
        remaster_disk::free_space(there)
    }

    /// The file in any snapshot, if its hash is right.
    pub(crate) fn find(
        &self,
        wanted: &Wanted<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<Option<PathBuf>, HubError> {
        let Ok(entries) = std::fs::read_dir(self.repo(wanted.repo).join("snapshots")) else {
            return Ok(None);
        };
        let mut snapshots: Vec<PathBuf> = entries.flatten().map(|e| e.path()).take(MOST_SNAPSHOTS).collect();
        snapshots.sort();
        for path in snapshots.into_iter().map(|snapshot| snapshot.join(wanted.file)) {
            // Fails for a link to a blob that was removed.
            let Ok(real) = path.canonicalize() else { continue };
            let Ok(about) = real.metadata() else { continue };
            let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A blob is named by its hash: this is the file of another revision.
            if !about.is_file() || is_sha256(&name) && name != wanted.sha256 {
                continue;
            }
            if name != wanted.sha256 && wanted.bytes.is_some_and(|bytes| bytes != about.len()) {
                continue;
            }
            let found = hash_of(&real, caller)?;
            if found == wanted.sha256 {
                return Ok(Some(path));
            }
            if name == wanted.sha256 {
                return Err(HubError::Damaged { path: real, found, expected: wanted.sha256.to_owned() });
            }
        }
        Ok(None)
    }

    /// Whether the blob is there, and whole. Where links cannot be made it is in the snapshot.
    pub(crate) fn is_sound(&self, remote: &Remote, caller: &mut Caller<'_>) -> Result<bool, HubError> {
        let places = [self.blob(remote), self.snapshot(remote)];
        let Some(path) = places.into_iter().find(|path| path.exists()) else { return Ok(false) };
        let found = hash_of(&path, caller)?;
        if found == remote.sha256 {
            return Ok(true);
        }
        Err(HubError::Damaged { path, found, expected: remote.sha256.clone() })
    }

    /// The download is whole: its name says so from now on.
    pub(crate) fn accept(&self, remote: &Remote) -> Result<(), HubError> {
        let blob = self.blob(remote);
        remaster_disk::rename(&self.partial(remote), &blob).map_err(error::write(&blob))
    }

    /// The download has another hash. It is kept under a name that says so.
    pub(crate) fn reject(&self, remote: &Remote, found: String) -> HubError {
        let partial = self.partial(remote);
        let names = (1..=MOST_KEPT).map(|n| match n {
            1 => partial.with_file_name(format!("{}.wrong-sha256", remote.blob)),
            n => partial.with_file_name(format!("{}.wrong-sha256.{n}", remote.blob)),
        });
        let mut free = names.filter(|path| !path.exists());
        let kept = match free.next() {
            Some(kept) => remaster_disk::rename(&partial, &kept).map(|()| kept),
            None => Err(std::io::Error::other("there are too many files with a wrong hash")),
        };
        match kept {
            Ok(kept) => HubError::Mismatch { kept, found, expected: remote.sha256.clone() },
            Err(source) => HubError::Write { path: partial, source },
        }
    }

    /// Puts the blob into its snapshot, and remembers the commit as the newest.
    pub(crate) fn link(&self, remote: &Remote) -> Result<PathBuf, HubError> {
        let repo = self.repo(&remote.repo);
        // First, for a file that is in a snapshot is taken as it is.
        let newest = repo.join("refs").join("main");
        remaster_disk::make_folders(&repo.join("refs")).map_err(error::write(&newest))?;
        remaster_disk::write_whole(&newest, |file| std::io::Write::write_all(file, remote.commit.as_bytes()))
            .map_err(error::write(&newest))?;
        let path = self.snapshot(remote);
        let folder = path.parent().unwrap_or(&repo);
        remaster_disk::make_folders(folder).map_err(error::write(folder))?;
        let up = "../".repeat(remote.file.split('/').count() + 1);
        let target = PathBuf::from(format!("{up}blobs/{}", remote.blob));
        let blob = self.blob(remote);
        if blob.exists() || !path.exists() {
            put(&target, &blob, &path).map_err(error::write(&path))?;
        }
        Ok(path)
    }
}

fn folder_name(repo: &str) -> String {
    format!("models--{}", repo.replace('/', "--"))
}

/// A link that is there at once, also in place of an older one.
#[cfg(unix)]
fn put(target: &Path, _: &Path, path: &Path) -> std::io::Result<()> {
    if std::fs::read_link(path).is_ok_and(|there| there == target) {
        return Ok(());
    }
    // Whoever gets here holds the lock of the blob, so that one name is enough.
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    let beside = path.with_file_name(name);
    let _ = remaster_disk::remove(&beside);
    std::os::unix::fs::symlink(target, &beside)?;
    remaster_disk::rename(&beside, path)
}

/// A link where the system lets this user make one and follows it; otherwise the file itself moves, as huggingface_hub does
/// it. A link that was made may lead nowhere, and Wine only says that it made one.
#[cfg(windows)]
fn put(target: &Path, blob: &Path, path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let target = target.to_string_lossy().replace('/', "\\");
    if std::os::windows::fs::symlink_file(target, path).is_ok() && path.exists() {
        return Ok(());
    }
    let _ = remaster_disk::remove(path);
    remaster_disk::rename(blob, path)
}

/// Opens a file that only programs which keep to the layout write, and creates it if it is missing. A link would lead
/// what is written somewhere else, and a pipe would wait for its other end: both are errors.
pub(crate) fn open_own(path: &Path) -> std::io::Result<File> {
    let folder = remaster_disk::Folder::open(path.parent().unwrap_or(Path::new("")))?;
    folder.edit_or_create(path.file_name().unwrap_or_default())
}

/// SHA-256 of a file in lower-case hexadecimal.
fn hash_of(path: &Path, caller: &mut Caller<'_>) -> Result<String, HubError> {
    let mut file = remaster_disk::read_named(path).map_err(error::read(path))?;
    let of = file.metadata().map_err(error::read(path))?.len();
    hash_start(&mut file, of, path, caller).map(|hash| hex(&hash.finalize()))
}

/// Hashes the first `of` bytes of a file.
pub(crate) fn hash_start(
    file: &mut File,
    of: u64,
    path: &Path,
    caller: &mut Caller<'_>,
) -> Result<Sha256, HubError> {
    if of > 0 {
        caller.going_on()?;
    }
    let mut done = 0;
    let hash = remaster_disk::sha256_of(file.take(of), &mut |bytes| {
        done += bytes;
        caller.tell(Event::Checking { done, of });
        if done < of && caller.going_on().is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match hash.map_err(error::read(path))? {
        None => Err(HubError::Cancelled),
        Some(_) if done < of => Err(error::read(path)(std::io::ErrorKind::UnexpectedEof.into())),
        Some(hash) => Ok(hash),
    }
}
