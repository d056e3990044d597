//! The guided filter: in every window, the plane is fitted by a line of the picture's brightness.

use remaster_picture::Frame;

use super::Border;
use crate::batch::unit;

/// Added to a variance: windows that vary less than this are smoothed.
const EPSILON: f32 = 0.002;

/// Filters `plane` with the mean of RGB as the guide, in windows of `radius` pixels to each side.
pub(super) fn filter(plane: &mut Frame, rgb: &Frame, radius: usize, border: Border) {
    let guide: Vec<f32> =
        rgb.data.as_chunks::<3>().0.iter().map(|p| (unit(p[0]) + unit(p[1]) + unit(p[2])) / 3.0).collect();
    let mut means = Means::new(plane.width, plane.height, radius, border);
    let mut slope: Vec<f32> = guide.iter().zip(&plane.data).map(|(g, p)| g * p).collect();
    let mut variance: Vec<f32> = guide.iter().map(|g| g * g).collect();
    let mut mean_guide = guide.clone();
    let offset = &mut plane.data;
    for values in [&mut slope, &mut variance, &mut mean_guide, offset] {
        means.replace(values);
    }
    for (((slope, offset), variance), mean) in
        slope.iter_mut().zip(offset.iter_mut()).zip(&variance).zip(&mean_guide)
    {
        *slope = (*slope - mean * *offset) / (variance - mean * mean + EPSILON);
        *offset -= *slope * mean;
    }
    means.replace(&mut slope);
    means.replace(offset);
    for ((value, slope), guide) in offset.iter_mut().zip(&slope).zip(&guide) {
        *value += slope * guide;
    }
}

/// Means over square windows.
struct Means {
    width: usize,
    radius: usize,
    border: Border,
    /// A row with its border.
    padded: Vec<f32>,
    /// Sums along rows.
    sums: Vec<f32>,
}

impl Means {
    fn new(width: usize, height: usize, radius: usize, border: Border) -> Means {
        Means {
            width,
            radius,
            border,
            padded: vec![0.0; width + 2 * radius],
            sums: vec![0.0; width * height],
        }
    }

    /// Every value becomes the mean of its window.
    fn replace(&mut self, plane: &mut [f32]) {
        let Means { width, radius, border, ref mut padded, ref mut sums } = *self;
        for (row, sums) in plane.chunks_exact(width).zip(sums.chunks_exact_mut(width)) {
            padded[radius..radius + width].copy_from_slice(row);
            sums.fill(0.0);
            for shift in 0..=2 * radius {
                sums.iter_mut().zip(&padded[shift..]).for_each(|(sum, v)| *sum += v);
            }
        }
        let height = plane.len() / width;
        // Values of a window that are inside the picture, of `n` in a row or column.
        let inside = |i: usize, n: usize| (i + radius + 1).min(n) - i.saturating_sub(radius);
        let whole = 2 * radius + 1;
        for (y, row) in plane.chunks_exact_mut(width).enumerate() {
            row.fill(0.0);
            for y in y.saturating_sub(radius)..(y + radius + 1).min(height) {
                row.iter_mut().zip(&sums[y * width..]).for_each(|(sum, v)| *sum += v);
            }
            for (x, sum) in row.iter_mut().enumerate() {
                *sum /= match border {
                    Border::Zeros => whole * whole,
                    Border::Inside => inside(x, width) * inside(y, height),
                } as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::numbers;

    #[test]
    fn means_are_those_of_every_window_by_itself() {
        let sizes = [(1, 1, 2), (2, 3, 3), (9, 5, 2), (20, 17, 3)];
        let borders = [Border::Zeros, Border::Inside];
        for ((w, h, radius), border) in sizes.into_iter().flat_map(|size| borders.map(|b| (size, b))) {
            let plane = numbers(7, w * h);
            let mut got = plane.clone();
            Means::new(w, h, radius, border).replace(&mut got);
            for y in 0..h {
                for x in 0..w {
                    let (mut sum, mut count) = (0.0f64, 0);
                    for v in y.saturating_sub(radius)..(y + radius + 1).min(h) {
                        for u in x.saturating_sub(radius)..(x + radius + 1).min(w) {
                            sum += f64::from(plane[v * w + u]);
                            count += 1;
                        }
                    }
                    if border == Border::Zeros {
                        count = (2 * radius + 1) * (2 * radius + 1);
                    }
                    let mean = sum / count as f64;
                    assert!((f64::from(got[y * w + x]) - mean).abs() < 1e-6);
                }
            }
        }
    }
}
