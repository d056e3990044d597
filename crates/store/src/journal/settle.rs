//! One race for one record.

use super::error::JournalError;
use crate::{Created, Key, Store, StoreError};

/// What stands in the store after the race.
pub(super) enum Outcome {
    /// Our bytes.
    Ours,
    /// Bytes that another worker created before.
    Theirs(Vec<u8>),
}

/// Creates a record and reads back what is there. Only what is read decides: the answer to a create can be lost, and the
/// next try of the same create then finds its own record. A create that says it won and is not what is read back came
/// from a store that does not keep its promise.
pub(super) fn settle(store: &Store, key: &Key, bytes: &[u8], most: u64) -> Result<Outcome, JournalError> {
    let mut tries = store.core().limits.tries.max(1);
    loop {
        let created = store.create(key, bytes.to_vec())?;
        match (created, store.get(key, most)) {
            (_, Ok(there)) if there == bytes => return Ok(Outcome::Ours),
            (Created::AlreadyThere, Ok(there)) => return Ok(Outcome::Theirs(there)),
            (Created::New, Ok(_)) => {
                let what = "an object that was created is not what is there";
                return Err(StoreError::Liar { place: store.place(), what }.into());
            }
            // S3 refuses a create also while another one is under way, which may come to nothing.
            (Created::AlreadyThere, Err(StoreError::Missing { .. })) if tries > 1 => tries -= 1,
            (_, Err(error)) => return Err(error.into()),
        }
    }
}
