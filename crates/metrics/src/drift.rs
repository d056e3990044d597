//! Where colour drifts: the mean signed difference of blocks, over the whole clip.
//!
//! Noise and lost detail go up as often as down and vanish in the mean of a block over many frames. What stays
//! is what a tile, a patch or a wrong conversion adds: a shift of colour of a large area.

use serde::Serialize;

use crate::picture::{LEVELS, Picture};

/// The drift map of a clip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Pixels of a side of a block. Blocks at the right and lower border can be smaller.
    pub block: usize,
    /// Blocks across.
    pub columns: usize,
    /// Blocks down.
    pub rows: usize,
    /// Mean of B - A in 8-bit levels, `[red, green, blue]` per block, row by row.
    pub map: Vec<[f32; 3]>,
    /// The mean of the whole clip: a shift of everything.
    pub mean: [f32; 3],
    /// The block that is off most in any channel. `None` without frames.
    pub largest: Option<Largest>,
    /// How far the blocks are from `mean`: root of the mean square over blocks and channels. Patches that
    /// differ from their neighbours show here, a shift of everything does not.
    pub spread: f32,
}

/// A block of the drift map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Largest {
    /// Left pixel of the block.
    pub x: usize,
    /// Top pixel of the block.
    pub y: usize,
    /// 0, 1, 2 for red, green, blue.
    pub channel: usize,
    /// B - A in 8-bit levels.
    pub levels: f32,
}

/// Sums of differences per block.
pub(crate) struct DriftSums {
    block: usize,
    size: (usize, usize),
    columns: usize,
    sums: Vec<[f64; 3]>,
    frame: Vec<[f64; 3]>,
    frames: usize,
}

impl DriftSums {
    pub(crate) fn new(width: usize, height: usize, block: usize) -> Self {
        let (columns, rows) = (width.div_ceil(block), height.div_ceil(block));
        let zeros = vec![[0.0; 3]; columns * rows];
        DriftSums { block, size: (width, height), columns, sums: zeros.clone(), frame: zeros, frames: 0 }
    }

    /// Pixels of a block.
    fn pixels(&self, index: usize) -> f64 {
        let part = |at: usize, size: usize| self.block.min(size - at * self.block);
        (part(index % self.columns, self.size.0) * part(index / self.columns, self.size.1)) as f64
    }

    /// Adds a frame, and says how far its worst block is off, in levels.
    pub(crate) fn push(&mut self, a: Picture<'_>, b: Picture<'_>) -> f64 {
        self.frame.fill([0.0; 3]);
        for y in 0..self.size.1 {
            let blocks = &mut self.frame[y / self.block * self.columns..][..self.columns];
            let rows = a.row(y).chunks(self.block * 3).zip(b.row(y).chunks(self.block * 3));
            for (sum, (a, b)) in blocks.iter_mut().zip(rows) {
                for (a, b) in a.chunks_exact(3).zip(b.chunks_exact(3)) {
                    for c in 0..3 {
                        sum[c] += f64::from(b[c] - a[c]);
                    }
                }
            }
        }
        let mut worst = 0.0f64;
        for i in 0..self.frame.len() {
            let pixels = self.pixels(i);
            for c in 0..3 {
                worst = worst.max(self.frame[i][c].abs() / pixels * LEVELS);
                self.sums[i][c] += self.frame[i][c];
            }
        }
        self.frames += 1;
        worst
    }

    pub(crate) fn finish(&self) -> Drift {
        let frames = self.frames.max(1) as f64;
        let mut map = Vec::with_capacity(self.sums.len());
        let (mut mean, mut largest) = ([0.0; 3], None::<Largest>);
        for (i, sum) in self.sums.iter().enumerate() {
            let block = sum.map(|s| (s * LEVELS / (self.pixels(i) * frames)) as f32);
            for (channel, levels) in block.into_iter().enumerate() {
                if self.frames > 0 && largest.is_none_or(|l| levels.abs() > l.levels.abs()) {
                    let (x, y) = (i % self.columns * self.block, i / self.columns * self.block);
                    largest = Some(Largest { x, y, channel, levels });
                }
                mean[channel] += sum[channel];
            }
            map.push(block);
        }
        let pixels = (self.size.0 * self.size.1) as f64 * frames;
        let mean = mean.map(|m| (m * LEVELS / pixels) as f32);
        let squares = map.iter().flat_map(|b| (0..3).map(|c| f64::from(b[c] - mean[c]).powi(2)));
        let spread = (squares.sum::<f64>() / (map.len() * 3).max(1) as f64).sqrt() as f32;
        let rows = self.sums.len() / self.columns;
        Drift { block: self.block, columns: self.columns, rows, map, mean, largest, spread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_at_the_border_have_the_mean_of_the_pixels_they_have() {
        // 7 x 5 pixels in blocks of 3: the last column is one pixel wide, the last row two high.
        let a = vec![0.25f32; 7 * 5 * 3];
        let b: Vec<f32> = (0..7 * 5)
            .flat_map(|p| {
                let (x, y) = (p % 7, p / 7);
                let on = f32::from(u8::from(x == 6 && y >= 3));
                [0.25 + on * 4.0 / 255.0, 0.25 - 1.0 / 255.0, 0.25]
            })
            .collect();
        let mut sums = DriftSums::new(7, 5, 3);
        let (a, b) = (Picture::new(7, 5, &a).unwrap(), Picture::new(7, 5, &b).unwrap());
        for _ in 0..3 {
            assert!((sums.push(a, b) - 4.0).abs() < 1e-4);
        }
        let drift = sums.finish();
        assert_eq!((drift.columns, drift.rows, drift.map.len()), (3, 2, 6));
        for (i, block) in drift.map.iter().enumerate() {
            let red = if i == 5 { 4.0 } else { 0.0 };
            assert!((block[0] - red).abs() < 1e-4 && (block[1] + 1.0).abs() < 1e-4, "{i} {block:?}");
        }
        let largest = drift.largest.unwrap();
        assert_eq!((largest.x, largest.y, largest.channel), (6, 3, 0));
        assert!((drift.mean[0] - 4.0 * 2.0 / 35.0).abs() < 1e-4 && (drift.mean[1] + 1.0).abs() < 1e-4);
    }
}
