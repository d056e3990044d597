//! What the records of a plan say, checked before it is believed.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::envelope::{self, COMMIT, PLAN, RecordError};
use super::layout::MOST_UNITS;
use super::producer::{MAX_PRODUCERS, Producer};
use crate::key::wrong_part;
use crate::{Content, Hash, random};

/// Bytes of a commit at most. The usual one has 500.
pub(super) const MOST_COMMIT: u64 = 128 << 10;

/// Bytes of a plan at most: a million units take 40 MB.
pub const MOST_PLAN: u64 = 48 << 20;

/// Files of an attempt at most.
const MOST_FILES: usize = 256;

/// Bytes of the text about a worker at most.
const MOST_WORKER: usize = 256;

/// No file and no number of frames comes near it, and sums of it do not overflow.
const MOST: u64 = 1 << 48;

/// The name of one attempt at a unit, which no other attempt has: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AttemptId(String);

impl AttemptId {
    /// A new one.
    pub(crate) fn random() -> Self {
        AttemptId(random::name())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for AttemptId {
    type Error = RecordError;

    fn try_from(text: String) -> Result<Self, RecordError> {
        match random::is_name(&text) {
            true => Ok(AttemptId(text)),
            false => Err(RecordError::Value { what: "the attempt" }),
        }
    }
}

/// A file of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The attempt that wrote it: the one that counts, or an earlier one that it goes on from.
    pub attempt: AttemptId,
    /// Its name in the attempt.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub sha256: Hash,
}

impl File {
    /// Size and hash.
    pub fn content(&self) -> Content {
        Content { bytes: self.bytes, sha256: self.sha256 }
    }

    pub(super) fn check(&self) -> Result<(), RecordError> {
        match wrong_part(&self.name).is_none() && self.bytes <= MOST {
            true => Ok(()),
            false => Err(RecordError::Value { what: "the name or size of a file" }),
        }
    }
}

/// What a worker says about an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Frames that came out.
    pub frames: u64,
    /// Name of the worker: at most 256 bytes without control characters.
    pub worker: String,
    /// How long it took.
    pub milliseconds: u64,
    /// The unit could not be done, and some of its frames are those of the input.
    pub left: bool,
}

/// The record that makes an attempt count: `done.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The plan it belongs to, by its hash.
    pub plan: Hash,
    /// The unit.
    pub unit: u32,
    /// The attempt that counts.
    pub attempt: AttemptId,
    /// All its files.
    pub files: Vec<File>,
    /// Frames that came out.
    pub frames: u64,
    /// Who did it.
    pub worker: String,
    /// How long it took.
    pub milliseconds: u64,
    /// The unit could not be done, and some of its frames are those of the input.
    pub left: bool,
    /// Whose work it is, where that may turn out to be wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub producers: Vec<Producer>,
}

impl Commit {
    /// Reads one and checks it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let (body, _) = envelope::open(COMMIT, bytes)?;
        let commit: Commit = serde_json::from_str(body)?;
        commit.check()?;
        Ok(commit)
    }

    /// The file of this name.
    pub fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        self.check()?;
        let (bytes, _) = envelope::seal(COMMIT, self)?;
        small(bytes, MOST_COMMIT)
    }

    fn check(&self) -> Result<(), RecordError> {
        let mut names = BTreeSet::new();
        self.files.iter().try_for_each(File::check)?;
        let what = if self.unit >= MOST_UNITS {
            "the unit"
        } else if self.files.is_empty() || self.files.len() > MOST_FILES {
            "the number of files"
        } else if !self.files.iter().all(|file| names.insert(file.name.as_str())) {
            "the name of a file that is there twice"
        } else if self.frames > MOST || self.milliseconds > MOST {
            "the number of frames or the time"
        } else if self.worker.len() > MOST_WORKER || self.worker.chars().any(char::is_control) {
            "the text about the worker"
        } else if self.producers.len() > MAX_PRODUCERS {
            "the number of producers"
        } else {
            return Ok(());
        };
        Err(RecordError::Value { what })
    }
}

/// What all work on a film follows: `plan.json`. The journal knows how many units it has and keeps the rest as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    units: u32,
    text: String,
    hash: Hash,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanBody<'a> {
    units: u32,
    #[serde(borrow)]
    plan: &'a RawValue,
}

impl Plan {
    /// A plan for so many units. `text` is JSON and is given back to the byte.
    pub fn new(units: u32, text: &str) -> Result<Self, RecordError> {
        let raw: &RawValue = serde_json::from_str(text)?;
        let (bytes, _) = envelope::seal(PLAN, &PlanBody { units, plan: raw })?;
        Plan::from_bytes(&small(bytes, MOST_PLAN)?)
    }

    /// Reads one and checks it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let (body, hash) = envelope::open(PLAN, bytes)?;
        let PlanBody { units, plan } = serde_json::from_str(body)?;
        match units {
            1..=MOST_UNITS => Ok(Plan { units, text: plan.get().to_owned(), hash }),
            _ => Err(RecordError::Value { what: "the number of units" }),
        }
    }

    /// Units it has.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// The plan itself, JSON of the planner.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its name: the hash of units and text.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        let plan: &RawValue = serde_json::from_str(&self.text)?;
        Ok(envelope::seal(PLAN, &PlanBody { units: self.units, plan })?.0)
    }
}

/// What is written must be what can be read again.
fn small(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, RecordError> {
    if bytes.len() as u64 > most { Err(RecordError::Value { what: "its size" }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit() -> Commit {
        let (attempt, sha256) = (AttemptId::random(), Hash::of(b"bytes"));
        let file = |name: &str| File { attempt: attempt.clone(), name: name.into(), bytes: 5, sha256 };
        let files = vec![file("segment.nut"), file("colours.bin")];
        let (plan, attempt, worker) = (Hash::of(b"plan"), AttemptId::random(), "desk".into());
        let (unit, frames, milliseconds, left, producers) = (7, 97, 1, false, Vec::new());
        Commit { plan, unit, attempt, files, frames, worker, milliseconds, left, producers }
    }

    /// Writes without the check, as another program may.
    fn forged(commit: &Commit) -> Result<Commit, RecordError> {
        Commit::from_bytes(&envelope::seal(COMMIT, commit).unwrap().0)
    }

    #[test]
    fn a_commit_is_read_as_it_was_written() {
        let commit = commit();
        assert_eq!(Commit::from_bytes(&commit.to_bytes().unwrap()).unwrap(), commit);
        assert_eq!(commit.file("colours.bin").unwrap().content(), Content::of(b"bytes"));
    }

    #[test]
    fn hostile_values_are_refused_behind_a_right_hash() {
        type Change = fn(&mut Commit);
        let changes: [(&str, Change); 10] = [
            ("unit", |c| c.unit = 1_000_000),
            ("number of files", |c| c.files.clear()),
            ("number of files", |c| c.files = vec![c.files[0].clone(); 257]),
            ("name or size", |c| c.files[0].name = "../x".into()),
            ("name or size", |c| c.files[0].bytes = u64::MAX),
            ("twice", |c| c.files[1].name = "segment.nut".into()),
            ("frames", |c| c.frames = u64::MAX),
            ("time", |c| c.milliseconds = u64::MAX),
            ("worker", |c| c.worker = "\u{1b}[2J".into()),
            ("producers", |c| c.producers = (0..257).map(|_| Producer::random()).collect()),
        ];
        for (word, change) in changes {
            let mut changed = commit();
            change(&mut changed);
            let error = forged(&changed).unwrap_err();
            assert!(matches!(error, RecordError::Value { what } if what.contains(word)), "{word}: {error}");
            assert!(changed.to_bytes().is_err(), "it is not written either");
        }
    }

    #[test]
    fn a_plan_keeps_its_text_and_has_units() {
        let text = r#"{ "film" : "a.mkv", "x":[1 ,2] }"#;
        let plan = Plan::new(3, text).unwrap();
        let read = Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap();
        assert_eq!((read.units(), read.text(), read.hash()), (3, text, plan.hash()));
        assert_ne!(Plan::new(4, text).unwrap().hash(), plan.hash());
        assert!(Plan::new(0, text).is_err() && Plan::new(1_000_001, text).is_err());
        assert!(Plan::new(1, "{").is_err() && Plan::new(1, "").is_err());
    }
}
