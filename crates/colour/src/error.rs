//! What can be wrong with frames and settings.

use thiserror::Error;

/// Why colours or alpha cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ColourError {
    /// A name that is no mode.
    #[error("unknown colour correction `{given}`; use lab, wavelet, wavelet_adaptive, hsv, adain or none")]
    Mode {
        /// What was given, cut after 40 characters.
        given: String,
    },
    /// Frames without their references.
    #[error("{frames} frames came with {references} references; give one reference for each frame")]
    Count {
        /// Frames given.
        frames: usize,
        /// References given.
        references: usize,
    },
    /// A frame that is not RGB, has no pixel, or is not filled by its values.
    #[error(
        "{what} {index} has {width} x {height} pixels, {channels} channels and {values} values; it needs at least \
         one pixel, {needed} channels, and a value for each"
    )]
    Frame {
        /// "frame" or "reference".
        what: &'static str,
        /// Its place in the list, from 0.
        index: usize,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Values of a pixel.
        channels: usize,
        /// Values in all.
        values: usize,
        /// Channels it must have.
        needed: usize,
    },
    /// A frame of another size than the first.
    #[error(
        "{what} {index} is {width} x {height} pixels, but the first frame is {} x {}; resize it to that size",
        first[0], first[1]
    )]
    Size {
        /// "frame" or "reference".
        what: &'static str,
        /// Its place in the list, from 0.
        index: usize,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Width and height of the first frame.
        first: [usize; 2],
    },
    /// More pixels in one pool than can be numbered.
    #[error(
        "{frames} frames of {width} x {height} pixels are too many to match together: the limit is {max} pixels; \
         correct fewer frames at a time"
    )]
    Pool {
        /// Frames given.
        frames: usize,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Most pixels accepted.
        max: u64,
    },
}
