//! Cutting a frame into overlapping tiles that are blended, as the popular tool does, or into bands of which only the rows
//! that are exact are kept.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::geometry::PlanError;

/// Sizes of tiles in pixels, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tiling {
    /// A tile.
    pub tile: [usize; 2],
    /// What neighbouring tiles share.
    pub overlap: [usize; 2],
}

/// One tile, in latent cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub rows: Range<usize>,
    /// Columns.
    pub columns: Range<usize>,
}

/// The tiles of a frame as numbers: a frame may have millions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: Axis,
    columns: Axis,
    /// Rows that bands compute beside their own; `None` for tiles that are blended.
    halo: Option<usize>,
}

/// Tiles of one axis, in cells. All have the same length; the last one may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    size: usize,
    tile: usize,
    step: usize,
    count: usize,
}

impl Axis {
    fn range(&self, i: usize) -> Range<usize> {
        let start = i * self.step;
        start..start.saturating_add(self.tile).min(self.size)
    }

    /// One tile of each length, and how many there are of it.
    fn kinds(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let last = self.count - 1;
        let differs = self.range(last).len() != self.range(0).len();
        let kinds = if differs { [(0, last), (last, 1)] } else { [(0, self.count), (last, 0)] };
        kinds.into_iter().filter(|(_, times)| *times > 0)
    }
}

impl Grid {
    /// One tile: a frame of this many rows and columns of cells.
    pub fn whole(rows: usize, columns: usize) -> Self {
        let axis = |size| Axis { size, tile: size, step: size.max(1), count: 1 };
        Grid { rows: axis(rows), columns: axis(columns), halo: None }
    }

    /// About `count` bands of rows, for a network whose cells see `reach` cells to each side. Bands start at even rows:
    /// kernels that compute pairs of rows then pair the same ones.
    pub fn bands(rows: usize, columns: usize, count: usize, reach: usize) -> Self {
        let step = rows.div_ceil(count.max(1)).max(1).next_multiple_of(2);
        let (tile, shared) = (step.saturating_add(reach.saturating_mul(2)), reach.saturating_mul(2));
        let count = rows.saturating_sub(shared).div_ceil(step).max(1);
        Grid { rows: Axis { size: rows, tile, step, count }, halo: Some(reach), ..Grid::whole(rows, columns) }
    }

    /// The rows that band number `i` alone has to make; `None` for tiles that are blended.
    pub fn own(&self, i: usize) -> Option<Range<usize>> {
        let (halo, rows) = (self.halo?, self.rows.range(i));
        let start = if i == 0 { 0 } else { rows.start + halo };
        let end = if i + 1 == self.rows.count { self.rows.size } else { rows.end - halo };
        Some(start..end)
    }

    /// How many tiles there are.
    #[expect(clippy::len_without_is_empty, reason = "a frame has a tile")]
    pub fn len(&self) -> usize {
        self.rows.count.saturating_mul(self.columns.count)
    }

    /// Tile number `i`, row by row.
    pub fn get(&self, i: usize) -> Tile {
        let columns = self.columns.count;
        Tile { rows: self.rows.range(i / columns), columns: self.columns.range(i % columns) }
    }

    /// All of them, row by row.
    pub fn iter(&self) -> impl Iterator<Item = Tile> + use<> {
        let grid = *self;
        (0..grid.len()).map(move |i| grid.get(i))
    }

    /// One tile of each size by number, and how many there are of it: at most four.
    pub fn kinds(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let grid = *self;
        grid.rows.kinds().flat_map(move |(row, n)| {
            grid.columns.kinds().map(move |(column, m)| (row * grid.columns.count + column, n * m))
        })
    }
}

impl Tiling {
    /// Checks the sizes, for cells of `cell` pixels.
    pub fn new(tile: [usize; 2], overlap: [usize; 2], cell: usize) -> Result<Self, PlanError> {
        for (tile, overlap) in tile.into_iter().zip(overlap) {
            // Less than a cell is no overlap but still a ramp: it would leave black lines.
            if tile < cell || overlap >= tile || (1..cell).contains(&overlap) {
                return Err(PlanError::Tile { tile, overlap, cell });
            }
        }
        Ok(Tiling { tile, overlap })
    }

    /// Cells of a tile and of the overlap, on one axis.
    fn cells(&self, axis: usize, cell: usize) -> (usize, usize) {
        let tile = (self.tile[axis] / cell).max(1);
        (tile, (self.overlap[axis] / cell).min(tile - 1))
    }

    /// The tiles of a frame of `size` cells of `cell` pixels, row by row. A frame that fits is one tile.
    pub fn tiles(&self, size: [usize; 2], cell: usize) -> Grid {
        let axis = |axis: usize| {
            let (tile, overlap) = self.cells(axis, cell);
            let step = (tile - overlap).max(1);
            // What a short last tile would add is in the one before it.
            let count = size[axis].saturating_sub(overlap).div_ceil(step).max(1);
            Axis { size: size[axis], tile, step, count }
        };
        Grid { rows: axis(0), columns: axis(1), halo: None }
    }

    /// Length of the ramps on one axis where a cell of `cell` pixels comes out as `made` pixels.
    pub fn ramp(&self, axis: usize, cell: usize, made: usize) -> usize {
        if made == cell { self.overlap[axis] } else { self.cells(axis, cell).1 * made }
    }
}

/// Weights of a tile at `range` of an axis of `size` units: a rising cosine over the first `overlap` units
/// unless it starts at the border, a falling one over the last unless it ends there.
pub fn weights(range: &Range<usize>, size: usize, overlap: usize) -> Vec<f32> {
    let length = range.len();
    let mut weights = vec![1.0f32; length];
    let n = overlap.min(length.saturating_sub(1));
    let step = |j: usize| match overlap {
        0 | 1 => 0.0,
        n => 0.5 - 0.5 * libm::cos(std::f64::consts::PI * j as f64 / (n - 1) as f64),
    };
    for j in 0..n {
        if range.start > 0 {
            weights[j] *= step(j) as f32;
        }
        if range.end < size {
            weights[length - n + j] *= (1.0 - step(j)) as f32;
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tiles_as_the_public_tool_cuts_them() {
        let tiling = Tiling::new([64, 64], [16, 16], 8).unwrap();
        let tiles = tiling.tiles([14, 18], 8);
        assert_eq!(tiles.len(), 6);
        assert_eq!(tiles.get(5), Tile { rows: 6..14, columns: 12..18 });
        let one: Vec<Tile> = tiling.tiles([8, 8], 8).iter().collect();
        assert_eq!(one, [Tile { rows: 0..8, columns: 0..8 }]);
        assert_eq!(weights(&(0..4), 4, 2), [1.0; 4]);
        assert_eq!(weights(&(2..6), 8, 2), [0.0, 1.0, 1.0, 0.0]);
        assert!(Tiling::new([64, 64], [64, 16], 8).is_err() && Tiling::new([4, 64], [0, 0], 8).is_err());
        assert!(Tiling::new([64, 64], [7, 16], 8).is_err());
    }

    proptest! {
        #[test]
        fn every_row_is_made_by_one_band_that_sees_all_it_needs(
            rows in 1usize..300, count in 1usize..40, reach in 0usize..20,
        ) {
            let grid = Grid::bands(rows, 3, count, reach);
            let mut next = 0;
            for (i, tile) in grid.iter().enumerate() {
                let own = grid.own(i).unwrap();
                prop_assert!(own.start == next && own.end > next && tile.rows.start % 2 == 0);
                prop_assert!(tile.rows.start <= own.start.saturating_sub(reach));
                prop_assert!(tile.rows.end >= (own.end + reach).min(rows) && tile.columns == (0..3));
                next = own.end;
            }
            prop_assert_eq!(next, rows);
            prop_assert!(grid.len() <= count.max(1));
        }
    }

    /// The slow twin of `Grid`.
    fn one_by_one(tiling: &Tiling, size: [usize; 2]) -> Vec<Tile> {
        let axis = |axis: usize| {
            let (tile, overlap) = tiling.cells(axis, 8);
            let starts = (0..size[axis]).step_by(tile - overlap);
            let ranges = starts.map(move |start| start..(start + tile).min(size[axis]));
            ranges.filter(move |r| r.start == 0 || r.len() > overlap).collect::<Vec<_>>()
        };
        let (rows, columns) = (axis(0), axis(1));
        let tile = |r: &Range<usize>, c: &Range<usize>| Tile { rows: r.clone(), columns: c.clone() };
        rows.iter().flat_map(|r| columns.iter().map(move |c| tile(r, c))).collect()
    }

    proptest! {
        #[test]
        fn every_cell_is_in_a_tile(h in 1usize..40, w in 1usize..40, t in 1usize..12, o in 0usize..11) {
            let tiling = Tiling::new([t * 8, t * 8], [o.min(t - 1) * 8; 2], 8).unwrap();
            let mut seen = vec![false; h * w];
            let tiles = tiling.tiles([h, w], 8);
            prop_assert_eq!(tiles.iter().collect::<Vec<_>>(), one_by_one(&tiling, [h, w]));
            let mut left = tiles.len();
            for (i, times) in tiles.kinds() {
                let size = |t: &Tile| [t.rows.len(), t.columns.len()];
                let alike = tiles.iter().filter(|t| size(t) == size(&tiles.get(i))).count();
                prop_assert_eq!(alike, times);
                left -= times;
            }
            prop_assert_eq!(left, 0);
            for tile in tiles.iter() {
                prop_assert!(tile.rows.end <= h && tile.columns.end <= w);
                for y in tile.rows {
                    for x in tile.columns.clone() {
                        seen[y * w + x] = true;
                    }
                }
            }
            prop_assert!(seen.iter().all(|s| *s));
        }
    }
}
