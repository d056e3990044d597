//! As wavelet; as hsv where the frame is much more saturated than the reference.

use remaster_picture::Frame;

use crate::batch::Batch;
use crate::hsv::{self, saturated, saturation, tamed};
use crate::power;
use crate::wavelet;

/// Corrects frames that were tamed; they are one pool.
pub(crate) fn correct(frames: &mut [Frame], references: &[Frame], batch: Batch) {
    let saturations = hsv::saturations(frames, references, batch);
    let pairs = frames.iter_mut().zip(references);
    for ((frame, reference), saturations) in pairs.zip(saturations.chunks_exact(batch.pixels)) {
        correct_one(frame, reference, |i, _| saturations[i]);
    }
}

/// Corrects one frame that was tamed; `matched` gives the saturation that hsv finds for a pixel, from its number and
/// its colour.
pub(crate) fn correct_one(frame: &mut Frame, reference: &Frame, matched: impl Fn(usize, [f32; 3]) -> f32) {
    let before = frame.data.clone();
    wavelet::correct(frame, reference);
    let pixels = frame.data.as_chunks_mut::<3>().0.iter_mut();
    let before = before.as_chunks::<3>().0.iter().zip(reference.data.as_chunks::<3>().0);
    for (i, (pixel, (before, reference))) in pixels.zip(before).enumerate() {
        let (before, reference) = (tamed(before), saturation(tamed(reference)));
        if saturation(*pixel) - reference > 0.075 {
            let weight = power::sigmoid(5.0 * (saturation(before) - reference - 0.15));
            let hsv = saturated(before, matched(i, before));
            *pixel = [0, 1, 2].map(|c| pixel[c] + weight * (hsv[c] - pixel[c]));
        }
    }
}
