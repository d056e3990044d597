//! `remaster models verify`: whether a model file is whole. Nothing is ever deleted or changed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use remaster_compute::CancelToken;
use remaster_plan::bytes;
use remaster_weights::{
    Checkpoint, CheckpointError, Kind, PUBLISHED, Published, published, sha256_in_pieces,
};
use serde::Serialize;

use super::list::{fit, shown};
use super::search::{self, Found, ModelDirArgs, Surroundings};
use super::word;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{Progress, ProgressArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Files to verify [default: all that `models list` finds]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    dirs: ModelDirArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// What can be said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Byte by byte a published file.
    Known,
    /// Not a published file, but every tensor is there, in the right shape, and all values are numbers.
    Complete,
    /// Something is missing or broken.
    Damaged,
    /// Nothing is known to compare it with.
    Unverified,
}

#[derive(Serialize)]
struct Report {
    /// Every file is known or complete.
    passed: bool,
    files: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    file: String,
    bytes: u64,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    verdict: Verdict,
    /// What is known, or what is wrong, for people.
    reason: String,
    /// The published file it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Origin>,
}

#[derive(Serialize)]
struct Origin {
    file: &'static str,
    repo: &'static str,
}

const MIB: u64 = 1 << 20;

pub(crate) fn run(args: &VerifyArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let found = if args.files.is_empty() {
        let places = search::places(args.dirs.model_dir.as_deref(), &Surroundings::read());
        let mut found = search::find(&places)?;
        // A folder of ComfyUI holds all kinds of networks; only ours are our business.
        found.retain(|f| !matches!(&f.content, Ok((_, identity)) if identity.kind == Kind::Unknown));
        found
    } else if args.dirs.model_dir.is_some() {
        return Err(CliError::FilesAndFolder);
    } else {
        args.files.iter().map(|f| search::named(f)).collect::<Result<_, _>>()?
    };
    if found.is_empty() {
        return Err(CliError::NoModels);
    }
    let mut progress = Progress::counting("MiB", args.progress.mode, out);
    let total: u64 = found.iter().map(|f| f.bytes).sum();
    progress.phase("hash", usize::try_from(total.div_ceil(MIB)).ok());
    let mut files = Vec::new();
    for found in &found {
        let sha256 = hash(&found.path, &mut progress, &cancel)?;
        files.push(judge(found, sha256));
    }
    drop(progress);

    let failed = files.iter().filter(|f| !f.verdict.passed()).count();
    let report = Report { passed: failed == 0, files };
    out.result(&report, || describe(&report));
    match failed {
        0 => Ok(()),
        _ => Err(CliError::NotVerified { failed, total: report.files.len() }),
    }
}

fn hash(path: &Path, progress: &mut Progress, cancel: &CancelToken) -> Result<String, CliError> {
    let (mut since, mut fresh) = (Instant::now(), 0);
    let hash = sha256_in_pieces(path, &mut |bytes| {
        fresh += bytes;
        if fresh >= 16 * MIB {
            progress.advance("hash", (fresh / MIB) as usize, since.elapsed());
            (since, fresh) = (Instant::now(), fresh % MIB);
        }
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.advance("hash", fresh.div_ceil(MIB) as usize, since.elapsed());
    let hash = hash.map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    hash.ok_or(CliError::Interrupted)
}

fn judge(found: &Found, sha256: String) -> Entry {
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
            None => (
                Verdict::Unverified,
                match &identity.kind {
                    Kind::UnclearVae { doubt } => doubt.to_string(),
                    Kind::UnclearDit { doubt } => doubt.to_string(),
                    _ => "not a published file, and not a SeedVR2 network".into(),
                },
            ),
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
    Entry {
        file: found.path.display().to_string(),
        bytes: found.bytes,
        sha256,
        kind: found.content.as_ref().ok().map(|(_, identity)| word(&identity.kind)),
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

/// Other formats are whole as far as anybody knows; the rest is not what it should be.
fn broken(error: &CheckpointError) -> Verdict {
    match error {
        CheckpointError::GgufVersion { .. }
        | CheckpointError::GgufBigEndian
        | CheckpointError::GgufType { .. }
        | CheckpointError::Pickle
        | CheckpointError::Zip
        | CheckpointError::NotSafetensors { .. }
        | CheckpointError::NotAFile { .. }
        | CheckpointError::Io { .. } => Verdict::Unverified,
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
    fn passed(self) -> bool {
        matches!(self, Verdict::Known | Verdict::Complete)
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Known => "known",
            Verdict::Complete => "complete",
            Verdict::Damaged => "DAMAGED",
            Verdict::Unverified => "unverified",
        }
    }
}

fn describe(report: &Report) -> String {
    let mut text = String::new();
    for e in &report.files {
        text += &format!("{:10} {:>11}  {}\n", e.verdict.word(), bytes(e.bytes), shown(&e.file));
        text += &format!("{:24}{}\n{:24}sha256 {}\n", "", e.reason, "", e.sha256);
    }
    text
}
