//! What can go wrong with units.

use std::path::{Path, PathBuf};

use remaster_media::MediaError;
use remaster_restore::RestoreError;
use remaster_store::{Damage, JournalError, StoreError};
use thiserror::Error;

/// Work on a film that cannot go on.
#[derive(Debug, Error)]
pub enum UnitsError {
    /// The store or its records.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Reading or writing video.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The restoration.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A plan that is not one.
    #[error("the plan cannot be used: {reason}; make a new one with `remaster plan`")]
    Plan {
        /// What is wrong with it.
        reason: String,
    },
    /// Filters or encoder options that a plan holds by their hash alone, or others than those of the plan.
    #[error("{}", repeat(option, what, *other))]
    Repeat {
        /// Which option.
        option: &'static str,
        /// What it is for.
        what: &'static str,
        /// It was typed, but is another one.
        other: bool,
    },
    /// A machine that computes otherwise.
    #[error(
        "the plan was made for {what} {wanted}, but here it is {found}; use a machine like the one that planned, or plan \
         with --mix-devices"
    )]
    ResultClass {
        /// What differs.
        what: &'static str,
        /// As the plan has it.
        wanted: String,
        /// As it is here.
        found: String,
    },
    /// Another film than the one that was planned.
    #[error("{} is not the film that was planned ({reason}); name the original with --input", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A film that is not complete yet, or that another run works on.
    #[error("{} changed while it was read; wait until it is complete, then run the command again", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// A network that changed during the run.
    #[error("{} changed during the run, so that its results cannot be used; run the command again", path.display())]
    Touched {
        /// The file.
        path: PathBuf,
    },
    /// Another network than the one that was planned.
    #[error(
        "{what} {name} has other content than the one that was planned ({found}, expected {wanted}); use the same file"
    )]
    Weights {
        /// Which network.
        what: String,
        /// Its file here.
        name: String,
        /// Its hash here.
        found: String,
        /// Its hash in the plan.
        wanted: String,
    },
    /// Units that are not done yet.
    #[error(
        "{missing} of {units} units are not done, the first is unit {first}; do them with `unit run --index missing`, or \
         assemble later"
    )]
    Missing {
        /// How many.
        missing: usize,
        /// Of all.
        units: u32,
        /// The first one.
        first: u32,
    },
    /// Units that were done and are damaged. They count as not done from now on.
    #[error(
        "{} damaged in the store and must be done again ({}); run `unit run --index {}` for this plan, then assemble again",
        if units.len() == 1 { "1 unit is".to_owned() } else { format!("{} units are", units.len()) },
        first_of(damaged),
        list(units)
    )]
    Undone {
        /// Which ones, in order.
        units: Vec<u32>,
        /// What is wrong with them.
        damaged: Vec<Damage>,
    },
    /// A local file.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A manifest that cannot be used.
    #[error("cannot use the manifest {}: {reason}", path.display())]
    Manifest {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// What is wrong, with as much as a person wants to read.
fn first_of(damaged: &[Damage]) -> String {
    let first: Vec<String> = damaged.iter().take(3).map(ToString::to_string).collect();
    let more = if damaged.len() > first.len() { ", ..." } else { "" };
    first.join(", ") + more
}

/// Numbers as `--index` takes them.
fn list(units: &[u32]) -> String {
    let words: Vec<String> = units.iter().map(ToString::to_string).collect();
    words.join(",")
}

fn repeat(option: &str, what: &str, other: bool) -> String {
    match other {
        true => format!("{option} is other than in the plan; use the {what} that the plan was made with"),
        false => format!(
            "the plan was made with {what} that a plan cannot hold; repeat {option} as it was given to `remaster plan`"
        ),
    }
}

/// It was time to stop, and everything is kept.
#[derive(Debug, Error)]
#[error("stopped, as asked for")]
pub(crate) struct Stopped;

/// What a store failed with, in the words of readers and writers of frames beside `folder`.
pub(crate) fn of_frames(error: &JournalError, doing: &str, folder: &Path) -> MediaError {
    match error {
        JournalError::Store(StoreError::Full { .. }) => MediaError::NoSpace { folder: folder.to_owned() },
        error => MediaError::Io { doing: doing.into(), source: std::io::Error::other(error.to_string()) },
    }
}

impl From<StoreError> for UnitsError {
    fn from(error: StoreError) -> Self {
        UnitsError::Journal(error.into())
    }
}

impl UnitsError {
    /// True once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        match self {
            UnitsError::Media(MediaError::Cancelled) => true,
            UnitsError::Restore(RestoreError::Checkpoint(error)) => error.is::<Stopped>(),
            UnitsError::Restore(error) => error.is_cancelled(),
            _ => false,
        }
    }

    /// Whether a disk is full: making room helps, and nothing is lost.
    pub fn is_full(&self) -> bool {
        let full = |error: &MediaError| match error {
            MediaError::NoSpace { .. } => true,
            MediaError::Io { source, .. } => is_full(source),
            _ => false,
        };
        match self {
            UnitsError::Journal(JournalError::Store(StoreError::Full { .. })) => true,
            UnitsError::Restore(RestoreError::Checkpoint(error)) => {
                matches!(error.downcast_ref(), Some(JournalError::Store(StoreError::Full { .. })))
            }
            UnitsError::Media(error) | UnitsError::Restore(RestoreError::Media(error)) => full(error),
            UnitsError::Restore(RestoreError::Latents(source) | RestoreError::Spool { source, .. })
            | UnitsError::File { source, .. } => is_full(source),
            _ => false,
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}
