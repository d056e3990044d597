//! The film that a plan is about, known by its content.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use remaster_store::Hash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::UnitsError;

/// Bytes at each end of a film that are hashed: a header, an index and some picture, in a tenth of a second.
const END: u64 = 16 << 20;

/// Bytes at each end of a picture of a folder that are hashed.
const PICTURE_END: u64 = 64 << 10;

/// The film that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where it was.
    pub path: String,
    /// Bytes of the file, or of all files of a folder.
    pub bytes: u64,
    /// When it was changed last, in nanoseconds of the clock of its machine; other machines do not ask.
    pub modified: Option<u64>,
    /// Hash of its ends; of a folder, of the names, sizes and ends of its files.
    pub sha256: Hash,
}

impl Input {
    /// The film at `path`.
    pub fn of(path: &Path) -> Result<Self, UnitsError> {
        let failed = |source| UnitsError::File { doing: "read", path: path.to_owned(), source };
        let about = path.metadata().map_err(failed)?;
        let whole = std::path::absolute(path).map_err(failed)?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        if about.is_dir() {
            for file in files(path).map_err(failed)? {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name.as_bytes());
                bytes += ends(&file, PICTURE_END, &mut hash).map_err(failed)?;
            }
        } else {
            bytes = ends(path, END, &mut hash).map_err(failed)?;
        }
        let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Input {
            path: whole.to_string_lossy().into_owned(),
            bytes,
            modified: modified.and_then(|time| u64::try_from(time.as_nanos()).ok()),
            sha256: hash.into(),
        })
    }

    /// Refuses another film than this one. Path and time may differ.
    pub fn check(&self, path: &Path) -> Result<(), UnitsError> {
        let found = Input::of(path)?;
        let other = |reason: String| Err(UnitsError::Input { path: path.to_owned(), reason });
        if found.bytes != self.bytes {
            return other(format!("it has {} bytes instead of {}", found.bytes, self.bytes));
        }
        if found.sha256 != self.sha256 {
            return other("its content differs".into());
        }
        Ok(())
    }
}

/// Watches a film while it is read. Another one that gets its name must not become part of the result.
#[derive(Clone)]
pub struct Watch {
    path: PathBuf,
    input: Input,
    /// The file as it was when its content was looked at last.
    seen: Arc<Mutex<Option<Seen>>>,
}

/// What tells that a file is still the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Its disk and number, where files have one.
    number: Option<[u64; 2]>,
}

impl Seen {
    fn of(path: &Path) -> io::Result<Self> {
        let about = path.metadata()?;
        #[cfg(unix)]
        let number = {
            use std::os::unix::fs::MetadataExt;
            Some([about.dev(), about.ino()])
        };
        #[cfg(not(unix))]
        let number = None;
        Ok(Seen { bytes: about.len(), modified: about.modified().ok(), number })
    }
}

impl Watch {
    /// Watches the file at `path`, which is to be `input`.
    pub fn new(path: &Path, input: &Input) -> Self {
        Watch { path: path.to_owned(), input: input.clone(), seen: Arc::default() }
    }

    /// Refuses another film. Its content is looked at only if the file is not the one of the last look.
    pub fn check(&self) -> Result<(), UnitsError> {
        let failed = |source| UnitsError::File { doing: "read", path: self.path.clone(), source };
        let now = Seen::of(&self.path).map_err(failed)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen != Some(now) {
            self.input.check(&self.path)?;
            *seen = Some(now);
        }
        Ok(())
    }
}

/// Files of a folder by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.path().metadata()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Hashes size, first and last bytes of a file. Returns its size.
fn ends(path: &Path, end: u64, hash: &mut Sha256) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    hash.update(bytes.to_le_bytes());
    copy(&mut file, end, hash)?;
    let last = bytes.saturating_sub(end).max(end);
    if last < bytes {
        file.seek(SeekFrom::Start(last))?;
        copy(&mut file, end, hash)?;
    }
    Ok(bytes)
}

fn copy(file: &mut File, most: u64, hash: &mut Sha256) -> io::Result<()> {
    let mut piece = vec![0; 1 << 16];
    let mut file = file.take(most);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            n => hash.update(piece.get(..n).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_is_known_by_size_and_ends_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for bytes in [0usize, 1, 100, 1 << 20] {
            let content: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
            std::fs::write(&a, &content).unwrap();
            std::fs::write(&b, &content).unwrap();
            let input = Input::of(&a).unwrap();
            input.check(&b).unwrap();
            if let Some(last) = bytes.checked_sub(1) {
                let mut other = content.clone();
                other[last] ^= 1;
                std::fs::write(&b, &other).unwrap();
                assert!(input.check(&b).unwrap_err().to_string().contains("content"));
                std::fs::write(&b, &content[..last]).unwrap();
                assert!(input.check(&b).unwrap_err().to_string().contains("bytes"));
            }
        }
        assert!(Input::of(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_folder_is_known_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1.png"), b"one").unwrap();
        std::fs::write(folder.path().join("2.png"), b"two").unwrap();
        let input = Input::of(folder.path()).unwrap();
        assert_eq!(input.bytes, 6);
        input.check(folder.path()).unwrap();
        std::fs::rename(folder.path().join("2.png"), folder.path().join("3.png")).unwrap();
        assert!(input.check(folder.path()).is_err());
    }
}
