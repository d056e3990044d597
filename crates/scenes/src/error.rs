//! What can be wrong with a list of shots.

use thiserror::Error;

use crate::file::{MAX_BYTES, MAX_FRAMES, MAX_SHOTS};

/// A list of shots that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScenesError {
    /// More bytes than any list of shots has.
    #[error(
        "the list of shots has {bytes} bytes; the limit is {MAX_BYTES}. Split the clip, or make the list with `remaster scenes`"
    )]
    Large {
        /// What was given.
        bytes: usize,
    },
    /// Not JSON, or a value of the wrong kind.
    #[error("invalid list of shots; make a new one with `remaster scenes`")]
    Json(#[source] serde_json::Error),
    /// JSON of something else, or of both formats at once.
    #[error("the list of shots needs either `starts` or `scenes`; make a new one with `remaster scenes`")]
    Format,
    /// Of a later version than we know.
    #[error(
        "the list of shots has version {version}; this program reads version {known}. Make a new one with `remaster scenes`"
    )]
    Version {
        /// What the file says.
        version: u64,
        /// What we know.
        known: u64,
    },
    /// Too many shots, or none.
    #[error(
        "the list has {shots} shots; 1 to {MAX_SHOTS} are allowed. Make a new one with `remaster scenes`"
    )]
    Count {
        /// What was given.
        shots: usize,
    },
    /// A number of frames that no clip has.
    #[error(
        "the list says that the clip has {frames} frames; 1 to {MAX_FRAMES} are allowed. Correct `frames`"
    )]
    Frames {
        /// What was given.
        frames: u64,
    },
    /// The first shot starts later.
    #[error("the first shot starts at frame {start}; it must start at 0. Add a shot that starts there")]
    First {
        /// Where it starts.
        start: u64,
    },
    /// A shot that starts outside its place in the list.
    #[error(
        "shot {shot} starts at frame {start}; it must start between {from} and {to}. Sort the list and remove what is past the end"
    )]
    Start {
        /// Number of the shot, from 1.
        shot: usize,
        /// Where it starts.
        start: u64,
        /// The first frame after the start of the shot before.
        from: u64,
        /// The last frame of the clip.
        to: u64,
    },
    /// A shot of av1an that does not end where the next begins.
    #[error(
        "scene {shot} ends at frame {end}; it must end at {expected}, where the next begins. Run av1an's detection again"
    )]
    End {
        /// Number of the shot, from 1.
        shot: usize,
        /// Where it ends: the first frame that is not part of it.
        end: u64,
        /// Where it should.
        expected: u64,
    },
}
