//! Unfinished work of a unit that another attempt can go on from: values, and finished pieces.
//!
//! What is kept is the same whoever made it, so the first one to create an object wins and nobody minds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::envelope::{self, Format, RecordError};
use super::layout::{self, Object};
use super::record::File;
use super::settle::{Outcome, settle};
use super::{Journal, JournalError, Verdict, read};
use crate::{Hash, Key, StoreError};

/// Bytes of the record of a piece at most. The usual one has 400.
const MOST_PIECE: u64 = 16 << 10;

/// Bytes of the hash in front of values.
const HASH: usize = 32;

/// How the names of records of pieces start.
const PIECE: &str = "piece-";

/// The record of a finished piece of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The plan it belongs to, by its hash.
    pub plan: Hash,
    /// The unit.
    pub unit: u32,
    /// Which of its pieces, from 0 on.
    pub piece: u32,
    /// Where it is.
    pub file: File,
    /// Its frames.
    pub frames: u64,
}

fn piece_name(piece: u32) -> String {
    format!("{PIECE}{piece:06}")
}

impl Journal {
    /// Keeps bytes of a unit under a name. If there are some of that name, they stay.
    pub fn keep(&self, unit: u32, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.known(unit)?;
        let key = layout::kept(unit, name)?;
        let mut all = Vec::with_capacity(HASH + bytes.len());
        all.extend_from_slice(&Hash::of(bytes).bytes());
        all.extend_from_slice(bytes);
        self.store.create(&key, all)?;
        Ok(())
    }

    /// Bytes that were kept under a name; `None` if there are none. Damaged ones are removed.
    pub fn kept(&self, unit: u32, name: &str, most: u64) -> Result<Option<Vec<u8>>, JournalError> {
        self.known(unit)?;
        let key = layout::kept(unit, name)?;
        match self.store.get(&key, most.saturating_add(HASH as u64)) {
            Ok(mut all) => {
                let body = all.get(HASH..).map(Hash::of);
                if body.is_some_and(|hash| all.starts_with(&hash.bytes())) {
                    return Ok(Some(all.split_off(HASH)));
                }
                self.store.delete(&key)?;
                Ok(None)
            }
            Err(StoreError::Missing { .. } | StoreError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names of what is kept of a unit, records of pieces aside.
    pub fn kept_names(&self, unit: u32) -> Result<Vec<String>, JournalError> {
        let kept = |object| match object {
            Object::Kept(_, name) if !name.starts_with(PIECE) => Some(name),
            _ => None,
        };
        Ok(self.list_kept(unit)?.into_iter().filter_map(|(_, object)| kept(object)).collect())
    }

    /// Makes a finished piece count, whose file is in the store already. Of any number of racers one wins.
    pub fn keep_piece(&self, piece: &Piece) -> Result<Verdict<Piece>, JournalError> {
        self.known(piece.unit)?;
        let key = layout::kept(piece.unit, &piece_name(piece.piece))?;
        let written = |source| JournalError::Write { key: key.to_string(), source };
        let (bytes, _) = envelope::seal(Format::Piece, piece).map_err(written)?;
        match settle(&self.store, &key, &bytes, MOST_PIECE)? {
            Outcome::Ours => Ok(Verdict::Won(piece.clone())),
            Outcome::Theirs(bytes) => {
                Ok(Verdict::Lost(self.checked_piece(&key, piece.unit, piece.piece, &bytes)?))
            }
        }
    }

    /// The finished pieces of a unit by number. One whose file is gone or cut is left out.
    pub fn pieces(&self, unit: u32) -> Result<BTreeMap<u32, Piece>, JournalError> {
        let mut pieces = BTreeMap::new();
        for (key, object) in self.list_kept(unit)? {
            let Object::Kept(_, name) = object else { continue };
            let number = name.strip_prefix(PIECE).and_then(|digits| digits.parse().ok());
            let Some(number) = number.filter(|number| piece_name(*number) == name) else { continue };
            let bytes = match self.store.get(&key, MOST_PIECE) {
                Ok(bytes) => bytes,
                // Another worker has finished the unit.
                Err(StoreError::Missing { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let piece = self.checked_piece(&key, unit, number, &bytes)?;
            let file = layout::file(unit, &piece.file.attempt, &piece.file.name)?;
            match self.store.size(&file) {
                Ok(bytes) if bytes == piece.file.bytes => drop(pieces.insert(number, piece)),
                Ok(_) | Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pieces)
    }

    /// Removes what is kept of a unit that is done.
    pub fn drop_kept(&self, unit: u32) -> Result<(), JournalError> {
        let keys = self.list_kept(unit)?.into_iter().map(|(key, _)| key).collect();
        Ok(self.store.delete_many(keys)?)
    }

    fn list_kept(&self, unit: u32) -> Result<Vec<(Key, Object)>, JournalError> {
        self.known(unit)?;
        let mut all = Vec::new();
        for listed in self.store.list(&layout::kept_folder(unit))? {
            let key = listed?.key;
            all.extend(layout::parse(&key).map(|object| (key, object)));
        }
        Ok(all)
    }

    fn checked_piece(&self, key: &Key, unit: u32, number: u32, bytes: &[u8]) -> Result<Piece, JournalError> {
        let piece = read(&self.store, key, piece_from(bytes))?;
        if piece.plan != self.plan.hash() {
            return Err(self.foreign(key, "plan"));
        }
        if (piece.unit, piece.piece) != (unit, number) {
            return Err(self.foreign(key, "unit"));
        }
        Ok(piece)
    }
}

fn piece_from(bytes: &[u8]) -> Result<Piece, RecordError> {
    let (body, _) = envelope::open(Format::Piece, bytes)?;
    let piece: Piece = serde_json::from_str(body)?;
    piece.file.check()?;
    Ok(piece)
}
