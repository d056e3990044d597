//! What can be wrong with pictures and settings.

use thiserror::Error;

/// Which of the two clips a picture belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Side {
    /// The first clip, usually the original.
    #[error("the first clip")]
    A,
    /// The second clip, usually the result.
    #[error("the second clip")]
    B,
}

/// A picture or a setting that cannot be measured with.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// A side is zero, or so long that a count of values overflows.
    #[error("cannot compare images of {width} x {height} pixels; sides must be 1 to {max}")]
    Size {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
        /// Longest side.
        max: usize,
    },
    /// The values do not fill the picture.
    #[error(
        "a picture of {width} x {height} pixels has {values} values, but RGB takes {expected}; hand over whole frames"
    )]
    Values {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
        /// What was given.
        values: usize,
        /// What is needed.
        expected: usize,
    },
    /// A frame of another size than those before it, or than the other clip's.
    #[error(
        "frame {frame} of {side} is {width} x {height} pixels, but {expected_width} x {expected_height} are compared; scale one of the clips first"
    )]
    Mismatch {
        /// Number of the frame, from 0.
        frame: usize,
        /// Whose.
        side: Side,
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
        /// What is compared.
        expected_width: usize,
        /// What is compared.
        expected_height: usize,
    },
    /// A value that is not a number, or far from any picture.
    #[error(
        "frame {frame} of {side} has the value {value} at column {x}, row {y}, channel {channel}; values should be about 0 to 1 and at most 65536; check what wrote the file"
    )]
    Value {
        /// Number of the frame, from 0.
        frame: usize,
        /// Whose.
        side: Side,
        /// The value.
        value: f32,
        /// Column.
        x: usize,
        /// Row.
        y: usize,
        /// 0, 1, 2 for red, green, blue.
        channel: usize,
    },
    /// A setting out of range.
    #[error("{name} is {value}, but must be {low} to {high}; the default is {default}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What was given.
        value: usize,
        /// Least allowed.
        low: usize,
        /// Most allowed.
        high: usize,
        /// What is used without it.
        default: usize,
    },
    /// The perceptual metric refused a picture that we thought fit.
    #[error("SSIMULACRA2 failed on frame {frame}: {reason}; use --quick to skip it")]
    Ssimulacra2 {
        /// Number of the frame, from 0.
        frame: usize,
        /// Its words.
        reason: String,
    },
}
