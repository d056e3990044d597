//! Mean and standard deviation of each channel of a frame become those of its reference.

use remaster_picture::Frame;

use crate::batch::unit;

/// Added to a variance: 1e-5 for values from -1 to 1, so a quarter of it here.
const EPSILON: f64 = 0.25e-5;

/// Mean and standard deviation (unbiased) of each channel.
fn moments(frame: &Frame, value: impl Fn(f32) -> f32) -> [[f64; 2]; 3] {
    let pixels = || frame.data.as_chunks::<3>().0.iter().map(|p| [0, 1, 2].map(|c| f64::from(value(p[c]))));
    let count = (frame.width * frame.height) as f64;
    let mut sum = [0.0; 3];
    pixels().for_each(|p| (0..3).for_each(|c| sum[c] += p[c]));
    let mean = sum.map(|sum| sum / count);
    let mut squares = [0.0; 3];
    pixels().for_each(|p| (0..3).for_each(|c| squares[c] += (p[c] - mean[c]) * (p[c] - mean[c])));
    // A single pixel has no variance; the square root is exact by IEEE, so the same everywhere.
    let deviation = squares.map(|squares| (squares / (count - 1.0).max(1.0) + EPSILON).sqrt());
    [0, 1, 2].map(|c| [mean[c], deviation[c]])
}

/// Corrects a frame that was tamed.
pub(crate) fn correct(frame: &mut Frame, reference: &Frame) {
    let (own, other) = (moments(frame, |v| v), moments(reference, unit));
    let scale = [0, 1, 2].map(|c| other[c][1] / own[c][1]);
    for pixel in frame.data.as_chunks_mut::<3>().0 {
        *pixel = [0, 1, 2].map(|c| ((f64::from(pixel[c]) - own[c][0]) * scale[c] + other[c][0]) as f32);
    }
}
