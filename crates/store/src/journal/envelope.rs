//! The outside of every record: what it is, its version, its body, and the hash of these three.
//!
//! `{"format":"remaster commit","version":1,"sha256":"...","body":{...}}`

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::Hash;

/// The version that this program writes and reads.
const VERSION: u64 = 1;

/// Which record it is, as its `format` says.
pub(super) const PLAN: &str = "remaster plan";
pub(super) const COMMIT: &str = "remaster commit";
pub(super) const PIECE: &str = "remaster piece";

/// Why bytes are no record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// It is not what was written: cut, changed, or made by another program.
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

/// Every version has these.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u64,
    sha256: Hash,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// The hash of a record. It covers the version, too: a damaged digit must not look like a newer program's work.
fn hash_of(format: &str, version: u64, body: &str) -> Hash {
    Hash::of(format!("{format}\n{version}\n{body}").as_bytes())
}

/// The bytes of a record, and its hash.
pub(super) fn seal(format: &str, body: &impl Serialize) -> Result<(Vec<u8>, Hash), RecordError> {
    let body = serde_json::value::to_raw_value(body)?;
    let sha256 = hash_of(format, VERSION, body.get());
    let whole = Whole { format: format.into(), version: VERSION, sha256, body: &body };
    let mut bytes = serde_json::to_vec(&whole)?;
    bytes.push(b'\n');
    Ok((bytes, sha256))
}

/// The body of a record and its hash, which is checked.
pub(super) fn open<'a>(format: &str, bytes: &'a [u8]) -> Result<(&'a str, Hash), RecordError> {
    let whole: Whole<'_> = serde_json::from_slice(bytes)?;
    if whole.format != format {
        return Err(RecordError::Damaged { reason: format!("it is not a {format}") });
    }
    let body = whole.body.get();
    if hash_of(&whole.format, whole.version, body) != whole.sha256 {
        return Err(RecordError::Damaged { reason: "its SHA-256 is another one".into() });
    }
    match whole.version {
        VERSION => Ok((body, whole.sha256)),
        found => Err(RecordError::Version { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_as_nothing_else() {
        let (bytes, hash) = seal(COMMIT, &[1, 2]).unwrap();
        assert_eq!(open(COMMIT, &bytes).unwrap(), ("[1,2]", hash));
        assert!(matches!(open(PLAN, &bytes), Err(RecordError::Damaged { .. })));
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [("[1,2]", "[1,3]"), ("[1,2]", "[1, 2]"), ("{", "{\"more\":1,"), ("}", "")] {
            let changed = text.replacen(from, to, 1);
            let typed = matches!(open(COMMIT, changed.as_bytes()), Err(RecordError::Damaged { .. }));
            assert!(typed, "{changed}");
        }
        // Whatever byte is damaged, it is damage.
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(matches!(open(COMMIT, &bytes), Err(RecordError::Damaged { .. })), "byte {at}");
        }
        let newer = |hash: Hash| {
            format!(r#"{{"format":"remaster commit","version":2,"sha256":"{hash}","body":["what","ever"]}}"#)
        };
        let right = newer(hash_of("remaster commit", 2, r#"["what","ever"]"#));
        assert!(matches!(open(COMMIT, right.as_bytes()), Err(RecordError::Version { found: 2 })));
        assert!(matches!(open(COMMIT, newer(hash).as_bytes()), Err(RecordError::Damaged { .. })));
    }
}
