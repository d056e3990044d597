//! Peak signal to noise ratio.

use crate::error::MetricsError;
use crate::picture::{Picture, check_pair};

/// PSNR in dB for values that span 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Psnr {
    /// Over all three channels. Infinite when they are equal.
    pub rgb: f64,
    /// Of BT.709 luma. Infinite when it is equal.
    pub luma: f64,
}

/// PSNR of a frame; infinity when nothing differs.
pub fn psnr(a: Picture<'_>, b: Picture<'_>) -> Result<Psnr, MetricsError> {
    check_pair(a, b)?;
    Ok(Psnr { rgb: decibel(mse(a.data, b.data)), luma: decibel(mse(&a.luma(), &b.luma())) })
}

/// Mean of squared differences.
pub(crate) fn mse(a: &[f32], b: &[f32]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    squares.sum::<f64>() / a.len().max(1) as f64
}

/// dB of a mean squared error, for values that span 1.
pub(crate) fn decibel(mse: f64) -> f64 {
    if mse == 0.0 { f64::INFINITY } else { -10.0 * mse.log10() }
}
