//! Windows in time: how the transformer takes a shot that is longer than it sees at once.
//!
//! They depend on the length of the shot alone, never on memory or device: another cut would be another result.

use std::ops::Range;

use crate::geometry::{PlanError, TIME};

/// Latents that neighbouring windows share. Two are enough for a jump that is not seen; more would be computed twice.
const SHARED: usize = 2;

/// Windows over the latents of a shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Latents of a window; a shorter shot is one window.
    length: usize,
    /// Latents that a window shares with the next one.
    shared: usize,
}

impl Windows {
    /// Frames of a window that people get unless they ask: 12 latents.
    pub const FRAMES: usize = 45;
    /// The longest window that can be asked for: 75 latents. The published networks were trained on shorter clips.
    pub const MOST_FRAMES: usize = 297;

    /// Windows of up to `frames` frames of the picture, 1 to [`Windows::MOST_FRAMES`]. What is not 4n + 1 is rounded down.
    pub fn new(frames: usize) -> Result<Self, PlanError> {
        if !(1..=Self::MOST_FRAMES).contains(&frames) {
            return Err(PlanError::Window { frames, most: Self::MOST_FRAMES });
        }
        let length = (frames - 1) / TIME + 1;
        Ok(Windows { length, shared: SHARED.min(length / 2) })
    }

    /// The same windows side by side, without shared latents: what mixing is compared with.
    pub fn apart(self) -> Self {
        Windows { shared: 0, ..self }
    }

    /// Latents of the longest window.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Latents from the start of a window to that of the next.
    pub fn step(&self) -> usize {
        self.length - self.shared
    }

    /// Frames of the picture in the longest window.
    pub fn frames(&self) -> usize {
        (self.length - 1) * TIME + 1
    }

    /// The windows of a shot of so many latents, in order. The last one is moved back to the end of the shot, so that it
    /// sees as much as the others.
    pub fn of(&self, latents: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let windows = *self;
        (0..self.count(latents)).map(move |i| windows.get(latents, i))
    }

    /// Those of them that have any latent of `wanted`. The others cost nothing, however long the shot is.
    pub fn touching(
        &self,
        latents: usize,
        wanted: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let (windows, count) = (*self, self.count(latents));
        let last = latents.saturating_sub(self.length);
        let first = match wanted.start {
            start if start >= latents => count,
            start if start < self.length => 0,
            start => (start - self.length) / self.step() + 1,
        };
        let end = match wanted.end {
            end if end > last => count,
            end => end.div_ceil(self.step()),
        };
        (first..end).map(move |i| windows.get(latents, i))
    }

    /// Where the last window begins that begins no later than `latent`.
    pub fn start_by(&self, latents: usize, latent: usize) -> usize {
        let last = latents.saturating_sub(self.length);
        if latent >= last { last } else { latent / self.step() * self.step() }
    }

    /// Where the first window begins that begins later than `latent`.
    pub fn start_after(&self, latents: usize, latent: usize) -> Option<usize> {
        let last = latents.saturating_sub(self.length);
        (latent < last).then(|| ((latent / self.step() + 1) * self.step()).min(last))
    }

    fn count(&self, latents: usize) -> usize {
        let behind = latents.saturating_sub(self.length);
        if latents == 0 { 0 } else { 1 + behind.div_ceil(self.step()) }
    }

    fn get(&self, latents: usize, i: usize) -> Range<usize> {
        let start = (i * self.step()).min(latents.saturating_sub(self.length));
        start..(start + self.length).min(latents)
    }
}

/// What counts of the window before, at place `i` of `shared` latents: 0.75 and 0.25 for two, a line for more.
pub fn share_before(i: usize, shared: usize) -> f32 {
    1.0 - (i as f32 + 0.5) / shared.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_shot_and_share_what_they_should() {
        for frames in 1..=Windows::MOST_FRAMES {
            let windows = Windows::new(frames).unwrap();
            assert!(windows.frames() <= frames && windows.frames() + TIME > frames);
            for latents in 0..60 {
                let list: Vec<_> = windows.of(latents).collect();
                let (first, last) = (list.first(), list.last());
                assert_eq!(first.map_or(0, |w| w.start), 0);
                assert_eq!(last.map_or(0, |w| w.end), latents);
                for pair in list.windows(2) {
                    let shared = pair[0].end - pair[1].start;
                    assert!(shared >= windows.shared && shared < windows.length, "{frames} {latents}");
                    assert!(pair[1].start > pair[0].start);
                }
                let full = latents.min(windows.length);
                assert!(list.iter().all(|w| w.len() == full), "{frames} {latents}: {list:?}");
            }
        }
        assert!(Windows::new(0).is_err() && Windows::new(298).is_err());
    }

    #[test]
    fn some_windows_are_found_without_a_look_at_the_others() {
        for frames in [1, 5, 9, 17, 45] {
            let windows = Windows::new(frames).unwrap();
            for windows in [windows, windows.apart()] {
                for latents in 0..40 {
                    let all: Vec<_> = windows.of(latents).collect();
                    for from in 0..latents + 2 {
                        for to in from + 1..latents + 4 {
                            let slow: Vec<_> =
                                all.iter().filter(|w| w.start < to && w.end > from).cloned().collect();
                            let fast: Vec<_> = windows.touching(latents, from..to).collect();
                            assert_eq!(fast, slow, "{frames} {latents} {from}..{to}");
                        }
                        let before = all.iter().rfind(|w| w.start <= from).map_or(0, |w| w.start);
                        assert_eq!(windows.start_by(latents, from), before);
                        let after = all.iter().find(|w| w.start > from).map(|w| w.start);
                        assert_eq!(windows.start_after(latents, from), after);
                    }
                }
            }
        }
        let windows = Windows::new(45).unwrap();
        assert_eq!(windows.touching(1 << 50, 1 << 49..(1 << 49) + 1).count(), 1);
    }

    #[test]
    fn the_default_is_twelve_latents_that_go_on_by_ten() {
        let windows = Windows::new(Windows::FRAMES).unwrap();
        assert_eq!(windows.of(25).collect::<Vec<_>>(), [0..12, 10..22, 13..25]);
        assert!(windows.of(12).eq([0..12; 1]));
        assert_eq!(windows.of(13).collect::<Vec<_>>(), [0..12, 1..13]);
    }

    #[test]
    fn shares_of_two_are_three_quarters_and_one() {
        assert_eq!([share_before(0, 2), share_before(1, 2)], [0.75, 0.25]);
        assert_eq!(share_before(0, 1), 0.5);
        for shared in 1..20 {
            let sum: f32 = (0..shared).map(|i| share_before(i, shared)).sum();
            assert!((sum - shared as f32 / 2.0).abs() < 1e-4);
        }
    }
}
