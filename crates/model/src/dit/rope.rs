//! Rotary position embedding: where a token is in its window, as angles.

use std::collections::BTreeMap;
use std::f32::consts::PI;

use remaster_compute::Window;

use super::{DitConfig, Family};

/// Rows of cosines and sines, one per position on an axis, and which rows turn a token. Angles are products in f32, as
/// the original computes them: in f64 they would move queries by 7e-5 in the 7B network, whose angles reach 402.
pub struct Turns {
    frequencies: Vec<f32>,
    /// Row of the first position of an axis of some length; one for all in the 3B network.
    starts: BTreeMap<usize, usize>,
    angles: Vec<f32>,
    family: Family,
    /// Tokens of the text, which stand before the first frame.
    text: usize,
}

/// Frequencies of one axis.
pub fn frequencies(config: &DitConfig) -> Vec<f32> {
    let count = config.frequencies();
    let width = 2 * count;
    match config.family {
        Family::Shared => {
            let power = |k: usize| libm::pow(10_000.0, f64::from((2 * k) as f32 / width as f32)) as f32;
            (0..count).map(|k| 1.0 / power(k)).collect()
        }
        Family::Separate => spread(1.0, 128.0, count).map(|f| f * PI).collect(),
    }
}

/// `count` numbers from `first` to `last`, rounded as the original does: from both ends.
fn spread(first: f32, last: f32, count: usize) -> impl Iterator<Item = f32> {
    let step = if count > 1 { (last - first) / (count - 1) as f32 } else { 0.0 };
    (0..count).map(move |i| match i < count.div_ceil(2) {
        true => step.mul_add(i as f32, first),
        false => (-step).mul_add((count - 1 - i) as f32, last),
    })
}

impl Turns {
    /// For these windows and a text of so many tokens.
    pub fn new<'a>(config: &DitConfig, text: usize, windows: impl Iterator<Item = &'a Window>) -> Self {
        let mut turns = Turns {
            frequencies: frequencies(config),
            starts: BTreeMap::new(),
            angles: Vec::new(),
            family: config.family,
            text,
        };
        let sizes: Vec<[usize; 3]> = windows.map(sizes).collect();
        let mut positions = Vec::new();
        match config.family {
            Family::Shared => {
                let far = sizes.iter().map(|[t, h, w]| (text + t).max(*h).max(*w)).max().unwrap_or(0);
                positions.extend((0..far.max(text)).map(|p| p as f32));
            }
            // Each axis of each window from -1 to 1, whatever its length.
            Family::Separate => {
                for n in sizes.into_iter().flatten() {
                    turns.starts.entry(n).or_insert_with(|| {
                        positions.extend(spread(-1.0, 1.0, n));
                        positions.len() - n
                    });
                }
            }
        }
        for position in positions {
            turns.angles.extend(turns.frequencies.iter().map(|f| position * f));
        }
        turns
    }

    /// Rows of the table.
    pub fn positions(&self) -> usize {
        self.angles.len() / self.frequencies.len().max(1)
    }

    /// `[positions, 2 * frequencies]`: cosines, then sines. An angle in f32 is exact in f64.
    pub fn table(&self) -> Vec<f32> {
        let row = |angles: &[f32]| {
            let cosines = angles.iter().map(|a| libm::cos(f64::from(*a)) as f32);
            cosines.chain(angles.iter().map(|a| libm::sin(f64::from(*a)) as f32)).collect::<Vec<_>>()
        };
        self.angles.chunks_exact(self.frequencies.len().max(1)).flat_map(row).collect()
    }

    /// `[tokens, 3]`: rows of the table for the tokens of a window, in its order.
    pub fn places(&self, window: &Window) -> Vec<f32> {
        let [t, h, w] = sizes(window);
        let start = |n: usize| self.starts.get(&n).copied().unwrap_or(0);
        let first = match self.family {
            Family::Shared => [self.text, 0, 0],
            Family::Separate => [start(t), start(h), start(w)],
        };
        let tokens = (0..t).flat_map(|a| (0..h).flat_map(move |b| (0..w).map(move |c| [a, b, c])));
        tokens.flat_map(|at| [0, 1, 2].map(|axis| (first[axis] + at[axis]) as f32)).collect()
    }

    /// `[tokens, 3]` for the text; the 7B network does not turn it.
    pub fn text_places(&self) -> Option<Vec<f32>> {
        let places = || (0..self.text).flat_map(|j| [j as f32; 3]).collect();
        (self.family == Family::Shared).then(places)
    }
}

fn sizes(window: &Window) -> [usize; 3] {
    [window.frames.len(), window.rows.len(), window.columns.len()]
}
