//! The file that a clip came from: what is written down of it, and whether a file is the one.
//!
//! Latent files are passed around, so the path in one is a stranger's word. A file is only read if its size and the hash
//! of a sample all over it are those that were written down: who knows these had the file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use remaster_media::Span;
use remaster_media::fingerprint::Sample;
use serde::{Deserialize, Serialize};

/// The file that a clip came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Where it was, as it was named.
    pub path: String,
    /// The same from the root, without links.
    pub absolute: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its size and of samples over its whole length.
    pub sample_sha256: String,
    /// Streams beside the video.
    pub streams: usize,
    /// Chapters.
    pub chapters: usize,
    /// The part of it that the clip is.
    #[serde(default, skip_serializing_if = "Span::is_whole")]
    pub span: Span,
}

/// Why an origin was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There is no such file.
    Missing,
    /// There is one with other content.
    Changed,
}

impl Origin {
    /// Of a regular file; `None` for pipes, devices and folders, which cannot be read again.
    pub fn of(path: &Path, streams: usize, chapters: usize) -> io::Result<Option<Self>> {
        if !path.metadata()?.is_file() {
            return Ok(None);
        }
        // Windows marks resolved paths with a prefix that other programs do not take.
        let absolute = if cfg!(windows) { std::path::absolute(path)? } else { path.canonicalize()? };
        let (bytes, sample_sha256) = sample(&mut remaster_disk::read_named(path)?)?;
        Ok(Some(Origin {
            path: path.to_string_lossy().into_owned(),
            absolute: absolute.to_string_lossy().into_owned(),
            bytes,
            sample_sha256,
            streams,
            chapters,
            span: Span::default(),
        }))
    }

    /// Whether the file at `path` is this one.
    pub fn is(&self, path: &Path) -> io::Result<bool> {
        if !path.metadata()?.is_file() {
            return Ok(false);
        }
        let mut file = remaster_disk::read_named(path)?;
        Ok(file.metadata()?.len() == self.bytes
            && sample(&mut file)? == (self.bytes, self.sample_sha256.clone()))
    }

    /// The file, in the folder of the latent file `latents` or where it was. Only regular files are looked at.
    pub fn find(&self, latents: &Path) -> Result<PathBuf, Lost> {
        let was = Path::new(&self.absolute);
        let beside = was.file_name().map(|name| latents.with_file_name(name));
        let there = is_local(was).then(|| was.to_owned());
        let mut lost = Lost::Missing;
        for path in beside.into_iter().chain(there) {
            // Not the file that a link names: a link beside the latents may lead anywhere.
            let is_file = || path.symlink_metadata().is_ok_and(|about| about.is_file());
            if remaster_disk::check_path(&path).is_err() || !is_file() {
                continue;
            }
            if self.is(&path).unwrap_or(false) {
                return Ok(path);
            }
            lost = Lost::Changed;
        }
        Err(lost)
    }
}

/// Whether asking for a path stays on this machine: on Windows a share's name alone sends a password's hash to it.
fn is_local(path: &Path) -> bool {
    use std::path::{Component, Prefix};
    path.is_absolute()
        && match path.components().next() {
            Some(Component::Prefix(prefix)) => matches!(prefix.kind(), Prefix::Disk(_)),
            _ => true,
        }
}

/// Size and samples of a file.
fn sample(file: &mut File) -> io::Result<(u64, String)> {
    let Sample { bytes, sha256 } = Sample::of_file(file)?;
    Ok((bytes, remaster_disk::hex(&sha256)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_beside_or_where_it_was_and_only_if_it_is_the_same() {
        let (home, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for bytes in [0, 5, 1 << 14, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let film = home.path().join("film.mkv");
            let content: Vec<u8> =
                (0..bytes).map(|i: u32| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
            std::fs::write(&film, &content).unwrap();
            let origin = Origin::of(&film, 2, 0).unwrap().unwrap();
            let latents = away.path().join("z.safetensors");
            let film = film.canonicalize().unwrap();
            assert_eq!(origin.find(&latents), Ok(film.clone()));
            // A copy beside the latents is found first.
            let copy = away.path().join("film.mkv");
            std::fs::copy(&film, &copy).unwrap();
            assert_eq!(origin.find(&latents), Ok(copy.clone()));
            std::fs::remove_file(&film).unwrap();
            assert_eq!(origin.find(&latents), Ok(copy.clone()));
            for at in [0, content.len() / 2, content.len().saturating_sub(1)] {
                let mut other = content.clone();
                match other.get_mut(at) {
                    Some(byte) => *byte ^= 1,
                    None => other.push(0),
                }
                std::fs::write(&copy, &other).unwrap();
                // Between the pieces of a large file one bit may differ.
                let in_a_piece = at == 0 || at + 1 == content.len() || content.len() <= 1 << 20;
                assert!(!in_a_piece || origin.find(&latents) == Err(Lost::Changed), "{bytes}: {at}");
            }
            std::fs::remove_file(&copy).unwrap();
            assert_eq!(origin.find(&latents), Err(Lost::Missing));
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_devices_and_folders_are_no_origin() {
        let folder = tempfile::tempdir().unwrap();
        let film = folder.path().join("film.mkv");
        std::fs::write(&film, b"film").unwrap();
        let mut origin = Origin::of(&film, 0, 0).unwrap().unwrap();
        let latents = folder.path().join("z.safetensors");
        let hidden = folder.path().join("hidden.mkv");
        std::fs::rename(&film, &hidden).unwrap();
        std::os::unix::fs::symlink(&hidden, &film).unwrap();
        assert_eq!(origin.find(&latents), Err(Lost::Missing));
        for place in ["/dev/zero", "/dev/stdin", "/", "..", "", "relative/other.mkv", "/proc/self/fd/0"] {
            origin.absolute = place.into();
            assert_eq!(origin.find(&latents), Err(Lost::Missing), "{place}");
        }
        assert!(Origin::of(Path::new("/dev/null"), 0, 0).unwrap().is_none());
        assert!(Origin::of(folder.path(), 0, 0).unwrap().is_none());
    }
}
