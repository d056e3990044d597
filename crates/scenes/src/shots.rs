//! The shots of a clip.

use std::ops::Range;

use crate::detector::Verdict;
use crate::error::ScenesError;
use crate::file;

/// Where the shots of a clip begin. Its first frame begins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shots {
    /// Sorted, each once, from 0.
    starts: Vec<u64>,
    /// Frames of the clip, if known.
    frames: Option<u64>,
}

impl Default for Shots {
    /// One shot of unknown length.
    fn default() -> Self {
        Shots { starts: vec![0], frames: None }
    }
}

impl Shots {
    /// Shots that start at these frames, of a clip of so many frames. Refuses what is not sorted from 0 on, or past the end.
    pub fn new(starts: Vec<u64>, frames: Option<u64>) -> Result<Self, ScenesError> {
        file::check(&starts, frames)?;
        Ok(Shots { starts, frames })
    }

    /// Notes what a [`Detector`](crate::Detector) said of the next frame.
    pub fn record(&mut self, verdict: Verdict) {
        let frame = verdict.frame;
        if verdict.cut && self.starts.last().is_some_and(|last| *last < frame) {
            self.starts.push(frame);
        }
        self.frames = Some(self.frames.unwrap_or(0).max(frame.saturating_add(1)));
    }

    /// The first frames of all shots, in order; the first of them is 0.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Frames of the clip, if known.
    pub fn frames(&self) -> Option<u64> {
        self.frames
    }

    /// Whether a shot starts at this frame.
    pub fn starts_at(&self, frame: u64) -> bool {
        self.starts.binary_search(&frame).is_ok()
    }

    /// The shots of a part of the clip, counted from its first frame.
    pub fn part(&self, frames: Range<u64>) -> Self {
        let inside = self.starts.iter().filter(|start| frames.contains(start) && **start > frames.start);
        let starts = std::iter::once(0).chain(inside.map(|start| start - frames.start)).collect();
        Shots { starts, frames: Some(frames.end.saturating_sub(frames.start)) }
    }

    /// Reads a list of shots: ours, or the `scenes.json` of av1an. Nothing in it is believed before it was checked.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ScenesError> {
        file::read(bytes)
    }

    /// Our list of shots as JSON text that ends in a newline.
    pub fn to_json(&self) -> String {
        file::write(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_with_a_shot_and_keeps_the_cuts_inside() {
        let film = Shots::new(vec![0, 10, 25, 40], Some(50)).unwrap();
        let part = |frames: Range<u64>| film.part(frames).starts().to_vec();
        assert_eq!(part(0..50), [0, 10, 25, 40]);
        assert_eq!(part(0..25), [0, 10]);
        assert_eq!(part(10..26), [0, 15]);
        assert_eq!(part(11..12), [0]);
        assert_eq!(film.part(20..50).frames(), Some(30));
        assert_eq!(part(50..50), [0]);
    }
}
