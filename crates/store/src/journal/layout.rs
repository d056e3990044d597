//! Where things are in the store of a plan.
//!
//! ```text
//! plan.json                                    created once
//! units/000012/attempts/<attempt>/<file>       written once, under a unique name
//! units/000012/kept/<name>                     created once: unfinished work to go on from
//! units/000012/done.json                       created once: this attempt counts
//! units/untrusted/<producer>                      created once: nothing of this producer counts
//! ```

use remaster_disk::Kind;

use crate::journal::producer::Producer;
use crate::journal::record::AttemptId;
use crate::key::wrong_part;
use crate::{Key, StoreError, probe, random};

pub(super) const PLAN: &str = "plan.json";
pub(super) const UNITS: &str = "units";
pub(super) const DONE: &str = "done.json";
pub(super) const ATTEMPTS: &str = "attempts";
pub(super) const KEPT: &str = "kept";
const UNTRUSTED: &str = "untrusted";
/// What is in the file of a producer, for who looks into the store.
pub(super) const UNTRUSTED_TEXT: &[u8] = b"its device computed wrong numbers\n";

/// Units of a plan at most: an index has six digits, so that listings are in order. A film of three hours has 2,800.
pub(crate) const MOST_UNITS: u32 = 1_000_000;

pub(super) fn plan() -> Result<Key, StoreError> {
    Key::new(PLAN)
}

pub(super) fn done(unit: u32) -> Result<Key, StoreError> {
    Key::new(format!("{UNITS}/{unit:06}/{DONE}"))
}

pub(super) fn file(unit: u32, attempt: &AttemptId, name: &str) -> Result<Key, StoreError> {
    named(&format!("{UNITS}/{unit:06}/{ATTEMPTS}/{attempt}"), name)
}

/// A name of several parts would be a folder.
fn named(folder: &str, name: &str) -> Result<Key, StoreError> {
    match wrong_part(name) {
        Some(reason) => Err(StoreError::Key { key: name.chars().take(80).collect(), reason }),
        None => Key::new(format!("{folder}/{name}")),
    }
}

/// The folder of what is kept of a unit.
pub(super) fn kept_folder(unit: u32) -> String {
    format!("{UNITS}/{unit:06}/{KEPT}")
}

pub(super) fn kept(unit: u32, name: &str) -> Result<Key, StoreError> {
    named(&kept_folder(unit), name)
}

/// The folder of producers whose work does not count.
pub(super) fn untrusted_folder() -> String {
    format!("{UNITS}/{UNTRUSTED}")
}

pub(super) fn untrusted(producer: &Producer) -> Result<Key, StoreError> {
    named(&untrusted_folder(), producer.as_str())
}

/// What an object below `units` is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Object {
    Done(u32),
    Attempt(u32, AttemptId),
    Kept(u32, String),
    Untrusted(Producer),
}

/// Reads a key. `None` is something that is not ours.
pub(super) fn parse(key: &Key) -> Option<Object> {
    let mut parts = key.as_str().split('/');
    if parts.next() != Some(UNITS) {
        return None;
    }
    let text = parts.next()?;
    if text == UNTRUSTED {
        let producer = parts.next()?.to_owned().try_into().ok()?;
        return parts.next().is_none().then_some(Object::Untrusted(producer));
    }
    let unit: u32 = text.parse().ok().filter(|_| is_unit(text))?;
    let object = match (parts.next()?, parts.next(), parts.next()) {
        (DONE, None, None) => Object::Done(unit),
        (ATTEMPTS, Some(attempt), Some(_)) => Object::Attempt(unit, attempt.to_owned().try_into().ok()?),
        (KEPT, Some(name), None) => Object::Kept(unit, name.to_owned()),
        _ => return None,
    };
    parts.next().is_none().then_some(object)
}

/// Whether a file with this path in a store, or one on its way to it, is of a journal or of a probe.
pub fn is_of_a_journal(path: &str) -> bool {
    let whole = path.rsplit_once('#').filter(|_| crate::local::is_unfinished(name_of(path)));
    let path = whole.map_or(path, |(whole, _)| whole);
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(PLAN), None, None, None) => true,
        (Some(probe::FOLDER), Some(_), Some(_), None) => probe::is_ours(path),
        _ => Key::new(path).is_ok_and(|key| parse(&key).is_some()),
    }
}

/// Whether a file or a folder with this path in a store is of a journal or of a probe.
pub(super) fn is_ours(path: &str, kind: Kind) -> bool {
    if kind != Kind::Folder {
        return is_of_a_journal(path);
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [UNITS | probe::FOLDER] | [UNITS, UNTRUSTED] => true,
        [probe::FOLDER, name] => random::is_name(name),
        [UNITS, unit] => is_unit(unit),
        [UNITS, unit, ATTEMPTS | KEPT] => is_unit(unit),
        [UNITS, unit, ATTEMPTS, attempt] => is_unit(unit) && random::is_name(attempt),
        _ => false,
    }
}

fn is_unit(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|unit| unit < MOST_UNITS && format!("{unit:06}") == text)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_journal_are_called_so() {
        let id = AttemptId::random();
        let ours = format!(
            "plan.json plan.json#12 units/000001/done.json units/000001/done.json#7 \
             units/000001/kept/latents-0 units/000001/attempts/{id}/piece-000000.nut#3 probe/{id}/one \
             probe/{id}/race#12 units/untrusted/{id}"
        );
        for ours in ours.split(' ') {
            assert!(is_of_a_journal(ours), "{ours}");
        }
        let others = format!(
            "notes.txt plan.json.bak units units/000001/x units/1/done.json plan.json#x probe/a \
             probe/abc/one probe/{id}/raw.bin takes/Scene#12 units/untrusted/x units/untrusted/{id}/x"
        );
        for other in others.split(' ').chain([""]) {
            assert!(!is_of_a_journal(other), "{other}");
        }
        for ours in
            ["units", "probe", "units/000001", "units/000001/kept", &format!("units/000001/attempts/{id}")]
        {
            assert!(is_ours(ours, Kind::Folder), "{ours}");
        }
        for other in
            ["", "incoming", "units/mine", "units/000001/mine", "probe/2024", "units/000001/attempts/mine"]
        {
            assert!(!is_ours(other, Kind::Folder), "{other}");
        }
    }

    #[test]
    fn keys_are_read_as_they_are_made() {
        let attempt = AttemptId::random();
        assert_eq!(parse(&done(12).unwrap()), Some(Object::Done(12)));
        assert_eq!(done(12).unwrap().as_str(), "units/000012/done.json");
        let key = file(999_999, &attempt, "a.nut").unwrap();
        assert_eq!(parse(&key), Some(Object::Attempt(999_999, attempt.clone())));
        assert!(file(0, &attempt, "a/b").is_err() && file(0, &attempt, "..").is_err());
        assert_eq!(parse(&kept(3, "piece-0001").unwrap()), Some(Object::Kept(3, "piece-0001".into())));
        assert!(kept(3, "a/b").is_err());
        let producer = Producer::random();
        assert_eq!(parse(&untrusted(&producer).unwrap()), Some(Object::Untrusted(producer)));
        let others = "plan.json units/12/done.json units/-00012/done.json units/1000000/done.json \
            units/000012/done.json/x units/000012/done units/000012/attempts/x/a.nut";
        for other in others.split(' ') {
            assert_eq!(parse(&Key::new(other).unwrap()), None, "{other}");
        }
    }
}
