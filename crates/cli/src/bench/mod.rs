//! `remaster bench`: times of kernels and of the whole network, every sample kept.

#[cfg(feature = "gpu")]
mod gpu;
mod kernels;
mod scaling;
mod vae;

pub(crate) use kernels::kernels;
pub(crate) use scaling::scaling;
pub(crate) use vae::vae;

use serde::Serialize;

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
