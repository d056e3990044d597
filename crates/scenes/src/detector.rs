//! Which frames start a shot.

use std::collections::VecDeque;

use remaster_picture::Frame;

use crate::distance::distance;
use crate::thumb::Thumb;

/// A frame is decided when so many more frames are known, or the clip is over.
pub const LOOKAHEAD: usize = 5;

/// Cuts are at least so many frames apart; of two that are closer the first counts. The first and the last shot of a clip
/// may be shorter: a clip may be cut out of a longer one.
pub const MIN_SHOT: u64 = 5;

/// Frames before the one that is decided: what a flash is compared with lies at most so far back.
const BEHIND: usize = LOOKAHEAD + 1;

/// A jump smaller than this is noise: twice the rounding of 8 bits.
const LEAST_JUMP: f64 = 0.008;
/// A cut's jump has at least this share of the contrast of its frames: 0.27 is the least of the labelled cuts, and 0.16
/// the jump of a phone clip that stood still for a while.
const LEAST_SHARE: f64 = 0.2;
/// A cut's jump is at least so many times what happens around it: 2.6 is the least of the labelled cuts.
const LEAST_RATIO: f64 = 2.0;
/// The two multiplied: the least of the labelled cuts is 0.98, the most of all other frames 0.77 (film of 1906 that
/// flickers).
const LEAST_STRENGTH: f64 = 0.87;
/// A picture that comes back to less than this share of the jump was a flash. The labelled cuts have 0.47 and more.
const FLASH: f64 = 0.35;
/// Keeps quotients of jumps finite and calm in still pictures: half of [`LEAST_JUMP`].
const CALM: f64 = 0.004;
/// The same for shares of the contrast of black frames.
const GREY: f64 = 0.01;
/// Jumps around a cut that it must stand out of, on each side.
const AROUND: usize = 2;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Number of the frame in the clip, from 0.
    pub frame: u64,
    /// Whether a shot starts with it. The first frame of a clip always starts one.
    pub cut: bool,
}

/// A frame that is held.
#[derive(Debug)]
struct Held {
    thumb: Thumb,
    contrast: f64,
    /// How unlike the frame before it is.
    jump: f64,
}

/// Finds the hard cuts of a clip, frame by frame. It holds a dozen thumbnails of 7 kB, whatever the clip.
#[derive(Debug, Default)]
pub struct Detector {
    /// Up to [`BEHIND`] frames that are decided, then those that are not.
    held: VecDeque<Held>,
    /// Number of the first held frame.
    first: u64,
    /// The next frame to decide.
    next: u64,
    last_cut: u64,
}

impl Detector {
    /// For a new clip.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next frame. Says of the frame [`LOOKAHEAD`] before it whether it starts a shot, if there is one.
    pub fn push(&mut self, frame: &Frame) -> Option<Verdict> {
        self.push_thumb(Thumb::of(frame))
    }

    /// The same for a frame whose thumbnail was made elsewhere, in another thread for instance.
    pub fn push_thumb(&mut self, thumb: Thumb) -> Option<Verdict> {
        let jump = self.held.back().map_or(0.0, |before| distance(&before.thumb, &thumb));
        self.held.push_back(Held { contrast: thumb.contrast(), thumb, jump });
        let pushed = self.first + self.held.len() as u64;
        (pushed > self.next + LOOKAHEAD as u64).then(|| self.decide())
    }

    /// The rest of the frames in order; the clip is over.
    pub fn finish(mut self) -> Vec<Verdict> {
        let mut rest = Vec::new();
        while self.next < self.first + self.held.len() as u64 {
            rest.push(self.decide());
        }
        rest
    }

    fn decide(&mut self) -> Verdict {
        let frame = self.next;
        let at = (frame - self.first) as usize;
        let close = self.last_cut > 0 && frame - self.last_cut < MIN_SHOT;
        let cut = frame == 0 || (!close && self.stands_out(at) && !self.comes_back(at));
        if cut {
            self.last_cut = frame;
        }
        self.next += 1;
        while self.next > self.first + BEHIND as u64 {
            self.held.pop_front();
            self.first += 1;
        }
        Verdict { frame, cut }
    }

    /// A frame and the one before it.
    fn pair(&self, at: usize) -> Option<(&Held, &Held)> {
        Some((self.held.get(at.checked_sub(1)?)?, self.held.get(at)?))
    }

    /// Whether the jump to frame `at` is one that neither noise nor motion explains.
    fn stands_out(&self, at: usize) -> bool {
        let Some((before, here)) = self.pair(at) else { return false };
        let share = here.jump / (before.contrast.max(here.contrast) + GREY);
        let ratio = here.jump / (self.around(at) + CALM);
        here.jump >= LEAST_JUMP
            && share >= LEAST_SHARE
            && ratio >= LEAST_RATIO
            && share * ratio >= LEAST_STRENGTH
    }

    /// The second largest jump around frame `at`. The largest may be another cut: a white or black frame or two between shots
    /// are common in trailers.
    fn around(&self, at: usize) -> f64 {
        let (mut first, mut second) = (0.0f64, 0.0f64);
        // The first frame of a clip has no jump.
        let from = at.saturating_sub(AROUND).max(usize::from(self.first == 0));
        for held in (from..=at + AROUND).filter(|i| *i != at).filter_map(|i| self.held.get(i)) {
            (first, second) =
                if held.jump > first { (held.jump, first) } else { (first, second.max(held.jump)) };
        }
        second
    }

    /// Whether the picture before frame `at` is soon there again, or the one at it was there a moment ago: a flash.
    fn comes_back(&self, at: usize) -> bool {
        let Some((before, here)) = self.pair(at) else { return false };
        let near = |a: &Held, b: &Held| distance(&a.thumb, &b.thumb) < FLASH * here.jump;
        let later = self.held.iter().skip(at + 1).take(LOOKAHEAD);
        let earlier = self.held.iter().take(at - 1).rev().take(LOOKAHEAD);
        later.into_iter().any(|h| near(before, h)) || earlier.into_iter().any(|h| near(h, here))
    }
}
