//! What can go wrong on the way of a clip.

use remaster_engine::EngineError;
use remaster_media::MediaError;
use thiserror::Error;

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
        path: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// A thread died.
    #[error("the {0} thread ended unexpectedly; please report this with the command that did it")]
    Thread(&'static str),
}

impl From<EngineError> for PipelineError {
    /// What a source or a sink failed with is what the person wants to know.
    fn from(error: EngineError) -> Self {
        let inner = match error {
            EngineError::Source { source, .. } => source.0,
            EngineError::Sink { source, .. } => source.0,
            other => return PipelineError::Engine(other),
        };
        match inner.downcast::<PipelineError>() {
            Ok(error) => *error,
            Err(other) => {
                PipelineError::Thread(if other.to_string().is_empty() { "engine" } else { "frame" })
            }
        }
    }
}

impl PipelineError {
    /// Whether somebody asked for the end.
    pub fn is_cancelled(&self) -> bool {
        match self {
            PipelineError::Media(MediaError::Cancelled) => true,
            PipelineError::Engine(error) => error.is_cancelled(),
            _ => false,
        }
    }
}
