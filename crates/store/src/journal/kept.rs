//! Unfinished work of a unit that another attempt can go on from: values, and finished pieces.
//!
//! What is kept is the same whoever made it, so the first one to create an object wins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::envelope::{self, RecordError};
use super::layout::{self, Object};
use super::producer::{MAX_PRODUCERS, Producer};
use super::record::File;
use super::settle::{Outcome, settle};
use super::{Journal, JournalError, Verdict, read};
use crate::store::Creating;
use crate::{Hash, Key, StoreError};

/// Bytes of the record of a piece at most. The usual one has 400.
const MOST_PIECE: u64 = 16 << 10;

/// Bytes of the hash in front of values.
const HASH: usize = 32;

/// Bytes at most of the producers behind the hash: their number, and their digits.
const MAX_HEAD: usize = 2 + MAX_PRODUCERS * 32;

/// Bytes of values at most: latents of a unit, and frames of any size.
const MAX_KEPT: u64 = 1 << 40;

/// Behind the name in the hash of values with producers. No name has such an end.
const WITH_PRODUCERS: &str = "/producers";

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
    /// They are those of the input, as the unit could not be restored.
    pub left: bool,
    /// Whose work it is, where that may turn out to be wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub producers: Vec<Producer>,
}

/// Bytes on their way into the store.
pub struct Keeping(Creating);

impl Keeping {
    /// Whether waiting would return at once.
    pub fn is_over(&mut self) -> bool {
        self.0.is_over()
    }

    /// Waits until they are kept.
    pub fn wait(self) -> Result<(), JournalError> {
        self.0.wait()?;
        Ok(())
    }
}

/// The finished pieces of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Those that can be used, by number.
    pub whole: BTreeMap<u32, Piece>,
    /// Those that cannot: their record is damaged, or their file is gone or cut.
    pub damaged: Vec<Damage>,
    /// Names of whatever else is kept of the unit.
    pub others: Vec<String>,
}

/// The hash in front of values. It covers where they belong, so that another film's values are none.
fn seal(plan: Hash, unit: u32, name: &str, parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    hash.update(plan.bytes());
    hash.update(unit.to_le_bytes());
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name.as_bytes());
    parts.iter().for_each(|part| hash.update(part));
    hash.into()
}

/// What stands between hash and values: nothing if they have no producers.
fn head(producers: &[Producer]) -> Vec<u8> {
    let Some(count) = u16::try_from(producers.len()).ok().filter(|count| *count > 0) else {
        return Vec::new();
    };
    let digits = producers.iter().flat_map(|producer| producer.as_str().bytes());
    count.to_le_bytes().into_iter().chain(digits).collect()
}

/// The producers in front of values, and the length of what names them.
fn producers_of(body: &[u8]) -> Option<(Vec<Producer>, usize)> {
    let (count, rest) = body.split_first_chunk::<2>()?;
    let digits = rest.get(..usize::from(u16::from_le_bytes(*count)) * 32)?;
    let producer = |text: &[u8]| Producer::try_from(std::str::from_utf8(text).ok()?.to_owned()).ok();
    let producers = digits.chunks(32).map(producer).collect::<Option<Vec<_>>>()?;
    Some((producers, 2 + digits.len()))
}

fn piece_name(piece: u32) -> String {
    format!("{PIECE}{piece:06}")
}

/// The piece whose record has this name.
pub(super) fn piece_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(PIECE)?.parse().ok()?;
    (piece_name(number) == name).then_some(number)
}

impl Journal {
    /// Keeps bytes of a unit under a name. If there are some of that name, they stay.
    pub fn keep(&self, unit: u32, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.known(unit)?;
        let key = layout::kept(unit, name)?;
        self.store.create(&key, [&self.front(unit, name, bytes), bytes].concat())?;
        Ok(())
    }

    /// Begins to keep bytes of a unit under a name, and does not wait for it. If there are some of that name, they stay.
    pub fn keep_soon(&self, unit: u32, name: &str, bytes: Vec<u8>) -> Result<Keeping, JournalError> {
        self.known(unit)?;
        let front = self.front(unit, name, &bytes);
        Ok(Keeping(self.store.create_soon(&layout::kept(unit, name)?, vec![front, bytes])))
    }

    /// Hash and producers in front of values.
    fn front(&self, unit: u32, name: &str, bytes: &[u8]) -> Vec<u8> {
        let head = head(&self.producers());
        let sealed = if head.is_empty() { name.to_owned() } else { format!("{name}{WITH_PRODUCERS}") };
        let hash = seal(self.plan.hash(), unit, &sealed, &[&head, bytes]).bytes();
        [&hash[..], &head].concat()
    }

    /// Removes what is kept of a unit under these names.
    pub fn drop_names(&self, unit: u32, names: &[String]) -> Result<(), JournalError> {
        self.known(unit)?;
        let keys = names.iter().map(|name| layout::kept(unit, name)).collect::<Result<_, _>>()?;
        Ok(self.store.delete_many(keys)?)
    }

    /// Bytes that were kept under a name for this plan; `None` if there are none. Others, damaged ones and those whose producers
    /// do not count are removed.
    pub fn kept(&self, unit: u32, name: &str, most: u64) -> Result<Option<Vec<u8>>, JournalError> {
        self.known(unit)?;
        let key = layout::kept(unit, name)?;
        let mut all = match self.store.get(&key, most.saturating_add((HASH + MAX_HEAD) as u64)) {
            Ok(all) => all,
            Err(StoreError::Missing { .. }) => return Ok(None),
            // Nothing of this unit is that large. It would stay in the way of what is.
            Err(StoreError::TooLarge { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let sealed = |name: &str| {
            let hash = all.get(HASH..).map(|body| seal(self.plan.hash(), unit, name, &[body]));
            hash.is_some_and(|hash| all.starts_with(&hash.bytes()))
        };
        let head = if sealed(name) {
            Some((Vec::new(), 0))
        } else if sealed(&format!("{name}{WITH_PRODUCERS}")) {
            producers_of(&all[HASH..])
        } else {
            None
        };
        if let Some((producers, length)) = head {
            match self.trusted(&key, &producers) {
                Ok(()) if self.inherit(&producers) => return Ok(Some(all.split_off(HASH + length))),
                Ok(()) | Err(JournalError::Untrusted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.store.delete(&key)?;
        Ok(None)
    }

    /// Names of what is kept of a unit, records of pieces aside.
    pub fn kept_names(&self, unit: u32) -> Result<Vec<String>, JournalError> {
        let names = self.list_kept(unit)?.into_iter().map(|(_, name)| name);
        Ok(names.filter(|name| !name.starts_with(PIECE)).collect())
    }

    /// Makes a finished piece count, whose file is in the store already. Of any number of racers one wins; but a record
    /// that is damaged gives way, and frames of the input give way to restored ones.
    pub fn keep_piece(&self, piece: &Piece) -> Result<Verdict<Piece>, JournalError> {
        self.known(piece.unit)?;
        let key = layout::kept(piece.unit, &piece_name(piece.piece))?;
        let written = |source| JournalError::Write { key: key.to_string(), source };
        let (bytes, _) = envelope::seal(envelope::PIECE, piece).map_err(written)?;
        let mut tries = self.store.core().limits.tries.max(1);
        loop {
            tries -= 1;
            let there = match settle(&self.store, &key, &bytes, MOST_PIECE) {
                Ok(Outcome::Ours) => return Ok(Verdict::Won(piece.clone())),
                Ok(Outcome::Theirs(bytes)) => self.usable_piece(&key, (piece.unit, piece.piece), &bytes),
                Err(error) => Err(error),
            };
            match there {
                Ok(there) if (piece.left || !there.left) && self.inherit(&there.producers) || tries == 0 => {
                    return Ok(Verdict::Lost(there));
                }
                Ok(_) => {}
                Err(error) if error.is_damage() && tries > 0 => {}
                Err(error) => return Err(error),
            }
            self.store.delete(&key)?;
        }
    }

    /// The finished pieces of a unit.
    pub fn pieces(&self, unit: u32) -> Result<Pieces, JournalError> {
        let mut pieces = Pieces::default();
        for (key, name) in self.list_kept(unit)? {
            let Some(number) = piece_number(&name) else {
                pieces.others.push(name);
                continue;
            };
            let piece = match self.store.get(&key, MOST_PIECE) {
                Ok(bytes) => self.usable_piece(&key, (unit, number), &bytes),
                // Another worker has finished the unit.
                Err(StoreError::Missing { .. }) => continue,
                Err(error) => Err(error.into()),
            };
            match piece {
                Ok(piece) => drop(pieces.whole.insert(number, piece)),
                Err(error) => pieces.damaged.push(Damage::of(unit, key.as_str(), error)?),
            }
        }
        Ok(pieces)
    }

    /// Removes the record of a piece, so that the piece is made again.
    pub fn drop_piece(&self, unit: u32, piece: u32) -> Result<(), JournalError> {
        self.known(unit)?;
        Ok(self.store.delete(&layout::kept(unit, &piece_name(piece))?)?)
    }

    /// Removes the record that was found damaged by [`Journal::pieces`].
    pub fn drop_damaged(&self, damage: &Damage) -> Result<(), JournalError> {
        let key = Key::new(damage.key.clone())?;
        match layout::parse(&key) {
            Some(Object::Kept(unit, _)) if unit == damage.unit => Ok(self.store.delete(&key)?),
            _ => Ok(()),
        }
    }

    /// Removes what is kept of a unit by producers that do not count: it would stay in the way of what is made anew.
    pub fn drop_untrusted(&self, unit: u32) -> Result<(), JournalError> {
        if self.untrusted()?.is_empty() {
            return Ok(());
        }
        for name in self.kept_names(unit)? {
            // What does not count is removed as it is read. Nothing goes on from the rest here.
            self.made_by(None).kept(unit, &name, MAX_KEPT)?;
        }
        Ok(())
    }

    /// Removes what is kept of a unit that is done.
    pub fn drop_kept(&self, unit: u32) -> Result<(), JournalError> {
        let keys = self.list_kept(unit)?.into_iter().map(|(key, _)| key).collect();
        Ok(self.store.delete_many(keys)?)
    }

    fn list_kept(&self, unit: u32) -> Result<Vec<(Key, String)>, JournalError> {
        self.known(unit)?;
        let mut all = Vec::new();
        for listed in self.store.list(&layout::kept_folder(unit))? {
            let key = listed?.key;
            if let Some(Object::Kept(_, name)) = layout::parse(&key) {
                all.push((key, name));
            }
        }
        Ok(all)
    }

    /// The record of a piece of this plan whose file is there in full size. Its hash is checked when it is read.
    fn usable_piece(
        &self,
        key: &Key,
        (unit, number): (u32, u32),
        bytes: &[u8],
    ) -> Result<Piece, JournalError> {
        let piece = read(&self.store, key, piece_from(bytes))?;
        self.is_of(key, piece.plan, (piece.unit, piece.piece) == (unit, number))?;
        self.whole(unit, &piece.file)?;
        self.trusted(key, &piece.producers)?;
        Ok(piece)
    }
}

fn piece_from(bytes: &[u8]) -> Result<Piece, RecordError> {
    let (body, _) = envelope::open(envelope::PIECE, bytes)?;
    let piece: Piece = serde_json::from_str(body)?;
    piece.file.check()?;
    match piece.producers.len() {
        0..=MAX_PRODUCERS => Ok(piece),
        _ => Err(RecordError::Value { what: "the number of producers" }),
    }
}
