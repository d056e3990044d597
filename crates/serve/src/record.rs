//! Versions of the records of jobs and uploads.

use serde::{Deserialize, Serialize};

/// The version of new records. It grows when an older program would misread them.
const VERSION: u64 = 1;

/// A record with its version, as it is written.
#[derive(Serialize)]
pub(crate) struct Versioned<T> {
    version: u64,
    #[serde(flatten)]
    record: T,
}

impl<T> Versioned<T> {
    pub(crate) fn new(record: T) -> Self {
        Versioned { version: VERSION, record }
    }
}

/// The part of a record that every version has. Records without a version are of version 1.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "first")]
    version: u64,
}

fn first() -> u64 {
    1
}

/// The record in these bytes, or why there is none that this program can use, as the end of a sentence.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(
    bytes: &[u8],
    is_valid: impl FnOnce(&T) -> bool,
) -> Result<T, String> {
    let damaged = |error| format!("is damaged ({error})");
    let Head { version } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version > VERSION {
        return Err(format!("has version {version}, and this program reads versions up to {VERSION}"));
    }
    let record: T = serde_json::from_slice(bytes).map_err(damaged)?;
    if is_valid(&record) { Ok(record) } else { Err("is that of another one".to_owned()) }
}
