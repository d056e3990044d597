//! Places for the units of Remaster, and the journal of what is finished.
//!
//! A [`Store`] is a folder, or a bucket with the feature `cloud`: immutable objects under checked [`Key`]s, and one
//! operation that decides races, [`Store::create`]. A [`Journal`] is the layout of a plan inside a store and the rule
//! by which a unit becomes finished: whole objects first, then one record that only one worker can create. The listing
//! of those records is the journal; there is no other state that could disagree with it. No clock is compared and no
//! lock is held, so planner, workers and assembler need to share nothing but the store.
//!
//! Calls block. They have time limits and try again a bounded number of times; what runs them is hidden inside.
//!
//! ```
//! use remaster_store::{Journal, Notes, Store, StoreSettings, Verdict};
//!
//! let folder = tempfile::tempdir()?;
//! let store = Store::make(&folder.path().join("film.remaster").display().to_string(), StoreSettings::default())?;
//! store.probe()?;
//! let journal = Journal::make(store, 2, r#"{"film":"a.mkv"}"#)?;
//!
//! let mut attempt = journal.attempt(0)?;
//! attempt.put_bytes("segment.nut", b"frames".to_vec())?;
//! let verdict = attempt.commit(Notes { frames: 97, worker: "desk, GPU 0".into(), milliseconds: 48_000, left: false })?;
//! assert!(matches!(verdict, Verdict::Won(_)));
//! assert_eq!(journal.done()?.into_iter().collect::<Vec<_>>(), [0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cloud;
mod content;
mod core;
mod error;
mod failure;
mod fetch;
mod io;
mod journal;
mod key;
mod listing;
mod local;
mod place;
mod probe;
mod random;
mod secrets;
mod settings;
mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
mod upload;

pub use content::{Content, Hash, HashError};
pub use error::StoreError;
pub use journal::{
    Attempt, AttemptId, Cleaned, Commit, Commits, Damage, File, Journal, JournalError, Keeping, MOST_PLAN,
    Notes, Piece, Pieces, Plan, Producer, RecordError, Sweep, Verdict, is_of_a_journal,
};
pub use key::Key;
pub use listing::{Listed, Listing};
pub use settings::{Limits, StoreSettings};
pub use store::{Created, Store};
