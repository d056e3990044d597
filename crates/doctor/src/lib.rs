//! Judges a backend against goldens: outputs of the original network for weights that are a formula, so
//! that nothing has to be downloaded. Some goldens are inside the binary; more can be read from a folder.

mod dit;
mod embedded;
mod golden;
mod modules;
mod network;

pub use embedded::embedded;
pub use golden::{Golden, GoldenError};

use remaster_compute::{Backend, CancelToken, DType, Difference, HostTensor};
use remaster_engine::EngineError;
use remaster_model::Build;
use serde::Serialize;
use thiserror::Error;

/// Largest absolute error allowed in f32. The original run in f64 instead of f32 moves by up to 1.2e-5,
/// so this is four times what rounding alone explains.
pub const TOLERANCE: f64 = 5e-5;

/// The same for the diffusion transformer, whose values move by 2.1e-6 (5.5e-6 for the time embedding).
pub const DIT_TOLERANCE: f64 = 1e-5;

/// On a GPU, whose exponential and square root are less exact.
pub const DIT_GPU_TOLERANCE: f64 = 1e-4;

/// How to run the goldens.
#[derive(Clone, Debug)]
pub struct DoctorSettings {
    /// What computes.
    pub backend: Backend,
    /// Storage of activations and weights, and form of the network.
    pub build: Build,
    /// Stops a run.
    pub cancel: CancelToken,
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Golden file, without its ending.
    pub golden: String,
    /// Which tensor of it.
    pub stage: String,
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Peak signal to noise ratio in dB, for values in [-1, 1] or, of the transformer, for the largest value; absent if
    /// equal.
    pub psnr: Option<f64>,
    /// Whether it is within the tolerance. In 16-bit formats the PSNR is the result, not a verdict.
    pub passed: bool,
}

/// A golden that could not be run.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// The golden file is not what it should be.
    #[error(transparent)]
    Golden(#[from] GoldenError),
    /// The backend failed.
    #[error("golden `{golden}` failed in the backend")]
    Compute {
        /// Which one.
        golden: String,
        /// Why.
        #[source]
        source: EngineError,
    },
}

/// Collects comparisons of one golden.
struct Judge<'a> {
    golden: &'a Golden,
    settings: &'a DoctorSettings,
    stages: Vec<Stage>,
}

impl Judge<'_> {
    fn compare(&mut self, stage: &str, ours: &HostTensor, theirs: &HostTensor) {
        self.record(stage, ours.difference(theirs), 2.0, TOLERANCE);
    }

    /// Compares with the tensor of that name.
    fn check(&mut self, stage: &str, ours: &HostTensor) -> Result<(), GoldenError> {
        self.compare(stage, ours, &self.golden.video(stage)?);
        Ok(())
    }

    fn record(&mut self, stage: &str, difference: Difference, range: f64, tolerance: f64) {
        let psnr = difference.psnr(range);
        self.stages.push(Stage {
            golden: self.golden.name.clone(),
            stage: stage.to_owned(),
            max_abs: difference.max_abs,
            psnr: psnr.is_finite().then_some(psnr),
            passed: match self.settings.build.dtype {
                DType::F32 => difference.max_abs <= tolerance,
                // Only nonsense fails here: 45 dB and more is usual for the whole network.
                DType::Bf16 | DType::F16 => psnr > 30.0,
            },
        });
    }
}

/// Runs one golden and compares every tensor in it that the network should reproduce.
pub fn run(golden: &Golden, settings: &DoctorSettings) -> Result<Vec<Stage>, DoctorError> {
    let mut judge = Judge { golden, settings, stages: Vec::new() };
    if golden.is_dit() {
        dit::run(&mut judge)?
    } else if golden.is_module() {
        modules::run(&mut judge)?
    } else {
        network::run(&mut judge)?
    }
    match judge.stages.is_empty() {
        true => Err(GoldenError::Nothing { name: golden.name.clone() }.into()),
        false => Ok(judge.stages),
    }
}
