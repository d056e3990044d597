//! How a film is cut into units, and a unit into pieces.

use std::ops::Range;

use remaster_colour::alpha::AlphaKind;
use remaster_plan::{ShotRange, Windows, first_frame, latent_by, latents_of, part_of};

use super::spec::MOST_SHOTS;
use super::{Unit, UnitShot};
use crate::finish::Pool;

/// The shots of a film, each with its frames and the kind of its alpha, as units of up to `most` frames. Longer shots are
/// cut into ranges, each of which is a unit; a pool of whole shots leaves them whole.
pub fn units_of(
    shots: &[(usize, Option<AlphaKind>)],
    most: usize,
    windows: &Windows,
    pool: Pool,
) -> Vec<Unit> {
    let mut units = Vec::new();
    let (mut open, mut frames, mut first) = (Vec::new(), 0usize, 0usize);
    for &(shot, alpha) in shots.iter().filter(|(frames, _)| *frames > 0) {
        let together = frames.saturating_add(shot);
        if (together > most || open.len() == MOST_SHOTS) && !open.is_empty() {
            units.push(Unit { shots: std::mem::take(&mut open) });
            frames = 0;
        }
        if shot > most && pool != Pool::Shot {
            let ranges = ShotRange::of(shot, most, windows).into_iter();
            units.extend(ranges.map(|range| {
                let first = first.saturating_add(range.made.start);
                Unit { shots: vec![UnitShot { range, first, alpha }] }
            }));
        } else {
            open.push(UnitShot { range: ShotRange::whole(shot), first, alpha });
            frames = frames.saturating_add(shot);
        }
        first = first.saturating_add(shot);
    }
    if !open.is_empty() {
        units.push(Unit { shots: open });
    }
    units
}

impl Unit {
    /// Its frames, numbered as in the film, in as few pieces of about `most` frames as there can be, about equally long. A
    /// piece starts with a shot or a window, so it can be made when those before it are there; with a pool of whole shots
    /// only with a shot.
    pub fn pieces(&self, most: usize, windows: &Windows, pool: Pool) -> Vec<Range<usize>> {
        let Range { start, end } = self.frames();
        let total = end - start;
        let count = total.div_ceil(most.max(1));
        let (mut pieces, mut from) = (Vec::new(), start);
        let mut shots = self.shots.iter().peekable();
        for i in 1..count {
            let goal = start + part_of(total, i, count);
            while shots.next_if(|shot| shot.end() <= goal).is_some() {}
            let Some(shot) = shots.peek() else { break };
            let cut = shot.nearest_start(goal, windows, pool);
            if from < cut && cut < end {
                pieces.push(from..cut);
                from = cut;
            }
        }
        if from < end {
            pieces.push(from..end);
        }
        pieces
    }
}

impl Unit {
    /// The frame to begin with for frames from this one on, of a network that takes each on its own: with a pool of whole
    /// shots the first of its shot.
    pub fn start_of(&self, frame: usize, pool: Pool) -> usize {
        let shot = self.shots.iter().find(|shot| (shot.first..shot.end()).contains(&frame));
        match (pool, shot) {
            (Pool::Shot, Some(shot)) => shot.first,
            _ => frame,
        }
    }
}

impl UnitShot {
    /// The frame of the film nearest to one of its own where a piece can start, or its end.
    fn nearest_start(&self, frame: usize, windows: &Windows, pool: Pool) -> usize {
        let (start, latents) = (self.shot_start(), latents_of(self.range.shot));
        let latent = latent_by(frame.saturating_sub(start));
        let inside = |latent: usize| (start + first_frame(latent)).clamp(self.first, self.end());
        let (before, after) = match pool {
            Pool::Shot => (self.first, self.end()),
            Pool::Frame | Pool::Window => (
                inside(windows.start_by(latents, latent)),
                windows.start_after(latents, latent).map_or(self.end(), inside),
            ),
        };
        if frame.abs_diff(before) <= frame.abs_diff(after) { before } else { after }
    }

    /// Whether a piece can start with a frame of the film: with its first one, or where a window of its shot begins.
    pub(super) fn can_start(&self, frame: usize, windows: &Windows) -> bool {
        let Some(inside) = frame.checked_sub(self.shot_start()) else { return false };
        let latent = latent_by(inside);
        first_frame(latent) == inside && windows.start_by(latents_of(self.range.shot), latent) == latent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    use remaster_testkit::busy;

    const POOLS: [Pool; 3] = [Pool::Frame, Pool::Window, Pool::Shot];

    /// Frames between places where a shot can be cut: the last one has a whole window behind it.
    fn step(windows: &Windows) -> usize {
        4 * windows.length()
    }

    proptest! {
        #[test]
        fn every_frame_is_in_one_unit_and_in_one_piece(
            lengths in prop::collection::vec(prop_oneof![0usize..30, 0usize..1500], 0..40),
            most in 0usize..600,
            piece in 0usize..400,
            window in prop_oneof![Just(1), Just(5), Just(17), Just(45)],
        ) {
            let windows = Windows::new(window).unwrap();
            let shots: Vec<_> = lengths.iter().map(|n| (*n, (n % 2 == 0).then_some(AlphaKind::Soft))).collect();
            for pool in POOLS {
                let units = units_of(&shots, most, &windows, pool);
                let all: Vec<&UnitShot> = units.iter().flat_map(|unit| &unit.shots).collect();
                let mut next = 0;
                for shot in &all {
                    prop_assert_eq!(shot.first, next);
                    next = shot.end();
                }
                prop_assert_eq!(next, lengths.iter().sum::<usize>());
                // The shots themselves, in order, whatever was cut.
                let mut whole: Vec<(usize, Option<AlphaKind>)> = Vec::new();
                for shot in all.iter().filter(|shot| shot.range.made.start == 0) {
                    whole.push((shot.range.shot, shot.alpha));
                }
                let there: Vec<_> = shots.iter().copied().filter(|shot| shot.0 > 0).collect();
                prop_assert_eq!(whole, there);
                for unit in &units {
                    prop_assert_eq!(unit.check(), Ok(()));
                    let frames = unit.frames();
                    prop_assert!(unit.shots.len() == 1 || frames.len() <= most);
                    if pool != Pool::Shot {
                        prop_assert!(frames.len() <= most + 2 * 4 * windows.length());
                    }
                    let pieces = unit.pieces(piece, &windows, pool);
                    let longest = unit.shots.iter().map(|s| s.range.made.len()).max().unwrap();
                    let gap = if pool == Pool::Shot { longest } else { step(&windows).min(longest) };
                    let mut next = frames.start;
                    for range in &pieces {
                        prop_assert!(range.start == next && range.end > next);
                        prop_assert!(range.len() <= piece.max(1) + gap, "{:?} {}", range, gap);
                        let shot = unit.shots.iter().find(|s| (s.first..s.end()).contains(&next)).unwrap();
                        prop_assert!(shot.can_start(next, &windows));
                        prop_assert!(pool != Pool::Shot || next == shot.first);
                        next = range.end;
                    }
                    prop_assert_eq!(next, frames.end);
                    prop_assert!(pieces.len() <= frames.len().div_ceil(piece.max(1)));
                    // Equal but for what rounding to starts takes and adds.
                    if pieces.len() == frames.len().div_ceil(piece.max(1)) {
                        let even = frames.len() / pieces.len();
                        prop_assert!(pieces.iter().all(|p| p.len().abs_diff(even) <= gap + 1));
                    }
                }
            }
        }

        #[test]
        fn starts_of_pieces_are_those_of_windows(shot in 1usize..400, window in 1usize..60, first in 0usize..50) {
            let windows = Windows::new(window).unwrap();
            let starts: Vec<usize> =
                windows.of(latents_of(shot)).map(|w| first + first_frame(w.start)).collect();
            let shot = UnitShot { range: ShotRange::whole(shot), first, alpha: None };
            for frame in 0..shot.end() + 9 {
                prop_assert_eq!(shot.can_start(frame, &windows), starts.contains(&frame));
            }
        }
    }

    #[test]
    fn a_film_of_500_000_shots_takes_no_time() {
        let shots: Vec<_> = (0..500_000).map(|i| (1 + i * 7919 % 300, None)).collect();
        let windows = Windows::new(Windows::FRAMES).unwrap();
        let began = busy();
        let units = units_of(&shots, 2000, &windows, Pool::Window);
        let pieces: usize = units.iter().map(|unit| unit.pieces(250, &windows, Pool::Window).len()).sum();
        // A tenth of it, measured.
        assert!(busy() - began < Duration::from_secs(1), "{:?}", busy() - began);
        assert!(units.len() > 30_000 && pieces > 200_000);
        // One shot that is as long as all of them.
        let units = units_of(&[(1 << 36, None)], 1 << 20, &windows, Pool::Window);
        assert_eq!(units.len(), 1 << 16);
        assert!(busy() - began < Duration::from_secs(2));
    }

    #[test]
    fn pieces_are_as_equal_as_shots_and_windows_allow() {
        let windows = Windows::new(45).unwrap();
        let units = units_of(&[(100, None), (10, None), (100, None)], 300, &windows, Pool::Shot);
        assert_eq!(units[0].pieces(120, &windows, Pool::Shot), [0..100, 100..210]);
        // Windows start at frames 0, 37, 77, 117, ...
        let units = units_of(&[(240, None)], 300, &windows, Pool::Frame);
        assert_eq!(units[0].pieces(120, &windows, Pool::Frame), [0..117, 117..240]);
        assert_eq!(units[0].pieces(240, &windows, Pool::Frame), [0..240; 1]);
        assert!(Unit { shots: Vec::new() }.pieces(9, &windows, Pool::Frame).is_empty());
    }
}
