//! What can go wrong with units.

use std::path::PathBuf;

use remaster_media::MediaError;
use remaster_restore::RestoreError;
use remaster_store::{JournalError, StoreError};
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
    /// A machine that computes otherwise.
    #[error(
        "the plan was made for {what} {wanted}, but here it is {found}; use a machine like the one that planned, or plan \
         with --mix-devices"
    )]
    Numerics {
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
    /// Units that nobody did yet.
    #[error(
        "{missing} of {units} units are not done, the first is unit {first}; run `remaster unit run` for them, or \
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
    /// A commit that does not fit the plan.
    #[error("unit {unit} has {found} {what} instead of {wanted}; remove its done.json and run it again")]
    Commit {
        /// Which unit.
        unit: u32,
        /// `frames` or `pieces`.
        what: &'static str,
        /// In the record.
        found: u64,
        /// In the plan.
        wanted: u64,
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

/// It was time to stop, and everything is kept.
#[derive(Debug, Error)]
#[error("stopped, as asked for")]
pub(crate) struct Stopped;

impl From<StoreError> for UnitsError {
    fn from(error: StoreError) -> Self {
        UnitsError::Journal(error.into())
    }
}

impl UnitsError {
    /// Whether somebody asked for the end.
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
