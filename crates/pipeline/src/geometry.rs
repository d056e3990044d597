//! How a frame becomes one that the network takes, and back.

use remaster_picture::{Frame, resize, short_side};
use serde::{Deserialize, Serialize};

/// Frames that the network gets are multiples of this: the transformer behind the VAE needs twice what the
/// VAE needs.
const MULTIPLE: usize = 16;

/// The size that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    /// As it is.
    #[default]
    Keep,
    /// The short side gets this many pixels, the long one follows.
    Short(usize),
    /// Exactly this many columns and rows.
    Exactly([usize; 2]),
    /// So many times as large, in hundredths.
    Times(usize),
}

/// Sizes of a clip on its way through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Columns and rows of the frames that come in.
    pub source: [usize; 2],
    /// Columns and rows of the frames that go out.
    pub shown: [usize; 2],
    /// Columns and rows that the network sees: padded with black at the right and at the bottom.
    pub padded: [usize; 2],
}

impl Geometry {
    /// For frames of `source` columns and rows.
    pub fn new(source: [usize; 2], to: Resize) -> Self {
        let shown = match to {
            Resize::Keep => source,
            Resize::Short(n) => short_side(source, n, None),
            Resize::Exactly(size) => size,
            Resize::Times(hundredths) => source.map(|n| (n * hundredths).div_ceil(100)),
        };
        let shown = shown.map(|n| n.max(1));
        Geometry { source, shown, padded: shown.map(|n| n.next_multiple_of(MULTIPLE)) }
    }

    /// Pixels of a padded frame in [-1, 1], row by row, and its alpha if it has one, in the size it is shown.
    pub(crate) fn prepare(&self, frame: &Frame) -> (Vec<f32>, Option<Vec<f32>>) {
        let resized;
        let mut source = frame;
        let scaled = self.source != self.shown;
        if scaled {
            resized = resize(frame, self.shown[0], self.shown[1]);
            source = &resized;
        }
        let [width, height] = self.padded;
        let mut data = vec![-1.0f32; width * height * 3];
        let mut alpha = (frame.channels == 4).then(|| Vec::with_capacity(self.shown[0] * self.shown[1]));
        for y in 0..source.height {
            let out = &mut data[y * width * 3..][..source.width * 3];
            // A cubic overshoots; colours that came in beyond the range stay if nothing was resized.
            let value = |v: f32| 2.0 * if scaled { v.clamp(0.0, 1.0) } else { v } - 1.0;
            match &mut alpha {
                None => out.iter_mut().zip(source.row(y)).for_each(|(o, v)| *o = value(*v)),
                Some(alpha) => {
                    for (o, p) in out.chunks_exact_mut(3).zip(source.row(y).chunks_exact(4)) {
                        o.iter_mut().zip(p).for_each(|(o, v)| *o = value(*v));
                        alpha.push(p[3]);
                    }
                }
            }
        }
        (data, alpha)
    }

    /// The picture of a padded frame in [-1, 1].
    pub(crate) fn restore(&self, data: &[f32], alpha: Option<&[f32]>, clamp: bool, frame: &mut Frame) {
        let ([width, _], [shown, rows]) = (self.padded, self.shown);
        let value = |v: f32| {
            let v = 0.5 * v + 0.5;
            if clamp { v.clamp(0.0, 1.0) } else { v }
        };
        (frame.width, frame.height) = (shown, rows);
        frame.channels = if alpha.is_some() { 4 } else { 3 };
        frame.data.clear();
        for y in 0..rows {
            let row = &data[y * width * 3..][..shown * 3];
            match alpha {
                None => frame.data.extend(row.iter().map(|v| value(*v))),
                Some(alpha) => {
                    for (p, a) in row.chunks_exact(3).zip(&alpha[y * shown..]) {
                        frame.data.extend([value(p[0]), value(p[1]), value(p[2]), *a]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_padded_with_black_and_cut_back() {
        let geometry = Geometry::new([5, 3], Resize::Keep);
        assert_eq!(geometry.padded, [16, 16]);
        for channels in [3, 4] {
            let mut frame = Frame::new(5, 3, channels);
            frame.data.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32 / 64.0 - 0.1);
            let (data, alpha) = geometry.prepare(&frame);
            assert_eq!(data.len(), 16 * 16 * 3);
            assert_eq!((data[15], data[3 * 16 * 3]), (-1.0, -1.0));
            let mut back = Frame::new(0, 0, 3);
            geometry.restore(&data, alpha.as_deref(), false, &mut back);
            assert_eq!((back.width, back.height, back.channels), (5, 3, channels));
            let worst = back.data.iter().zip(&frame.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-6, "{worst}");
        }
    }

    #[test]
    fn sizes_as_they_are_asked_for() {
        assert_eq!(Geometry::new([1920, 1080], Resize::Short(720)).shown, [1280, 720]);
        assert_eq!(Geometry::new([1920, 1080], Resize::Keep).padded, [1920, 1088]);
        assert_eq!(Geometry::new([640, 361], Resize::Times(200)).shown, [1280, 722]);
        assert_eq!(Geometry::new([640, 361], Resize::Exactly([100, 50])).shown, [100, 50]);
    }
}
