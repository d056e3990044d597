//! What a correction allocates, for those who plan memory.

use crate::mode::Mode;
use crate::wavelet;

/// Two tables of 65,536 counts.
const COUNTS: u64 = 2 * 65_536 * 4;

/// The most bytes that [`correct`](crate::correct) needs at a time beside its arguments, for `frames` frames of `width` x
/// `height` pixels. An upper bound; for `hsv` and `wavelet_adaptive` it is reached when all pixels have one hue.
pub fn working_bytes(mode: Mode, frames: usize, width: usize, height: usize) -> u64 {
    let rows = wavelet::limit(width, height).min(16) as u64;
    let (width, height) = (width as u64, height as u64);
    let pixels = width.saturating_mul(height);
    let total = pixels.saturating_mul(frames as u64);
    // The difference, as many rows as the largest dilation, and a row with its border.
    let values = pixels.saturating_add(width.saturating_mul(rows + 1)).saturating_add(2 * rows);
    let blur = values.saturating_mul(12);
    // The sorted reference, and a value's number and half its key.
    let matching = |own: u64| total.saturating_mul(own + 4 + 8).saturating_add(COUNTS);
    // The saturation to come, and two hues.
    let hues = 4 + 1 + 1;
    if total == 0 {
        return 0;
    }
    match mode {
        Mode::None | Mode::Adain => 0,
        Mode::Wavelet => blur,
        Mode::Lab => matching(0).max(blur),
        Mode::Hsv => matching(hues),
        Mode::WaveletAdaptive => matching(hues)
            .max(total.saturating_mul(4).saturating_add(pixels.saturating_mul(12)).saturating_add(blur)),
    }
}
