//! The histogram of saturation, hue by hue. Hue and value (the largest channel) stay.

use remaster_picture::Frame;

use crate::batch::{Batch, unit};
use crate::rank::{self, Sorted, Values};

/// Hues are taken in twelfths of the circle.
pub(crate) const HUES: usize = 12;

/// A hue with no more pixels than this, here or in the reference, keeps its saturation.
pub(crate) const FEW: u64 = 100;

/// A pixel of 0..1, and 0 for what is not a number.
pub(crate) fn tamed(pixel: &[f32; 3]) -> [f32; 3] {
    pixel.map(unit)
}

/// (max - min) / max, and 0 for black. The pixel lies in 0..1.
pub(crate) fn saturation([r, g, b]: [f32; 3]) -> f32 {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max > 0.0 { (max - min) / max } else { 0.0 }
}

/// The twelfth of the colour circle; grey counts as red. The pixel lies in 0..1.
pub(crate) fn hue([r, g, b]: [f32; 3]) -> u8 {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    let delta = max - min;
    if delta <= 0.0 {
        return 0;
    }
    let sixths = if max == r {
        let near_red = (g - b) / delta;
        if near_red < 0.0 { near_red + 6.0 } else { near_red }
    } else if max == g {
        (b - r) / delta + 2.0
    } else {
        (r - g) / delta + 4.0
    };
    ((sixths / 6.0 * HUES as f32) as u8).min(HUES as u8 - 1)
}

/// The pixel with another saturation; grey becomes red, whose hue it counts as.
pub(crate) fn saturated(pixel: [f32; 3], saturation: f32) -> [f32; 3] {
    let (max, min) = (pixel[0].max(pixel[1]).max(pixel[2]), pixel[0].min(pixel[1]).min(pixel[2]));
    let delta = max - min;
    let missing = |c: usize| if delta > 0.0 { (max - pixel[c]) / delta } else { [0.0, 1.0, 1.0][c] };
    [0, 1, 2].map(|c| max - max * saturation * missing(c))
}

/// The hues whose saturation is matched together, in the order of the original: the first takes the last with it, and
/// then the last, if it has enough pixels of its own, is matched again alone, which counts.
pub(crate) const POOLS: [&[u8]; HUES] =
    [&[0, 11], &[1], &[2], &[3], &[4], &[5], &[6], &[7], &[8], &[9], &[10], &[11]];

/// Saturations of the pixels whose hue is among some.
struct Saturations<'a> {
    frames: &'a [Frame],
    /// The hue of every pixel.
    hues: &'a [u8],
    among: &'a [u8],
}

impl Values for Saturations<'_> {
    fn each(&self, mut visit: impl FnMut(u32, f32)) {
        let pixels = self.frames.iter().flat_map(|frame| frame.data.as_chunks::<3>().0);
        for (number, (pixel, hue)) in pixels.zip(self.hues).enumerate() {
            if self.among.contains(hue) {
                visit(number as u32, saturation(tamed(pixel)));
            }
        }
    }
}

/// The hue of every pixel, and how many have each.
fn hues(frames: &[Frame], batch: Batch) -> (Vec<u8>, [u64; HUES]) {
    let mut list = Vec::with_capacity(batch.total);
    let mut counts = [0; HUES];
    for frame in frames {
        for pixel in frame.data.as_chunks::<3>().0 {
            let hue = hue(tamed(pixel));
            counts[usize::from(hue)] += 1;
            list.push(hue);
        }
    }
    (list, counts)
}

/// The saturation that every pixel is to have.
pub(crate) fn saturations(frames: &[Frame], references: &[Frame], batch: Batch) -> Vec<f32> {
    let mut result = Vec::with_capacity(batch.total);
    for frame in frames {
        result.extend(frame.data.as_chunks::<3>().0.iter().map(|pixel| saturation(tamed(pixel))));
    }
    let (own_hues, own_counts) = hues(frames, batch);
    let (reference_hues, reference_counts) = hues(references, batch);
    for among in POOLS {
        let sum = |counts: &[u64; HUES]| among.iter().map(|hue| counts[usize::from(*hue)]).sum::<u64>();
        let (own, reference) = (sum(&own_counts), sum(&reference_counts));
        if own > FEW && reference > FEW {
            let values = Saturations { frames: references, hues: &reference_hues, among };
            let sorted = Sorted::new(&values, reference as usize);
            let values = Saturations { frames, hues: &own_hues, among };
            rank::matched(&values, &sorted, |number, saturation| result[number] = saturation);
        }
    }
    result
}

/// Corrects frames that were tamed; they are one pool.
pub(crate) fn correct(frames: &mut [Frame], references: &[Frame], batch: Batch) {
    let saturations = saturations(frames, references, batch);
    for (frame, saturations) in frames.iter_mut().zip(saturations.chunks_exact(batch.pixels)) {
        for (pixel, saturation) in frame.data.as_chunks_mut::<3>().0.iter_mut().zip(saturations) {
            *pixel = saturated(tamed(pixel), *saturation);
        }
    }
}
