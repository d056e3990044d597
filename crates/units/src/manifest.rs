//! What a finished film was made of, in a file beside it.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use remaster_store::{Commit, Hash};
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;
use crate::input::{identity_of, read_all};
use crate::plan::{FilmPlan, Settings, of_version};

/// The version of manifests that this program writes and reads.
const VERSION: u32 = 2;

/// Bytes of a manifest at most: a million units.
const MOST: u64 = 256 << 20;

/// A unit of a film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitDone {
    /// Hash of everything that decides its content.
    pub key: Hash,
    /// Its frames.
    pub frames: u64,
    /// Who did it.
    pub worker: String,
    /// How long the last attempt took.
    pub milliseconds: u64,
    /// It could not be restored: its frames are those of the input.
    pub left: bool,
    /// Hashes of its pieces.
    pub pieces: Vec<Hash>,
}

/// What a film was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub version: u32,
    /// Bytes of the film.
    pub bytes: u64,
    /// Its hash.
    pub sha256: Hash,
    /// Hash of what changes when the film is touched, on the machine that wrote it.
    pub identity: Option<Hash>,
    /// Its frames.
    pub frames: usize,
    /// The plan, by its hash.
    pub plan: Hash,
    /// Settings, versions, networks and devices.
    pub settings: Settings,
    /// Units in order.
    pub units: Vec<UnitDone>,
}

impl Manifest {
    /// Of a film that was just made.
    pub fn new(film: &Path, plan: &FilmPlan, hash: Hash, commits: &[Commit]) -> Result<Self, UnitsError> {
        // Before its content, so that a change meanwhile is seen.
        let identity = identity_of(film)?;
        let (bytes, sha256) = hash_of(film)?;
        let units = plan.units.iter().zip(commits).map(|(planned, commit)| UnitDone {
            key: planned.key,
            frames: commit.frames,
            worker: commit.worker.clone(),
            milliseconds: commit.milliseconds,
            left: commit.left,
            pieces: commit.files.iter().map(|file| file.sha256).collect(),
        });
        Ok(Manifest {
            version: VERSION,
            bytes,
            sha256,
            identity,
            frames: plan.frames,
            plan: hash,
            settings: plan.settings.clone(),
            units: units.collect(),
        })
    }

    /// What can stand in the film itself: a manifest without the film's own hash and its units.
    pub fn tag(plan: &FilmPlan, hash: Hash) -> Result<String, UnitsError> {
        #[derive(Serialize)]
        struct Tag<'a> {
            version: u32,
            plan: Hash,
            frames: usize,
            settings: &'a Settings,
        }
        let tag = Tag { version: VERSION, plan: hash, frames: plan.frames, settings: &plan.settings };
        serde_json::to_string(&tag).map_err(|error| UnitsError::Plan { reason: error.to_string() })
    }

    /// Where the manifest of a film is.
    pub fn beside(film: &Path) -> PathBuf {
        let mut name = film.as_os_str().to_owned();
        name.push(".manifest.json");
        name.into()
    }

    /// Writes it beside its film, in place of an older one.
    pub fn write(&self, film: &Path) -> Result<PathBuf, UnitsError> {
        let path = Manifest::beside(film);
        let wrong =
            |error: serde_json::Error| UnitsError::Manifest { path: path.clone(), reason: error.to_string() };
        let mut text = serde_json::to_string_pretty(self).map_err(wrong)?;
        text.push('\n');
        // A link in its place is replaced, not written through.
        let written = remaster_disk::write_whole(&path, |file| file.write_all(text.as_bytes()));
        written.map_err(|source| UnitsError::File { doing: "write", path: path.clone(), source })?;
        Ok(path)
    }

    /// The manifest of a film.
    pub fn of(film: &Path) -> Result<Self, UnitsError> {
        let path = Manifest::beside(film);
        let wrong = |reason: String| UnitsError::Manifest { path: path.clone(), reason };
        let mut text = String::new();
        let file = remaster_disk::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if film.exists() => wrong(
                "there is none; films restored with --no-manifest, stills and y4m have none to verify".into(),
            ),
            std::io::ErrorKind::NotFound => wrong(format!("neither it nor {} exists", film.display())),
            _ => wrong(error.to_string()),
        })?;
        file.take(MOST).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        of_version(VERSION, &text).map_err(wrong)
    }

    /// True if a film on this machine was not touched since it was written.
    pub fn is_untouched(&self, film: &Path) -> Result<bool, UnitsError> {
        Ok(self.identity.is_some() && identity_of(film)? == self.identity)
    }

    /// Size and hash of a film, and whether they are those of the manifest.
    pub fn is(&self, film: &Path) -> Result<bool, UnitsError> {
        if film.metadata().is_ok_and(|about| about.len() != self.bytes) {
            return Ok(false);
        }
        Ok(hash_of(film)? == (self.bytes, self.sha256))
    }
}

/// Size and hash of a file.
fn hash_of(path: &Path) -> Result<(u64, Hash), UnitsError> {
    let mut bytes = 0;
    let hash = read_all(path, &mut |read| {
        bytes = read;
        ControlFlow::Continue(())
    })?;
    Ok((bytes, hash))
}
