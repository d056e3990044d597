//! What can go wrong in a run.

use remaster_compute::ComputeError;
use remaster_plan::PlanError;
use thiserror::Error;

use crate::io::{SinkError, SourceError};

/// A run that did not end well. Nothing half-made is left behind.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The device failed, ran out of its budget or was cancelled.
    #[error(transparent)]
    Compute(#[from] ComputeError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The frames could not be read.
    #[error("cannot read frame {frame}: {source}")]
    Source {
        /// The first frame of the slice that was asked for.
        frame: usize,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// The source had fewer frames than it said.
    #[error("the source ended after {got} of {expected} frames; repair the file or cut it to what is there")]
    Short {
        /// Frames that were read.
        got: usize,
        /// Frames that were announced.
        expected: usize,
    },
    /// The result could not be written.
    #[error("cannot write frame {frame}: {source}")]
    Sink {
        /// The first frame of the slice that was to be written.
        frame: usize,
        /// Why.
        #[source]
        source: SinkError,
    },
    /// The spill file could not be made.
    #[error(
        "cannot make a spill file of {bytes} bytes in {folder}: {reason}; choose another folder or allow more memory"
    )]
    Spill {
        /// Where.
        folder: String,
        /// How large.
        bytes: u64,
        /// What the system said.
        reason: String,
    },
    /// A saved state cannot be used.
    #[error("the saved state cannot be used: {reason}; start the clip from its beginning")]
    State {
        /// Why.
        reason: String,
    },
    /// The plan is for something else.
    #[error("the plan is for {planned}, but this is {given}; make a new plan")]
    Mismatch {
        /// What it was made for.
        planned: String,
        /// What it was used for.
        given: String,
    },
}

impl EngineError {
    /// Whether somebody asked for the end.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, EngineError::Compute(ComputeError::Cancelled))
    }

    /// What the device failed with, if another plan or another attempt may help.
    pub fn fault(&self) -> Option<&ComputeError> {
        let EngineError::Compute(error) = self else { return None };
        match error {
            ComputeError::DeviceLost { .. }
            | ComputeError::DeviceMemory { .. }
            | ComputeError::DeviceBindings { .. }
            | ComputeError::Device { .. } => Some(error),
            _ => None,
        }
    }
}
