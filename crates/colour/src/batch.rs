//! Frames and references that belong together, checked once.

use remaster_picture::Frame;

use crate::error::ColourError;

/// Largest magnitude of a restored value: a decoder gives -1 to 2 at worst, and sums of this stay finite.
const LARGEST: f32 = 16.0;

/// Size of the frames of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    /// Pixels of a frame.
    pub(crate) pixels: usize,
    /// Pixels of all frames. Fits 32 bits, so that a pixel's number does.
    pub(crate) total: usize,
}

impl Batch {
    /// Refuses frames that do not fit each other; nothing when there are none.
    pub(crate) fn check(frames: &[Frame], references: &[Frame]) -> Result<Option<Batch>, ColourError> {
        if frames.len() != references.len() {
            return Err(ColourError::Count { frames: frames.len(), references: references.len() });
        }
        let Some(first) = frames.first().map(|f| [f.width, f.height]) else { return Ok(None) };
        for (what, list) in [("frame", frames), ("reference", references)] {
            for (index, frame) in list.iter().enumerate() {
                check_frame(what, index, frame, 3, first)?;
            }
        }
        let pixels = first[0] * first[1];
        match pixels.checked_mul(frames.len()) {
            Some(total) if u32::try_from(total).is_ok() => Ok(Some(Batch { pixels, total })),
            _ => Err(ColourError::Pool {
                frames: frames.len(),
                width: first[0],
                height: first[1],
                max: u64::from(u32::MAX),
            }),
        }
    }
}

/// Refuses a frame without pixels, of other channels than `needed`, or of another size than `first`.
pub(crate) fn check_frame(
    what: &'static str,
    index: usize,
    frame: &Frame,
    needed: usize,
    first: [usize; 2],
) -> Result<(), ColourError> {
    let Frame { width, height, channels, .. } = *frame;
    if !frame.is_filled() || channels != needed {
        let values = frame.data.len();
        return Err(ColourError::Frame { what, index, width, height, channels, values, needed });
    }
    if [width, height] != first {
        return Err(ColourError::Size { what, index, width, height, first });
    }
    Ok(())
}

/// NaN becomes 0, and what lies beyond [`LARGEST`] comes back to it.
pub(crate) fn tame(values: &mut [f32]) {
    for v in values {
        let number = if v.is_nan() { 0.0 } else { *v };
        *v = number.clamp(-LARGEST, LARGEST);
    }
}

/// A value as the network saw it: 0 to 1, and 0 for NaN.
#[expect(clippy::manual_clamp, reason = "`clamp` keeps NaN, `max` gives the other operand")]
pub(crate) fn unit(v: f32) -> f32 {
    v.max(0.0).min(1.0)
}
