//! CIELAB, and histograms matched in it: those of a and b entirely, that of L by a fifth, because the network's light is
//! mostly right and its tint is not.

use remaster_picture::Frame;

use crate::batch::{Batch, unit};
use crate::power::Power;
use crate::rank::{Ranks, Sorted, Values};
use crate::wavelet;

/// How much of its own lightness a frame keeps.
pub(crate) const OWN_LIGHT: f32 = 0.8;

/// Pixels converted at a time: three arrays of them stay in the first cache, and loops over them vectorise.
const BLOCK: usize = 128;

const SRGB_TO_LINEAR: Power = Power(2.4);
const LINEAR_TO_SRGB: Power = Power(1.0 / 2.4);
const CUBE_ROOT: Power = Power(1.0 / 3.0);

/// Linear RGB to XYZ.
const TO_XYZ: [[f32; 3]; 3] =
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.119192, 0.9503041]];
/// And back.
const TO_RGB: [[f32; 3]; 3] = [
    [3.2404542, -1.5371385, -0.4985314],
    [-0.969266, 1.8760108, 0.0415560],
    [0.0556434, -0.2040259, 1.0572252],
];
/// XYZ of white, D65.
const WHITE: [f32; 3] = [0.95047, 1.0, 1.08883];
/// 6 / 29: below its cube, the cube root becomes a line.
const KNEE: f32 = 6.0 / 29.0;
/// (29 / 3)^3, the slope of that line.
const KAPPA: f32 = 24389.0 / 27.0;

fn linear(v: f32) -> f32 {
    // The power is taken of a value inside its range; the choice comes after, so that the loop has no branch.
    let curve = SRGB_TO_LINEAR.of((v.max(0.04045) + 0.055) / 1.055);
    if v > 0.04045 { curve } else { v / 12.92 }
}

fn srgb(v: f32) -> f32 {
    let curve = 1.055 * LINEAR_TO_SRGB.of(v.max(0.0031308)) - 0.055;
    if v > 0.0031308 { curve } else { 12.92 * v }
}

fn forward(t: f32) -> f32 {
    let curve = CUBE_ROOT.of(t.max(KNEE * KNEE * KNEE));
    if t > KNEE * KNEE * KNEE { curve } else { (KAPPA * t + 16.0) / 116.0 }
}

fn backward(f: f32) -> f32 {
    if f > KNEE { f * f * f } else { (116.0 * f - 16.0) / KAPPA }
}

fn times(m: &[[f32; 3]; 3], v: [f32; 3]) -> [f32; 3] {
    m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

/// Runs `convert` over three arrays with the channels of up to [`BLOCK`] pixels.
fn blocks(pixels: &mut [f32], mut convert: impl FnMut(&mut [[f32; BLOCK]; 3])) {
    let mut planes = [[0.0; BLOCK]; 3];
    for block in pixels.chunks_mut(BLOCK * 3) {
        let (block, _) = block.as_chunks_mut::<3>();
        for (i, pixel) in block.iter().enumerate() {
            for c in 0..3 {
                planes[c][i] = pixel[c];
            }
        }
        convert(&mut planes);
        for (i, pixel) in block.iter_mut().enumerate() {
            for c in 0..3 {
                pixel[c] = planes[c][i];
            }
        }
    }
}

/// RGB of 0..1 to L, a and b, in place.
pub(crate) fn to_lab(pixels: &mut [f32]) {
    blocks(pixels, |planes| {
        for plane in &mut *planes {
            plane.iter_mut().for_each(|v| *v = linear(*v));
        }
        for i in 0..BLOCK {
            let xyz = times(&TO_XYZ, [planes[0][i], planes[1][i], planes[2][i]]);
            for c in 0..3 {
                planes[c][i] = xyz[c] / WHITE[c];
            }
        }
        for plane in &mut *planes {
            plane.iter_mut().for_each(|v| *v = forward(*v));
        }
        for i in 0..BLOCK {
            let [x, y, z] = [planes[0][i], planes[1][i], planes[2][i]];
            planes[0][i] = 116.0 * y - 16.0;
            planes[1][i] = 500.0 * (x - y);
            planes[2][i] = 200.0 * (y - z);
        }
    });
}

/// L, a and b to RGB, clamped to 0..1, in place.
pub(crate) fn to_rgb(pixels: &mut [f32]) {
    blocks(pixels, |planes| {
        for i in 0..BLOCK {
            let y = (planes[0][i] + 16.0) / 116.0;
            let f = [planes[1][i] / 500.0 + y, y, y - planes[2][i] / 200.0];
            let rgb = times(&TO_RGB, [0, 1, 2].map(|c| backward(f[c]) * WHITE[c]));
            for c in 0..3 {
                planes[c][i] = rgb[c];
            }
        }
        for plane in &mut *planes {
            plane.iter_mut().for_each(|v| *v = srgb(*v).clamp(0.0, 1.0));
        }
    });
}

/// One channel of frames that hold L, a and b.
struct Own<'a> {
    frames: &'a [Frame],
    channel: usize,
}

impl Values for Own<'_> {
    fn each(&self, mut visit: impl FnMut(u32, f32)) {
        let mut number = 0;
        for frame in self.frames {
            for pixel in frame.data.as_chunks::<3>().0 {
                visit(number, pixel[self.channel]);
                number += 1;
            }
        }
    }
}

/// One channel of the L, a and b of frames that hold RGB, converted on the way: three conversions cost less than the
/// memory of one.
struct Reference<'a> {
    frames: &'a [Frame],
    channel: usize,
}

impl Values for Reference<'_> {
    fn each(&self, mut visit: impl FnMut(u32, f32)) {
        let mut number = 0;
        let mut block = [0.0; BLOCK * 3];
        for frame in self.frames {
            for rgb in frame.data.chunks(BLOCK * 3) {
                let lab = &mut block[..rgb.len()];
                lab.iter_mut().zip(rgb).for_each(|(lab, v)| *lab = unit(*v));
                to_lab(lab);
                for pixel in lab.as_chunks::<3>().0 {
                    visit(number, pixel[self.channel]);
                    number += 1;
                }
            }
        }
    }
}

/// The part of a matched lightness that is taken.
pub(crate) fn mix_light(own: f32, matched: f32) -> f32 {
    OWN_LIGHT * own + (1.0 - OWN_LIGHT) * matched
}

/// Corrects frames that were tamed; they are one pool.
pub(crate) fn correct(frames: &mut [Frame], references: &[Frame], batch: Batch) {
    for (frame, reference) in frames.iter_mut().zip(references) {
        wavelet::correct(frame, reference);
        to_lab(&mut frame.data);
    }
    for channel in 0..3 {
        let sorted = Sorted::new(&Reference { frames: references, channel }, batch.total);
        let ranks = Ranks::new(&Own { frames, channel });
        ranks.each(|number, rank| {
            let value = &mut frames[number / batch.pixels].data[number % batch.pixels * 3 + channel];
            let matched = sorted.at(rank);
            *value = if channel == 0 { mix_light(*value, matched) } else { matched };
        });
    }
    for frame in frames {
        to_rgb(&mut frame.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::numbers;

    #[test]
    fn colours_come_back() {
        let mut pixels = numbers(5, 3 * 1000);
        pixels[..9].copy_from_slice(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.002, 0.04, 0.05]);
        let before = pixels.clone();
        to_lab(&mut pixels);
        assert!(pixels[..3].iter().all(|v| v.abs() < 1e-4), "{:?}", &pixels[..3]);
        assert!((pixels[3] - 100.0).abs() < 1e-3 && pixels[4].abs() < 0.02 && pixels[5].abs() < 0.02);
        to_rgb(&mut pixels);
        let worst = remaster_testkit::largest(pixels.iter().zip(&before).map(|(a, b)| (a - b).abs()));
        assert!(worst < 1e-5, "{worst}");
    }
}
