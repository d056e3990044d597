//! Histograms of a whole shot, and the map from one to the other. Instead of exact ranks, which need all values at hand.

/// Bins of a histogram.
const BINS: usize = 1 << 16;

/// The values that a histogram covers: bin 0 is around `first`, and bins are `step` apart. Values beyond go to the
/// outer bins.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) first: f32,
    pub(crate) step: f32,
}

impl Scale {
    /// From 0 to `most`, both in the middle of a bin: black, white and grey are often many pixels of one value.
    pub(crate) const fn from_zero(most: f32) -> Scale {
        Scale { first: 0.0, step: most / (BINS - 1) as f32 }
    }

    /// From -128 to 128, zero in the middle of a bin: more than a and b of sRGB, -108 to 99.
    pub(crate) const SIGNED: Scale = Scale { first: -128.0, step: 256.0 / BINS as f32 };

    /// Where between the bins a value lies, 0 to the number of the last one.
    fn position(self, value: f32) -> f32 {
        ((value - self.first) / self.step).max(0.0).min((BINS - 1) as f32)
    }

    fn centre(self, bin: usize) -> f64 {
        f64::from(self.first) + f64::from(self.step) * bin as f64
    }
}

/// How often values were seen.
pub(crate) struct Histogram {
    scale: Scale,
    counts: Vec<u64>,
    /// How many values were seen.
    pub(crate) total: u64,
}

impl Histogram {
    pub(crate) fn new(scale: Scale) -> Histogram {
        Histogram { scale, counts: vec![0; BINS], total: 0 }
    }

    pub(crate) fn add(&mut self, value: f32) {
        self.counts[(self.scale.position(value) + 0.5) as usize] += 1;
        self.total += 1;
    }

    /// Adds what another one of the same scale saw.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
    }
}

/// What each value becomes.
pub(crate) struct QuantileMap {
    scale: Scale,
    /// Of the middle of each bin.
    values: Vec<f32>,
}

impl QuantileMap {
    /// Values of `own` become those of `reference` at the same rank: for a bin, their mean over the ranks that it has.
    /// Nothing if either is empty. Both have the same scale.
    pub(crate) fn new(own: &Histogram, reference: &Histogram) -> Option<QuantileMap> {
        if own.total == 0 || reference.total == 0 {
            return None;
        }
        let stretch = reference.total as f64 / own.total as f64;
        let mut walk = Walk { reference, bin: 0, before: 0, sum: 0.0 };
        let (mut seen, mut sum_before) = (0u64, 0.0);
        let mut values: Vec<f32> = Vec::with_capacity(BINS);
        for (bin, count) in own.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let from = seen as f64 * stretch;
            seen += count;
            let to = seen as f64 * stretch;
            let sum = walk.sum_to(to);
            fill(&mut values, bin, ((sum - sum_before) / (to - from)) as f32);
            sum_before = sum;
        }
        let last = values.last().copied().unwrap_or_default();
        values.resize(BINS, last);
        Some(QuantileMap { scale: own.scale, values })
    }

    /// What `value` becomes; between the middles of bins, on a line.
    pub(crate) fn of(&self, value: f32) -> f32 {
        let position = self.scale.position(value);
        let bin = position as usize;
        let (low, high) = (self.values[bin], self.values[(bin + 1).min(BINS - 1)]);
        low + (high - low) * (position - bin as f32)
    }
}

/// Puts `value` at `bin`, and a line from the last one to it into the bins between, which have no values of their own
/// but lie beside some.
fn fill(values: &mut Vec<f32>, bin: usize, value: f32) {
    let start = values.len();
    let last = values.last().copied().unwrap_or(value);
    let steps = (bin + 1 - start) as f32;
    values.extend((1..=bin - start).map(|i| last + (value - last) * (i as f32 / steps)));
    values.push(value);
}

/// Goes through the values of a histogram in rising order.
struct Walk<'a> {
    reference: &'a Histogram,
    /// The bin it has come to.
    bin: usize,
    /// Values in the bins before.
    before: u64,
    /// Their sum.
    sum: f64,
}

impl Walk<'_> {
    /// The sum of the first `rank` values, which need not be a whole number. Ranks must not fall.
    fn sum_to(&mut self, rank: f64) -> f64 {
        let Histogram { scale, counts, .. } = self.reference;
        while self.bin < BINS - 1 && (self.before + counts[self.bin]) as f64 <= rank {
            self.before += counts[self.bin];
            self.sum += counts[self.bin] as f64 * scale.centre(self.bin);
            self.bin += 1;
        }
        self.sum + (rank - self.before as f64) * scale.centre(self.bin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::numbers;

    fn histogram(values: impl IntoIterator<Item = f32>) -> Histogram {
        let mut histogram = Histogram::new(Scale::from_zero(1.0));
        values.into_iter().for_each(|v| histogram.add(v));
        histogram
    }

    #[test]
    fn a_map_goes_from_rank_to_rank() {
        let own = numbers(1, 5000);
        let other: Vec<f32> = numbers(2, 3000).iter().map(|v| 0.5 + 0.4 * v * v).collect();
        let map = QuantileMap::new(&histogram(own.clone()), &histogram(other.clone())).unwrap();
        let sorted = |mut values: Vec<f32>| {
            values.sort_by(f32::total_cmp);
            values
        };
        let (own, other) = (sorted(own), sorted(other));
        for (i, value) in own.iter().enumerate() {
            let expected = other[i * 3000 / 5000];
            assert!((map.of(*value) - expected).abs() < 2e-3, "{i}: {} {expected}", map.of(*value));
        }
    }

    #[test]
    fn many_pixels_of_one_value_become_the_mean_of_what_they_stand_for() {
        let map =
            QuantileMap::new(&histogram([0.0; 10]), &histogram((0..10).map(|i| i as f32 / 10.0))).unwrap();
        assert!((map.of(0.0) - 0.45).abs() < 1e-4);
        assert!(map.of(f32::NAN).is_finite() && map.of(f32::INFINITY).is_finite());
    }

    #[test]
    fn the_same_histogram_changes_nothing_and_an_empty_one_gives_no_map() {
        let own = numbers(4, 20_000);
        let map = QuantileMap::new(&histogram(own.clone()), &histogram(own.clone())).unwrap();
        assert!(own.iter().all(|v| (map.of(*v) - v).abs() < 2.0 / 65_536.0));
        assert!(QuantileMap::new(&histogram([]), &histogram([0.5])).is_none());
        assert!(QuantileMap::new(&histogram([0.5]), &histogram([])).is_none());
    }
}
