//! Where things are in the store of a plan.
//!
//! ```text
//! plan.json                                    created once
//! units/000012/attempts/<attempt>/<file>       written once, under a name nobody else has
//! units/000012/kept/<name>                     created once: unfinished work to go on from
//! units/000012/done.json                       created once: this attempt counts
//! assembly.json                                created once: these attempts became the film
//! ```

use crate::journal::record::AttemptId;
use crate::key::wrong_part;
use crate::{Key, StoreError};

pub(super) const PLAN: &str = "plan.json";
pub(super) const ASSEMBLY: &str = "assembly.json";
pub(super) const UNITS: &str = "units";
const DONE: &str = "done.json";
const ATTEMPTS: &str = "attempts";
const KEPT: &str = "kept";

/// Units of a plan at most: an index has six digits, so that listings are in order. A film of three hours has 2,800.
pub(crate) const MOST_UNITS: u32 = 1_000_000;

pub(super) fn plan() -> Result<Key, StoreError> {
    Key::new(PLAN)
}

pub(super) fn assembly() -> Result<Key, StoreError> {
    Key::new(ASSEMBLY)
}

pub(super) fn done(unit: u32) -> Result<Key, StoreError> {
    Key::new(format!("{UNITS}/{unit:06}/{DONE}"))
}

pub(super) fn file(unit: u32, attempt: &AttemptId, name: &str) -> Result<Key, StoreError> {
    // A name of several parts would be a folder.
    match wrong_part(name) {
        Some(reason) => Err(StoreError::Key { key: name.chars().take(80).collect(), reason }),
        None => Key::new(format!("{UNITS}/{unit:06}/{ATTEMPTS}/{attempt}/{name}")),
    }
}

/// The folder of what is kept of a unit.
pub(super) fn kept_folder(unit: u32) -> String {
    format!("{UNITS}/{unit:06}/{KEPT}")
}

pub(super) fn kept(unit: u32, name: &str) -> Result<Key, StoreError> {
    match wrong_part(name) {
        Some(reason) => Err(StoreError::Key { key: name.chars().take(80).collect(), reason }),
        None => Key::new(format!("{}/{name}", kept_folder(unit))),
    }
}

/// What an object below `units` is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Object {
    Done(u32),
    Attempt(u32, AttemptId),
    Kept(u32, String),
}

/// Reads a key. `None` is something that is not ours.
pub(super) fn parse(key: &Key) -> Option<Object> {
    let mut parts = key.as_str().split('/');
    if parts.next() != Some(UNITS) {
        return None;
    }
    let text = parts.next()?;
    let unit: u32 = text.parse().ok().filter(|unit| *unit < MOST_UNITS && format!("{unit:06}") == text)?;
    let object = match (parts.next()?, parts.next(), parts.next()) {
        (DONE, None, None) => Object::Done(unit),
        (ATTEMPTS, Some(attempt), Some(_)) => Object::Attempt(unit, attempt.parse().ok()?),
        (KEPT, Some(name), None) => Object::Kept(unit, name.to_owned()),
        _ => return None,
    };
    parts.next().is_none().then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for other in [
            "plan.json",
            "units/12/done.json",
            "units/-00012/done.json",
            "units/1000000/done.json",
            "units/000012/done.json/x",
            "units/000012/done",
            "units/000012/attempts/x/a.nut",
        ] {
            assert_eq!(parse(&Key::new(other).unwrap()), None, "{other}");
        }
    }
}
