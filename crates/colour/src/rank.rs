//! Ranks of values over all frames of a pool, by radix sorts. Equal values keep the order of their places.

/// Numbered values, in rising order of their numbers, that can be gone through again.
pub(crate) trait Values {
    /// Calls `visit` with the number and the value of each.
    fn each(&self, visit: impl FnMut(u32, f32));
}

/// How often each digit occurs, and later where the next value with it goes.
struct Digits {
    places: Vec<u32>,
    shift: u32,
}

impl Digits {
    /// The `bits` bits of a key from `shift` on.
    fn new(shift: u32, bits: u32) -> Digits {
        Digits { places: vec![0; 1 << bits], shift }
    }

    fn place(&mut self, key: u32) -> &mut u32 {
        // A length that is a power of two needs no check of the bounds.
        let mask = self.places.len() - 1;
        &mut self.places[(key >> self.shift) as usize & mask]
    }

    fn count(&mut self, key: u32) {
        *self.place(key) += 1;
    }

    /// Counts become the place of the first value with each digit.
    fn starts(&mut self) {
        let mut sum = 0;
        for count in &mut self.places {
            sum += std::mem::replace(count, sum);
        }
    }

    /// Where the next value with the digit of `key` goes.
    fn next(&mut self, key: u32) -> usize {
        let place = self.place(key);
        *place += 1;
        *place as usize - 1
    }
}

/// Rises with the value; both zeros are one.
fn key(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key ^ 1 << 31 } else { !key })
}

/// Values from the smallest to the largest.
pub(crate) struct Sorted(Vec<u32>);

impl Sorted {
    /// Sorts `count` values; any that come beyond are left out.
    pub(crate) fn new(values: &impl Values, count: usize) -> Sorted {
        // Digits of 11 bits: the places that a pass writes to stay in the first cache.
        let mut digits = [Digits::new(0, 11), Digits::new(11, 11), Digits::new(22, 10)];
        let mut keys = Vec::with_capacity(count);
        values.each(|_, v| {
            if keys.len() < count {
                let key = key(v);
                digits.iter_mut().for_each(|digit| digit.count(key));
                keys.push(key);
            }
        });
        let mut spare = vec![0; keys.len()];
        for mut digit in digits {
            digit.starts();
            for key in &keys {
                spare[digit.next(*key)] = *key;
            }
            std::mem::swap(&mut keys, &mut spare);
        }
        Sorted(keys)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn at(&self, rank: usize) -> f32 {
        value(self.0[rank])
    }
}

/// Values sorted by the lower half of their keys, with what is needed to finish.
///
/// Digits of 16 bits, though three of 11 scatter less: the second of two passes hands out ranks instead of writing a
/// list, so one list is enough.
pub(crate) struct Ranks {
    /// Upper half of the key, then the number.
    pairs: Vec<u64>,
    high: Digits,
}

impl Ranks {
    pub(crate) fn new(values: &impl Values) -> Ranks {
        let (mut low, mut high) = (Digits::new(0, 16), Digits::new(0, 16));
        let mut count = 0;
        values.each(|_, v| {
            let key = key(v);
            low.count(key);
            high.count(key >> 16);
            count += 1;
        });
        low.starts();
        high.starts();
        let mut pairs = vec![0; count];
        values.each(|number, v| {
            let key = key(v);
            pairs[low.next(key)] = u64::from(key >> 16) << 32 | u64::from(number);
        });
        Ranks { pairs, high }
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Calls `visit` with the number of each value and its rank, in no useful order.
    pub(crate) fn each(mut self, mut visit: impl FnMut(usize, usize)) {
        for pair in self.pairs {
            visit(pair as u32 as usize, self.high.next((pair >> 32) as u32));
        }
    }
}

/// Gives every value of `values` the one of `sorted` at its rank: `visit` gets its number and the new value. If there
/// are other numbers of them, ranks are stretched as [`stretch`] says.
pub(crate) fn matched(values: &impl Values, sorted: &Sorted, mut visit: impl FnMut(usize, f32)) {
    let ranks = Ranks::new(values);
    let (n, m) = (ranks.len(), sorted.len());
    if m == 0 {
        return;
    }
    let stretch = stretch(n, m);
    ranks.each(|number, rank| {
        let rank = if n == m { rank } else { stretch(rank) };
        visit(number, sorted.at(rank));
    });
}

/// Rank among `n` values to rank among `m`: x (m - 1), cut, where x is the rank'th of `n` steps from 0 to 1 as PyTorch
/// spaces them in f32: from both ends to the middle, the second half rounded once. Other roundings move ranks.
fn stretch(n: usize, m: usize) -> impl Fn(usize) -> usize {
    let step = 1.0 / (n.max(2) - 1) as f32;
    move |rank| {
        let x = if rank < n / 2 {
            step * rank as f32
        } else {
            // Exact in f64 up to 2^24 values, so that the one rounding is the last.
            (1.0 - f64::from(step) * (n - 1 - rank) as f64) as f32
        };
        ((x * (m - 1) as f32) as usize).min(m - 1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Numbers from 0 to 1 from a seed.
    pub(crate) fn numbers(seed: u32, count: usize) -> Vec<f32> {
        let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    struct List<'a>(&'a [f32]);

    impl Values for List<'_> {
        fn each(&self, mut visit: impl FnMut(u32, f32)) {
            self.0.iter().enumerate().for_each(|(i, v)| visit(i as u32, *v));
        }
    }

    #[test]
    fn ranks_are_those_of_the_standard_stable_sort() {
        for count in [0, 1, 2, 7, 1000, 70_000] {
            let mut values: Vec<f32> = numbers(3, count).iter().map(|v| (v - 0.3) * 40.0).collect();
            // Many equal ones, and both zeros.
            values.iter_mut().step_by(3).for_each(|v| *v = v.round());
            values.iter_mut().step_by(17).for_each(|v| *v = -0.0);
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| values[*a].partial_cmp(&values[*b]).unwrap());
            let mut got = vec![usize::MAX; count];
            Ranks::new(&List(&values)).each(|number, rank| got[rank] = number);
            assert_eq!(got, order, "{count}");
            let sorted = Sorted::new(&List(&values), count);
            assert!((0..count).all(|i| sorted.at(i) == values[order[i]]), "{count}");
        }
    }

    #[test]
    fn stretched_ranks_run_from_the_first_to_the_last_and_never_back() {
        for (n, m) in [(1, 1), (1, 5), (2, 1), (101, 4000), (4000, 101), (65_537, 65_536), (20_000_001, 7)] {
            let stretch = stretch(n, m);
            assert_eq!(stretch(0), if n == 1 { m - 1 } else { 0 }, "{n} {m}");
            assert_eq!(stretch(n - 1), m - 1);
            let steps = (n / 5000).max(1);
            let ranks: Vec<usize> = (0..n).step_by(steps).map(&stretch).collect();
            assert!(ranks.is_sorted() && ranks.iter().all(|r| *r < m), "{n} {m}");
        }
    }
}
