//! Names of jobs and files that cannot be guessed.

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::ServeError;

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Letters of an id: 125 bits.
const LENGTH: usize = 25;

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ServeError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ServeError::Random)?;
    Ok(bytes)
}

/// A new id.
pub(crate) fn new() -> Result<String, ServeError> {
    let bytes = random::<LENGTH>()?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// True if a word can be an id. Only such words become names of folders.
pub(crate) fn is_id(word: &str) -> bool {
    word.len() == LENGTH && word.bytes().all(|byte| LETTERS.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_nothing_else_is_one() {
        let (a, b) = (new().unwrap(), new().unwrap());
        assert!(a != b && is_id(&a) && is_id(&b));
        for word in [
            "",
            "..",
            "../../../../../etc/passwd",
            &a[1..],
            &format!("{a}a"),
            &a.to_uppercase(),
            &"1".repeat(25),
        ] {
            assert!(!is_id(word), "{word}");
        }
    }
}
