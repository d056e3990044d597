//! Rows of codes to rows of values and back. Plain loops that compilers turn into vector instructions.

use crate::coding::Scale;
use crate::layout::{FLOAT, Layout};

/// `out[i] = (code[i] - zero) / unit`. Dividing instead of multiplying makes white exactly 1 at every depth.
pub(crate) fn load(depth: u32, scale: Scale, bytes: &[u8], out: &mut [f32]) {
    let Scale { unit, zero, .. } = scale;
    match depth {
        FLOAT => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*b);
            }
        }
        9..=16 => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = (f32::from(u16::from_le_bytes(*b)) - zero) / unit;
            }
        }
        _ => {
            for (value, b) in out.iter_mut().zip(bytes) {
                *value = (f32::from(*b) - zero) / unit;
            }
        }
    }
}

/// The nearest code to `value * unit + zero`, cut to what the depth has. What is no number becomes 0.
#[inline(always)]
pub(crate) fn code(value: f32, scale: Scale) -> u16 {
    // Adding a half and cutting off rounds to nearest because the sum is not negative.
    ((value * scale.unit + scale.zero).max(0.0).min(scale.max) + 0.5) as i32 as u16
}

/// The opposite of `load`.
pub(crate) fn save(depth: u32, scale: Scale, values: &[f32], bytes: &mut [u8]) {
    match depth {
        FLOAT => {
            for (b, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                *b = value.to_le_bytes();
            }
        }
        9..=16 => {
            for (b, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                *b = code(*value, scale).to_le_bytes();
            }
        }
        _ => {
            for (b, value) in bytes.iter_mut().zip(values) {
                *b = code(*value, scale) as u8;
            }
        }
    }
}

/// A plane of samples.
#[derive(Clone, Copy)]
pub(crate) struct Plane<B> {
    pub(crate) bytes: B,
    pub(crate) width: usize,
    pub(crate) depth: u32,
    pub(crate) scale: Scale,
}

impl Plane<&[u8]> {
    pub(crate) fn row(&self, y: usize, out: &mut [f32]) {
        let len = self.width * Layout::bytes_of(self.depth);
        load(self.depth, self.scale, &self.bytes[y * len..][..len], out);
    }
}

impl Plane<&mut [u8]> {
    pub(crate) fn put(&mut self, y: usize, values: &[f32]) {
        let len = self.width * Layout::bytes_of(self.depth);
        save(self.depth, self.scale, values, &mut self.bytes[y * len..][..len]);
    }
}

/// What a float layout has instead of a scale.
const PLAIN: Scale = Scale { unit: 1.0, zero: 0.0, max: 0.0 };

/// The scale of brightness, red, green and blue in `layout`.
pub(crate) fn light(layout: &Layout, range: crate::Range) -> Scale {
    if layout.depth == FLOAT { PLAIN } else { Scale::light(range, layout.depth) }
}

/// The scale of alpha in `layout`.
pub(crate) fn alpha(layout: &Layout) -> Scale {
    if layout.depth == FLOAT { PLAIN } else { Scale::alpha(layout.depth) }
}
