//! What can go wrong on the way of a film.

use std::path::PathBuf;

use remaster_colour::ColourError;
use remaster_engine::EngineError;
use remaster_media::MediaError;
use remaster_plan::bytes;
use thiserror::Error;

use crate::unit::UnitError;

/// A film that did not come through. Nothing half-made is left behind.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// Reading or writing video.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// A network.
    #[error(transparent)]
    Engine(EngineError),
    /// Colours of frames that do not belong together.
    #[error(transparent)]
    Colour(#[from] ColourError),
    /// Frames that could not be handed on.
    #[error("{0}")]
    Frames(String),
    /// Nothing to restore.
    #[error("the input has no frames")]
    Empty,
    /// No file for latents or frames.
    #[error("cannot make a temporary file in {}; choose another folder with --spill", folder.display())]
    Spool {
        /// Where.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Latents that wait could not be written or read.
    #[error("cannot keep latents in a temporary file; choose another folder with --spill")]
    Latents(#[source] std::io::Error),
    /// A shot that does not fit.
    #[error(
        "the shot that starts at frame {start} needs more than the {} of temporary space allowed; allow more with \
         --disk, or cut it with --scenes",
        bytes(*room)
    )]
    Long {
        /// First frame of the shot.
        start: usize,
        /// Bytes for latents.
        room: u64,
    },
    /// Frames of a shot that do not fit.
    #[error(
        "the frames of a shot need more than the {} of temporary space allowed; allow more with --disk, or use \
         --color-pool window",
        bytes(*room)
    )]
    Pool {
        /// Bytes for frames.
        room: u64,
    },
    /// A unit that does not fit.
    #[error(
        "latents of frames {first} to {end} need {}, but {} of temporary space are allowed; allow more with --disk, or \
         plan smaller units",
        bytes(*needs),
        bytes(*room)
    )]
    UnitRoom {
        /// Its first frame that is made.
        first: usize,
        /// The frame behind its last one.
        end: usize,
        /// Bytes of its latents.
        needs: u64,
        /// Bytes for latents.
        room: u64,
    },
    /// No unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A frame of another unit.
    #[error("frame {frame} is not among frames {first} to {end} of the unit; start with one of them")]
    Outside {
        /// Which frame.
        frame: usize,
        /// The first of the unit.
        first: usize,
        /// The frame behind its last one.
        end: usize,
    },
    /// A frame that no piece starts with.
    #[error(
        "no window of the shot at frame {start} starts with frame {frame}; start with the shot or one of its windows"
    )]
    Piece {
        /// Which frame.
        frame: usize,
        /// The first frame of its shot.
        start: usize,
    },
    /// A shot whose frames must stay together.
    #[error(
        "frame {frame} is inside a shot whose colours are matched together; start with the shot, or use --color-pool \
         window"
    )]
    Divided {
        /// Which frame.
        frame: usize,
    },
    /// Latents that outlive the process.
    #[error("finished latents cannot be kept or loaded; make room where they are kept, and run it again")]
    Checkpoint(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Noise that is too short.
    #[error("the noise has {given} values, but {wants} are needed")]
    Noise {
        /// Values that there are.
        given: usize,
        /// Values that are needed.
        wants: usize,
    },
    /// The input gave fewer or other frames the second time.
    #[error("the input changed during the run: frame {frame} was there when it was read first")]
    Changed {
        /// The frame that is missing.
        frame: usize,
    },
    /// Latents that are kept.
    #[error(transparent)]
    Kept(#[from] PipelineError),
    /// An input that the latents are not of.
    #[error(
        "frame {frame} is shown at {pts}, but was shown at {expected} when its latents were made; use the original input"
    )]
    Other {
        /// Which frame.
        frame: usize,
        /// Its time now.
        pts: i64,
        /// Its time then.
        expected: i64,
    },
    /// An input of another length than its latents.
    #[error("latents of {frames} frames were kept, but the input has {}; use the original input", if *longer { "more" } else { "fewer" })]
    Length {
        /// Frames that there are latents of, or that there are.
        frames: usize,
        /// Whether the input has more.
        longer: bool,
    },
    /// A thread died.
    #[error("the {0} thread ended unexpectedly; please report this with the command that did it")]
    Thread(&'static str),
}

impl RestoreError {
    /// True once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        match self {
            RestoreError::Media(MediaError::Cancelled) => true,
            RestoreError::Engine(error) => error.is_cancelled(),
            RestoreError::Kept(error) => error.is_cancelled(),
            RestoreError::Checkpoint(error) => {
                matches!(error.downcast_ref(), Some(MediaError::Cancelled))
            }
            _ => false,
        }
    }
}

/// A clip that did not come through. Nothing half-made is left behind.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// Reading or writing video.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The network.
    #[error(transparent)]
    Engine(EngineError),
    /// A latent file.
    #[error("cannot use {path} as a latent file: {reason}")]
    Latents {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A thread died.
    #[error("the {0} thread ended unexpectedly; please report this with the command that did it")]
    Thread(&'static str),
}

/// What a source or a sink failed with, which is what the person wants to know; or the error of the engine itself.
fn cause(error: EngineError) -> Result<Box<dyn std::error::Error + Send + Sync>, EngineError> {
    match error {
        EngineError::Source { source, .. } => Ok(source.0),
        EngineError::Sink { source, .. } => Ok(source.0),
        other => Err(other),
    }
}

impl From<EngineError> for RestoreError {
    fn from(error: EngineError) -> Self {
        let inner = match cause(error) {
            Ok(inner) => inner.downcast::<RestoreError>(),
            Err(engine) => return RestoreError::Engine(engine),
        };
        match inner.map_err(|other| other.downcast::<PipelineError>()) {
            Ok(error) => *error,
            Err(Ok(error)) => RestoreError::Kept(*error),
            Err(Err(other)) => RestoreError::Frames(other.to_string()),
        }
    }
}

impl From<EngineError> for PipelineError {
    fn from(error: EngineError) -> Self {
        match cause(error).map(|inner| inner.downcast::<PipelineError>()) {
            Err(engine) => PipelineError::Engine(engine),
            Ok(Ok(error)) => *error,
            Ok(Err(other)) => {
                PipelineError::Thread(if other.to_string().is_empty() { "engine" } else { "frame" })
            }
        }
    }
}

impl PipelineError {
    /// True once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        match self {
            PipelineError::Media(MediaError::Cancelled) => true,
            PipelineError::Engine(error) => error.is_cancelled(),
            _ => false,
        }
    }
}
