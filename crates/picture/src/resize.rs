//! Bicubic resizing as the original does it, and the sizes it resizes to.
//!
//! Keys' cubic with a = -0.5, widened when shrinking (antialias), half-pixel centres, weights that sum to one,
//! first across and then down: what torchvision and Pillow call bicubic with antialias.

use crate::frame::Frame;

/// Half the width of the cubic, in pixels of the smaller picture.
const SUPPORT: f64 = 2.0;

/// Keys' cubic with a = -0.5.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// For every output position the first input it takes and its weights.
struct Taps {
    first: Vec<usize>,
    /// `len` for every output; unused ones are 0.
    weights: Vec<f32>,
    len: usize,
}

impl Taps {
    fn new(from: usize, to: usize) -> Taps {
        let step = from as f64 / to as f64;
        let widen = step.max(1.0);
        let reach = SUPPORT * widen;
        let span = |i: usize| {
            let centre = (i as f64 + 0.5) * step;
            let first = (centre - reach + 0.5).max(0.0) as usize;
            let end = ((centre + reach + 0.5) as usize).min(from);
            (centre, first, end)
        };
        let len = (0..to).map(|i| span(i).2 - span(i).1).max().unwrap_or(0);
        let mut taps = Taps { first: Vec::with_capacity(to), weights: vec![0.0; to * len], len };
        for (i, weights) in taps.weights.chunks_exact_mut(len.max(1)).enumerate() {
            let (centre, first, end) = span(i);
            // The list of weights must end inside the picture: those that are too many stand in front.
            let start = first.min(from - len);
            let weight = |x: usize| cubic((x as f64 + 0.5 - centre) / widen);
            let sum: f64 = (first..end).map(weight).sum();
            for x in first..end {
                weights[x - start] = (weight(x) / sum) as f32;
            }
            taps.first.push(start);
        }
        taps
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        self.first.iter().copied().zip(self.weights.chunks_exact(self.len.max(1)))
    }
}

/// `frame`, or a plane of one channel, at another size. Values may leave 0 to 1 by a little, as a cubic does at edges; nothing is clamped.
pub fn resize(frame: &Frame, width: usize, height: usize) -> Frame {
    if !frame.is_filled() || !matches!(frame.channels, 1 | 3 | 4) || width == 0 || height == 0 {
        return Frame::new(width, height, frame.channels);
    }
    match frame.channels {
        1 => through::<1>(frame, width, height),
        3 => through::<3>(frame, width, height),
        _ => through::<4>(frame, width, height),
    }
}

/// Row by row, so that only those rows are there in between that the next one needs.
fn through<const C: usize>(frame: &Frame, width: usize, height: usize) -> Frame {
    let mut across = (frame.width != width).then(|| Across::<C>::new(frame.width, width));
    let mut row = |y: usize, out: &mut [f32]| {
        let source = &frame.data[y * frame.row_len()..(y + 1) * frame.row_len()];
        match &mut across {
            Some(across) => across.row(source, out),
            None => out.copy_from_slice(source),
        }
    };
    let mut out = Frame::new(width, height, C);
    let len = out.row_len();
    if frame.height == height {
        out.data.chunks_exact_mut(len).enumerate().for_each(|(y, out)| row(y, out));
        return out;
    }
    let taps = Taps::new(frame.height, height);
    // Row `y` of the picture in between lies at `y % taps.len`.
    let (mut ring, mut known) = (vec![0.0; taps.len * len], 0);
    for (out, (first, weights)) in out.data.chunks_exact_mut(len).zip(taps.iter()) {
        known = known.max(first);
        while known < first + weights.len() {
            row(known, &mut ring[known % taps.len * len..][..len]);
            known += 1;
        }
        for (y, weight) in (first..).zip(weights) {
            for (value, v) in out.iter_mut().zip(&ring[y % taps.len * len..][..len]) {
                *value += v * weight;
            }
        }
    }
    out
}

/// Rows of pixels of `C` values at another width.
struct Across<const C: usize> {
    taps: Taps,
    /// Four values a pixel, so that one vector holds it.
    pixels: Vec<[f32; 4]>,
}

impl<const C: usize> Across<C> {
    fn new(from: usize, to: usize) -> Self {
        Across { taps: Taps::new(from, to), pixels: vec![[0.0; 4]; from] }
    }

    fn row(&mut self, source: &[f32], out: &mut [f32]) {
        for (four, pixel) in self.pixels.iter_mut().zip(source.as_chunks::<C>().0) {
            four[..C].copy_from_slice(pixel);
        }
        for (pixel, (first, weights)) in out.as_chunks_mut::<C>().0.iter_mut().zip(self.taps.iter()) {
            let mut sum = [0.0f32; 4];
            for (four, weight) in self.pixels[first..].iter().zip(weights) {
                for c in 0..4 {
                    sum[c] += four[c] * weight;
                }
            }
            pixel.copy_from_slice(&sum[..C]);
        }
    }
}

/// The size that a picture of `size` (width, height) gets when its short side becomes `short`: the long side is
/// cut to a whole number. If a side is then longer than `max`, both shrink in proportion, rounded to nearest
/// with halves to even. No side becomes 0.
pub fn short_side(size: [usize; 2], short: usize, max: Option<usize>) -> [usize; 2] {
    let [width, height] = size;
    let (least, most) = (width.min(height), width.max(height));
    if least == 0 {
        return size;
    }
    let long = (short as u128 * most as u128 / least as u128).min(usize::MAX as u128) as usize;
    let size = if width <= height { [short, long] } else { [long, short] };
    let longest = short.max(long);
    match max {
        Some(max) if max > 0 && longest > max => size.map(|side| {
            let (times, by) = (side as u128 * max as u128, longest as u128);
            (round_even(times, by) as usize).max(1)
        }),
        _ => size.map(|side| side.max(1)),
    }
}

/// `times / by` to the nearest whole number, halves to the even one.
fn round_even(times: u128, by: u128) -> u128 {
    let (whole, rest) = (times / by, times % by);
    let up = match (2 * rest).cmp(&by) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => whole % 2 == 1,
        std::cmp::Ordering::Greater => true,
    };
    whole + u128::from(up)
}

/// `frame` at the size [`short_side`] says, in the steps of the original: to the short side first, and from that
/// picture to the largest side allowed.
pub fn resize_short(frame: &Frame, short: usize, max: Option<usize>) -> Frame {
    let size = [frame.width, frame.height];
    let [width, height] = short_side(size, short, None);
    let first = resize(frame, width, height);
    let [w, h] = short_side(size, short, max);
    if [w, h] == [width, height] { first } else { resize(&first, w, h) }
}
