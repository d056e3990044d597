//! Softmax attention inside each frame.

use std::ops::Range;

use super::{divisible, no_alias, same_dtype, same_shape};
use crate::dtype::DType;
use crate::error::{Result, ensure};
use crate::tensor::{Shape, View};

const OP: &str = "attention";

/// For every frame and head: `softmax(q k^T * scale) v`, each pixel a token. Queries may be some rows of
/// the frame only; keys and values are always whole. Memory is linear in the number of tokens.
#[derive(Clone, Debug)]
pub struct AttentionDesc<'a> {
    /// Queries, `heads * width` channels.
    pub q: View<'a>,
    /// Keys of the whole frame.
    pub k: View<'a>,
    /// Values of the whole frame.
    pub v: View<'a>,
    /// Heads the channels are cut into.
    pub heads: usize,
    /// Factor on the scores, usually `1 / sqrt(width)`.
    pub scale: f32,
    /// Where the result goes; same frames and rows as `q`.
    pub output: View<'a>,
}

/// The numbers of one attention.
#[derive(Clone, Debug)]
pub struct AttentionWork {
    /// Format of all operands.
    pub dtype: DType,
    /// Frames.
    pub t: usize,
    /// Absolute query rows.
    pub rows: Range<usize>,
    /// Rows of the whole frame.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub width: usize,
}

impl AttentionWork {
    /// Multiply-adds of the two products.
    pub fn macs(&self) -> u64 {
        let queries = (self.t * self.rows.len() * self.w) as u64;
        2 * queries * (self.h * self.w) as u64 * (self.heads * self.width) as u64
    }
}

impl AttentionDesc<'_> {
    /// Checks that everything fits together and returns the numbers.
    pub fn check(&self) -> Result<AttentionWork> {
        let q = self.q.shape();
        divisible(OP, q.c, self.heads)?;
        let all = self.k.is_whole() && self.v.is_whole();
        ensure(all, OP, "key rows", format!("{:?}", self.k.row_range()), "all rows")?;
        ensure(self.k.height() == self.q.height(), OP, "key height", self.k.height(), self.q.height())?;
        let whole = Shape { h: self.q.height(), ..q };
        for (what, view) in [("keys", &self.k), ("values", &self.v)] {
            ensure(view.shape() == whole, OP, what, view.shape(), whole)?;
            same_dtype(OP, what, view, &self.q)?;
        }
        same_shape(OP, "output", &self.output, &self.q)?;
        same_dtype(OP, "output", &self.output, &self.q)?;
        no_alias(OP, &self.output, &[Some(&self.q), Some(&self.k), Some(&self.v)])?;
        Ok(AttentionWork {
            dtype: self.q.dtype(),
            t: q.t,
            rows: self.q.row_range(),
            h: whole.h,
            w: q.w,
            heads: self.heads,
            width: q.c / self.heads,
        })
    }
}
