//! Words: closed lists of them, and those of a command line.

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

/// The words of a text, as arguments for a program.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
