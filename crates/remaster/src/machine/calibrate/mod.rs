//! How fast kernels are here, measured in about a second.

pub mod subjects;

use remaster_compute::{Backend, DType};

use crate::error::Error;

/// Multiply-adds per second of convolutions as wide as this, in less than a second.
pub fn convolutions(backend: Backend, dtype: DType, channels: usize) -> Result<f64, Error> {
    // The channels of the VAE, or of a smaller one, in frames that make 10 GFLOP of them.
    let channels = channels.clamp(32, 512).next_multiple_of(32);
    let side = 24 * 512 / channels / 2;
    fastest(&mut subjects::conv(&backend.into(), dtype, channels, [4, side, side * 4 / 3], false)?)
}

/// Multiply-adds per second of convolutions of an upscaler as wide as this.
pub(crate) fn frame_convolutions(backend: Backend, dtype: DType, channels: usize) -> Result<f64, Error> {
    let channels = channels.clamp(16, 256).next_multiple_of(16);
    fastest(&mut subjects::frame_conv(&backend.into(), dtype, channels, [270, 480])?)
}

/// Multiply-adds per second of linear layers as wide as this, in about a second.
pub fn linear_layers(backend: Backend, dtype: DType, channels: usize) -> Result<f64, Error> {
    let channels = channels.clamp(64, 4096).next_multiple_of(64);
    fastest(&mut subjects::linear(&backend.into(), dtype, 512, [channels, 3 * channels])?)
}

/// Of a few runs the fastest: the first one also warms the device up.
fn fastest(bench: &mut subjects::Bench) -> Result<f64, Error> {
    let (mut best, mut seconds) = (0.0f64, 0.0);
    for _ in 0..5 {
        let took = bench.step(1)?.max(1e-9);
        best = best.max(bench.work / 2.0 / took);
        seconds += took;
        if seconds > 0.4 {
            break;
        }
    }
    Ok(best)
}
