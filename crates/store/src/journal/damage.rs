//! Something in a store that is not as it was written.

use thiserror::Error;

use super::JournalError;
use crate::StoreError;

/// A damaged or lost object of a unit. What it was is made again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {reason}")]
pub struct Damage {
    /// The unit.
    pub unit: u32,
    /// The object.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Damage {
    /// Of an object that could not be used. Other errors than damage are given back.
    pub fn of(unit: u32, key: &str, error: JournalError) -> Result<Self, JournalError> {
        let reason = match &error {
            JournalError::Record { source, .. } => source.to_string(),
            JournalError::Foreign { what, .. } => format!("it belongs to another {what}"),
            JournalError::Untrusted { .. } => "it was made by a device that computed wrong numbers".into(),
            JournalError::Store(StoreError::Hash { .. }) => "its content has changed".into(),
            error if error.is_damage() => "it is lost or has another size".into(),
            _ => return Err(error),
        };
        Ok(Damage { unit, key: key.to_owned(), reason })
    }
}
