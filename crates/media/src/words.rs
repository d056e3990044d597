//! Closed lists of words.

/// A list of words, written as one text with spaces between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words(pub(crate) &'static str);

impl Words {
    /// The words in their order.
    pub(crate) fn all(self) -> impl Iterator<Item = &'static str> {
        self.0.split_ascii_whitespace()
    }

    /// Whether `word` is one of them.
    pub(crate) fn has(self, word: &str) -> bool {
        self.all().any(|known| known == word)
    }
}
