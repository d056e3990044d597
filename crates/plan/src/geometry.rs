//! Sizes of clips of the video VAE, and what no machine can hold.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::budget::Budget;
use crate::description::Cells;

/// Frames per latent; the first frame of a clip has a latent of its own.
pub const TIME: usize = 4;

/// Pixels per latent cell, each way.
pub const SPACE: usize = 8;

/// Longest side of a frame, in pixels.
pub const MAX_SIDE: usize = 1 << 20;

/// Pixels of a frame at most: 32 times an 8K frame. One tensor of the first layer of the full network then has
/// 512 GiB, and the multiply-adds of attention, which grow with the square, still fit 64 bits.
pub const MAX_PIXELS: usize = 1 << 30;

/// Frames of a clip at most: more than a thousand years of video.
pub const MAX_FRAMES: usize = 1 << 40;

/// Pixels of a slice at most. One tensor of it then has 8 TiB.
pub const MAX_SLICE_PIXELS: usize = 1 << 34;

/// Frames of a slice at most. More than 16 gain nothing measurable.
pub const MAX_SLICE: usize = 1 << 16;

/// Stripes of a frame at most. Thinner ones save nothing: most of a stripe would be rows around it.
pub const MAX_STRIPES: usize = 256;

/// Tiles of a frame at most. Each has a state with some forty tensors.
pub const MAX_TILES: usize = 2048;

/// A size that cannot be planned for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Frames that are not 4n + 1.
    #[error("the clip has {frames} frames, but the network takes 4n + 1; use {below} or {above}")]
    Frames {
        /// What was given.
        frames: usize,
        /// Next lower number that fits.
        below: usize,
        /// Next higher number that fits.
        above: usize,
    },
    /// A frame size that is not a multiple of 8.
    #[error("the {axis} is {pixels} pixels, but the network takes multiples of 8; pad it to {padded}")]
    Size {
        /// Height or width.
        axis: &'static str,
        /// What was given.
        pixels: usize,
        /// Next higher size that fits.
        padded: usize,
    },
    /// A window of the transformer that is too short or too long.
    #[error("a window of {frames} frames does not work; use 1 to {most} frames")]
    Window {
        /// What was given.
        frames: usize,
        /// The longest.
        most: usize,
    },
    /// Tiles that cannot be cut.
    #[error(
        "tiles of {tile} pixels with an overlap of {overlap} do not work; use tiles of at least {cell} pixels and an overlap of 0, or from {cell} to less than the tile"
    )]
    Tile {
        /// Size of the tile.
        tile: usize,
        /// What neighbours share.
        overlap: usize,
        /// The least of both.
        cell: usize,
    },
    /// A clip without a pixel.
    #[error("a clip of {frames} x {height} x {width} is empty; every size is at least 1")]
    Empty {
        /// Frames.
        frames: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// More than any machine can hold.
    #[error("{what} is {given}, but the limit is {most}; use that or less")]
    TooLarge {
        /// What it is of.
        what: &'static str,
        /// What was given.
        given: usize,
        /// What is allowed.
        most: usize,
    },
    /// A slice that no machine can hold.
    #[error("a slice of {frames} frames of this size is too long; use --slice {most} or less")]
    LongSlice {
        /// What was given.
        frames: usize,
        /// The longest that is allowed.
        most: usize,
    },
    /// Too many tiles.
    #[error(
        "tiles of {tile} pixels cut this frame into {tiles} parts, but the limit is {most}; use larger tiles or less overlap"
    )]
    Tiles {
        /// Size of a tile.
        tile: usize,
        /// How many there would be.
        tiles: usize,
        /// How many are allowed.
        most: usize,
    },
    /// Nothing that would do was found within the memory allowed.
    #[error("{job} does not fit into {allowed}; it needs at least {}", in_words(needs))]
    Budget {
        /// What was asked for.
        job: String,
        /// What was allowed.
        allowed: Budget,
        /// Budgets that would do, the one that is nearest first.
        needs: Vec<Budget>,
    },
    /// One piece of unknown length.
    #[error("a clip of unknown length cannot run in one piece; use --slice 16 or leave it out")]
    OpenEnded,
    /// A way of cutting that the network does not have.
    #[error("{network} has no {mode} mode; use --mode exact")]
    Mode {
        /// Name of the network.
        network: String,
        /// Name of the mode.
        mode: &'static str,
    },
    /// A slice that is not a whole number of steps.
    #[error("a slice of {frames} frames is not a multiple of {unit}; use {nearest}")]
    Slice {
        /// What was given.
        frames: usize,
        /// Frames of a step.
        unit: usize,
        /// A length that fits.
        nearest: usize,
    },
}

fn in_words(needs: &[Budget]) -> String {
    let words: Vec<String> = needs.iter().map(Budget::to_string).collect();
    words.join(", or ")
}

/// An error if `given` is more than `most`.
pub(crate) fn at_most(what: &'static str, given: usize, most: usize) -> Result<(), PlanError> {
    if given > most { Err(PlanError::TooLarge { what, given, most }) } else { Ok(()) }
}

/// Frames, height and width that the video VAE can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "[usize; 3]", into = "[usize; 3]")]
pub struct Clip {
    pub(crate) frames: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl TryFrom<[usize; 3]> for Clip {
    type Error = PlanError;

    fn try_from([frames, height, width]: [usize; 3]) -> Result<Self, PlanError> {
        Clip::new(frames, height, width)
    }
}

impl From<Clip> for [usize; 3] {
    fn from(clip: Clip) -> Self {
        [clip.frames, clip.height, clip.width]
    }
}

impl Clip {
    /// Checks a size.
    pub fn new(frames: usize, height: usize, width: usize) -> Result<Self, PlanError> {
        at_most("the number of frames", frames, MAX_FRAMES)?;
        at_most("the height", height, MAX_SIDE)?;
        at_most("the width", width, MAX_SIDE)?;
        at_most("the number of pixels of a frame", height * width, MAX_PIXELS)?;
        if frames % TIME != 1 {
            let below = (frames.saturating_sub(1) / TIME * TIME + 1).max(1);
            let above = below + if frames == 0 { 0 } else { TIME };
            return Err(PlanError::Frames { frames, below, above });
        }
        for (axis, pixels) in [("height", height), ("width", width)] {
            if pixels == 0 || pixels % SPACE != 0 {
                return Err(PlanError::Size { axis, pixels, padded: pixels.max(1).next_multiple_of(SPACE) });
            }
        }
        Ok(Clip { frames, height, width })
    }

    /// The clip that latents `[t, h, w]` stand for. Saturating: an empty tensor may claim any size.
    pub fn of_latents(t: usize, h: usize, w: usize) -> Result<Self, PlanError> {
        let frames = t.checked_sub(1).map_or(0, |n| n.saturating_mul(TIME).saturating_add(1));
        Clip::new(frames, h.saturating_mul(SPACE), w.saturating_mul(SPACE))
    }

    /// Frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Its latents.
    pub fn cells(&self) -> Cells {
        let (rows, columns) = (self.height / SPACE, self.width / SPACE);
        Cells { steps: (self.frames - 1) / TIME + 1, rows, columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_size_is_refused_with_sizes_that_would_do() {
        let error = Clip::new(6, 64, 64).unwrap_err();
        assert_eq!(error, PlanError::Frames { frames: 6, below: 5, above: 9 });
        assert_eq!(Clip::new(0, 64, 64).unwrap_err(), PlanError::Frames { frames: 0, below: 1, above: 1 });
        let error = Clip::new(5, 100, 64).unwrap_err();
        assert_eq!(error, PlanError::Size { axis: "height", pixels: 100, padded: 104 });
        assert!(Clip::new(5, 64, 0).is_err());
        let error = Clip::new(usize::MAX, 64, 64).unwrap_err();
        assert_eq!(
            error,
            PlanError::TooLarge { what: "the number of frames", given: usize::MAX, most: MAX_FRAMES }
        );
        assert!(Clip::new(1, 64, 1 << 30).is_err() && Clip::new(1, 1 << 20, 1 << 20).is_err());
        assert!(Clip::new(MAX_FRAMES - 3, 1 << 10, MAX_SIDE).is_ok());
    }
}
