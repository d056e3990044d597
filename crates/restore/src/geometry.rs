//! How a frame becomes one that the network takes, and back.

use remaster_media::{MAX_AREA, MAX_SIDE};
use remaster_picture::{Edges, Frame, pad, resize, short_side};
use serde::{Deserialize, Serialize};

/// Frames that the network gets are multiples of this: the transformer behind the VAE needs twice what the
/// VAE needs.
const MULTIPLE: usize = 16;

/// The size that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

/// Sizes of a clip on its way through, and what goes along with its colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Columns and rows of the frames that come in.
    pub source: [usize; 2],
    /// Columns and rows of the frames that go out.
    pub shown: [usize; 2],
    /// Columns and rows that the network sees: `shown`, made larger at the right and at the bottom.
    pub padded: [usize; 2],
    /// What the network sees there.
    pub edges: Edges,
    /// Alpha goes around the network and joins the colours behind it.
    #[serde(default)]
    pub alpha: bool,
}

impl Geometry {
    /// For frames of `source` columns and rows.
    pub fn new(source: [usize; 2], to: Resize, edges: Edges) -> Self {
        let shown = match to {
            Resize::Keep => source,
            Resize::Short(n) => short_side(source, n, None),
            Resize::Exactly(size) => size,
            Resize::Times(hundredths) => source.map(|n| (n * hundredths).div_ceil(100)),
        };
        let shown = shown.map(|n| n.max(1));
        Geometry { source, shown, padded: Self::padded(shown, edges), edges, alpha: false }
    }

    /// The same, with alpha beside the colours or without.
    pub fn with_alpha(self, alpha: bool) -> Self {
        Geometry { alpha, ..self }
    }

    /// The same without padding, for networks that take frames of any size.
    #[must_use]
    pub fn unpadded(self) -> Self {
        Geometry { padded: self.shown, ..self }
    }

    fn padded(shown: [usize; 2], edges: Edges) -> [usize; 2] {
        shown.map(|n| edges.padded(n, MULTIPLE))
    }

    /// Whether sizes from a file are possible.
    pub(crate) fn check(&self) -> Result<(), String> {
        for [width, height] in [self.source, self.shown, self.padded] {
            let [w, h] = [width as u64, height as u64];
            if ![w, h].iter().all(|n| (1..=MAX_SIDE).contains(n)) || w * h > MAX_AREA {
                return Err(format!(
                    "frames of {width} x {height}; sides are 1 to {MAX_SIDE} pixels, and {MAX_AREA} in all"
                ));
            }
        }
        let expected = Self::padded(self.shown, self.edges);
        if self.padded != expected {
            let ([w, h], [a, b], [x, y]) = (self.shown, expected, self.padded);
            return Err(format!("{w} x {h} with {} edges is {a} x {b}, not {x} x {y}", self.edges.name()));
        }
        Ok(())
    }

    /// Pixels of a padded frame in [-1, 1], row by row, and its alpha in the size it is shown, if that goes along.
    pub fn prepare(&self, frame: &Frame) -> (Vec<f32>, Option<Vec<f32>>) {
        let resized;
        let mut source = frame;
        let scaled = self.source != self.shown;
        if scaled {
            resized = resize(frame, self.shown[0], self.shown[1]);
            source = &resized;
        }
        let alpha = (self.alpha && source.channels == 4)
            .then(|| source.data.chunks_exact(4).map(|p| p[3]).collect::<Vec<f32>>());
        let colours;
        if source.channels == 4 {
            colours = source.without_alpha();
            source = &colours;
        }
        let mut data = pad(source, MULTIPLE, self.edges).data;
        // A cubic overshoots; colours that came in beyond the range stay if nothing was resized.
        let value = |v: f32| 2.0 * if scaled { v.clamp(0.0, 1.0) } else { v } - 1.0;
        data.iter_mut().for_each(|v| *v = value(*v));
        (data, alpha)
    }

    /// The picture of a padded frame in [-1, 1].
    pub fn restore(&self, data: &[f32], alpha: Option<&[f32]>, clamp: bool, frame: &mut Frame) {
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
    fn frames_are_padded_and_cut_back() {
        let cases = [(Edges::Black, [16, 16]), (Edges::Mirror, [16, 16]), (Edges::MirrorBlack, [32, 32])];
        for (edges, padded) in cases {
            for channels in [3, 4] {
                let geometry = Geometry::new([5, 3], Resize::Keep, edges).with_alpha(channels == 4);
                assert_eq!(geometry.padded, padded);
                geometry.check().unwrap();
                let mut frame = Frame::new(5, 3, channels);
                frame.data.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32 / 64.0 - 0.1);
                let (data, alpha) = geometry.prepare(&frame);
                assert_eq!(data.len(), padded[0] * padded[1] * 3);
                assert_eq!(data[data.len() - 1] == -1.0, edges != Edges::Mirror);
                // Beyond the last column comes the one before it.
                let beyond = if edges == Edges::Black { -1.0 } else { data[3 * 3] };
                assert_eq!(data[5 * 3], beyond);
                let mut back = Frame::new(0, 0, 3);
                geometry.restore(&data, alpha.as_deref(), false, &mut back);
                assert_eq!((back.width, back.height, back.channels), (5, 3, channels));
                let worst =
                    remaster_testkit::largest(back.data.iter().zip(&frame.data).map(|(a, b)| (a - b).abs()));
                assert!(worst < 1e-6, "{worst}");
            }
        }
    }

    #[test]
    fn alpha_that_does_not_go_along_is_not_made() {
        let geometry = Geometry::new([5, 3], Resize::Keep, Edges::Black);
        assert!(geometry.prepare(&Frame::new(5, 3, 4)).1.is_none());
    }

    #[test]
    fn sizes_as_they_are_asked_for() {
        assert_eq!(Geometry::new([1920, 1080], Resize::Short(720), Edges::Black).shown, [1280, 720]);
        assert_eq!(Geometry::new([1920, 1080], Resize::Keep, Edges::Black).padded, [1920, 1088]);
        assert_eq!(Geometry::new([640, 361], Resize::Times(200), Edges::Black).shown, [1280, 722]);
        assert_eq!(Geometry::new([640, 361], Resize::Exactly([100, 50]), Edges::Black).shown, [100, 50]);
    }
}
