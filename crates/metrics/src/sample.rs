//! Small pictures of a pair of frames, so that a sheet can be drawn after the frames are gone.

use crate::picture::{LEVELS, Picture};

/// Two frames at most as wide as a cell of the sheet, and how they differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// The first clip's frame, RGB8.
    pub a: Vec<u8>,
    /// The second clip's frame, RGB8.
    pub b: Vec<u8>,
    /// Per pixel, the difference of the channel that differs most, in 8-bit levels; the mean of the pixels
    /// that it stands for.
    pub difference: Vec<f32>,
    /// For a part of a frame: its left and top pixel.
    pub corner: Option<(usize, usize)>,
}

impl Sample {
    /// The whole frame, shrunk to at most `cell` pixels either way. The caller has checked the pictures.
    pub(crate) fn whole(a: Picture<'_>, b: Picture<'_>, cell: usize) -> Sample {
        let long = a.width.max(a.height);
        let shrink = |side: usize| if long <= cell { side } else { (side * cell / long).max(1) };
        let (width, height) = (shrink(a.width), shrink(a.height));
        let mut sample = Sample { width, height, ..Sample::default() };
        for y in 0..height {
            let rows = y * a.height / height..((y + 1) * a.height).div_ceil(height);
            for x in 0..width {
                let columns = x * a.width / width..((x + 1) * a.width).div_ceil(width);
                let (mut sums, mut difference) = ([[0.0f32; 3]; 2], 0.0);
                for row in rows.clone() {
                    let part = columns.start * 3..columns.end * 3;
                    let (a, b) = (&a.row(row)[part.clone()], &b.row(row)[part]);
                    for (a, b) in a.chunks_exact(3).zip(b.chunks_exact(3)) {
                        for c in 0..3 {
                            sums[0][c] += a[c];
                            sums[1][c] += b[c];
                        }
                        difference += most(a, b);
                    }
                }
                let count = (rows.len() * columns.len()) as f32;
                sample.push(sums[0].map(|s| s / count), sums[1].map(|s| s / count), difference / count);
            }
        }
        sample
    }

    /// The part of a frame that differs most, at full size; `None` if the whole frame is not larger.
    pub(crate) fn detail(a: Picture<'_>, b: Picture<'_>, cell: usize) -> Option<Sample> {
        if a.width.max(a.height) <= cell {
            return None;
        }
        // As large as the shrunk frame, so that the cells of a sheet are alike.
        let long = a.width.max(a.height);
        let (width, height) = ((a.width * cell / long).max(1), (a.height * cell / long).max(1));
        let (mut best, mut corner) = (-1.0, (0, 0));
        let places = |size: usize, part: usize| {
            let last = size - part;
            (0..last).step_by((part / 4).max(1)).chain([last]).collect::<Vec<_>>()
        };
        // A coarse look on every fourth pixel each way is enough to find the worst part.
        let mut sums = vec![0.0f32; a.width.div_ceil(4) * a.height.div_ceil(4)];
        let across = a.width.div_ceil(4);
        for (i, sum) in sums.iter_mut().enumerate() {
            let (x, y) = (i % across * 4, i / across * 4);
            *sum = most(&a.row(y)[x * 3..x * 3 + 3], &b.row(y)[x * 3..x * 3 + 3]);
        }
        for y in places(a.height, height) {
            for x in places(a.width, width) {
                let rows = y / 4..((y + height) / 4).max(y / 4 + 1).min(a.height.div_ceil(4));
                let columns = x / 4..((x + width) / 4).max(x / 4 + 1).min(across);
                let total: f32 = rows.map(|r| sums[r * across..][columns.clone()].iter().sum::<f32>()).sum();
                if total > best {
                    (best, corner) = (total, (x, y));
                }
            }
        }
        let mut sample = Sample { width, height, corner: Some(corner), ..Sample::default() };
        for y in corner.1..corner.1 + height {
            for x in corner.0..corner.0 + width {
                let (a, b) = (&a.row(y)[x * 3..x * 3 + 3], &b.row(y)[x * 3..x * 3 + 3]);
                sample.push([a[0], a[1], a[2]], [b[0], b[1], b[2]], most(a, b));
            }
        }
        Some(sample)
    }

    fn push(&mut self, a: [f32; 3], b: [f32; 3], difference: f32) {
        let byte = |v: f32| (v.clamp(0.0, 1.0) * LEVELS as f32).round() as u8;
        self.a.extend(a.map(byte));
        self.b.extend(b.map(byte));
        self.difference.push(difference);
    }
}

/// The difference of the channel that differs most, in 8-bit levels.
fn most(a: &[f32], b: &[f32]) -> f32 {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max) * LEVELS as f32
}

/// Keeps what a sheet may need while the frames go by: the first, the worst so far, and frames at even
/// distances to choose the median from. Never more than `SPREAD` of the latter: when there are, every other
/// one is dropped and the distance doubles.
pub(crate) struct Keeper {
    cell: usize,
    worst: Option<(f64, usize, Sample, Option<Sample>)>,
    spread: Vec<(f64, usize, Sample)>,
    step: usize,
}

const SPREAD: usize = 16;

impl Keeper {
    pub(crate) fn new(cell: usize) -> Self {
        Keeper { cell, worst: None, spread: Vec::new(), step: 1 }
    }

    /// `badness` orders frames: more is worse.
    pub(crate) fn push(&mut self, a: Picture<'_>, b: Picture<'_>, frame: usize, badness: f64) {
        let worse = self.worst.as_ref().is_none_or(|w| badness > w.0);
        let spread = frame.is_multiple_of(self.step);
        if !worse && !spread {
            return;
        }
        let sample = Sample::whole(a, b, self.cell);
        if spread {
            if self.spread.len() == SPREAD {
                self.step *= 2;
                let step = self.step;
                self.spread.retain(|s| s.1.is_multiple_of(step));
            }
            if frame.is_multiple_of(self.step) {
                self.spread.push((badness, frame, sample.clone()));
            }
        }
        if worse {
            self.worst = Some((badness, frame, sample, Sample::detail(a, b, self.cell)));
        }
    }

    /// The chosen frames with their labels. `median` is the middle badness of all frames.
    pub(crate) fn finish(self, median: f64) -> Vec<(&'static str, usize, Sample)> {
        let mut picks = Vec::new();
        let Some((_, worst, sample, detail)) = self.worst else { return picks };
        picks.push(("worst", worst, sample));
        picks.extend(detail.map(|d| ("detail", worst, d)));
        let distance = |s: &&(f64, usize, Sample)| (s.0 - median).abs();
        let others = || self.spread.iter().filter(|s| s.1 != worst);
        // The first frame has a place of its own, so that another one shows what is usual.
        let middle = others().filter(|s| s.1 != 0).min_by(|x, y| distance(x).total_cmp(&distance(y)));
        picks.extend(middle.map(|(_, frame, sample)| ("median", *frame, sample.clone())));
        picks.extend(others().find(|s| s.1 == 0).map(|(_, _, sample)| ("first", 0, sample.clone())));
        picks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_frames_are_kept_of_many() {
        let data = vec![0.5f32; 4 * 3 * 3];
        let picture = Picture::new(4, 3, &data).unwrap();
        let mut keeper = Keeper::new(2);
        for frame in 0..1000 {
            // Badness goes up to frame 600 and then down: the median is 450 or so away from the peak.
            keeper.push(picture, picture, frame, 600.0 - (frame as f64 - 600.0).abs());
            assert!(keeper.spread.len() <= SPREAD);
        }
        let picks: Vec<_> =
            keeper.finish(300.0).into_iter().map(|(label, frame, _)| (label, frame)).collect();
        assert_eq!(picks[0], ("worst", 600));
        assert_eq!(picks[1].0, "detail");
        assert!(picks[2].0 == "median" && (picks[2].1.abs_diff(300) <= 64 || picks[2].1.abs_diff(900) <= 64));
        assert_eq!(picks[3], ("first", 0));
    }

    #[test]
    fn a_shrunk_frame_has_the_mean_of_its_pixels() {
        let a: Vec<f32> = (0..8 * 4).flat_map(|p| [(p % 2) as f32; 3]).collect();
        let b = vec![0.0f32; 8 * 4 * 3];
        let (a, b) = (Picture::new(8, 4, &a).unwrap(), Picture::new(8, 4, &b).unwrap());
        let sample = Sample::whole(a, b, 4);
        assert_eq!((sample.width, sample.height), (4, 2));
        assert!(sample.a.iter().all(|v| *v == 128) && sample.b.iter().all(|v| *v == 0));
        assert!(sample.difference.iter().all(|d| (*d - 127.5).abs() < 1e-3));
    }
}
