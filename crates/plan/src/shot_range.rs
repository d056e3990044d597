//! Stretches of a long shot that are restored apart from each other, to the same bits.
//!
//! Encoder and decoder carry state from the first frame of a shot to its last, but see only so far back: a range that starts
//! early enough and throws away what it makes too early is exact. Windows of the transformer count from the start of the
//! shot, wherever it is cut.

use std::ops::Range;

use crate::geometry::TIME;
use crate::windows::Windows;

/// How far back the VAE sees. Whole shots need none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookBack {
    /// Frames before the newest one of a latent.
    pub encode: usize,
    /// Latents before that of a frame.
    pub decode: usize,
}

/// Frames of a shot that are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShotRange {
    /// Frames of the shot.
    pub shot: usize,
    /// Those that are made.
    pub made: Range<usize>,
}

/// What a range takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Frames of the shot that are read.
    pub read: Range<usize>,
    /// The first latent that these give.
    pub first: usize,
    /// Latents of the encoder that are exact and needed.
    pub encoded: Range<usize>,
    /// Restored latents that are decoded.
    pub decoded: Range<usize>,
    /// Frames that are decoded before the first one that is made.
    pub early: usize,
}

/// Latents of a shot of so many frames, the end filled up.
pub fn latents_of(frames: usize) -> usize {
    if frames == 0 { 0 } else { (frames - 1).div_ceil(TIME) + 1 }
}

/// The first frame of a latent.
pub fn first_frame(latent: usize) -> usize {
    (latent * TIME).saturating_sub(TIME - 1)
}

/// The last latent that begins no later than a frame.
pub fn latent_by(frame: usize) -> usize {
    frame.saturating_add(TIME - 1) / TIME
}

/// `i` of `count` equal parts of `whole`, rounded down.
pub fn part_of(whole: usize, i: usize, count: usize) -> usize {
    let part = whole as u128 * i as u128 / count.max(1) as u128;
    usize::try_from(part).unwrap_or(usize::MAX)
}

/// The first latent of a clip that gives exact ones from `latent` on. Its first frame is number `TIME` times this.
fn early_enough(latent: usize, back: LookBack) -> usize {
    // The last four frames of a shot fill up its end; the clip must have them, however little a network sees.
    latent.saturating_sub(back.encode.div_ceil(TIME).max(2))
}

impl Needs {
    /// What is read for the latents from `latent` on: the first latent that it gives, and the frames of the shot.
    pub fn again(&self, latent: usize, back: LookBack) -> (usize, Range<usize>) {
        let first = early_enough(latent, back);
        (first, first * TIME..self.read.end)
    }
}

impl ShotRange {
    /// All of a shot.
    pub fn whole(shot: usize) -> Self {
        ShotRange { shot, made: 0..shot }
    }

    /// A shot in as few ranges of at most `most` frames as there can be, about equally long, each from the start of a window
    /// to that of another: so windows that share one correction of colour stay together. A range has one window at least.
    pub fn of(shot: usize, most: usize, windows: &Windows) -> Vec<ShotRange> {
        let latents = latents_of(shot);
        let count = shot.div_ceil(most.max(1)).max(1);
        let mut ranges = Vec::new();
        let mut from = 0;
        for i in 1..=count {
            let to = match i == count {
                true => shot,
                // The last start that is no later than where it would be cut best.
                false => first_frame(windows.start_by(latents, latent_by(part_of(shot, i, count)))),
            };
            if to > from {
                ranges.push(ShotRange { shot, made: from..to });
                from = to;
            }
        }
        ranges
    }

    /// Windows of its shot that it takes part in.
    pub fn windows(&self, windows: &Windows, back: LookBack) -> Vec<Range<usize>> {
        windows.touching(latents_of(self.shot), self.decoded(back)).collect()
    }

    /// What is left of it from a frame of its shot on.
    pub fn from(&self, frame: usize) -> ShotRange {
        ShotRange { shot: self.shot, made: frame.max(self.made.start)..self.made.end }
    }

    fn decoded(&self, back: LookBack) -> Range<usize> {
        let latent = |frame: usize| frame.div_ceil(TIME);
        let end = if self.made.end == self.shot { latents_of(self.shot) } else { latent(self.made.end) };
        // The first latent of a clip is one frame, so at least one goes before.
        latent(self.made.start).saturating_sub(back.decode.max(1))..end
    }

    /// What it takes of its shot.
    pub fn needs(&self, windows: &Windows, back: LookBack) -> Needs {
        let (latents, decoded) = (latents_of(self.shot), self.decoded(back));
        let mut taken = windows.touching(latents, decoded.clone());
        let first = taken.next().unwrap_or(0..0);
        let encoded = first.start..taken.next_back().map_or(first.end, |w| w.end);
        let first = early_enough(encoded.start, back);
        let end = if encoded.end == latents { self.shot } else { first_frame(encoded.end) };
        // The first latent of a clip is one frame, whatever it was in its shot: its last one.
        let early = match decoded.start {
            0 => self.made.start,
            start => self.made.start - start * TIME,
        };
        Needs { read: first * TIME..end, first, encoded, decoded, early }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: LookBack = LookBack { encode: 112, decode: 37 };

    #[test]
    fn parts_cover_a_shot_once_and_begin_with_windows() {
        for window in [1, 5, 17, 45] {
            let windows = Windows::new(window).unwrap();
            for shot in (1..300).chain([1500, 1501, 4096, 9999]) {
                for most in [1, 40, 100, 1500] {
                    let ranges = ShotRange::of(shot, most, &windows);
                    let mut next = 0;
                    for range in &ranges {
                        assert_eq!(range.made.start, next, "{shot} {most}");
                        assert!(range.made.end > next);
                        next = range.made.end;
                        let start = range.made.start;
                        assert!(windows.of(latents_of(shot)).any(|w| first_frame(w.start) == start));
                    }
                    assert_eq!(next, shot);
                    // Cuts are rounded to windows.
                    let longest = ranges.iter().map(|p| p.made.len()).max().unwrap();
                    assert!(longest <= most + 2 * TIME * windows.length(), "{shot} {most}: {longest}");
                    assert!(shot > most || ranges == [ShotRange::whole(shot)]);
                }
            }
        }
    }

    #[test]
    fn needs_reach_as_far_back_as_networks_see() {
        let windows = Windows::new(45).unwrap();
        for shot in [1, 2, 45, 46, 700, 1501, 3001] {
            for range in ShotRange::of(shot, 400, &windows) {
                let Needs { read, first, encoded, decoded, early } = range.needs(&windows, BACK);
                let latents = latents_of(shot);
                assert!(read.end <= shot && read.start % 4 == 0 && read.start <= range.made.start);
                assert_eq!(read.start, 4 * first);
                // Enough before, or the start of the shot.
                assert!(first == 0 || 4 * encoded.start - read.start >= BACK.encode);
                let newest = range.made.start.div_ceil(4);
                assert!(decoded.start == 0 || newest - decoded.start == BACK.decode);
                assert!(
                    encoded.start <= decoded.start && encoded.end >= decoded.end && encoded.end <= latents
                );
                // What is decoded begins `early` frames before what is made, and reaches its end.
                let begins = if decoded.start == 0 { 0 } else { 4 * decoded.start };
                assert_eq!(begins + early, range.made.start);
                let ends = if decoded.end == latents { shot } else { first_frame(decoded.end) };
                assert_eq!(ends, range.made.end);
                // What is read gives the latents that are encoded, filled up only at the end of the shot.
                assert_eq!(first + latents_of(read.len()), encoded.end);
                assert!(encoded.end == latents || read.len() % 4 == 1);
            }
            for (range, latent) in ShotRange::of(shot, 400, &windows).iter().flat_map(|s| {
                let encoded = s.needs(&windows, BACK).encoded;
                encoded.map(move |latent| (s, latent))
            }) {
                for back in [BACK, LookBack::default()] {
                    let (first, read) = range.needs(&windows, BACK).again(latent, back);
                    assert!(first <= latent && read.start == 4 * first);
                    assert!(first == 0 || (4 * (latent - first) >= back.encode && read.len() > 4));
                }
            }
            let whole = ShotRange::whole(shot).needs(&windows, BACK);
            assert_eq!((whole.read, whole.early, whole.first), (0..shot, 0, 0));
        }
    }

    #[test]
    fn frames_and_latents_belong_together_and_nothing_overflows() {
        for frame in 0..100 {
            let latent = latent_by(frame);
            assert!(first_frame(latent) <= frame && first_frame(latent + 1) > frame);
        }
        assert_eq!(part_of(usize::MAX, 2, 3), usize::MAX / 3 * 2);
        let windows = Windows::new(45).unwrap();
        let long = ShotRange { shot: 1 << 40, made: (1 << 40) - 100..1 << 40 };
        assert!(long.needs(&windows, BACK).encoded.len() < 100);
        assert_eq!(ShotRange::whole(1 << 40).needs(&windows, BACK).encoded, 0..(1 << 38) + 1);
        assert_eq!(ShotRange::of(1 << 40, 1 << 36, &windows).len(), 16);
    }
}
