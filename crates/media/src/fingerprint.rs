//! Which film a file is: quickly by samples, for sure by all of its bytes, and whether it was touched since.
//!
//! A folder of images is known by the same things of each of its pictures.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use remaster_picture::still::{self, StillFormat};
use sha2::{Digest, Sha256};

/// Places of a film that are read, from its first byte to its last: a second of seeking on a slow disk. All of a film
/// takes minutes.
const PLACES: u64 = 128;

/// Places of each picture of a folder.
const PICTURE_PLACES: u64 = 4;

/// Bytes that are read at a place. Files that have no more than all their places are read whole.
const PLACE: u64 = 64 << 10;

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// A SHA-256.
pub type Sha = [u8; 32];

/// Size and samples of a file or folder: the same on every machine that has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of the file, or of all pictures of the folder.
    pub bytes: u64,
    /// Of the size and the samples; of a folder, also of the names.
    pub sha256: Sha,
}

impl Sample {
    /// Of the film at `path`.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut bytes = 0;
        let (files, places) = files(path)?;
        for FilmFile { name, path, .. } in files {
            add_name(&mut hash, name.as_deref());
            let mut file = remaster_disk::read_named(&path)?;
            let length = file.metadata()?.len();
            add_samples(&mut file, length, places, &mut hash)?;
            bytes += length;
        }
        Ok(Sample { bytes, sha256: hash.finalize().into() })
    }

    /// Of one file that is open.
    pub fn of_file(file: &mut File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut hash = Sha256::new();
        add_samples(file, bytes, PLACES, &mut hash)?;
        Ok(Sample { bytes, sha256: hash.finalize().into() })
    }
}

/// The hash of all bytes; of a folder, with names and sizes. `each` is told how many bytes were read and can end it with
/// `None`.
pub fn content(path: &Path, each: &mut dyn FnMut(u64) -> ControlFlow<()>) -> io::Result<Option<Sha>> {
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    let mut read = 0;
    for FilmFile { name, path, .. } in files(path)?.0 {
        let mut file = remaster_disk::read_named(&path)?;
        if name.is_some() {
            add_name(&mut hash, name.as_deref());
            hash.update(file.metadata()?.len().to_le_bytes());
        }
        loop {
            let n = match file.read(&mut block) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hash.update(block.get(..n).unwrap_or_default());
            read += n as u64;
            if each(read).is_break() {
                return Ok(None);
            }
        }
    }
    Ok(Some(hash.finalize().into()))
}

/// Tells whether a file was touched on this machine: its disk and number, size, and times of the last change. The system
/// sets one of the times, which programs leave alone: on Unix they cannot set it. `None` where files have no times.
///
/// A file that was changed a moment ago is waited for, until another change gets another time.
pub fn identity(path: &Path) -> io::Result<Option<Sha>> {
    loop {
        let mut hash = Sha256::new();
        let mut newest = Duration::ZERO;
        for FilmFile { name, about, path } in files(path)?.0 {
            add_name(&mut hash, name.as_deref());
            let Some(stamp) = Stamp::of(&path, &about) else { return Ok(None) };
            hash.update(about.len().to_le_bytes());
            stamp.numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
            newest = newest.max(stamp.settled);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match newest.checked_sub(now) {
            // A clock that was set back is not waited for.
            Some(wait) if wait > Duration::ZERO && wait <= COARSE => std::thread::sleep(wait),
            _ => return Ok(Some(hash.finalize().into())),
        }
    }
}

/// How far apart times are at least, where they have fractions of a second: clocks of kernels tick every 10 ms or faster.
const FINE: Duration = Duration::from_millis(20);

/// Where they have none, as on FAT.
const COARSE: Duration = Duration::from_secs(2);

/// What changes when a file is touched.
struct Stamp {
    numbers: Vec<u64>,
    /// From when on another change gets another time.
    settled: Duration,
}

impl Stamp {
    #[cfg_attr(unix, expect(unused_variables, reason = "the system says it all with the rest"))]
    fn of(path: &Path, about: &Metadata) -> Option<Self> {
        let since = |time: io::Result<SystemTime>| time.ok()?.duration_since(UNIX_EPOCH).ok();
        let modified = since(about.modified())?;
        let mut numbers = vec![modified.as_secs(), u64::from(modified.subsec_nanos())];
        #[cfg(unix)]
        let last = {
            use std::os::unix::fs::MetadataExt;
            let nanos = u32::try_from(about.ctime_nsec()).unwrap_or(0);
            let changed = Duration::new(u64::try_from(about.ctime()).unwrap_or(0), nanos.min(999_999_999));
            numbers.extend([about.dev(), about.ino(), changed.as_secs(), u64::from(changed.subsec_nanos())]);
            changed
        };
        #[cfg(not(unix))]
        let last = {
            let created = since(about.created()).unwrap_or_default();
            numbers.extend([created.as_secs(), u64::from(created.subsec_nanos())]);
            numbers.extend(remaster_disk::touched(path));
            modified
        };
        let grain = if last.subsec_nanos() == 0 { COARSE } else { FINE };
        Some(Stamp { numbers, settled: last.saturating_add(grain) })
    }
}

/// A file that is part of a film.
struct FilmFile {
    /// In its folder.
    name: Option<String>,
    path: PathBuf,
    about: Metadata,
}

/// The file itself, or the pictures of a folder by name; and how many places of each are sampled. Other files of a folder
/// are no part of the film. What is neither is refused: a pipe would be waited for.
fn files(path: &Path) -> io::Result<(Vec<FilmFile>, u64)> {
    let about = path.metadata()?;
    if about.is_file() {
        return Ok((vec![FilmFile { name: None, path: path.to_owned(), about }], PLACES));
    }
    if !about.is_dir() {
        let reason = "it is neither a file nor a folder";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut files = Vec::new();
    for entry in path.read_dir()? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let about = path.metadata()?;
        let is_picture = || {
            StillFormat::of_ending(&path).is_some() || still::sniff(&path).is_ok_and(|kind| kind.is_some())
        };
        if about.is_file() && is_picture() {
            files.push(FilmFile { name: Some(name.to_string_lossy().into_owned()), path, about });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((files, PICTURE_PLACES))
}

fn add_name(hash: &mut Sha256, name: Option<&str>) {
    if let Some(name) = name {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
    }
}

/// Size and samples of a file.
fn add_samples(file: &mut File, bytes: u64, places: u64, hash: &mut Sha256) -> io::Result<()> {
    hash.update(bytes.to_le_bytes());
    let mut block = vec![0; PLACE as usize];
    let mut add = |at: u64, length: u64| {
        let block = block.get_mut(..length as usize).unwrap_or_default();
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(block)?;
        hash.update(block);
        Ok::<_, io::Error>(())
    };
    if bytes <= places * PLACE {
        (0..bytes).step_by(PLACE as usize).try_for_each(|at| add(at, PLACE.min(bytes - at)))
    } else {
        let last = u128::from(bytes - PLACE);
        let at = |i: u64| (last * u128::from(i) / u128::from(places - 1)) as u64;
        (0..places).try_for_each(|i| add(at(i), PLACE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path) -> Sha {
        content(path, &mut |_| ControlFlow::Continue(())).unwrap().unwrap()
    }

    #[test]
    fn a_copy_has_the_same_samples_and_a_change_at_a_place_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for bytes in [0usize, 1, 100, 1 << 20, (8 << 20) + 1, 20 << 20] {
            let bytes_of: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
            std::fs::write(&a, &bytes_of).unwrap();
            std::fs::write(&b, &bytes_of).unwrap();
            let sample = Sample::of(&a).unwrap();
            assert_eq!((sample, sample.bytes), (Sample::of(&b).unwrap(), bytes as u64));
            assert_eq!(Sample::of_file(&mut File::open(&a).unwrap()).unwrap(), sample);
            assert_eq!(all(&a), all(&b));
            for at in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|at| *at < bytes) {
                let mut other = bytes_of.clone();
                other[at] ^= 1;
                std::fs::write(&b, &other).unwrap();
                let at_a_place = at == 0 || at + 1 == bytes || bytes as u64 <= PLACES * PLACE;
                assert!(!at_a_place || Sample::of(&b).unwrap() != sample, "{bytes}: {at}");
                assert_ne!(all(&a), all(&b), "{bytes}: {at}");
            }
        }
    }

    #[test]
    fn a_touched_file_has_another_identity_also_when_its_time_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film");
        std::fs::write(&path, b"first").unwrap();
        let before = identity(&path).unwrap().unwrap();
        assert_eq!(identity(&path).unwrap(), Some(before));
        let time = path.metadata().unwrap().modified().unwrap();
        std::fs::write(&path, b"other").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_ne!(identity(&path).unwrap(), Some(before));
    }

    #[test]
    fn a_folder_is_its_pictures_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let picture = vec![7u8; 1 << 20];
        std::fs::write(at("1.png"), &picture).unwrap();
        std::fs::write(at("2.png"), b"two").unwrap();
        let facts =
            || (Sample::of(folder.path()).unwrap(), all(folder.path()), identity(folder.path()).unwrap());
        let before = facts();
        assert_eq!(before.0.bytes, (1 << 20) + 3);
        // What a file browser leaves is no part of the film.
        std::fs::write(at(".DS_Store"), b"x").unwrap();
        std::fs::write(at("Thumbs.db"), b"x").unwrap();
        assert_eq!(facts(), before);
        // A retouched middle keeps size, ends and name.
        let mut other = picture.clone();
        other[300_000] ^= 1;
        std::fs::write(at("1.png"), &other).unwrap();
        let retouched = facts();
        assert!(retouched.1 != before.1 && retouched.2 != before.2);
        std::fs::write(at("1.png"), &picture).unwrap();
        assert_eq!((facts().0, facts().1), (before.0, before.1));
        std::fs::rename(at("2.png"), at("3.png")).unwrap();
        assert!(facts().0 != before.0 && facts().1 != before.1);
    }

    #[cfg(unix)]
    #[test]
    fn what_would_be_waited_for_is_refused() {
        assert!(Sample::of(Path::new("/dev/null")).is_err() && identity(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn reading_everything_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film");
        std::fs::write(&path, vec![1; 3 << 20]).unwrap();
        assert_eq!(content(&path, &mut |_| ControlFlow::Break(())).unwrap(), None);
    }
}
