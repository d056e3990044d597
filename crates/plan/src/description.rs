//! What a plan knows of a network: its geometry in time and space, and how it can be cut.

use serde::{Deserialize, Serialize};

use crate::geometry::PlanError;
use crate::slices::Lengths;

/// A network as plan and engine know it. Everything else about it is its own business.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Description {
    /// For people, files and progress: `encode`, `decode`.
    pub name: String,
    /// What decides its bits beside precision and kernels, for example `folded`.
    pub variant: String,
    /// Channels in and out.
    pub channels: [usize; 2],
    /// Pixels of a cell, each way, in and out. Cells are what a frame can be cut into.
    pub scale: [usize; 2],
    /// Frames in and out of one step of time; a clip's first step takes one frame and makes one. `None` if
    /// the network sees all frames at once: such a clip is one slice.
    pub step: Option<[usize; 2]>,
    /// Levels of one size each that can run in bands with shared statistics; 0 if the network has none.
    pub levels: usize,
    /// Cells to each side that can reach a cell, if frames can be cut into bands; see `Network::reach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<usize>,
    /// Whether the network goes through its tokens in groups, whose size the plan chooses.
    #[serde(default)]
    pub groups: bool,
}

/// The size of a clip in a network's own units: latents for a VAE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "[usize; 3]", into = "[usize; 3]")]
pub struct Cells {
    /// Steps of time.
    pub steps: usize,
    /// Rows of cells.
    pub rows: usize,
    /// Columns of cells.
    pub columns: usize,
}

impl From<[usize; 3]> for Cells {
    fn from([steps, rows, columns]: [usize; 3]) -> Self {
        Cells { steps, rows, columns }
    }
}

impl From<Cells> for [usize; 3] {
    fn from(cells: Cells) -> Self {
        [cells.steps, cells.rows, cells.columns]
    }
}

/// What goes in, for the pairs of a `Description`.
pub const INPUT: usize = 0;
/// What comes out.
pub const OUTPUT: usize = 1;

impl Description {
    /// Frames of `steps` steps of a clip, from its start, in or out.
    pub fn frames(&self, side: usize, steps: usize) -> usize {
        match (self.step, steps) {
            (_, 0) => 0,
            (None, n) => n,
            (Some(step), n) => (n - 1).saturating_mul(step[side]).saturating_add(1),
        }
    }

    /// Steps that `frames` frames from a clip's start are enough for.
    fn steps(&self, side: usize, frames: usize) -> usize {
        match (self.step, frames) {
            (_, 0) => 0,
            (None, n) => n,
            (Some(step), n) => (n - 1) / step[side] + 1,
        }
    }

    /// Output frames made of input frames `seen..seen + frames`.
    pub fn made(&self, seen: usize, frames: usize) -> usize {
        let made = |n: usize| self.frames(OUTPUT, self.steps(INPUT, n));
        made(seen.saturating_add(frames)) - made(seen)
    }

    /// Whether a clip may end behind this many input frames.
    pub fn may_end(&self, frames: usize) -> bool {
        frames > 0 && self.frames(INPUT, self.steps(INPUT, frames)) == frames
    }

    /// Frames, rows, columns and channels of a clip, in or out.
    pub fn shape(&self, side: usize, cells: Cells) -> [usize; 4] {
        let pixels = |n: usize| n.saturating_mul(self.scale[side]);
        [self.frames(side, cells.steps), pixels(cells.rows), pixels(cells.columns), self.channels[side]]
    }

    /// Frames, rows and columns of the larger of what goes in and what comes out: the picture people know.
    pub fn picture(&self, cells: Cells) -> [usize; 3] {
        let side = if self.scale[OUTPUT] > self.scale[INPUT] { OUTPUT } else { INPUT };
        let [t, h, w, _] = self.shape(side, cells);
        [t, h, w]
    }

    /// Frames of the picture in one step.
    pub fn unit(&self) -> usize {
        self.step.map_or(1, |[input, output]| input.max(output)).max(1)
    }

    /// Pixels of the picture in a cell, each way.
    pub fn cell(&self) -> usize {
        self.scale[INPUT].max(self.scale[OUTPUT]).max(1)
    }

    /// Which frame of the picture output frame `frame` is the first to show.
    pub fn shown(&self, frame: usize) -> usize {
        match self.step {
            Some(step) if step[OUTPUT] < self.unit() => (frame * self.unit()).saturating_sub(self.unit() - 1),
            _ => frame,
        }
    }

    /// Input frames of a slice of `slice` frames of the picture, behind the first; 0 for one piece.
    fn stride(&self, slice: usize) -> usize {
        self.step.map_or(0, |step| slice / self.unit() * step[INPUT])
    }

    /// Input frames of each slice of what is left of a clip behind `seen` frames.
    pub fn lengths(&self, cells: Cells, slice: usize, seen: usize) -> Result<Lengths, PlanError> {
        let (total, unit) = (self.frames(INPUT, cells.steps), self.unit());
        if !slice.is_multiple_of(unit) {
            let nearest = slice.checked_next_multiple_of(unit).unwrap_or(slice / unit * unit);
            return Err(PlanError::Slice { frames: slice, unit, nearest });
        }
        match seen {
            0 if unit > 1 => Ok(Lengths::new(total, self.stride(slice))),
            seen => Ok(Lengths::continued(total.saturating_sub(seen), self.stride(slice))),
        }
    }

    /// Input frames of the next slice of a clip of `total`, and about how many slices are left with it; `None` at
    /// the end. Nobody knows the end of an open-ended clip.
    pub fn next(&self, total: usize, slice: usize, seen: usize, open_ended: bool) -> Option<(usize, usize)> {
        let (left, step) = (total.saturating_sub(seen), self.stride(slice));
        let length = match (step, seen) {
            (0, _) => left,
            (step, 0) if self.unit() > 1 => 1 + step,
            (step, _) => step,
        };
        let length = if open_ended { length } else { length.min(left) };
        let after = left.saturating_sub(length);
        (length > 0).then(|| (length, 1 + if step == 0 { 0 } else { after.div_ceil(step) }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn vae(encodes: bool) -> Description {
        let of = |pair: [usize; 2]| if encodes { pair } else { [pair[1], pair[0]] };
        Description {
            name: if encodes { "encode" } else { "decode" }.into(),
            variant: "folded".into(),
            channels: if encodes { [3, 32] } else { [16, 3] },
            scale: of([8, 1]),
            step: Some(of([4, 1])),
            levels: 4,
            reach: None,
            groups: false,
        }
    }

    #[test]
    fn a_vae_has_a_first_frame_of_its_own() {
        let (encoder, decoder) = (vae(true), vae(false));
        let cells = Cells { steps: 5, rows: 60, columns: 108 };
        assert_eq!(encoder.shape(INPUT, cells), [17, 480, 864, 3]);
        assert_eq!(encoder.shape(OUTPUT, cells), [5, 60, 108, 32]);
        assert_eq!(decoder.picture(cells), [17, 480, 864]);
        assert_eq!(
            [encoder.made(0, 5), encoder.made(5, 4), decoder.made(0, 2), decoder.made(2, 1)],
            [2, 1, 5, 4]
        );
        assert!(encoder.may_end(5) && !encoder.may_end(6) && decoder.may_end(6) && !decoder.may_end(0));
        let list = |network: &Description, slice| {
            network.lengths(cells, slice, 0).unwrap().iter().collect::<Vec<_>>()
        };
        assert_eq!(list(&encoder, 4), [5, 4, 4, 4]);
        assert_eq!(list(&decoder, 4), [2, 1, 1, 1]);
        assert_eq!(list(&encoder, 0), [17]);
        assert_eq!(list(&encoder, 12), [13, 4]);
        let error = encoder.lengths(cells, 6, 0).unwrap_err();
        assert_eq!(error, PlanError::Slice { frames: 6, unit: 4, nearest: 8 });
        assert_eq!([encoder.shown(0), encoder.shown(1), encoder.shown(2), decoder.shown(7)], [0, 1, 5, 7]);
    }

    #[test]
    fn a_network_without_time_takes_its_clip_at_once() {
        let tokens = Description { channels: [8, 8], scale: [1, 1], step: None, levels: 0, ..vae(true) };
        let cells = Cells { steps: 3, rows: 7, columns: 1 };
        assert_eq!(tokens.picture(cells), [3, 7, 1]);
        assert_eq!(tokens.lengths(cells, 16, 0).unwrap().iter().collect::<Vec<_>>(), [3]);
        assert_eq!(tokens.next(3, 16, 0, false), Some((3, 1)));
        assert_eq!(tokens.next(3, 16, 3, false), None);
        assert_eq!(tokens.made(0, 3), 3);
    }

    proptest! {
        #[test]
        fn every_frame_is_in_one_slice_and_results_follow(n in 0usize..200, k in 0usize..20, seen in 0usize..50) {
            let cells = Cells { steps: n + 1, rows: 1, columns: 1 };
            let [encoder, decoder] = [vae(true), vae(false)];
            let slices: Vec<usize> = encoder.lengths(cells, 4 * k, 0).unwrap().iter().collect();
            prop_assert_eq!(slices.iter().sum::<usize>(), 4 * n + 1);
            prop_assert_eq!(slices[0] % 4, 1);
            prop_assert!(slices[1..].iter().all(|s| s % 4 == 0 && *s > 0));
            let latents: Vec<usize> = decoder.lengths(cells, 4 * k, 0).unwrap().iter().collect();
            let mut at = 0;
            let made: Vec<usize> = slices.iter().map(|s| { at += s; encoder.made(at - s, *s) }).collect();
            prop_assert_eq!(latents, made);
            // One by one is as all at once.
            for network in [&encoder, &decoder] {
                let total = network.frames(INPUT, cells.steps);
                let seen = if seen == 0 { 0 } else { network.frames(INPUT, seen.min(n + 1)) };
                let mut left: Vec<usize> = Vec::new();
                let mut at = seen;
                while let Some((length, of)) = network.next(total, 4 * k, at, false) {
                    prop_assert!(of >= 1);
                    left.push(length);
                    at += length;
                }
                prop_assert_eq!(left, network.lengths(cells, 4 * k, seen).unwrap().iter().collect::<Vec<_>>());
            }
        }
    }
}
