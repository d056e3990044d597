//! One pass over a film: where its shots are, when its frames are shown, and which alpha they have.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;

use remaster_colour::alpha::{AlphaCount, AlphaKind, plane};
use remaster_media::{FrameSource, MediaError, TimeBase};
use remaster_picture::Frame;
use remaster_restore::{Cuts, Cutter};

use crate::error::UnitsError;

/// What a pass over a film found.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The clock.
    pub time_base: TimeBase,
    /// Frames of each shot in order, and the kind of its alpha.
    pub shots: Vec<(usize, Option<AlphaKind>)>,
    /// When frames are shown.
    pub times: Times,
}

/// When the frames of a film are shown: differences in one to ten bytes each, so that a film of three hours takes 300 kB.
#[derive(Clone, Debug, Default)]
pub struct Times {
    first: i64,
    last: i64,
    frames: usize,
    steps: Vec<u8>,
}

impl Times {
    /// The next frame is shown at `pts`, later than the one before.
    fn push(&mut self, pts: i64) {
        if self.frames == 0 {
            self.first = pts;
        } else {
            let mut step = pts.wrapping_sub(self.last) as u64;
            while step >= 128 {
                self.steps.push(step as u8 | 128);
                step >>= 7;
            }
            self.steps.push(step as u8);
        }
        self.last = pts;
        self.frames += 1;
    }

    /// All of them in order.
    fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let (mut pts, mut bytes) = (self.first, self.steps.iter());
        (0..self.frames).map(move |i| {
            if i > 0 {
                let (mut step, mut shift) = (0u64, 0);
                for byte in bytes.by_ref() {
                    step |= u64::from(byte & 127) << shift;
                    shift = (shift + 7).min(63);
                    if byte & 128 == 0 {
                        break;
                    }
                }
                pts = pts.wrapping_add(step as i64);
            }
            pts
        })
    }

    /// When frames of these numbers are shown; 0 for one that is not there.
    pub(crate) fn at(&self, wanted: &[[usize; 3]]) -> Vec<[i64; 3]> {
        let asked: HashSet<usize> = wanted.iter().flatten().copied().collect();
        let times = self.iter().enumerate().filter(|(frame, _)| asked.contains(frame));
        let times: HashMap<usize, i64> = times.collect();
        let time = |frame: usize| times.get(&frame).copied().unwrap_or(0);
        wanted.iter().map(|frames| frames.map(time)).collect()
    }
}

/// Looks at all frames of a film. `each` is told the number of every frame and can stop it.
pub fn survey(
    mut source: Box<dyn FrameSource>,
    cuts: &Cuts,
    each: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Survey, UnitsError> {
    let time_base = source.format().time_base;
    let mut finder =
        Finder { cutter: Cutter::new(cuts), waiting: VecDeque::new(), shots: Vec::new(), alpha: None };
    let mut times = Times::default();
    let mut frame = Frame::new(0, 0, 3);
    while let Some(pts) = source.next(&mut frame)? {
        times.push(pts);
        finder.push(&frame);
        if each(times.frames).is_break() {
            return Err(MediaError::Cancelled.into());
        }
    }
    Ok(Survey { time_base, shots: finder.finish(), times })
}

/// Where shots begin, and their alpha.
struct Finder {
    cutter: Cutter,
    /// Alpha of frames whose shot is not known yet.
    waiting: VecDeque<Option<Frame>>,
    shots: Vec<(usize, Option<AlphaKind>)>,
    alpha: Option<AlphaCount>,
}

impl Finder {
    fn push(&mut self, frame: &Frame) {
        self.waiting.push_back(plane(frame));
        for starts in self.cutter.push(frame) {
            self.decide(starts);
        }
    }

    /// The oldest frame that waits starts a shot, or goes on with it.
    fn decide(&mut self, starts: bool) {
        let Some(alpha) = self.waiting.pop_front() else { return };
        if starts || self.shots.is_empty() {
            self.end();
            self.shots.push((0, None));
        }
        if let Some((frames, _)) = self.shots.last_mut() {
            *frames += 1;
        }
        if let Some(plane) = alpha {
            self.alpha.get_or_insert_default().add(&plane);
        }
    }

    /// The shot at hand is over.
    fn end(&mut self) {
        let kind = self.alpha.take().map(AlphaCount::kind);
        if let Some((_, alpha)) = self.shots.last_mut() {
            *alpha = kind;
        }
    }

    fn finish(mut self) -> Vec<(usize, Option<AlphaKind>)> {
        for starts in self.cutter.finish() {
            self.decide(starts);
        }
        self.end();
        self.shots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_given_back(steps in proptest::collection::vec(1i64..1 << 40, 0..200), first in 0i64..1 << 40) {
            let mut times = Times::default();
            let mut pts = first;
            let mut all = vec![pts];
            times.push(pts);
            for step in steps {
                pts += step;
                times.push(pts);
                all.push(pts);
            }
            prop_assert_eq!(times.iter().collect::<Vec<_>>(), all.clone());
            let n = all.len();
            let wanted = [[0, n / 2, n - 1], [n / 3, 0, n / 2]];
            let found = times.at(&wanted);
            for (wanted, found) in wanted.iter().zip(found) {
                prop_assert_eq!(wanted.map(|i| all[i]), found);
            }
        }
    }
}
