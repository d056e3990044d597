//! `remaster bench`: times of kernels and of the whole network, every sample kept.

mod dit;
#[cfg(feature = "gpu")]
mod gpu;
mod kernels;
mod scaling;
mod vae;

pub(crate) use dit::dit;
pub(crate) use kernels::kernels;
pub(crate) use scaling::scaling;
pub(crate) use vae::vae;

use remaster_compute::{Backend, DType};
use serde::Serialize;

use crate::error::CliError;

/// Multiply-adds per second of the network's convolutions on a device, in about a second. The fastest counts: the
/// first run on a device also warms it up.
pub(crate) fn calibrate(backend: Backend, dtype: DType) -> Result<f64, CliError> {
    let (mut best, mut seconds) = (0.0f64, 0.0);
    for channels in [128, 256, 512] {
        let mut subject = kernels::conv(backend, dtype, channels)?;
        let took = (subject.step)()?;
        best = best.max(subject.work / 2.0 / took);
        seconds += took;
        if seconds > 1.0 {
            break;
        }
    }
    Ok(best)
}

/// Seconds of every run, and what people look at.
#[derive(Debug, Serialize)]
struct Samples {
    seconds: Vec<f64>,
    min: f64,
    median: f64,
}

impl Samples {
    fn new(seconds: Vec<f64>) -> Self {
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let min = sorted.first().copied().unwrap_or(f64::NAN);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        Samples { seconds, min, median }
    }
}
