//! Lines along which the difference between two clips jumps: the borders of tiles.
//!
//! For every line between two columns, and every band of 32 rows, the mean difference of the 4 columns to the
//! right less that of the 4 columns to the left, over all frames; the jump of the line is the mean of the
//! absolute values over bands and channels, in 8-bit levels. Lines between rows likewise. The signed mean comes
//! first, so noise and edges of the content average out and a step that stays in its place does not.
//!
//! A border that is blended over more than 8 pixels has no jump; the drift map shows those tiles.

use serde::Serialize;

use crate::picture::{LEVELS, Picture};

/// Rows or columns of a band.
const BAND: usize = 32;
/// Columns or rows taken together on either side of a line.
const REACH: usize = 4;
/// A ratio is taken to no less than this many levels: below, no line is visible, and a ratio says nothing.
const FLOOR: f64 = 0.05;
/// Lines that are reported.
const STRONGEST: usize = 8;

/// Where tiles meet: a line lies before the column or row of that number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Borders {
    /// Columns that begin a tile.
    pub columns: Vec<usize>,
    /// Rows that begin a tile.
    pub rows: Vec<usize>,
}

impl Borders {
    /// Borders of tiles of one size, without overlap.
    pub fn every(columns: usize, rows: usize, width: usize, height: usize) -> Self {
        let lines =
            |step: usize, size: usize| (1..).map(|i| i * step.max(1)).take_while(|at| *at < size).collect();
        Borders { columns: lines(columns, width), rows: lines(rows, height) }
    }
}

/// Jumps of the difference, of a clip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seams {
    /// Mean jump at the borders that were asked for by the median of all other lines: 1 is no seam at all, from
    /// about 3 on a grid is there. `None` if no borders were given, or none lies far enough inside.
    pub score: Option<f64>,
    /// The mean jump at those borders, in 8-bit levels.
    pub jump: Option<f64>,
    /// The median jump of all other lines, in 8-bit levels. `None` for a picture too small to have any.
    pub elsewhere: Option<f64>,
    /// The strongest lines, wherever they are, strongest first: an unknown grid shows here.
    pub strongest: Vec<Line>,
}

/// A line between two columns or rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Which way it runs.
    pub axis: Axis,
    /// The column or row that it lies before.
    pub at: usize,
    /// In 8-bit levels.
    pub jump: f64,
    /// The jump by the median of all lines of this axis.
    pub ratio: f64,
}

/// Which way a line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Between two columns: vertical.
    Column,
    /// Between two rows: horizontal.
    Row,
}

/// Sums of differences of thin strips: columns within bands of rows, and rows within bands of columns.
pub(crate) struct SeamSums {
    size: (usize, usize),
    /// `[band][column]`.
    columns: Vec<[f64; 3]>,
    /// `[band][row]`.
    rows: Vec<[f64; 3]>,
    frames: usize,
}

impl SeamSums {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let columns = vec![[0.0; 3]; height.div_ceil(BAND) * width];
        let rows = vec![[0.0; 3]; width.div_ceil(BAND) * height];
        SeamSums { size: (width, height), columns, rows, frames: 0 }
    }

    pub(crate) fn push(&mut self, a: Picture<'_>, b: Picture<'_>) {
        let (width, height) = self.size;
        for y in 0..height {
            let columns = &mut self.columns[y / BAND * width..][..width];
            let pixels = a.row(y).chunks_exact(3).zip(b.row(y).chunks_exact(3));
            for ((x, (a, b)), column) in pixels.enumerate().zip(columns) {
                let row = &mut self.rows[x / BAND * height + y];
                for c in 0..3 {
                    let difference = f64::from(b[c] - a[c]);
                    column[c] += difference;
                    row[c] += difference;
                }
            }
        }
        self.frames += 1;
    }

    /// The jump of every line from `REACH` on, in levels. A band has `length` strips in `sums`, all bands together are
    /// `thick` pixels.
    fn jumps(&self, sums: &[[f64; 3]], length: usize, thick: usize) -> Vec<f64> {
        let mut jumps = vec![0.0; (length + 1).saturating_sub(2 * REACH)];
        let bands = thick.div_ceil(BAND);
        for (band, strips) in sums.chunks_exact(length).enumerate() {
            let scale = LEVELS / (BAND.min(thick - band * BAND) * REACH * self.frames.max(1)) as f64;
            for (i, jump) in jumps.iter_mut().enumerate() {
                for c in 0..3 {
                    let side = |from: usize| strips[from..from + REACH].iter().map(|s| s[c]).sum::<f64>();
                    *jump += (side(i + REACH) - side(i)).abs() * scale;
                }
            }
        }
        jumps.iter().map(|j| j / (bands.max(1) * 3) as f64).collect()
    }

    pub(crate) fn finish(&self, borders: Option<&Borders>) -> Seams {
        let (width, height) = self.size;
        let columns = self.jumps(&self.columns, width, height);
        let rows = self.jumps(&self.rows, height, width);
        let (mut at, mut elsewhere) = (Vec::new(), Vec::new());
        let none = Borders::default();
        let asked = borders.unwrap_or(&none);
        for (jumps, lines) in [(&columns, &asked.columns), (&rows, &asked.rows)] {
            // The strips of a line next to a border lie across it: neither here nor there.
            let mut place = vec![Some(false); jumps.len()];
            let inside = |l: &&usize| (REACH..jumps.len() + REACH).contains(*l);
            for line in lines.iter().filter(inside) {
                let near = (line + 1).saturating_sub(3 * REACH)..(line + REACH).min(jumps.len());
                place[near].fill(None);
            }
            for line in lines.iter().filter(inside) {
                place[line - REACH] = Some(true);
            }
            for (jump, place) in jumps.iter().zip(place) {
                match place {
                    Some(true) => at.push(*jump),
                    Some(false) => elsewhere.push(*jump),
                    None => {}
                }
            }
        }
        let elsewhere = median(&mut elsewhere);
        let jump = (!at.is_empty()).then(|| at.iter().sum::<f64>() / at.len() as f64);
        let score = jump.map(|jump| jump.max(FLOOR) / elsewhere.unwrap_or(0.0).max(FLOOR));
        let mut strongest = peaks(&columns, Axis::Column);
        strongest.extend(peaks(&rows, Axis::Row));
        strongest.sort_by(|a, b| b.jump.total_cmp(&a.jump));
        strongest.truncate(STRONGEST);
        Seams { score, jump, elsewhere, strongest }
    }
}

/// Middle value; of an even number the upper one.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Lines that are seen and stronger than all within reach.
fn peaks(jumps: &[f64], axis: Axis) -> Vec<Line> {
    let Some(median) = median(&mut jumps.to_vec()) else { return Vec::new() };
    let near = |i: usize| &jumps[i.saturating_sub(2 * REACH)..(i + 2 * REACH + 1).min(jumps.len())];
    let strong = |i: &usize| jumps[*i] > FLOOR && near(*i).iter().all(|j| *j <= jumps[*i]);
    let line = |i: usize| {
        let jump = jumps[i];
        Line { axis, at: i + REACH, jump, ratio: jump / median.max(FLOOR) }
    };
    (0..jumps.len()).filter(strong).map(line).collect()
}
