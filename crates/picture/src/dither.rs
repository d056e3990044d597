//! Noise before rounding, so that a smooth gradient does not become bands.

use crate::frame::Frame;

/// Adds triangular noise, from minus one to plus one step of a full-range sample of `bits` bits, to the colours of
/// `frame`; alpha stays. With it, rounding has neither a bias nor an error that depends on the picture.
///
/// The noise is a function of `index`, the number of the frame in its clip, and of row, column and channel alone: the
/// same on every machine, and another one in every frame. Its mean is exactly 0. Where a sample is then clamped, at black
/// and white, it becomes an eighth of a step lighter or darker on average. Samples of 0 bits or more than 24, as f32 has, get
/// no noise.
pub fn dither(frame: &mut Frame, bits: u32, index: u64) {
    let (len, channels) = (frame.row_len(), frame.channels);
    if !(1..=24).contains(&bits) || len == 0 {
        return;
    }
    let step = 1.0 / ((1u32 << bits) - 1) as f32;
    let frame_seed = mix(mix(index as u32) ^ (index >> 32) as u32);
    for (y, row) in frame.data.chunks_exact_mut(len).enumerate() {
        let row_seed = mix(frame_seed ^ y as u32);
        for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
            for (c, value) in pixel.iter_mut().take(3).enumerate() {
                *value += step * triangle(mix(row_seed ^ (x * 4 + c) as u32));
            }
        }
    }
}

/// The difference of the two halves of a random number, each from 0 to 1: between -1 and 1, values near 0 more often.
fn triangle(random: u32) -> f32 {
    ((random >> 16) as f32 - (random & 0xffff) as f32) / 65_536.0
}

/// A permutation of 32-bit numbers that leaves no order: shifts and products, the constants of C. Wellons' search for the
/// least bias.
fn mix(mut n: u32) -> u32 {
    n = n.wrapping_add(0x9e37_79b9);
    n = (n ^ n >> 16).wrapping_mul(0x7feb_352d);
    n = (n ^ n >> 15).wrapping_mul(0x846c_a68b);
    n ^ n >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(channels: usize, value: f32) -> Frame {
        let mut frame = Frame::new(321, 200, channels);
        frame.data.fill(value);
        frame
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
        sum / count
    }

    /// The noise of a frame, in steps.
    fn noise(index: u64) -> Vec<f64> {
        let mut frame = flat(3, 0.5);
        dither(&mut frame, 8, index);
        frame.data.iter().map(|v| (f64::from(*v) - 0.5) * 255.0).collect()
    }

    #[test]
    fn noise_is_triangular_with_a_mean_of_nothing() {
        let noise = noise(3);
        assert!(noise.iter().all(|v| v.abs() <= 1.0001));
        // The standard error of the mean is sqrt(1/6 / 192600) = 9.3e-4.
        assert!(mean(noise.iter().copied()).abs() < 3e-3);
        assert!((mean(noise.iter().map(|v| v * v)) - 1.0 / 6.0).abs() < 2e-3);
        let inner = noise.iter().filter(|v| v.abs() < 0.5).count() as f64 / noise.len() as f64;
        assert!((inner - 0.75).abs() < 5e-3, "{inner}");
    }

    #[test]
    fn neighbours_channels_and_frames_have_nothing_in_common() {
        let (a, b) = (noise(7), noise(8));
        let together = |x: &[f64], y: &[f64]| mean(x.iter().zip(y).map(|(x, y)| x * y)) * 6.0;
        // Channel, pixel, row, frame, and frames that differ in their upper half only.
        for other in [&a[1..], &a[3..], &a[963..], &b[..], &noise(7 << 32)[..]] {
            assert!(together(&a, other).abs() < 0.01, "{}", together(&a, other));
        }
        assert_eq!(a, noise(7));
    }

    #[test]
    fn a_gradient_between_two_levels_keeps_its_mean() {
        let width = 321;
        for bits in [8, 10] {
            let steps = ((1u32 << bits) - 1) as f32;
            let mut frame = flat(3, 0.0);
            for (i, v) in frame.data.iter_mut().enumerate() {
                *v = (100.0 + (i / 3 % width) as f32 / width as f32) / steps;
            }
            let before = frame.clone();
            dither(&mut frame, bits, 0);
            for column in (0..width).step_by(40) {
                let rounded = |f: &Frame| {
                    let rows =
                        f.data.chunks_exact(width * 3).flat_map(|row| &row[column * 3..column * 3 + 3]);
                    mean(rows.map(|v| f64::from((v * steps).round())))
                };
                let expected = 100.0 + column as f64 / width as f64;
                assert!((rounded(&frame) - expected).abs() < 0.1, "{bits} bits, column {column}");
                // Without noise every column is a whole level.
                assert_eq!(rounded(&before).fract(), 0.0);
            }
        }
    }

    #[test]
    fn alpha_and_odd_frames_are_left_alone() {
        let mut frame = flat(4, 0.25);
        dither(&mut frame, 8, 1);
        assert!(frame.data.iter().skip(3).step_by(4).all(|v| *v == 0.25));
        // The noise of colours does not depend on there being alpha.
        let mut rgb = flat(3, 0.25);
        dither(&mut rgb, 8, 1);
        assert_eq!(frame.without_alpha(), rgb);
        for bits in [0, 25, 32, u32::MAX] {
            let mut frame = flat(3, 0.5);
            dither(&mut frame, bits, 0);
            assert_eq!(frame, flat(3, 0.5));
        }
        for (w, h) in [(0, 0), (0, 3), (3, 0), (1, 1)] {
            dither(&mut Frame::new(w, h, 3), 8, u64::MAX);
        }
        dither(&mut Frame { channels: 0, ..flat(3, 0.0) }, 8, 0);
    }
}
