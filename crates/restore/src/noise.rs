//! The noise that the transformer starts from: a function of the seed and a place, the same on every machine.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011) makes the bits. They
//! become normals in f64 with `libm`, whose results do not depend on the machine as those of a system's library do.

/// What the noise is for. Each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// What the transformer starts from.
    Start,
    /// What the condition is mixed with (`--latent-noise`).
    Condition,
    /// What is added to frames (`--input-noise`).
    Frames,
}

/// Normals for a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    key: [u32; 2],
}

impl Noise {
    /// The noise of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Noise { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// What the transformer starts from: `[h, w, c]` of latent `index`, counted from the first of the shot.
    pub(crate) fn latent(&self, index: usize, [h, w, c]: [usize; 3]) -> Vec<f32> {
        self.plane(For::Start, index, [h, w, c])
    }

    /// What the condition of latent `index` is mixed with, `[h, w, c]`.
    pub(crate) fn condition(&self, index: usize, [h, w, c]: [usize; 3]) -> Vec<f32> {
        self.plane(For::Condition, index, [h, w, c])
    }

    /// Adds noise of a deviation of `scale` to frame `index` of a shot, `[h, w, c]`.
    pub(crate) fn add_to_frame(&self, index: usize, [h, w, c]: [usize; 3], scale: f32, frame: &mut [f32]) {
        let noise = self.plane(For::Frames, index, [h, w, c]);
        frame.iter_mut().zip(noise).for_each(|(v, n)| *v += scale * n);
    }

    fn plane(&self, what: For, index: usize, [h, w, c]: [usize; 3]) -> Vec<f32> {
        let mut out = Vec::with_capacity(h * w * c);
        for (y, x) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
            for first in (0..c).step_by(4) {
                // Places have at most 32 bits each way; what noise is for and the channels share the first word.
                let word = ((what as u32) << 24) | (first / 4) as u32;
                let four = normals(philox([word, x as u32, y as u32, index as u32], self.key));
                out.extend_from_slice(&four[..4.min(c - first)]);
            }
        }
        out
    }
}

/// Philox4x32-10: four words for a place and a key.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let halves = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        [(product >> 32) as u32, product as u32]
    };
    let ([mut a, mut b, mut c, mut d], [mut k, mut l]) = (counter, key);
    for round in 0..10 {
        if round > 0 {
            (k, l) = (k.wrapping_add(WEYL[0]), l.wrapping_add(WEYL[1]));
        }
        let [high0, low0] = halves(MULTIPLIERS[0], a);
        let [high1, low1] = halves(MULTIPLIERS[1], c);
        (a, b, c, d) = (high1 ^ b ^ k, low1, high0 ^ d ^ l, low0);
    }
    [a, b, c, d]
}

/// Two pairs of normals out of four words, by Box and Muller.
fn normals(words: [u32; 4]) -> [f32; 4] {
    // The middle of each of 2^32 steps, never 0 or 1.
    let uniform = |word: u32| (f64::from(word) + 0.5) / 4_294_967_296.0;
    let pair = |a: u32, b: u32| {
        let radius = libm::sqrt(-2.0 * libm::log(uniform(a)));
        let angle = std::f64::consts::TAU * uniform(b);
        [(radius * libm::cos(angle)) as f32, (radius * libm::sin(angle)) as f32]
    };
    let ([a, b], [c, d]) = (pair(words[0], words[1]), pair(words[2], words[3]));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the authors' library, Random123 (`kat_vectors`).
    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = u32::MAX;
        assert_eq!(philox([ones; 4], [ones; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let key = [0xa409_3822, 0x299f_31d0];
        assert_eq!(philox(counter, key), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn the_noise_of_a_seed_never_changes() {
        let values = Noise::new(42).latent(3, [2, 2, 16]);
        let bits: Vec<u32> = values[..4].iter().map(|v| v.to_bits()).collect();
        let hash =
            values.iter().fold(0u64, |h, v| (h ^ u64::from(v.to_bits())).wrapping_mul(0x100_0000_01b3));
        assert_eq!((bits, hash), (PINNED.0.to_vec(), PINNED.1));
    }

    /// Made by this code on x86-64; any other machine must make the same.
    const PINNED: ([u32; 4], u64) =
        ([0xbf6e_75cd, 0xbdd2_527a, 0x3fb4_6e1f, 0xbf1a_b4c7], 0x256a_1e45_e190_d810);

    #[test]
    fn a_place_has_its_value_whatever_is_asked_for_around_it() {
        let noise = Noise::new(7);
        let (small, large) = (noise.latent(5, [3, 4, 16]), noise.latent(5, [6, 9, 16]));
        for (y, x) in (0..3).flat_map(|y| (0..4).map(move |x| (y, x))) {
            assert_eq!(small[(y * 4 + x) * 16..][..16], large[(y * 9 + x) * 16..][..16]);
        }
        let odd = noise.latent(5, [3, 4, 3]);
        assert_eq!(odd[..3], small[..3]);
        assert_ne!(noise.latent(6, [1, 1, 16]), noise.latent(5, [1, 1, 16]));
        assert_ne!(noise.condition(5, [1, 1, 16]), noise.latent(5, [1, 1, 16]));
        assert_ne!(Noise::new(8).latent(5, [1, 1, 16]), noise.latent(5, [1, 1, 16]));
        assert_ne!(Noise::new(7 | 1 << 40).latent(5, [1, 1, 16]), noise.latent(5, [1, 1, 16]));
    }

    #[test]
    fn it_is_normal() {
        let values = Noise::new(1).latent(0, [128, 128, 16]);
        let n = values.len() as f64;
        let moment = |power: i32| values.iter().map(|v| f64::from(*v).powi(power)).sum::<f64>() / n;
        assert!(moment(1).abs() < 0.01, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.01, "{}", moment(2));
        assert!(moment(3).abs() < 0.03, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.06, "{}", moment(4));
        assert!(values.iter().all(|v| v.abs() < 6.8));
    }
}
