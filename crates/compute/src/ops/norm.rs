//! Per-frame GroupNorm in three ops, so that a frame may be cut into stripes without changing a bit:
//! sums per absolute row, sums combined in row order, result applied.

use super::{Prologue, RowSums, no_alias, pairs, same_dtype, same_rows, same_shape};
use crate::error::{Result, ensure};
use crate::tensor::{Shape, View};
use crate::weight::Weight;

/// For every frame, row and group: mean of the row's values and sum of squared distances from it.
#[derive(Clone, Debug)]
pub struct RowSumsDesc<'a> {
    /// What to sum.
    pub input: View<'a>,
    /// Groups the channels are cut into.
    pub groups: usize,
    /// `[t, h, 1, 2 * groups]` f32, the rows of the input.
    pub output: View<'a>,
}

/// Row sums of whole frames to statistics.
#[derive(Clone, Debug)]
pub struct CombineDesc<'a> {
    /// Name of the normalisation, for `Ops::first_spoiled`.
    pub name: &'a str,
    /// `[t, h, 1, 2 * groups]` f32, all rows.
    pub sums: View<'a>,
    /// Values behind each pair: columns times channels of a group.
    pub count: usize,
    /// Added to the variance.
    pub eps: f32,
    /// `[t, 1, 1, 2 * groups]` f32: mean and 1/deviation.
    pub output: View<'a>,
}

/// Applies statistics.
#[derive(Clone, Debug)]
pub struct NormalizeDesc<'a> {
    /// What to normalise.
    pub input: View<'a>,
    /// `[t, 1, 1, 2 * groups]` f32.
    pub stats: View<'a>,
    /// Scale and shift.
    pub affine: &'a Weight,
    /// SiLU afterwards.
    pub silu: bool,
    /// Where the result goes.
    pub output: View<'a>,
}

impl RowSumsDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "row_sums";
        let sums = RowSums { groups: self.groups, output: self.output.clone() };
        sums.check(OP, "output", &self.input)?;
        same_rows(OP, "output rows", &self.output, &self.input.row_range())?;
        no_alias(OP, &self.output, &[Some(&self.input)])
    }
}

impl CombineDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "combine_sums";
        let sums = self.sums.shape();
        ensure(self.sums.is_whole(), OP, "rows", format!("{:?}", self.sums.row_range()), "all rows")?;
        ensure(self.count > 0 && sums.h > 0, OP, "values", self.count * sums.h, "at least 1")?;
        pairs(OP, "row sums", &self.sums, Shape::new(sums.t, sums.h, 1, sums.c / 2 * 2))?;
        pairs(OP, "output", &self.output, Shape::new(sums.t, 1, 1, sums.c))?;
        no_alias(OP, &self.output, &[Some(&self.sums)])
    }
}

impl<'a> NormalizeDesc<'a> {
    /// What is done to the input.
    pub(crate) fn prologue(&self) -> Prologue<'a> {
        Prologue { stats: self.stats.clone(), affine: self.affine, silu: self.silu }
    }

    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "normalize";
        self.prologue().check(OP, &self.input)?;
        same_shape(OP, "output", &self.output, &self.input)?;
        same_dtype(OP, "output", &self.output, &self.input)?;
        no_alias(OP, &self.output, &[Some(&self.input), Some(&self.stats)])
    }
}
