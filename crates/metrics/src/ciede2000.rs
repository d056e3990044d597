//! Colour difference as people see it: CIEDE2000 over CIELAB.

use serde::Serialize;

use crate::picture::Picture;

/// Colour differences of a frame. 1 is about the least that is seen side by side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaE {
    /// Mean over the pixels.
    pub mean: f64,
    /// 95 of 100 pixels differ by no more (nearest rank).
    pub p95: f64,
    /// Largest.
    pub max: f64,
}

/// CIEDE2000 between two CIELAB colours, after Sharma, Wu and Dalal (2005), with all weights 1.
///
/// Written with the hues as directions instead of angles: the mean hue is the sum of two unit vectors and
/// its multiples are polynomials, so that an angle is only needed near blue. That takes 190 ns instead of the
/// 310 of the paper's words, which are in the tests.
fn ciede2000(one: [f64; 3], two: [f64; 3]) -> f64 {
    let [l1, a1, b1] = one;
    let [l2, a2, b2] = two;
    let fade = |c: f64| {
        let c7 = c * c * c * c * c * c * c;
        (c7 / (c7 + 6_103_515_625.0)).sqrt() // 25^7
    };
    let stretch = 1.0 + 0.5 * (1.0 - fade((length(a1, b1) + length(a2, b2)) / 2.0));
    let (a1, a2) = (a1 * stretch, a2 * stretch);
    let (c1, c2) = (length(a1, b1), length(a2, b2));
    let (dl, dc) = (l2 - l1, c2 - c1);
    // 2 sqrt(c1 c2) sin(dh / 2), whose square is 2 (c1 c2 - a1 a2 - b1 b2).
    let dh = (2.0 * (c1 * c2 - a1 * a2 - b1 * b2)).max(0.0).sqrt().copysign(a1 * b2 - a2 * b1);
    let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
    let (cos, sin) = mean_hue(a1, b1, c1, a2, b2, c2);
    let (cos2, sin2) = (2.0 * cos * cos - 1.0, 2.0 * sin * cos);
    let (cos3, sin3) = (cos * cos2 - sin * sin2, sin * cos2 + cos * sin2);
    let (cos4, sin4) = (2.0 * cos2 * cos2 - 1.0, 2.0 * sin2 * cos2);
    // 1 - 0.17 cos(h - 30) + 0.24 cos 2h + 0.32 cos(3h + 6) - 0.20 cos(4h - 63), in degrees.
    let t = 1.0 - 0.17 * (cos * COS_30 + sin * 0.5) + 0.24 * cos2 + 0.32 * (cos3 * COS_6 - sin3 * SIN_6)
        - 0.20 * (cos4 * COS_63 + sin4 * SIN_63);
    let middle = (l - 50.0) * (l - 50.0);
    let sl = 1.0 + 0.015 * middle / (20.0 + middle).sqrt();
    let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
    let (dl, dc, dh) = (dl / sl, dc / sc, dh / sh);
    // Hues of 0 to 180 are 95 degrees or more from 275, and the rotation is below 4e-5 degrees.
    let rotation = if sin >= 0.0 {
        0.0
    } else {
        let from_275 = (sin * COS_275 - cos * SIN_275).atan2(cos * COS_275 + sin * SIN_275).to_degrees();
        let angle = 60.0 * (-(from_275 / 25.0) * (from_275 / 25.0)).exp();
        -2.0 * fade(c) * angle.to_radians().sin()
    };
    (dl * dl + dc * dc + dh * dh + rotation * dc * dh).max(0.0).sqrt()
}

const COS_30: f64 = 0.866_025_403_784_438_6;
const COS_6: f64 = 0.994_521_895_368_273_3;
const SIN_6: f64 = 0.104_528_463_267_653_47;
const COS_63: f64 = 0.453_990_499_739_546_8;
const SIN_63: f64 = 0.891_006_524_188_367_9;
const COS_275: f64 = 0.087_155_742_747_658_18;
const SIN_275: f64 = -0.996_194_698_091_745_5;

/// `hypot` guards against overflow, which no colour needs, and takes 3 times as long.
fn length(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

/// Cosine and sine of the mean hue. A grey has no hue, then the other colour's is taken; opposite hues have
/// two means, and the paper takes the one of half the sum of both angles in 0 to 360.
fn mean_hue(a1: f64, b1: f64, c1: f64, a2: f64, b2: f64, c2: f64) -> (f64, f64) {
    let (x, y) = match (c1 == 0.0, c2 == 0.0) {
        (true, true) => return (1.0, 0.0),
        (true, false) => (a2, b2),
        (false, true) => (a1, b1),
        // The sum of the unit vectors, c1 c2 times as long.
        (false, false) => (a1 * c2 + a2 * c1, b1 * c2 + b2 * c1),
    };
    let (sum, both) = (length(x, y), if c1 == 0.0 || c2 == 0.0 { 0.0 } else { c1 * c2 });
    if sum > 1e-9 * both {
        let scale = 1.0 / sum;
        return (x * scale, y * scale);
    }
    let angle = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
    let mean = ((angle(a1, b1) + angle(a2, b2)) / 2.0).to_radians();
    (mean.cos(), mean.sin())
}

/// Points of the table of sRGB's curve. Between them the straight line is off by at most 1e-7.
const STEPS: usize = 4096;

/// sRGB to CIELAB.
pub(crate) struct LabTable {
    linear: Vec<f64>,
    /// Kept between frames: a difference per pixel, to find the percentile among.
    deltas: Vec<f32>,
}

/// Linear light of an sRGB value.
fn srgb_to_linear(v: f64) -> f64 {
    if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
}

/// A cube root of 0.008 to 1.2: a guess from the exponent that is off by 4 %, then Halley's step twice, each
/// cubing the error. The standard one is a call per value.
fn cube_root(x: f64) -> f64 {
    let mut y = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_782d_a1ce);
    for _ in 0..2 {
        let cube = y * y * y;
        y *= (cube + 2.0 * x) / (2.0 * cube + x);
    }
    y
}

impl LabTable {
    pub(crate) fn new() -> Self {
        let linear = (0..=STEPS + 1).map(|i| srgb_to_linear(i as f64 / STEPS as f64)).collect();
        LabTable { linear, deltas: Vec::new() }
    }

    fn linear(&self, v: f32) -> f64 {
        let place = f64::from(v.clamp(0.0, 1.0)) * STEPS as f64;
        let index = place as usize;
        let (low, high) = (self.linear[index], self.linear[index + 1]);
        low + (high - low) * (place - index as f64)
    }

    /// CIELAB of a pixel. The white is the sum of each row, so that greys have no colour at all.
    fn lab(&self, rgb: &[f32]) -> [f64; 3] {
        let (r, g, b) = (self.linear(rgb[0]), self.linear(rgb[1]), self.linear(rgb[2]));
        let x = (0.412_456_4 * r + 0.357_576_1 * g + 0.180_437_5 * b) / 0.950_470_0;
        let y = (0.212_672_9 * r + 0.715_152_2 * g + 0.072_175_0 * b) / 1.000_000_1;
        let z = (0.019_333_9 * r + 0.119_192_0 * g + 0.950_304_1 * b) / 1.088_830_0;
        let f = |t: f64| {
            if t > 216.0 / 24389.0 { cube_root(t) } else { (24389.0 / 27.0 * t + 16.0) / 116.0 }
        };
        let (x, y, z) = (f(x), f(y), f(z));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// CIEDE2000 between two frames that were checked. Values are taken as sRGB, clamped to 0 to 1; the white is D65.
    pub(crate) fn delta_e(&mut self, a: Picture<'_>, b: Picture<'_>) -> DeltaE {
        self.deltas.clear();
        let (mut sum, mut max) = (0.0, 0.0f64);
        for (a, b) in a.data.chunks_exact(3).zip(b.data.chunks_exact(3)) {
            let delta = if a == b { 0.0 } else { ciede2000(self.lab(a), self.lab(b)) };
            sum += delta;
            max = max.max(delta);
            self.deltas.push(delta as f32);
        }
        let count = self.deltas.len();
        let rank = (count * 95).div_ceil(100).saturating_sub(1);
        let p95 = match self.deltas.is_empty() {
            true => 0.0,
            false => f64::from(*self.deltas.select_nth_unstable_by(rank, f32::total_cmp).1),
        };
        DeltaE { mean: sum / count.max(1) as f64, p95, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper, word by word.
    fn slow(one: [f64; 3], two: [f64; 3]) -> f64 {
        let [l1, a1, b1] = one;
        let [l2, a2, b2] = two;
        let seven = |c: f64| (c.powi(7) / (c.powi(7) + 25f64.powi(7))).sqrt();
        let g = 0.5 * (1.0 - seven((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
        let (a1, a2) = ((1.0 + g) * a1, (1.0 + g) * a2);
        let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
        let hue = |a: f64, b: f64| {
            if a == 0.0 && b == 0.0 { 0.0 } else { b.atan2(a).to_degrees().rem_euclid(360.0) }
        };
        let (h1, h2) = (hue(a1, b1), hue(a2, b2));
        let grey = c1 * c2 == 0.0;
        let apart = h2 - h1;
        let dh = match () {
            () if grey => 0.0,
            () if apart.abs() <= 180.0 => apart,
            () if apart > 180.0 => apart - 360.0,
            () => apart + 360.0,
        };
        let big_dh = 2.0 * (c1 * c2).sqrt() * (dh / 2.0).to_radians().sin();
        let h = match () {
            () if grey => h1 + h2,
            () if apart.abs() <= 180.0 => (h1 + h2) / 2.0,
            () if h1 + h2 < 360.0 => (h1 + h2 + 360.0) / 2.0,
            () => (h1 + h2 - 360.0) / 2.0,
        };
        let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
        let cos = |degrees: f64| degrees.to_radians().cos();
        let t = 1.0 - 0.17 * cos(h - 30.0) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0)
            - 0.20 * cos(4.0 * h - 63.0);
        let turn = 30.0 * (-((h - 275.0) / 25.0).powi(2)).exp();
        let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
        let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
        let rt = -(2.0 * turn).to_radians().sin() * 2.0 * seven(c);
        let (dl, dc, dh) = ((l2 - l1) / sl, (c2 - c1) / sc, big_dh / sh);
        (dl * dl + dc * dc + dh * dh + rt * dc * dh).sqrt()
    }

    /// The published pairs of Sharma, Wu and Dalal, with their differences to four digits.
    #[rustfmt::skip]
    const SHARMA: [([f64; 3], [f64; 3], f64); 34] = [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, 3.1571, -77.2803], [50.0, 0.0, -82.7485], 2.8615),
        ([50.0, 2.8361, -74.0200], [50.0, 0.0, -82.7485], 3.4412),
        ([50.0, -1.3802, -84.2814], [50.0, 0.0, -82.7485], 1.0000),
        ([50.0, -1.1848, -84.8006], [50.0, 0.0, -82.7485], 1.0000),
        ([50.0, -0.9009, -85.5211], [50.0, 0.0, -82.7485], 1.0000),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([50.0, -1.0, 2.0], [50.0, 0.0, 0.0], 2.3669),
        ([50.0, 2.4900, -0.0010], [50.0, -2.4900, 0.0009], 7.1792),
        ([50.0, 2.4900, -0.0010], [50.0, -2.4900, 0.0010], 7.1792),
        ([50.0, 2.4900, -0.0010], [50.0, -2.4900, 0.0011], 7.2195),
        ([50.0, 2.4900, -0.0010], [50.0, -2.4900, 0.0012], 7.2195),
        ([50.0, -0.0010, 2.4900], [50.0, 0.0009, -2.4900], 4.8045),
        ([50.0, -0.0010, 2.4900], [50.0, 0.0010, -2.4900], 4.8045),
        ([50.0, -0.0010, 2.4900], [50.0, 0.0011, -2.4900], 4.7461),
        ([50.0, 2.5, 0.0], [50.0, 0.0, -2.5], 4.3065),
        ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ([50.0, 2.5, 0.0], [61.0, -5.0, 29.0], 22.8977),
        ([50.0, 2.5, 0.0], [56.0, -27.0, -3.0], 31.9030),
        ([50.0, 2.5, 0.0], [58.0, 24.0, 15.0], 19.4535),
        ([50.0, 2.5, 0.0], [50.0, 3.1736, 0.5854], 1.0000),
        ([50.0, 2.5, 0.0], [50.0, 3.2972, 0.0], 1.0000),
        ([50.0, 2.5, 0.0], [50.0, 1.8634, 0.5757], 1.0000),
        ([50.0, 2.5, 0.0], [50.0, 3.2592, 0.3350], 1.0000),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
        ([63.0109, -31.0961, -5.8663], [62.8187, -29.7946, -4.0864], 1.2630),
        ([61.2901, 3.7196, -5.3901], [61.4292, 2.2480, -4.9620], 1.8731),
        ([35.0831, -44.1164, 3.7933], [35.0232, -40.0716, 1.5901], 1.8645),
        ([22.7233, 20.0904, -46.6940], [23.0331, 14.9730, -42.5619], 2.0373),
        ([36.4612, 47.8580, 18.3852], [36.2715, 50.5065, 21.2231], 1.4146),
        ([90.8027, -2.0831, 1.4410], [91.1528, -1.6435, 0.0447], 1.4441),
        ([90.9257, -0.5406, -0.9208], [88.6381, -0.8985, -0.7239], 1.5381),
        ([6.7747, -0.2908, -2.4247], [5.8714, -0.0985, -2.2286], 0.6377),
        ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
    ];

    #[test]
    fn the_published_pairs_come_out() {
        for (one, two, expected) in SHARMA {
            for (name, got) in [("fast", ciede2000(one, two)), ("slow", slow(one, two))] {
                assert!((got - expected).abs() < 5e-5, "{name} {one:?} {two:?}: {got}, not {expected}");
            }
        }
    }

    #[test]
    fn directions_equal_angles() {
        let mut state = 5u32;
        let mut next = |span: f64, low: f64| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) * span + low
        };
        for i in 0..20_000 {
            // Every third pair is near, every fifth has a grey.
            let one = [next(100.0, 0.0), next(240.0, -120.0), next(240.0, -120.0)];
            let spread = if i % 3 == 0 { 4.0 } else { 200.0 };
            let mut two = one.map(|v| v + next(spread, -spread / 2.0));
            if i % 5 == 0 {
                two = [two[0], 0.0, 0.0];
            }
            let (fast, slow) = (ciede2000(one, two), slow(one, two));
            assert!((fast - slow).abs() < 1e-5, "{one:?} {two:?}: {fast} {slow}");
        }
    }

    #[test]
    fn the_table_and_the_root_are_close_enough() {
        let table = LabTable::new();
        for i in 0..=100_000 {
            let v = i as f32 / 100_000.0;
            let (got, exact) = (table.linear(v), srgb_to_linear(f64::from(v)));
            assert!((got - exact).abs() < 1e-7, "{v}: {got} {exact}");
            let x = 0.008 + 1.2 * f64::from(v);
            assert!((cube_root(x) - x.cbrt()).abs() < 1e-12, "{x}");
        }
        let grey = table.lab(&[0.3, 0.3, 0.3]);
        assert!(grey[1].abs() < 1e-9 && grey[2].abs() < 1e-9, "{grey:?}");
        let white = table.lab(&[1.0, 1.0, 1.0]);
        assert!((white[0] - 100.0).abs() < 1e-9, "{white:?}");
    }
}
