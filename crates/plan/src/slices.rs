//! Cutting a clip in time. Slices are equal; the first has one frame more, the last may be shorter. Cutting changes
//! no bit of the result.

/// Lengths of the slices of a clip as numbers: a clip may have millions of slices. A first one, then any number
/// of equal ones, then a shorter one; 0 for one that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    first: usize,
    steady: usize,
    times: usize,
    last: usize,
}

impl Lengths {
    /// Of a clip of `total` frames: 1 + `length` first, then `length` each, then what is left; 0 means uncut.
    pub fn new(total: usize, length: usize) -> Self {
        let rest = total.saturating_sub(1);
        let first = if length == 0 { rest } else { length.min(rest) };
        Lengths { first: total.min(first.saturating_add(1)), ..Lengths::continued(rest - first, length) }
    }

    /// Of a clip that goes on: `rest` units, `length` at a time; 0 means uncut.
    pub fn continued(rest: usize, length: usize) -> Self {
        let length = if length == 0 { rest.max(1) } else { length };
        Lengths { first: 0, steady: length, times: rest / length, last: rest % length }
    }

    /// How many slices there are.
    pub fn count(&self) -> usize {
        usize::from(self.first > 0) + self.times + usize::from(self.last > 0)
    }

    /// The longest of them.
    pub fn longest(&self) -> usize {
        let steady = if self.times > 0 { self.steady } else { 0 };
        self.first.max(steady).max(self.last)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.runs().flat_map(|(length, times)| std::iter::repeat_n(length, times))
    }

    /// Slices that are alike, and how many times they come: the first, those between, and the last, which leaves
    /// nothing behind.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + use<> {
        let steady = if self.last > 0 {
            [(self.steady, self.times), (self.last, 1)]
        } else {
            [(self.steady, self.times.saturating_sub(1)), (self.steady, self.times.min(1))]
        };
        let runs = [(self.first, usize::from(self.first > 0)), steady[0], steady[1]];
        runs.into_iter().filter(|(_, times)| *times > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_frame_is_in_one_slice(total in 0usize..800, length in 0usize..20) {
            let lengths = Lengths::new(total, length);
            let slices: Vec<usize> = lengths.iter().collect();
            prop_assert_eq!(slices.len(), lengths.count());
            prop_assert_eq!(slices.iter().copied().max().unwrap_or(0), lengths.longest());
            prop_assert_eq!(slices.iter().sum::<usize>(), total);
            prop_assert!(length == 0 || slices.iter().skip(1).all(|s| (1..=length).contains(s)));
            let runs: Vec<(usize, usize)> = lengths.runs().collect();
            prop_assert!(runs.len() <= 3 && runs.last().is_none_or(|(_, times)| *times == 1));
        }

        #[test]
        fn the_rest_of_a_clip_is_cut_alike(rest in 0usize..200, k in 0usize..20) {
            let length = if k == 0 { rest.max(1) } else { k };
            let slow: Vec<usize> = (0..rest).step_by(length).map(|start| length.min(rest - start)).collect();
            prop_assert_eq!(Lengths::continued(rest, k).iter().collect::<Vec<_>>(), slow);
        }
    }
}
