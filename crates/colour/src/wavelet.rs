//! Low frequencies of the reference, detail of the frame.
//!
//! Low frequencies are what five blurs one after another leave: 3 x 3 binomial with dilation 1, 2, 4, 8 and 16, borders
//! repeated. A dilation is at most an eighth of the short side.
//!
//! Blurs are linear, so frame - low(frame) + low(reference) is frame + low(reference - frame): half the work.

use remaster_picture::Frame;

use crate::batch::unit;

const DILATIONS: [usize; 5] = [1, 2, 4, 8, 16];

/// The largest dilation of a picture.
pub(crate) fn limit(width: usize, height: usize) -> usize {
    (width.min(height) / 8).max(1)
}

/// Replaces the low frequencies of `frame`; the result is clamped to 0..1. Both have three channels and one size.
pub(crate) fn correct(frame: &mut Frame, reference: &Frame) {
    let mut low: Vec<f32> = reference.data.iter().zip(&frame.data).map(|(r, f)| unit(*r) - f).collect();
    let limit = limit(frame.width, frame.height);
    let mut blur = Blur::new(frame.width, limit.min(DILATIONS[4]));
    for dilation in DILATIONS {
        let dilation = dilation.min(limit);
        blur.across(&mut low, dilation);
        blur.down(&mut low, dilation);
    }
    for (value, low) in frame.data.iter_mut().zip(low) {
        *value = (*value + low).clamp(0.0, 1.0);
    }
}

/// The room that blurs in place need.
struct Blur {
    /// Values of a row.
    len: usize,
    /// A row with its border.
    padded: Vec<f32>,
    /// The last rows as they were before they were blurred, as many as the dilation.
    before: Vec<f32>,
}

impl Blur {
    fn new(width: usize, most: usize) -> Blur {
        let len = width * 3;
        Blur { len, padded: vec![0.0; len + 6 * most], before: vec![0.0; len * most] }
    }

    /// (1 2 1) / 4 along every row.
    fn across(&mut self, data: &mut [f32], dilation: usize) {
        let (len, side) = (self.len, 3 * dilation);
        let padded = &mut self.padded[..len + 2 * side];
        for row in data.chunks_exact_mut(len) {
            let (left, rest) = padded.split_at_mut(side);
            let (middle, right) = rest.split_at_mut(len);
            middle.copy_from_slice(row);
            left.as_chunks_mut::<3>().0.fill([row[0], row[1], row[2]]);
            right.as_chunks_mut::<3>().0.fill([row[len - 3], row[len - 2], row[len - 1]]);
            mix(row, &padded[..len], &padded[side..side + len], &padded[2 * side..]);
        }
    }

    /// (1 2 1) / 4 along every column.
    fn down(&mut self, data: &mut [f32], dilation: usize) {
        let len = self.len;
        let height = data.len() / len;
        let current = &mut self.padded[..len];
        for y in 0..height {
            let (done, rest) = data.split_at_mut((y + 1) * len);
            let row = &mut done[y * len..];
            current.copy_from_slice(row);
            // The row above, as it was: of the first rows it is row 0, which waits in its place until row
            // `dilation` takes that.
            let slot = (y % dilation) * len..(y % dilation + 1) * len;
            let above = if y == 0 {
                &*current
            } else if y < dilation {
                &self.before[..len]
            } else {
                &self.before[slot.clone()]
            };
            let below = (y + dilation).min(height - 1);
            let below = if below == y { &*current } else { &rest[(below - y - 1) * len..(below - y) * len] };
            mix(row, above, current, below);
            self.before[slot].copy_from_slice(current);
        }
    }
}

fn mix(out: &mut [f32], before: &[f32], middle: &[f32], after: &[f32]) {
    for (((out, a), b), c) in out.iter_mut().zip(before).zip(middle).zip(after) {
        *out = (a + c + 2.0 * b) * 0.25;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::numbers;

    /// One 3 x 3 blur with every tap written out.
    fn naive(frame: &Frame, dilation: usize) -> Frame {
        let mut out = frame.clone();
        let at = |p: usize, d: usize, n: usize| (p + d * dilation).saturating_sub(dilation).min(n - 1);
        for y in 0..frame.height {
            for x in 0..frame.width {
                for c in 0..3 {
                    let mut sum = 0.0f64;
                    for (j, wy) in [1.0, 2.0, 1.0].into_iter().enumerate() {
                        for (i, wx) in [1.0, 2.0, 1.0].into_iter().enumerate() {
                            let (x, y) = (at(x, i, frame.width), at(y, j, frame.height));
                            sum += wx * wy * f64::from(frame.pixel(x, y)[c]);
                        }
                    }
                    out.data[(y * frame.width + x) * 3 + c] = (sum / 16.0) as f32;
                }
            }
        }
        out
    }

    fn low(frame: &Frame) -> Frame {
        let limit = limit(frame.width, frame.height);
        DILATIONS.iter().fold(frame.clone(), |frame, d| naive(&frame, *d.min(&limit)))
    }

    #[test]
    fn the_blur_of_the_difference_is_the_blur_of_both_tap_by_tap() {
        for (w, h) in [(1, 1), (2, 3), (3, 1), (1, 9), (7, 5), (17, 16), (40, 33), (131, 140)] {
            let picture = |seed| Frame { width: w, height: h, channels: 3, data: numbers(seed, w * h * 3) };
            let (mut frame, reference) = (picture(1), picture(2));
            let (a, b) = (low(&frame), low(&reference));
            let expected: Vec<f32> =
                (0..w * h * 3).map(|i| (frame.data[i] - a.data[i] + b.data[i]).clamp(0.0, 1.0)).collect();
            correct(&mut frame, &reference);
            for (i, (got, expected)) in frame.data.iter().zip(&expected).enumerate() {
                assert!((got - expected).abs() < 1e-6, "{w} x {h}, {i}: {got} instead of {expected}");
            }
        }
    }
}
