//! Cutting a clip in time. A slice is a multiple of 4 frames, which is a whole number of latents; the
//! first slice has one frame and one latent more. Cutting changes no bit of the result.

use crate::geometry::{PlanError, TIME};

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

/// Frames of each slice of a clip of `total` frames (4n + 1), `length` frames at a time; 0 means uncut.
pub fn frames(total: usize, length: usize) -> Result<Lengths, PlanError> {
    check(length)?;
    let rest = total.saturating_sub(1);
    if !rest.is_multiple_of(TIME) || total == 0 {
        let below = rest / TIME * TIME + 1;
        return Err(PlanError::Frames { frames: total, below, above: below.saturating_add(TIME) });
    }
    Ok(cut(rest, length))
}

/// Latents of each slice, for slices of `length` frames.
pub fn latents(total: usize, length: usize) -> Result<Lengths, PlanError> {
    check(length)?;
    match total.checked_sub(1) {
        Some(rest) => Ok(cut(rest, length / TIME)),
        None => Err(PlanError::Frames { frames: 0, below: 1, above: 1 }),
    }
}

fn check(length: usize) -> Result<(), PlanError> {
    match length.is_multiple_of(TIME) {
        true => Ok(()),
        false => {
            let nearest = length.checked_next_multiple_of(TIME).unwrap_or(length / TIME * TIME);
            Err(PlanError::Slice { frames: length, nearest })
        }
    }
}

/// 1 + `length` first, then `length` each, then what is left.
fn cut(rest: usize, length: usize) -> Lengths {
    let first = if length == 0 { rest } else { length.min(rest) };
    Lengths { first: first.saturating_add(1), ..Lengths::continued(rest - first, length) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slices_as_the_public_tool_cuts_them() {
        let list = |lengths: Result<Lengths, PlanError>| lengths.unwrap().iter().collect::<Vec<_>>();
        assert_eq!(list(frames(17, 4)), [5, 4, 4, 4]);
        assert_eq!(list(latents(5, 4)), [2, 1, 1, 1]);
        assert_eq!(list(frames(17, 0)), [17]);
        assert_eq!(list(frames(1, 4)), [1]);
        assert_eq!(list(frames(21, 12)), [13, 8]);
        assert_eq!(frames(17, 6).unwrap_err(), PlanError::Slice { frames: 6, nearest: 8 });
        assert!(frames(0, 4).is_err() && latents(0, 4).is_err());
    }

    proptest! {
        #[test]
        fn every_frame_is_in_one_slice_and_latents_follow(n in 0usize..200, k in 0usize..20) {
            let lengths = frames(4 * n + 1, 4 * k).unwrap();
            let slices: Vec<usize> = lengths.iter().collect();
            prop_assert_eq!(slices.len(), lengths.count());
            prop_assert_eq!(slices.iter().copied().max(), Some(lengths.longest()));
            prop_assert_eq!(slices.iter().sum::<usize>(), 4 * n + 1);
            prop_assert_eq!(slices[0] % 4, 1);
            prop_assert!(slices[1..].iter().all(|s| s % 4 == 0 && *s > 0));
            let latents: Vec<usize> = latents(n + 1, 4 * k).unwrap().iter().collect();
            let made = |(i, n): (usize, &usize)| if i == 0 { (n - 1) / 4 + 1 } else { n / 4 };
            prop_assert_eq!(latents, slices.iter().enumerate().map(made).collect::<Vec<_>>());
            let runs: Vec<(usize, usize)> = lengths.runs().collect();
            prop_assert!(runs.len() <= 3 && runs.last().is_some_and(|(_, times)| *times == 1));
        }

        #[test]
        fn the_rest_of_a_clip_is_cut_alike(rest in 0usize..200, k in 0usize..20) {
            let length = if k == 0 { rest.max(1) } else { k };
            let slow: Vec<usize> = (0..rest).step_by(length).map(|start| length.min(rest - start)).collect();
            prop_assert_eq!(Lengths::continued(rest, k).iter().collect::<Vec<_>>(), slow);
        }
    }
}
