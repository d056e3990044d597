//! Names of objects that mean the same in a folder and in every bucket.

use std::fmt;

use crate::StoreError;

/// Bytes of a whole key. S3 takes 1,024 with the prefix of the place.
const LONGEST: usize = 512;

/// Bytes between two slashes. File systems take 255, and a file that is being written has a longer name.
const LONGEST_PART: usize = 128;

/// The name of an object: parts of ASCII letters, digits, `.`, `_` and `-` with slashes between them. It cannot leave
/// its place, and no store has to escape it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Checks a name.
    pub fn new(key: impl Into<String>) -> Result<Self, StoreError> {
        let key = key.into();
        match wrong(&key) {
            None => Ok(Key(key)),
            Some(reason) => Err(StoreError::Key { key: shown(&key), reason }),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a part of a key.
pub(crate) fn wrong_part(part: &str) -> Option<&'static str> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    match part {
        "" => Some("a part of it is empty"),
        "." | ".." => Some("it must not contain . or .. as a part"),
        _ if part.len() > LONGEST_PART => Some("a part of it has more than 128 characters"),
        _ if !part.bytes().all(known) => Some("only letters, digits, . _ - and / are allowed"),
        // Windows drops it.
        _ if part.ends_with('.') => Some("a part of it ends with a dot"),
        _ => None,
    }
}

fn wrong(key: &str) -> Option<&'static str> {
    match key.len() {
        0 => Some("it is empty"),
        n if n > LONGEST => Some("it has more than 512 characters"),
        _ => key.split('/').find_map(wrong_part),
    }
}

/// A hostile name, short and harmless enough for a message.
fn shown(key: &str) -> String {
    key.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_stays_in_its_place() {
        for good in ["a", "plan.json", "units/000001/attempts/0a/film_1.nut", "a/.hidden", "a..b"] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "C:/a", "ä", "a b", "a#1", "a.", "a\0b"]
        {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
        assert!(Key::new("a".repeat(129)).is_err());
        assert!(Key::new(vec!["abcdefg"; 64].join("/")).is_ok());
        assert!(Key::new(vec!["abcdefgh"; 64].join("/")).is_err());
    }

    proptest! {
        #[test]
        fn no_key_names_another_folder(text in "[a-c./\\\\#%]{0,12}") {
            if let Ok(key) = Key::new(text) {
                let path = std::path::Path::new(key.as_str());
                prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
                let inside = object_store::path::Path::parse(key.as_str()).unwrap();
                prop_assert_eq!(inside.as_ref(), key.as_str());
            }
        }
    }
}
