//! Matrix product over the channels of every pixel.

use std::ops::Range;

use super::{RowSums, no_alias, one_format, same_rows};
use crate::dtype::DType;
use crate::error::{Result, ensure, mismatch};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};

const OP: &str = "linear";

/// `output = input * matrix^T + bias (+ output)`, pixel by pixel.
#[derive(Clone, Debug)]
pub struct LinearDesc<'a> {
    /// What to multiply.
    pub input: View<'a>,
    /// Matrix and bias.
    pub weight: &'a Weight,
    /// Added to what the output holds, a residual, instead of taking its place.
    pub accumulate: bool,
    /// Partial sums of the output.
    pub sums: Option<RowSums<'a>>,
    /// Where the result goes; same frames and rows as the input.
    pub output: View<'a>,
}

/// The numbers of one matrix product.
#[derive(Clone, Debug)]
pub struct LinearWork {
    /// Format of input, output and matrix.
    pub dtype: DType,
    /// Frames.
    pub t: usize,
    /// Absolute rows.
    pub rows: Range<usize>,
    /// Rows of the whole frame.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Input channels.
    pub cin: usize,
    /// Output channels.
    pub cout: usize,
    /// Whether row sums are asked for.
    pub sums: bool,
}

impl LinearWork {
    /// Multiply-adds.
    pub fn macs(&self) -> u64 {
        (self.t * self.rows.len() * self.w) as u64 * (self.cin * self.cout) as u64
    }
}

impl LinearDesc<'_> {
    /// Checks that everything fits together and returns the numbers.
    pub fn check(&self) -> Result<LinearWork> {
        let WeightSpec::Linear { cin, cout, dtype } = self.weight.spec() else {
            return Err(mismatch(OP, "weight", format!("{:?}", self.weight), "a linear layer's"));
        };
        let input = self.input.shape();
        ensure(input.c == cin, OP, "input channels", input.c, cin)?;
        ensure(self.output.shape() == Shape { c: cout, ..input }, OP, "output", self.output.shape(), input)?;
        let rows = self.output.row_range();
        same_rows(OP, "rows", &self.input, &rows)?;
        one_format(OP, &self.input, &self.output, dtype)?;
        if let Some(sums) = &self.sums {
            sums.check(OP, "row sums", &self.output)?;
        }
        no_alias(OP, &self.output, &[Some(&self.input)])?;
        Ok(LinearWork {
            dtype,
            t: input.t,
            rows,
            h: self.input.height(),
            w: input.w,
            cin,
            cout,
            sums: self.sums.is_some(),
        })
    }
}
