//! A picture in memory, and what moves its pixels without changing them.

use crate::error::PictureError;

/// One picture: interleaved f32, 0 to 1 nominal, never clamped on the way, in the transfer curve of its clip.
///
/// Colours that YUV can hold and RGB cannot are below 0 or above 1; they must stay so to come back as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Values of a pixel: 3 for RGB, 4 with alpha, which is straight (not multiplied in).
    pub channels: usize,
    /// Row after row from the top, `width * height * channels` values.
    pub data: Vec<f32>,
}

impl Frame {
    /// Black, and transparent where there is alpha.
    pub fn new(width: usize, height: usize, channels: usize) -> Self {
        Frame { width, height, channels, data: vec![0.0; width * height * channels] }
    }

    /// Values of a row.
    pub fn row_len(&self) -> usize {
        self.width * self.channels
    }

    /// Row `y` from the top; nothing when there is no such row.
    pub fn row(&self, y: usize) -> &[f32] {
        let len = if y < self.height { self.row_len() } else { return &[] };
        self.data.get(y * len..(y + 1) * len).unwrap_or_default()
    }

    /// Row `y` from the top, to be changed; nothing when there is no such row.
    pub fn row_mut(&mut self, y: usize) -> &mut [f32] {
        let len = if y < self.height { self.row_len() } else { return &mut [] };
        self.data.get_mut(y * len..(y + 1) * len).unwrap_or_default()
    }

    /// The values of a pixel; nothing outside the picture.
    pub fn pixel(&self, x: usize, y: usize) -> &[f32] {
        let start = if x < self.width { x * self.channels } else { return &[] };
        self.row(y).get(start..start + self.channels).unwrap_or_default()
    }

    /// The same colours without alpha.
    pub fn without_alpha(&self) -> Frame {
        if self.channels != 4 {
            return self.clone();
        }
        let data = self.data.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
        Frame { channels: 3, data, ..*self }
    }

    /// Whether there is at least one value, and one for each channel of each pixel.
    pub fn is_filled(&self) -> bool {
        let values = self.width.checked_mul(self.height).and_then(|n| n.checked_mul(self.channels));
        values.is_some_and(|n| n > 0 && n == self.data.len())
    }

    /// Refuses what no layout can hold.
    pub(crate) fn check(&self) -> Result<(), PictureError> {
        let Frame { width, height, channels, .. } = *self;
        match self.is_filled() && (3..=4).contains(&channels) {
            true => Ok(()),
            false => Err(PictureError::Frame { width, height, channels, values: self.data.len() }),
        }
    }
}

/// The top left `width` x `height` pixels of `frame`, or as many as it has.
pub fn crop(frame: &Frame, width: usize, height: usize) -> Frame {
    let mut out = Frame::new(width.min(frame.width), height.min(frame.height), frame.channels);
    let len = out.row_len();
    for y in 0..out.height {
        out.row_mut(y).copy_from_slice(&frame.row(y)[..len]);
    }
    out
}

/// `frame` turned clockwise by quarter turns; only the rest after division by 4 counts.
pub fn turn(frame: &Frame, quarter_turns_clockwise: u32) -> Frame {
    match (frame.channels, quarter_turns_clockwise % 4) {
        (_, 0) => frame.clone(),
        (3, quarters) => turned::<3>(frame, quarters),
        (4, quarters) => turned::<4>(frame, quarters),
        // No layout makes another number of channels.
        (_, _) => frame.clone(),
    }
}

/// `frame` as EXIF's `orientation` wants it shown: 1 is as stored, 2 to 8 are turned or mirrored.
pub fn upright(frame: Frame, orientation: u32) -> Frame {
    let turned = match orientation {
        3 | 4 => turn(&frame, 2),
        5 | 6 => turn(&frame, 1),
        7 | 8 => turn(&frame, 3),
        _ => frame,
    };
    if matches!(orientation, 2 | 4 | 5 | 7) { mirrored(turned) } else { turned }
}

/// Left and right exchanged.
fn mirrored(mut frame: Frame) -> Frame {
    let (channels, len) = (frame.channels.max(1), frame.row_len().max(1));
    for row in frame.data.chunks_exact_mut(len) {
        let pixels = row.len() / channels;
        for x in 0..pixels / 2 {
            for c in 0..channels {
                row.swap(x * channels + c, (pixels - 1 - x) * channels + c);
            }
        }
    }
    frame
}

fn turned<const C: usize>(frame: &Frame, quarters: u32) -> Frame {
    let (w, h) = (frame.width, frame.height);
    let (width, height) = if quarters == 2 { (w, h) } else { (h, w) };
    let (source, _) = frame.data.as_chunks::<C>();
    let mut out = Frame::new(width, height, C);
    for (y, row) in out.data.chunks_exact_mut((width * C).max(1)).enumerate() {
        let (row, _) = row.as_chunks_mut::<C>();
        for (x, pixel) in row.iter_mut().enumerate() {
            *pixel = match quarters {
                1 => source[(h - 1 - x) * w + y],
                2 => source[(h - 1 - y) * w + w - 1 - x],
                _ => source[x * w + w - 1 - y],
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edges::{Edges, pad};

    fn numbered(width: usize, height: usize, channels: usize) -> Frame {
        let data = (0..width * height * channels).map(|i| i as f32).collect();
        Frame { width, height, channels, data }
    }

    #[test]
    fn cropping_takes_no_more_than_there_is() {
        assert_eq!(crop(&numbered(2, 3, 3), 9, 9), numbered(2, 3, 3));
        assert_eq!(crop(&numbered(3, 3, 3), 2, 1).data, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn a_quarter_turn_brings_the_left_column_to_the_top() {
        // 0 1 2        3 0
        // 3 4 5   ->   4 1
        //              5 2
        let frame = numbered(3, 2, 3);
        let first = |f: &Frame| f.data.iter().step_by(3).map(|v| *v as usize / 3).collect::<Vec<_>>();
        let turned = turn(&frame, 1);
        assert_eq!((turned.width, turned.height), (2, 3));
        assert_eq!(first(&turned), [3, 0, 4, 1, 5, 2]);
        assert_eq!(first(&turn(&frame, 2)), [5, 4, 3, 2, 1, 0]);
        assert_eq!(first(&turn(&frame, 3)), [2, 5, 1, 4, 0, 3]);
    }

    #[test]
    fn an_orientation_says_where_the_first_row_and_column_are() {
        // By the standard: where the stored row 0 and column 0 are to be seen.
        let stored = numbered(3, 2, 3);
        let seen = |x: usize, y: usize, o: u32| -> Vec<f32> {
            let shown = upright(stored.clone(), o);
            assert_eq!((shown.width, shown.height), if o < 5 { (3, 2) } else { (2, 3) });
            shown.pixel(x, y).to_vec()
        };
        for (o, corner, right, below) in [
            (1, [0, 0], [1, 0], [0, 1]),
            (2, [2, 0], [1, 0], [2, 1]),
            (3, [2, 1], [1, 1], [2, 0]),
            (4, [0, 1], [1, 1], [0, 0]),
            (5, [0, 0], [0, 1], [1, 0]),
            (6, [1, 0], [1, 1], [0, 0]),
            (7, [1, 2], [1, 1], [0, 2]),
            (8, [0, 2], [0, 1], [1, 2]),
        ] {
            assert_eq!(seen(corner[0], corner[1], o), stored.pixel(0, 0), "{o}");
            assert_eq!(seen(right[0], right[1], o), stored.pixel(1, 0), "{o}");
            assert_eq!(seen(below[0], below[1], o), stored.pixel(0, 1), "{o}");
        }
        for o in [0, 9, u32::MAX] {
            assert_eq!(upright(stored.clone(), o), stored);
        }
    }

    #[test]
    fn four_quarter_turns_are_none() {
        for (w, h, c) in [(1, 1, 3), (7, 5, 3), (4, 9, 4)] {
            let frame = numbered(w, h, c);
            for quarters in 0..8 {
                assert_eq!(turn(&turn(&frame, quarters), 8 - quarters), frame);
            }
        }
    }

    #[test]
    fn no_pixel_is_no_panic() {
        for (w, h) in [(0, 0), (0, 4), (4, 0)] {
            let frame = Frame::new(w, h, 3);
            assert!(frame.check().is_err());
            for edges in Edges::ALL {
                assert!(pad(&frame, 16, edges).data.is_empty());
            }
            assert!(crop(&frame, 1, 1).data.is_empty());
            assert!(turn(&frame, 1).data.is_empty() && turn(&frame, 3).data.is_empty());
            assert!(frame.row(3).is_empty() && frame.pixel(0, 0).is_empty());
        }
    }
}
