//! Whether model files are whole. Nothing is ever deleted or changed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use remaster_weights::{Checkpoint, CheckpointError, Kind, PUBLISHED, Published, published};
use serde::{Deserialize, Serialize};

use super::search::{self, Found, fit};
use super::{doubt, word};
use crate::control::Control;
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::job::{Context, Job, Known, Prepare};
use crate::machine::hashes::hash_of;

/// What can be said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Byte by byte a published file.
    Known,
    /// Not a published file, but every tensor is there, in the right shape, and all values are numbers.
    Complete,
    /// Something is missing or broken.
    Damaged,
    /// Nothing is known to compare it with.
    Unverified,
}

/// Model files that were looked at.
#[derive(Serialize)]
#[non_exhaustive]
pub struct VerifiedModels {
    /// Every file is known or complete.
    pub passed: bool,
    /// All of them.
    pub files: Vec<FileVerdict>,
}

/// What can be said about a file.
#[derive(Serialize)]
#[non_exhaustive]
pub struct FileVerdict {
    /// Its path.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Of all of it.
    pub sha256: String,
    /// As in [`super::inspect`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// What can be said.
    pub verdict: Verdict,
    /// What is known, or what is wrong, in words.
    pub reason: String,
    /// The published file it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Origin>,
}

/// A published file.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Origin {
    /// Its name.
    pub file: &'static str,
    /// Where it is.
    pub repo: &'static str,
}

const MIB: u64 = 1 << 20;

/// Model files to compare with the published ones by hash, or to check tensor by tensor. Nothing is ever deleted or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyRequest {
    /// Which; those of the search if empty.
    pub files: Vec<PathBuf>,
    /// Folder that is searched first.
    pub folder: Option<PathBuf>,
}

/// Finds the files. The job reads them.
impl Prepare for VerifyRequest {
    type Job = Job<VerifiedModels>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let VerifyRequest { files, folder } = self;
        let found = if files.is_empty() {
            let mut found = search::find(&search::places(folder.as_deref(), context.machine))?;
            // A folder of ComfyUI holds all kinds of networks; only ours are our business.
            found.retain(|f| f.kind() != Some(&Kind::Unknown));
            found
        } else if folder.is_some() {
            return Err(Error::FilesAndFolder);
        } else {
            files.iter().map(|f| search::named(f)).collect::<Result<_, _>>()?
        };
        if found.is_empty() {
            return Err(Error::NoModels);
        }
        let control = context.control.clone();
        Ok(Job::new(Known::default(), move |report| {
            report.started("MiB", About::default());
            let total: u64 = found.iter().map(|f| f.bytes).sum();
            report.phase("hash", usize::try_from(total.div_ceil(MIB)).ok());
            let files = found.iter().map(|f| Ok(judge(f, hash(&f.path, report, &control)?)));
            let files: Vec<FileVerdict> = files.collect::<Result<_, Error>>()?;
            let passed = files.iter().all(|file| file.verdict.passed());
            Ok(VerifiedModels { passed, files })
        }))
    }
}

impl VerifiedModels {
    /// An error if a file is damaged or could not be verified.
    pub fn check(&self) -> Result<(), Error> {
        match self.files.iter().filter(|file| !file.verdict.passed()).count() {
            0 => Ok(()),
            failed => Err(Error::NotVerified { failed, total: self.files.len() }),
        }
    }
}

fn hash(path: &Path, report: &Reporter<'_>, control: &Control) -> Result<String, Error> {
    let (mut since, mut fresh) = (Instant::now(), 0);
    let hash = hash_of(path, &mut |bytes| {
        fresh += bytes;
        if fresh >= 16 * MIB {
            report.advance("hash", (fresh / MIB) as usize, since.elapsed());
            (since, fresh) = (Instant::now(), fresh % MIB);
        }
        control.flow()
    });
    report.advance("hash", fresh.div_ceil(MIB) as usize, since.elapsed());
    hash
}

fn judge(found: &Found, sha256: String) -> FileVerdict {
    let known = published(&sha256);
    let (verdict, mut reason) = match (known, &found.content) {
        (Some(p), _) => (Verdict::Known, format!("{} of {}", p.file, p.repo)),
        (None, Err(error)) => (broken(error), error.to_string()),
        (None, Ok((checkpoint, identity))) => match fit(checkpoint, &identity.kind) {
            Some(fit) if !fit.is_complete() => (Verdict::Damaged, fit.to_string().replace("\n ", ";")),
            Some(fit) => match not_a_number(checkpoint) {
                Some(name) => (Verdict::Damaged, format!("tensor `{name}` contains NaN or infinite values")),
                None => (
                    Verdict::Complete,
                    format!(
                        "not a published file, but complete: all {} tensors have the right shape",
                        fit.applied.len()
                    ),
                ),
            },
            None => {
                let other = || "not a published file, and not a network that is known".into();
                (Verdict::Unverified, doubt(&identity.kind).unwrap_or_else(other))
            }
        },
    };
    if let (None, Some(p)) = (known, namesake(&found.path)) {
        let size = match p.bytes {
            Some(expected) if expected != found.bytes => {
                format!(" ({} bytes instead of {expected})", found.bytes)
            }
            _ => String::new(),
        };
        reason += &format!(
            "; it is named like a file of {} but its content differs{size}: download it again if it should be \
             that file",
            p.repo
        );
    }
    FileVerdict {
        file: found.path.display().to_string(),
        bytes: found.bytes,
        sha256,
        kind: found.kind().map(word),
        verdict,
        reason,
        published: known.map(|p| Origin { file: p.file, repo: p.repo }),
    }
}

/// A published file of the same name. A hint only: names prove nothing.
fn namesake(path: &Path) -> Option<&'static Published> {
    let name = path.file_name()?.to_string_lossy();
    PUBLISHED.iter().find(|p| p.name() == name)
}

/// Other formats cannot be verified; the rest is damaged.
fn broken(error: &CheckpointError) -> Verdict {
    match error {
        CheckpointError::GgufVersion { .. }
        | CheckpointError::GgufBigEndian
        | CheckpointError::GgufType { .. }
        | CheckpointError::Pickle
        | CheckpointError::OldTorch
        | CheckpointError::Zip
        | CheckpointError::NotSafetensors { .. }
        | CheckpointError::NotAFile { .. }
        | CheckpointError::Io { .. } => Verdict::Unverified,
        CheckpointError::Torch { fault } if fault.is_foreign() => Verdict::Unverified,
        _ => Verdict::Damaged,
    }
}

/// The first tensor with an infinity or a NaN: no trained network has one, a disk that lost bits may.
fn not_a_number(checkpoint: &Checkpoint) -> Option<String> {
    let mut values = vec![0.0; 1 << 16];
    // Scales are part of the values they scale.
    for tensor in checkpoint.tensors().filter(|t| !t.is_companion()) {
        let mut start = 0;
        while start < tensor.elements() {
            let count = values.len().min(tensor.elements() - start);
            let read = checkpoint.read_f32(tensor, start, &mut values[..count]);
            if read.is_err() || values[..count].iter().any(|v| !v.is_finite()) {
                return Some(tensor.name().to_owned());
            }
            start += count;
        }
    }
    None
}

impl Verdict {
    /// True if it can be used.
    pub fn passed(self) -> bool {
        matches!(self, Verdict::Known | Verdict::Complete)
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Known => "known",
            Verdict::Complete => "complete",
            Verdict::Damaged => "DAMAGED",
            Verdict::Unverified => "unverified",
        }
    }
}
