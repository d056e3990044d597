//! What a journal can fail with.

use thiserror::Error;

use super::envelope::RecordError;
use crate::{Hash, StoreError};

/// Why the journal of a plan could not be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record in the store cannot be used.
    #[error("cannot use {key} in {place}: {source}; {}", next(source))]
    Record {
        /// The place.
        place: String,
        /// The record.
        key: String,
        /// Why.
        source: RecordError,
    },
    /// A record cannot be written as it was given.
    #[error("cannot write {key}: {source}; this is a mistake of the program: report it")]
    Write {
        /// The record.
        key: String,
        /// Why.
        source: RecordError,
    },
    /// The place holds another plan.
    #[error(
        "{place} holds the work of another plan ({found}, expected {expected}); use another place, or the settings and \
         the film that it was made with"
    )]
    OtherPlan {
        /// The place.
        place: String,
        /// The hash of the plan there.
        found: Hash,
        /// The hash of the plan that was asked for.
        expected: Hash,
    },
    /// A record of another plan or unit.
    #[error("{key} in {place} belongs to another {what}; remove it and run the command again")]
    Foreign {
        /// The place.
        place: String,
        /// The record.
        key: String,
        /// `plan` or `unit`.
        what: &'static str,
    },
    /// Work of a device that was found to compute wrong numbers.
    #[error(
        "{key} in {place} was made by a device that computed wrong numbers; run the command again, which does that part anew"
    )]
    Untrusted {
        /// The place.
        place: String,
        /// The record.
        key: String,
    },
    /// No such unit.
    #[error("there is no unit {unit}: the plan has {units}, the first is 0; choose one of them")]
    Unit {
        /// What was asked for.
        unit: u32,
        /// Units of the plan.
        units: u32,
    },
    /// An attempt has a file of this name already.
    #[error("the attempt has a file `{name}` already; choose another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// A file of an attempt is not in the store as it should be, so that the attempt does not count.
    #[error("{key} is not whole in {place}, so that its unit does not count as done; do the unit again")]
    NotWhole {
        /// The place.
        place: String,
        /// The file.
        key: String,
    },
}

impl JournalError {
    /// Whether something in the store is damaged or lost: what it belongs to is done again, and all is well.
    pub fn is_damage(&self) -> bool {
        use StoreError::{Hash, Missing, Size, TooLarge};
        match self {
            JournalError::Record { .. }
            | JournalError::Foreign { .. }
            | JournalError::NotWhole { .. }
            | JournalError::Untrusted { .. } => true,
            JournalError::Store(error) => {
                matches!(error, Missing { .. } | TooLarge { .. } | Size { .. } | Hash { .. })
            }
            _ => false,
        }
    }

    /// Whether a record is of another version of this program, which can use it.
    pub fn is_newer(&self) -> bool {
        matches!(self, JournalError::Record { source: RecordError::Version { .. }, .. })
    }
}

fn next(error: &RecordError) -> &'static str {
    match error {
        RecordError::Version { .. } => "use the version of this program that the work was begun with",
        _ => "remove it and run the command again, which does that part anew",
    }
}
