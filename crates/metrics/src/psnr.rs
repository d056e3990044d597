//! Peak signal to noise ratio.

/// Mean of squared differences.
pub(crate) fn mse(a: &[f32], b: &[f32]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    squares.sum::<f64>() / a.len().max(1) as f64
}

/// PSNR in dB of a mean squared error, for values that span 1. `None` if it is infinite because nothing differs.
pub(crate) fn decibel(mse: f64) -> Option<f64> {
    (mse > 0.0).then(|| -10.0 * mse.log10())
}
