//! The outside of every record: what it is, its version, and the hash of its body.
//!
//! `{"format":"remaster commit","version":1,"sha256":"...","body":{...}}`

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::Hash;

/// The version that this program writes and reads.
const VERSION: u32 = 1;

/// Which record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Plan,
    Commit,
    Assembly,
    Piece,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Plan => "remaster plan",
            Format::Commit => "remaster commit",
            Format::Assembly => "remaster assembly",
            Format::Piece => "remaster piece",
        }
    }
}

/// Why bytes are no record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// It is not what was written: cut, changed, or made by somebody else.
    #[error("it is damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// A version that this program does not know.
    #[error("it has version {found}, and this program knows version {VERSION}")]
    Version {
        /// Its version.
        found: u64,
    },
    /// Well-formed, with a value that cannot be.
    #[error("{what} cannot be as it says")]
    Value {
        /// Which value.
        what: &'static str,
    },
}

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> Self {
        RecordError::Damaged { reason: error.to_string() }
    }
}

/// What every version has.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u32,
    sha256: Hash,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// The bytes of a record, and the hash of its body.
pub(super) fn seal(format: Format, body: &impl Serialize) -> Result<(Vec<u8>, Hash), RecordError> {
    let body = serde_json::value::to_raw_value(body)?;
    let sha256 = Hash::of(body.get().as_bytes());
    let whole = Whole { format: format.name().into(), version: VERSION, sha256, body: &body };
    let mut bytes = serde_json::to_vec(&whole)?;
    bytes.push(b'\n');
    Ok((bytes, sha256))
}

/// The body of a record and its hash, which is checked.
pub(super) fn open(format: Format, bytes: &[u8]) -> Result<(&str, Hash), RecordError> {
    let head: Head<'_> = serde_json::from_slice(bytes)?;
    if head.format != format.name() {
        return Err(RecordError::Damaged { reason: format!("it is not a {}", format.name()) });
    }
    if head.version != u64::from(VERSION) {
        return Err(RecordError::Version { found: head.version });
    }
    let whole: Whole<'_> = serde_json::from_slice(bytes)?;
    let body = whole.body.get();
    match Hash::of(body.as_bytes()) == whole.sha256 {
        true => Ok((body, whole.sha256)),
        false => Err(RecordError::Damaged { reason: "its SHA-256 is another one".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_as_nothing_else() {
        let (bytes, hash) = seal(Format::Commit, &[1, 2]).unwrap();
        assert_eq!(open(Format::Commit, &bytes).unwrap(), ("[1,2]", hash));
        assert!(matches!(open(Format::Plan, &bytes), Err(RecordError::Damaged { .. })));
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [("[1,2]", "[1,3]"), ("[1,2]", "[1, 2]"), ("{", "{\"more\":1,"), ("}", "")] {
            let changed = text.replacen(from, to, 1);
            assert!(
                matches!(open(Format::Commit, changed.as_bytes()), Err(RecordError::Damaged { .. })),
                "{changed}"
            );
        }
        let newer = br#"{"format":"remaster commit","version":2,"what":"ever"}"#;
        assert!(matches!(open(Format::Commit, newer), Err(RecordError::Version { found: 2 })));
    }
}
