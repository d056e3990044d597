//! What can go wrong in a run.

use remaster_compute::{ComputeError, DType};
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
    /// The input is not a picture.
    #[error(
        "frame {frame} of the input has values that are NaN or infinite; repair the input or leave that frame out"
    )]
    BadInput {
        /// The first such frame.
        frame: usize,
    },
    /// The network made values that are NaN or infinite.
    #[error("frame {frame} is NaN or infinite from layer `{layer}` on; {}", advice(*dtype))]
    NotFinite {
        /// The first such frame of the clip; in front of a decoder a latent counts as the first of its frames.
        frame: usize,
        /// The first normalisation that saw such values, or the last layer of the network.
        layer: String,
        /// Storage of activations.
        dtype: DType,
    },
    /// The spill file could not be made.
    #[error(
        "cannot create a temporary file of {bytes} bytes in {folder}: {reason}; choose another folder with --spill, or allow more memory"
    )]
    Spill {
        /// Where.
        folder: String,
        /// How large.
        bytes: u64,
        /// What the system said.
        reason: String,
    },
    /// The plan needs a spill file, but no folder was given.
    #[error(
        "the plan needs a spill file of {bytes} bytes, but there is no folder for it; name one with --spill"
    )]
    NoSpill {
        /// How large it would be.
        bytes: u64,
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

/// What to try when a value is not finite.
fn advice(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => {
            "f16 ends at 65504: use --dtype bf16; if that fails too, run `remaster models verify FILE`"
        }
        DType::Bf16 | DType::F32 => {
            "check the weights with `remaster models verify FILE`, and this machine with `remaster doctor`"
        }
    }
}

impl EngineError {
    /// True once cancellation was requested.
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
            | ComputeError::DeviceSwaps { .. }
            | ComputeError::Device { .. } => Some(error),
            _ => None,
        }
    }
}
