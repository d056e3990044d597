//! The film that a plan is about, known by its content.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use remaster_media::fingerprint::{Sample, content, identity};
use remaster_store::Hash;
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;

/// The film that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where it was.
    pub path: String,
    /// Bytes of the file, or of all pictures of a folder.
    pub bytes: u64,
    /// Hash of its size and of samples over its whole length. Other machines ask for no more.
    pub sample: Hash,
    /// Hash of all of it; `None` until all of it was read.
    pub sha256: Option<Hash>,
    /// Hash of what changes when the file is touched, on the machine that planned.
    pub identity: Option<Hash>,
    /// What a script says of its clip: the bytes of a script alone are not its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<String>,
}

/// Whether to go on reading a film, and what to say meanwhile: it is told how many bytes were read.
pub type Reading<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

impl Input {
    /// The film at `path`, by samples.
    pub fn of(path: &Path) -> Result<Self, UnitsError> {
        let failed = |source| UnitsError::File { doing: "read", path: path.to_owned(), source };
        // Before its content, so that a change meanwhile is seen.
        let identity = identity_of(path)?;
        let Sample { bytes, sha256 } = Sample::of(path).map_err(failed)?;
        let whole = std::path::absolute(path).map_err(failed)?;
        let path = whole.to_string_lossy().into_owned();
        Ok(Input { path, bytes, sample: sha256.into(), sha256: None, identity, clip: None })
    }

    /// Everything that tells what is in it, and nothing of where it is.
    pub(crate) fn anywhere(&self) -> Self {
        Input { path: String::new(), sha256: None, identity: None, ..self.clone() }
    }

    /// Refuses another film than this one by size and samples. Path and times may differ.
    pub fn check(&self, path: &Path) -> Result<(), UnitsError> {
        let found = Input::of(path)?;
        let other = |reason: String| Err(UnitsError::Input { path: path.to_owned(), reason });
        if found.bytes != self.bytes {
            return other(format!("it has {} bytes instead of {}", found.bytes, self.bytes));
        }
        match found.sample == self.sample {
            true => Ok(()),
            false => other("its content differs".into()),
        }
    }

    /// Refuses another film than this one, for sure: unless the file was not touched on this machine, all of it is read.
    pub fn check_whole(&self, path: &Path, reading: Reading<'_>) -> Result<(), UnitsError> {
        if self.identity.is_some() && identity_of(path)? == self.identity {
            return Ok(());
        }
        self.check(path)?;
        let found = read_all(path, reading)?;
        match self.sha256 == Some(found) {
            true => Ok(()),
            false => Err(UnitsError::Input { path: path.to_owned(), reason: "its content differs".into() }),
        }
    }
}

/// Hash of what changes when a file is touched; `None` where files have no times.
pub(crate) fn identity_of(path: &Path) -> Result<Option<Hash>, UnitsError> {
    let failed = |source| UnitsError::File { doing: "read", path: path.to_owned(), source };
    Ok(identity(path).map_err(failed)?.map(Hash::from))
}

/// The hash of all of a film. An end that was asked for is an error of its own.
pub fn read_all(path: &Path, reading: Reading<'_>) -> Result<Hash, UnitsError> {
    let failed = |source| UnitsError::File { doing: "read", path: path.to_owned(), source };
    let read = content(path, reading).map_err(failed)?;
    read.map(Hash::from).ok_or_else(|| remaster_media::MediaError::Cancelled.into())
}

/// Watches a film while it is read, and the networks that restore it. Others that get their names must not become part of
/// the result.
#[derive(Clone)]
pub struct Watch {
    path: PathBuf,
    input: Input,
    /// How the first look is made.
    first: First,
    /// The identity of the film when it was looked at last.
    seen: Arc<Mutex<Option<Hash>>>,
    /// Other files, with the identity that they had when they were hashed.
    others: Arc<Vec<(PathBuf, Hash)>>,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// How much of a film is read when it is looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Samples: the machine is one of many.
    Samples,
    /// All of it, unless it was not touched since it was planned here.
    Whole,
}

impl Watch {
    /// Watches the file at `path`, which is to be `input`. Reading all of it ends when it is time to `stop`.
    pub fn new(path: &Path, input: &Input, first: First, stop: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        let (seen, others) = (Arc::default(), Arc::default());
        Watch { path: path.to_owned(), input: input.clone(), first, seen, others, stop }
    }

    /// Watches other files, too: each with the identity that it had when it was hashed.
    pub fn and(self, others: Vec<(PathBuf, Hash)>) -> Self {
        Watch { others: Arc::new(others), ..self }
    }

    /// Whether the film and the other files are those of the last look, without a look at their content.
    pub(crate) fn is_untouched(&self) -> bool {
        let is_same = |path: &Path, before: Option<Hash>| {
            before.is_some() && identity_of(path).is_ok_and(|found| found == before)
        };
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        is_same(&self.path, seen) && self.others.iter().all(|(path, before)| is_same(path, Some(*before)))
    }

    /// Refuses another film. Its content is looked at only if the file was touched since the last look.
    pub fn check(&self) -> Result<(), UnitsError> {
        for (path, before) in self.others.iter() {
            if identity_of(path)? != Some(*before) {
                return Err(UnitsError::Touched { path: path.clone() });
            }
        }
        // Taken before the look: a change meanwhile is seen next time.
        let found = identity_of(&self.path)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_some() && *seen == found {
            return Ok(());
        }
        let mut go_on = |_| match (self.stop)() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match (*seen, self.first) {
            // Nobody has read all of it.
            (_, First::Samples) if self.input.sha256.is_none() => self.input.check(&self.path)?,
            (None, First::Samples) if found.is_none() || found != self.input.identity => {
                self.input.check(&self.path)?;
            }
            _ => self.input.check_whole(&self.path, &mut go_on)?,
        }
        *seen = found;
        Ok(())
    }
}
