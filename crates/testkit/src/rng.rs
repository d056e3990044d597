//! Numbers that depend on a seed and nothing else.

use remaster_compute::{SourceError, WeightPart, WeightSource};

/// splitmix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.between(0, n - 1)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.between(1, n) == 1
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.between(0, list.len() - 1)]
    }

    /// In [-1, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `n` values in [-1, 1).
    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
}

/// A weight whose values come from a seed.
pub struct Noise {
    /// Seed of both parts.
    pub seed: u64,
    /// Largest absolute value of the main part.
    pub scale: f32,
    /// Added to the main part.
    pub centre: f32,
}

impl WeightSource for Noise {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        for (i, value) in out.iter_mut().enumerate() {
            let place = self.seed ^ (start + i) as u64 ^ if part == WeightPart::Bias { 1 << 60 } else { 0 };
            let u = Rng::new(place.wrapping_mul(0x2545_f491_4f6c_dd1d)).unit();
            *value = if part == WeightPart::Main { self.centre + self.scale * u } else { 0.5 * u };
        }
        Ok(())
    }
}
