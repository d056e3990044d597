//! Sizes of a network, read from the shapes of its tensors.

use thiserror::Error;

/// Why a size cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeDoubt {
    /// A size no such network has.
    #[error("its {what} is {got}, but must be {min} to {max}")]
    Range {
        /// Which size.
        what: &'static str,
        /// What the shapes say.
        got: usize,
        /// Smallest accepted.
        min: usize,
        /// Largest accepted.
        max: usize,
    },
    /// No tensor shows a size.
    #[error("no tensor shows its {what}; the file is damaged, download it again")]
    Hidden {
        /// Which size.
        what: &'static str,
    },
}

/// A size that must be in a range.
pub(crate) fn within(what: &'static str, got: usize, min: usize, max: usize) -> Result<usize, SizeDoubt> {
    if (min..=max).contains(&got) { Ok(got) } else { Err(SizeDoubt::Range { what, got, min, max }) }
}

/// A size that a tensor must show.
pub(crate) fn shown(what: &'static str, found: Option<usize>) -> Result<usize, SizeDoubt> {
    found.ok_or(SizeDoubt::Hidden { what })
}
