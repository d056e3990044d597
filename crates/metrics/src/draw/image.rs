//! A canvas of RGB8.

use super::font;

/// A picture that is ready to be written as PNG: RGB, 8 bits, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// `width * height * 3` bytes.
    pub data: Vec<u8>,
}

/// Which end of a text its place is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Left,
    Middle,
    Right,
}

pub(crate) type Rgb = [u8; 3];

impl Image {
    pub(crate) fn new(width: usize, height: usize, ground: Rgb) -> Self {
        Image { width, height, data: ground.repeat(width * height) }
    }

    /// What lies outside is dropped.
    pub(crate) fn put(&mut self, x: usize, y: usize, colour: Rgb) {
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            self.data[at..at + 3].copy_from_slice(&colour);
        }
    }

    /// Lays `colour` over a pixel; `cover` is from 0 to 1.
    pub(crate) fn blend(&mut self, x: usize, y: usize, colour: Rgb, cover: f32) {
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            for (old, new) in self.data[at..at + 3].iter_mut().zip(colour) {
                *old = (f32::from(*old) * (1.0 - cover) + f32::from(new) * cover).round() as u8;
            }
        }
    }

    pub(crate) fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb) {
        for row in y..y + height {
            for column in x..x + width {
                self.put(column, row, colour);
            }
        }
    }

    /// A frame of `thick` pixels around a box, outside of it.
    pub(crate) fn outline(&mut self, x: usize, y: usize, w: usize, h: usize, thick: usize, colour: Rgb) {
        let (left, top) = (x.saturating_sub(thick), y.saturating_sub(thick));
        self.fill(left, top, x + w + thick - left, y - top, colour);
        self.fill(left, y + h, x + w + thick - left, thick, colour);
        self.fill(left, top, x - left, y + h + thick - top, colour);
        self.fill(x + w, top, thick, y + h + thick - top, colour);
    }

    /// A picture of RGB8, every pixel `zoom` pixels wide.
    pub(crate) fn paste(&mut self, x: usize, y: usize, width: usize, zoom: usize, pixels: &[u8]) {
        for (i, pixel) in pixels.chunks_exact(3).enumerate() {
            let (left, top) = (x + i % width.max(1) * zoom, y + i / width.max(1) * zoom);
            self.fill(left, top, zoom, zoom, [pixel[0], pixel[1], pixel[2]]);
        }
    }

    /// Text; `y` is the top of its capitals.
    pub(crate) fn text(&mut self, x: usize, y: usize, anchor: Anchor, colour: Rgb, words: &str) {
        let wide = text_width(words);
        let mut left = match anchor {
            Anchor::Left => x,
            Anchor::Middle => x.saturating_sub(wide / 2),
            Anchor::Right => x.saturating_sub(wide),
        };
        for character in words.chars() {
            font::draw(self, left, y, colour, character);
            left += font::advance(character);
        }
    }
}

/// Pixels across of a text.
pub(crate) fn text_width(words: &str) -> usize {
    words.chars().map(font::advance).sum()
}
