//! Alpha of restored frames. The network knows no alpha, so it is resized and then fitted to the restored colours.
//!
//! A plane is a [`Frame`] of one channel. A cut-out ([`AlphaKind::Binary`]) gets sharp borders along the edges of the
//! picture; soft alpha is only guided by the picture. NaN counts as 0.

mod edges;
#[cfg(test)]
mod golden;
mod guided;

use remaster_picture::{Frame, resize};
use serde::{Deserialize, Serialize};

use crate::batch::{check_frame, unit};
use crate::error::ColourError;
use crate::power::sigmoid;

/// What the alpha of a clip is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaKind {
    /// Nearly all of it is transparent or opaque.
    Binary,
    /// Much of it is in between.
    Soft,
}

/// What is beyond the border of a picture, for the means of windows that reach there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Border {
    /// Nothing: only what is inside counts.
    #[default]
    Inside,
    /// Zeros that count, as the original has it. They make holes in what is opaque along the border.
    Zeros,
}

/// Counts the alpha of a clip to find out its kind, which must not change from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlphaCount {
    clear: u64,
    total: u64,
}

impl AlphaCount {
    /// Counts a plane of the source, before it is resized.
    pub fn add(&mut self, plane: &Frame) {
        self.clear += plane.data.iter().filter(|v| !(0.1..=0.9).contains(&unit(**v))).count() as u64;
        self.total += plane.data.len() as u64;
    }

    /// Binary if more than 95 of 100 values are below 0.1 or above 0.9.
    pub fn kind(self) -> AlphaKind {
        // In whole numbers: 95 of 100 exactly is not more.
        let binary = u128::from(self.clear) * 100 > u128::from(self.total) * 95;
        if binary { AlphaKind::Binary } else { AlphaKind::Soft }
    }
}

/// The alpha of an RGBA frame as a plane; nothing for other frames.
pub fn plane(frame: &Frame) -> Option<Frame> {
    let data = || frame.data.as_chunks::<4>().0.iter().map(|pixel| pixel[3]).collect();
    (frame.channels == 4).then(|| Frame { channels: 1, data: data(), ..*frame })
}

/// Alpha for a restored frame: `plane`, of any size, is brought to the size of `rgb` and fitted to its colours, which
/// count as clamped to 0..1. The result is a plane of 0..1. Alpha that is the same everywhere stays as it is.
pub fn restore(kind: AlphaKind, plane: &Frame, rgb: &Frame, border: Border) -> Result<Frame, ColourError> {
    check_frame("alpha", 0, plane, 1, [plane.width, plane.height])?;
    check_frame("frame", 0, rgb, 3, [rgb.width, rgb.height])?;
    if let Some(same) = plane.data.first().filter(|first| plane.data.iter().all(|v| v == *first)) {
        let data = vec![unit(*same); rgb.width * rgb.height];
        return Ok(Frame { width: rgb.width, height: rgb.height, channels: 1, data });
    }
    let mut alpha = resize(plane, rgb.width, rgb.height);
    alpha.data.iter_mut().for_each(|v| *v = unit(*v));
    match kind {
        AlphaKind::Soft => guided::filter(&mut alpha, rgb, 3, border),
        AlphaKind::Binary => {
            guided::filter(&mut alpha, rgb, 2, border);
            sharpen(&mut alpha, &edges::edges(rgb));
        }
    }
    alpha.data.iter_mut().for_each(|v| *v = unit(*v));
    Ok(alpha)
}

/// The frame with its alpha: RGB and a plane of the same size become RGBA.
pub fn attach(rgb: &Frame, plane: &Frame) -> Result<Frame, ColourError> {
    check_frame("frame", 0, rgb, 3, [rgb.width, rgb.height])?;
    check_frame("alpha", 0, plane, 1, [rgb.width, rgb.height])?;
    let pixels = rgb.data.as_chunks::<3>().0.iter().zip(&plane.data);
    let data = pixels.flat_map(|(pixel, alpha)| [pixel[0], pixel[1], pixel[2], *alpha]).collect();
    Ok(Frame { channels: 4, data, ..*rgb })
}

/// The most bytes that [`restore`] needs at a time beside its arguments, for a plane of `source` (width, height) and a
/// frame of `size`. Its result is among them.
pub fn working_bytes(source: [usize; 2], size: [usize; 2]) -> u64 {
    let [from, to] = [source, size].map(|side| side.map(|n| n as u64));
    let pixels = to[0].saturating_mul(to[1]);
    // Filtering holds 6 planes. Resizing holds two, one of them as high as the source, and some tables: 40 bytes for each
    // row and column there is.
    let resized = pixels.saturating_add(to[0].saturating_mul(from[1])).saturating_mul(4);
    let sides = [from, to].concat().iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    pixels.saturating_mul(24).max(resized).saturating_add(sides.saturating_mul(40))
}

/// Makes alpha opaque or transparent away from edges, and steeper at them.
fn sharpen(alpha: &mut Frame, edges: &[f32]) {
    let (width, height) = (alpha.width, alpha.height);
    let threshold = |v: f32| if v > 0.5 { 1.0 } else { 0.0 };
    for (i, v) in alpha.data.iter_mut().enumerate() {
        let (x, y) = (i % width, i / width);
        let edge = edges[i];
        let near = (y.saturating_sub(1)..(y + 2).min(height))
            .flat_map(|y| &edges[y * width + x.saturating_sub(1)..y * width + (x + 2).min(width)])
            .fold(0.0f32, |most, edge| most.max(*edge));
        if near < 0.05 {
            *v = threshold(*v);
            continue;
        }
        let weight = (edge / 0.25).min(1.0);
        *v = *v * (1.0 - weight) + sigmoid(12.0 * (*v - 0.5)) * weight;
        // Grey without an edge that would explain it.
        if *v > 0.3 && *v < 0.7 && edge <= 0.15 {
            *v = threshold(*v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alpha(values: &[f32]) -> Frame {
        Frame { width: values.len(), height: 1, channels: 1, data: values.to_vec() }
    }

    #[test]
    fn more_than_95_of_100_make_a_cut_out() {
        let mut count = AlphaCount::default();
        assert_eq!(count.kind(), AlphaKind::Soft);
        count.add(&alpha(&[vec![0.0; 95], vec![0.5; 5]].concat()));
        assert_eq!(count.kind(), AlphaKind::Soft);
        count.add(&alpha(&[0.95, f32::NAN]));
        assert_eq!(count.kind(), AlphaKind::Binary);
        let mut edge = AlphaCount::default();
        edge.add(&alpha(&[0.1, 0.9]));
        assert_eq!(edge.kind(), AlphaKind::Soft);
    }

    #[test]
    fn alpha_comes_off_and_on() {
        let rgba =
            Frame { width: 2, height: 1, channels: 4, data: vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8] };
        let off = plane(&rgba).unwrap();
        assert_eq!(off, alpha(&[0.4, 0.8]));
        assert_eq!(attach(&rgba.without_alpha(), &off).unwrap(), rgba);
        assert!(plane(&off).is_none() && plane(&rgba.without_alpha()).is_none());
    }

    #[test]
    fn what_is_no_plane_or_no_picture_is_refused() {
        let (rgb, one) = (Frame::new(2, 3, 3), Frame::new(2, 3, 1));
        for (plane, rgb) in [(&rgb, &rgb), (&one, &one), (&Frame::default(), &rgb), (&one, &Frame::default())]
        {
            assert!(restore(AlphaKind::Soft, plane, rgb, Border::Inside).is_err());
            assert!(attach(rgb, plane).is_err());
        }
        assert!(attach(&rgb, &Frame::new(3, 2, 1)).is_err());
    }

    #[test]
    fn what_is_opaque_stays_opaque_to_the_border() {
        let mut rgb = Frame::new(24, 16, 3);
        rgb.data.iter_mut().enumerate().for_each(|(i, v)| *v = (i * 37 % 101) as f32 / 100.0);
        for value in [0.0, 0.6, 1.0] {
            let plane = Frame { width: 12, height: 8, channels: 1, data: vec![value; 96] };
            for kind in [AlphaKind::Binary, AlphaKind::Soft] {
                let out = restore(kind, &plane, &rgb, Border::Inside).unwrap();
                assert!(out.data.iter().all(|v| *v == value), "{kind:?} {value}");
            }
        }
        // The left half is cut out: the right one has no holes, and the original makes some.
        let mut half = Frame::new(24, 16, 1);
        (0..16).for_each(|y| half.row_mut(y)[12..].fill(1.0));
        let least = |border| {
            let out = restore(AlphaKind::Binary, &half, &Frame::new(24, 16, 3), border).unwrap();
            (0..16).flat_map(|y| out.row(y)[16..].to_vec()).fold(1.0, f32::min)
        };
        assert_eq!([least(Border::Inside), least(Border::Zeros)], [1.0, 0.0]);
    }

    #[test]
    fn any_size_and_any_value_give_0_to_1() {
        for kind in [AlphaKind::Binary, AlphaKind::Soft] {
            for (w, h) in [(1, 1), (2, 3), (1, 7), (9, 4)] {
                let mut rgb = Frame::new(w, h, 3);
                rgb.data.iter_mut().enumerate().for_each(|(i, v)| *v = (i * 7 % 5) as f32 / 3.0 - 0.3);
                rgb.data[0] = f32::NAN;
                for value in [0.0, 0.4, 1.0, f32::NAN, f32::INFINITY] {
                    let mut plane = Frame::new(2, 1, 1);
                    plane.data = vec![value, 0.7];
                    let out = restore(kind, &plane, &rgb, Border::Inside).unwrap();
                    assert_eq!((out.width, out.height, out.channels), (w, h, 1));
                    assert!(out.data.iter().all(|v| (0.0..=1.0).contains(v)), "{kind:?} {w} {h} {value}");
                }
            }
        }
    }
}
