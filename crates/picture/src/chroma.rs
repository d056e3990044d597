//! Chroma to the size of the picture and back, so that an untouched picture keeps its samples.
//!
//! Going up is linear interpolation; going down is its biorthogonal partner, a short filter with the property
//! down(up(c)) = c. There are two pairs: for samples that lie on every other pixel (sited), and for samples that
//! lie between two pixels (centred). A factor of four is a factor of two, twice.
//!
//! ```text
//! sited      up  u[2i] = c[i]                    down  (-u[2i-2] + 2 u[2i-1] + 6 u[2i] + 2 u[2i+1] - u[2i+2]) / 8
//!                u[2i+1] = (c[i] + c[i+1]) / 2
//! centred    up  u[2i] = (c[i-1] + 3 c[i]) / 4   down  (-u[2i-1] + 3 u[2i] + 3 u[2i+1] - u[2i+2]) / 4
//!                u[2i+1] = (3 c[i] + c[i+1]) / 4
//! ```
//!
//! Past a border going up repeats the last sample. Going down repeats the last pixel when sited. When centred it
//! mirrors the pixels, the last one included: at an even size that is the same, and at an odd one, where the last
//! sample lies half outside, only the mirror gives the sample back.

use crate::coding::Siting;

/// Where samples lie along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisSiting {
    /// On pixels 0, 2, 4.
    Sited,
    /// Between pixels 0 and 1, 2 and 3.
    Centred,
}

/// The siting across and down.
pub(crate) fn axes(siting: Siting) -> [AxisSiting; 2] {
    match siting {
        Siting::Left => [AxisSiting::Sited, AxisSiting::Centred],
        Siting::Centre => [AxisSiting::Centred, AxisSiting::Centred],
        Siting::TopLeft => [AxisSiting::Sited, AxisSiting::Sited],
    }
}

/// The two samples that make pixel `i`, and the share of the second.
fn up_taps(siting: AxisSiting, i: usize, samples: usize) -> (usize, usize, f32) {
    let (near, last) = (i / 2, samples - 1);
    let next = (near + 1).min(last);
    match (siting, i % 2) {
        (AxisSiting::Sited, 0) => (near, near, 0.0),
        (AxisSiting::Sited, _) => (near, next, 0.5),
        (AxisSiting::Centred, 0) => (near, near.saturating_sub(1), 0.25),
        (AxisSiting::Centred, _) => (near, next, 0.25),
    }
}

/// The weights of going down, and how many pixels before pixel 2i they start.
fn down_filter(siting: AxisSiting) -> (&'static [f32], usize) {
    match siting {
        AxisSiting::Sited => (&[-0.125, 0.25, 0.75, 0.25, -0.125], 2),
        AxisSiting::Centred => (&[-0.25, 0.75, 0.75, -0.25], 1),
    }
}

/// The pixel that stands at `at` after `before` was taken off, with borders as the siting wants them.
fn inside(siting: AxisSiting, at: usize, before: usize, pixels: usize) -> usize {
    let last = pixels - 1;
    match siting {
        AxisSiting::Sited => at.saturating_sub(before).min(last),
        AxisSiting::Centred if at < before => (before - at - 1).min(last),
        AxisSiting::Centred if at - before > last => (2 * last + 1).saturating_sub(at - before),
        AxisSiting::Centred => at - before,
    }
}

/// A row of samples to `out.len()` pixels, where samples are half as many, rounded up.
pub(crate) fn up_row(siting: AxisSiting, samples: &[f32], out: &mut [f32]) {
    let (pixels, count) = (out.len(), samples.len());
    // All pixels with both neighbours, without a question per pixel.
    match siting {
        AxisSiting::Sited => {
            for (pair, c) in out.as_chunks_mut::<2>().0.iter_mut().zip(samples.windows(2)) {
                *pair = [c[0], (c[0] + c[1]) * 0.5];
            }
        }
        AxisSiting::Centred if count > 1 => {
            let pairs = out[2.min(pixels)..].as_chunks_mut::<2>().0;
            for (pair, c) in pairs.iter_mut().zip(samples.windows(3)) {
                *pair = [c[0] * 0.25 + c[1] * 0.75, c[1] * 0.75 + c[2] * 0.25];
            }
        }
        AxisSiting::Centred => {}
    }
    for i in (0..pixels.min(2)).chain(pixels.saturating_sub(2)..pixels) {
        let (a, b, share) = up_taps(siting, i, count);
        out[i] = samples[a] * (1.0 - share) + samples[b] * share;
    }
}

/// A row of pixels to samples, half as many, rounded up.
pub(crate) fn down_row(siting: AxisSiting, pixels: &[f32], out: &mut [f32]) {
    match siting {
        AxisSiting::Sited => {
            for (c, u) in out.iter_mut().skip(1).zip(pixels.windows(5).step_by(2)) {
                *c = (u[1] + u[3]) * 0.25 + u[2] * 0.75 - (u[0] + u[4]) * 0.125;
            }
        }
        AxisSiting::Centred => {
            for (c, u) in out.iter_mut().skip(1).zip(pixels[1..].windows(4).step_by(2)) {
                *c = (u[1] + u[2]) * 0.75 - (u[0] + u[3]) * 0.25;
            }
        }
    }
    let (weights, before) = down_filter(siting);
    for i in (0..out.len().min(1)).chain(out.len().saturating_sub(2)..out.len()) {
        let tap = |(k, w): (usize, &f32)| w * pixels[inside(siting, 2 * i + k, before, pixels.len())];
        out[i] = weights.iter().enumerate().map(tap).sum();
    }
}

/// A plane with rows of `width` samples, half as many as `rows`, to `rows` rows.
pub(crate) fn up_rows(siting: AxisSiting, samples: &[f32], width: usize, rows: usize) -> Vec<f32> {
    let mut out = vec![0.0; width * rows];
    let count = samples.len() / width;
    for (y, row) in out.chunks_exact_mut(width).enumerate() {
        let (a, b, share) = up_taps(siting, y, count);
        let (a, b) = (&samples[a * width..][..width], &samples[b * width..][..width]);
        if share == 0.0 {
            row.copy_from_slice(a);
            continue;
        }
        for ((value, a), b) in row.iter_mut().zip(a).zip(b) {
            *value = a * (1.0 - share) + b * share;
        }
    }
    out
}

/// A plane with rows of `width` values to half as many rows, rounded up.
pub(crate) fn down_rows(siting: AxisSiting, pixels: &[f32], width: usize) -> Vec<f32> {
    let rows = pixels.len() / width;
    let mut out = vec![0.0; width * rows.div_ceil(2)];
    let (weights, before) = down_filter(siting);
    for (i, row) in out.chunks_exact_mut(width).enumerate() {
        for (k, weight) in weights.iter().enumerate() {
            let y = inside(siting, 2 * i + k, before, rows);
            for (value, u) in row.iter_mut().zip(&pixels[y * width..][..width]) {
                *value += u * weight;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [AxisSiting; 2] = [AxisSiting::Sited, AxisSiting::Centred];

    fn noise(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 2654435761) % 1024) as f32 / 1024.0).collect()
    }

    #[test]
    fn going_up_and_down_gives_every_sample_back() {
        for siting in BOTH {
            for pixels in 1..=40usize {
                let samples = noise(pixels.div_ceil(2));
                let (mut up, mut back) = (vec![0.0; pixels], vec![0.0; samples.len()]);
                up_row(siting, &samples, &mut up);
                down_row(siting, &up, &mut back);
                // Weights are sums of powers of two and the samples have ten bits: nothing is rounded.
                assert_eq!(back, samples, "{siting:?} {pixels}");
            }
        }
    }

    #[test]
    fn rows_and_columns_are_alike() {
        for siting in BOTH {
            for pixels in 1..=40usize {
                let samples = noise(pixels.div_ceil(2));
                let (mut up, mut down) = (vec![0.0; pixels], vec![0.0; samples.len()]);
                up_row(siting, &samples, &mut up);
                // Three columns of the same.
                let wide = |row: &[f32]| row.iter().flat_map(|v| [*v; 3]).collect::<Vec<_>>();
                assert_eq!(up_rows(siting, &wide(&samples), 3, pixels), wide(&up), "{siting:?} {pixels}");
                let other = noise(pixels);
                down_row(siting, &other, &mut down);
                for (a, b) in down_rows(siting, &wide(&other), 3).iter().zip(wide(&down)) {
                    assert!((a - b).abs() < 1e-6, "{siting:?} {pixels}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn a_flat_row_stays_flat_and_a_ramp_straight() {
        for siting in BOTH {
            for pixels in 1..=20usize {
                let mut samples = vec![0.0; pixels.div_ceil(2)];
                down_row(siting, &vec![0.375; pixels], &mut samples);
                assert!(samples.iter().all(|v| *v == 0.375), "{siting:?} {pixels} {samples:?}");
            }
            let ramp: Vec<f32> = (0..20).map(|i| i as f32).collect();
            let mut samples = vec![0.0; 10];
            down_row(siting, &ramp, &mut samples);
            let at = if siting == AxisSiting::Sited { 0.0 } else { 0.5 };
            for i in 2..8 {
                assert_eq!(samples[i], 2.0 * i as f32 + at, "{siting:?}");
            }
        }
    }

    #[test]
    fn sitings_differ_as_they_should() {
        assert_eq!(axes(Siting::Left), [AxisSiting::Sited, AxisSiting::Centred]);
        let mut up = [0.0; 4];
        up_row(AxisSiting::Sited, &[0.0, 1.0], &mut up);
        assert_eq!(up, [0.0, 0.5, 1.0, 1.0]);
        up_row(AxisSiting::Centred, &[0.0, 1.0], &mut up);
        assert_eq!(up, [0.0, 0.25, 0.75, 1.0]);
    }
}
