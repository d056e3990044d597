//! What the detector keeps of a frame.

use std::ops::Range;

use remaster_picture::Frame;

/// Spots across.
pub const WIDTH: usize = 64;
/// Spots down.
pub const HEIGHT: usize = 36;
/// Values of a row: RGB of each spot.
pub(crate) const ROW: usize = WIDTH * 3;
/// Values of a thumbnail.
pub(crate) const LEN: usize = ROW * HEIGHT;

/// Rows of pixels that a row of spots looks at, of 30 in a 1080p frame: it is memory traffic that takes the time.
const ROWS: usize = 8;

/// A frame as 64 x 36 spots of 8 bit RGB, whatever its size and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thumb(Box<[u8]>);

impl Thumb {
    /// The means of each spot's pixels. Values outside 0 to 1 count as the nearer of the two, NaN as 0.
    pub fn of(frame: &Frame) -> Self {
        let mut spots = vec![0; LEN].into_boxed_slice();
        let mut sums = vec![0.0f32; frame.row_len()];
        for (y, row) in spots.chunks_exact_mut(ROW).enumerate() {
            sums.fill(0.0);
            let rows = sampled(spot(y, HEIGHT, frame.height));
            let count = rows.clone().count();
            // Whole rows first: that is one addition per value, in vectors.
            for pixels in rows.map(|y| frame.row(y)) {
                sums.iter_mut().zip(pixels).for_each(|(sum, value)| *sum += value);
            }
            for (x, rgb) in row.chunks_exact_mut(3).enumerate() {
                let columns = spot(x, WIDTH, frame.width);
                let scale = 255.0 / (count * columns.len()) as f32;
                let at = columns.start * frame.channels..columns.end * frame.channels;
                let mut total = [0.0f32; 3];
                for pixel in sums.get(at).unwrap_or_default().chunks_exact(frame.channels.max(1)) {
                    total.iter_mut().zip(pixel).for_each(|(total, value)| *total += value);
                }
                // The cast sends NaN to 0 and what is out of range to the end of the range.
                rgb.iter_mut().zip(total).for_each(|(to, total)| *to = (total * scale).round() as u8);
            }
        }
        Thumb(spots)
    }

    /// A thumbnail that was made before: rows from the top, RGB of each spot. `None` if it is not the right number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == LEN).then(|| Thumb(bytes.into()))
    }

    /// Rows from the top, RGB of each spot.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How far its spots are from their mean colour, on average, from 0 to 1.
    pub(crate) fn contrast(&self) -> f64 {
        let mut sums = [0u64; 3];
        for rgb in self.0.chunks_exact(3) {
            sums.iter_mut().zip(rgb).for_each(|(sum, value)| *sum += u64::from(*value));
        }
        let means = sums.map(|sum| sum as f64 / (LEN / 3) as f64);
        let away =
            |rgb: &[u8]| rgb.iter().zip(means).map(|(v, mean)| (f64::from(*v) - mean).abs()).sum::<f64>();
        self.0.chunks_exact(3).map(away).sum::<f64>() / (LEN * 255) as f64
    }
}

/// The pixels of spot `i` of `spots` on a side of `pixels`: at least one, so that small frames repeat theirs.
fn spot(i: usize, spots: usize, pixels: usize) -> Range<usize> {
    let at = |i: usize| (i as u128 * pixels as u128 / spots as u128) as usize;
    at(i)..at(i + 1).max(at(i) + 1)
}

/// At most [`ROWS`] of `rows`, evenly spread.
fn sampled(rows: Range<usize>) -> std::iter::StepBy<Range<usize>> {
    let every = rows.len().div_ceil(ROWS).max(1);
    rows.step_by(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One spot at a time, in f64.
    fn naive(frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        for (y, x) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (y, x))) {
            for c in 0..3 {
                let (mut sum, mut count) = (0.0, 0.0);
                for py in sampled(spot(y, HEIGHT, frame.height)) {
                    for px in spot(x, WIDTH, frame.width) {
                        sum += f64::from(frame.pixel(px, py)[c]);
                        count += 1.0;
                    }
                }
                out.push((sum / count * 255.0).round() as u8);
            }
        }
        out
    }

    #[test]
    fn spots_are_means_at_any_size() {
        for (width, height, channels) in
            [(64, 36, 3), (1920, 1080, 3), (1, 1, 3), (65, 37, 4), (7, 300, 4), (214, 160, 3), (405, 719, 3)]
        {
            let mut frame = Frame::new(width, height, channels);
            let mut seed = 1u32;
            for v in &mut frame.data {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *v = (seed >> 8) as f32 / (1 << 24) as f32;
            }
            let (fast, slow) = (Thumb::of(&frame), naive(&frame));
            // Sums in another order may round to the neighbour.
            let apart = fast.bytes().iter().zip(&slow).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(apart <= Some(1), "{width} x {height}: {apart:?}");
        }
    }

    #[test]
    fn frames_that_are_none_are_black() {
        let empty = Thumb::of(&Frame::default());
        assert!(empty.bytes().iter().all(|v| *v == 0));
        let short = Frame { width: 100, height: 100, channels: 3, data: vec![1.0; 10] };
        assert!(Thumb::of(&short).bytes().iter().all(|v| *v == 0));
        let mut odd = Frame::new(64, 36, 3);
        odd.data[0] = f32::NAN;
        odd.data[1] = f32::INFINITY;
        odd.data[2] = -3.0;
        assert_eq!(Thumb::of(&odd).bytes()[..3], [0, 255, 0]);
    }
}
