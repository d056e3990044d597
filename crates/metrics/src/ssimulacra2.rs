//! SSIMULACRA2, a perceptual score, through the crate `fast-ssim2`.

use fast_ssim2::{MAX_IMAGE_PIXELS, PixelBuffer, PixelDescriptor, TransferFunction, compute_ssimulacra2};

use crate::error::MetricsError;
use crate::picture::Picture;

/// Least side. The crate pads smaller pictures, and the score is then that of the padding.
const MIN_SIDE: usize = 8;

/// The two pictures as the crate wants them: bytes, aligned for f32.
pub(crate) struct Scorer {
    a: PixelBuffer,
    b: PixelBuffer,
}

impl Scorer {
    /// `None` for pictures of fewer than 8 pixels either way, or of more than 2^28 pixels: they have no score.
    pub(crate) fn new(width: usize, height: usize) -> Result<Option<Self>, MetricsError> {
        let (Ok(across), Ok(down)) = (u32::try_from(width), u32::try_from(height)) else { return Ok(None) };
        if width.min(height) < MIN_SIDE || width.saturating_mul(height) > MAX_IMAGE_PIXELS {
            return Ok(None);
        }
        let buffer = || {
            let srgb = PixelDescriptor::RGBF32.with_transfer(TransferFunction::Srgb);
            PixelBuffer::try_new(across, down, srgb).map_err(|e| failed(0, e))
        };
        Ok(Some(Scorer { a: buffer()?, b: buffer()? }))
    }

    /// The score of a frame: 100 for equal pictures, 90 is hard to see, 70 high quality, 50 medium, 30 low; it can
    /// be negative. Values are taken as sRGB, clamped to 0 to 1.
    pub(crate) fn score(
        &mut self,
        a: Picture<'_>,
        b: Picture<'_>,
        frame: usize,
    ) -> Result<f64, MetricsError> {
        fill(&mut self.a, a);
        fill(&mut self.b, b);
        let score =
            compute_ssimulacra2(&self.a.as_slice(), &self.b.as_slice()).map_err(|e| failed(frame, e))?;
        if score.is_finite() { Ok(score) } else { Err(failed(frame, "the score is not a number")) }
    }
}

fn failed(frame: usize, reason: impl std::fmt::Display) -> MetricsError {
    MetricsError::Ssimulacra2 { frame, reason: reason.to_string() }
}

fn fill(buffer: &mut PixelBuffer, picture: Picture<'_>) {
    let mut slice = buffer.as_slice_mut();
    for (y, row) in (0u32..).zip(picture.data.chunks_exact(picture.width * 3)) {
        for (bytes, value) in slice.row_mut(y).chunks_exact_mut(4).zip(row) {
            bytes.copy_from_slice(&value.clamp(0.0, 1.0).to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use fast_ssim2::PixelSlice;

    use super::*;

    #[test]
    fn f32_scores_like_the_bytes_it_came_from() {
        let (width, height) = (48u32, 40u32);
        let bytes = |factor: u32| -> Vec<u8> {
            (0..width * height * 3).map(|i| (i / 3 % width * 4 + i * factor % 23) as u8).collect()
        };
        let (a, b) = (bytes(7), bytes(11));
        let slice = |bytes| {
            PixelSlice::new(bytes, width, height, width as usize * 3, PixelDescriptor::RGB8_SRGB).unwrap()
        };
        let expected = compute_ssimulacra2(&slice(&a), &slice(&b)).unwrap();
        let floats = |bytes: &[u8]| bytes.iter().map(|v| f32::from(*v) / 255.0).collect::<Vec<_>>();
        let (a, b) = (floats(&a), floats(&b));
        let picture = |data| Picture::new(width as usize, height as usize, data).unwrap();
        let mut scorer = Scorer::new(width as usize, height as usize).unwrap().unwrap();
        let got = scorer.score(picture(&a), picture(&b), 0).unwrap();
        assert!((got - expected).abs() < 0.01 && expected < 95.0, "{got} {expected}");
    }
}
