//! Ops of a transformer whose tokens are rows: a tensor `[t, tokens, 1, c]` holds a token per row.

use super::{divisible, no_alias, same_dtype, same_shape};
use crate::dtype::DType;
use crate::error::{Result, ensure};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};

/// RMS norm of every row, or of each head of it, then scale and shift, then a rotation of pairs of channels.
#[derive(Clone, Debug)]
pub struct TokenNormDesc<'a> {
    /// What to normalise; one column.
    pub input: View<'a>,
    /// Parts that the channels are cut into, each normalised on its own.
    pub heads: usize,
    /// Added to the mean of squares.
    pub eps: f32,
    /// `Norm` of all channels (scale and shift), or `Vector` of the channels of a head (a scale for every head).
    pub affine: Option<&'a Weight>,
    /// Rotary position embedding behind it.
    pub rotation: Option<Rotation<'a>>,
    /// Where the result goes; may be of another format.
    pub output: View<'a>,
}

/// Rotates the pairs `(2j, 2j + 1)` of each head's first channels. Three axes have the same number of frequencies; the
/// pairs of an axis follow those of the axis before it.
#[derive(Clone, Debug)]
pub struct Rotation<'a> {
    /// `[1, positions, 1, 2 * frequencies]` f32: cosines, then sines.
    pub table: View<'a>,
    /// `[1, tokens, 1, 3]` f32: which row of the table turns each axis of each token, for the rows of the input. A number
    /// beyond the table means its last row.
    pub places: View<'a>,
}

impl TokenNormDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "token_norm";
        let input = self.input.shape();
        ensure(input.w == 1, OP, "columns", input.w, 1)?;
        divisible(OP, input.c, self.heads)?;
        same_shape(OP, "output", &self.output, &self.input)?;
        let width = input.c / self.heads;
        if let Some(affine) = self.affine {
            let spec = affine.spec();
            let whole = WeightSpec::Norm { channels: input.c };
            let fits = spec == whole || spec == WeightSpec::Vector { len: width };
            ensure(fits, OP, "scale", format!("{spec:?}"), format!("{whole:?}, or a vector of {width}"))?;
        }
        if let Some(Rotation { table, places }) = &self.rotation {
            let (shape, expected) = (places.shape(), Shape::new(input.t, input.h, 1, 3));
            ensure(shape == expected, OP, "places", shape, expected)?;
            let Shape { t, h, w, c } = table.shape();
            let fits = t == 1 && w == 1 && h > 0 && c % 2 == 0 && 3 * c <= width;
            let expected = format!("1x?x1x2f, where 6 f is at most {width} channels");
            ensure(fits, OP, "rotations", table.shape(), expected)?;
            for view in [table, places] {
                ensure(view.dtype() == DType::F32, OP, "rotations", view.dtype(), DType::F32)?;
            }
        }
        let (table, places) =
            self.rotation.as_ref().map_or((None, None), |r| (Some(&r.table), Some(&r.places)));
        no_alias(OP, &self.output, &[Some(&self.input), table, places])
    }
}

/// A function applied to every value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e^-x)`
    Silu,
    /// GELU, by its approximation with tanh.
    GeluTanh,
}

/// `x = function(x) * times`, in place.
#[derive(Clone, Debug)]
pub struct ActivateDesc<'a> {
    /// What is replaced.
    pub x: View<'a>,
    /// The function.
    pub function: Activation,
    /// A factor for every value.
    pub times: Option<View<'a>>,
}

impl ActivateDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "activate";
        let Some(times) = &self.times else { return Ok(()) };
        same_shape(OP, "factors", times, &self.x)?;
        same_dtype(OP, "factors", times, &self.x)?;
        no_alias(OP, &self.x, &[Some(times)])
    }
}

/// `residual += gate * input`, channel by channel.
#[derive(Clone, Debug)]
pub struct AddGatedDesc<'a> {
    /// What is added.
    pub input: View<'a>,
    /// `Vector` of the channels; 1 if absent.
    pub gate: Option<&'a Weight>,
    /// What it is added to; may be of another format.
    pub residual: View<'a>,
}

impl AddGatedDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "add_gated";
        same_shape(OP, "residual", &self.residual, &self.input)?;
        if let Some(gate) = self.gate {
            let expected = WeightSpec::Vector { len: self.input.shape().c };
            ensure(gate.spec() == expected, OP, "gate", format!("{gate:?}"), format!("{expected:?}"))?;
        }
        no_alias(OP, &self.residual, &[Some(&self.input)])
    }
}

/// A box of the grid of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Frames.
    pub frames: std::ops::Range<usize>,
    /// Rows of a frame.
    pub rows: std::ops::Range<usize>,
    /// Columns of a row.
    pub columns: std::ops::Range<usize>,
}

impl Window {
    /// How many tokens are inside.
    pub fn tokens(&self) -> usize {
        self.frames.len() * self.rows.len() * self.columns.len()
    }

    /// Runs of tokens that follow each other in a grid of `width` columns: frame, and tokens of the frame.
    pub fn runs(&self, width: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
        let rows = move |t| self.rows.clone().map(move |y| (t, y * width));
        let columns = &self.columns;
        self.frames.clone().flat_map(rows).map(|(t, y)| (t, y + columns.start..y + columns.end))
    }
}

/// Tokens between the grid and a list of windows.
#[derive(Clone, Debug)]
pub struct WindowsDesc<'a> {
    /// `[t, h * width, 1, c]`, whole frames.
    pub grid: View<'a>,
    /// Columns of the grid.
    pub width: usize,
    /// Which tokens, window by window; no token twice.
    pub windows: &'a [Window],
    /// `[1, n, 1, c]`: the tokens of the windows, each in the order of the grid.
    pub tokens: View<'a>,
}

impl WindowsDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "windows";
        let (grid, tokens) = (self.grid.shape(), self.tokens.shape());
        ensure(self.grid.is_whole(), OP, "grid rows", format!("{:?}", self.grid.row_range()), "all rows")?;
        divisible(OP, grid.h, self.width)?;
        for window in self.windows {
            let fits = window.frames.end <= grid.t
                && window.rows.end <= grid.h / self.width
                && window.columns.end <= self.width;
            ensure(fits, OP, "window", format!("{window:?}"), format!("inside {grid}"))?;
        }
        let n = self.windows.iter().map(Window::tokens).sum();
        let expected = Shape::new(1, n, 1, grid.c);
        ensure(grid.w == 1, OP, "columns of the tensor", grid.w, 1)?;
        ensure(tokens == expected, OP, "tokens", tokens, expected)?;
        same_dtype(OP, "format", &self.tokens, &self.grid)?;
        no_alias(OP, &self.tokens, &[Some(&self.grid)])
    }
}

/// Attention of tokens inside windows: `softmax(q k^T * scale) v` for every window and head. All windows also see
/// some common tokens, behind their own.
#[derive(Clone, Debug)]
pub struct WindowAttentionDesc<'a> {
    /// Queries `[1, n, 1, heads * width]`, window by window.
    pub q: View<'a>,
    /// Keys, likewise.
    pub k: View<'a>,
    /// Values, likewise.
    pub v: View<'a>,
    /// Tokens of each window.
    pub windows: &'a [usize],
    /// Keys of the common tokens, `[1, m, 1, heads * width]`.
    pub common_k: View<'a>,
    /// Values of the common tokens.
    pub common_v: View<'a>,
    /// What the common tokens see, if it is wanted.
    pub common: Option<CommonQueries<'a>>,
    /// Heads the channels are cut into.
    pub heads: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Where the result of the windows' own tokens goes.
    pub output: View<'a>,
}

/// The common tokens look into every window; what they see is added up, window by window.
#[derive(Clone, Debug)]
pub struct CommonQueries<'a> {
    /// Queries `[1, m, 1, heads * width]`.
    pub q: View<'a>,
    /// Factor on what is seen in a window: 1 / windows for a mean.
    pub share: f32,
    /// Added to what the output holds instead of taking its place.
    pub accumulate: bool,
    /// `[1, m, 1, heads * width]` f32.
    pub output: View<'a>,
}

/// The numbers of one attention in windows.
#[derive(Clone, Debug)]
pub struct WindowAttentionWork {
    /// Format of all operands but the sum of the common tokens.
    pub dtype: DType,
    /// Tokens of each window.
    pub windows: Vec<usize>,
    /// Common tokens.
    pub common: usize,
    /// Whether the common tokens ask too.
    pub asked: bool,
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub width: usize,
}

impl WindowAttentionWork {
    /// Multiply-adds of the two products.
    pub fn macs(&self) -> u64 {
        let pairs = |n: usize| (n + if self.asked { self.common } else { 0 }) * (n + self.common);
        let pairs: usize = self.windows.iter().map(|n| pairs(*n)).sum();
        2 * pairs as u64 * (self.heads * self.width) as u64
    }
}

impl WindowAttentionDesc<'_> {
    /// Checks that everything fits together and returns the numbers.
    pub fn check(&self) -> Result<WindowAttentionWork> {
        const OP: &str = "window_attention";
        let (q, common) = (self.q.shape(), self.common_k.shape());
        divisible(OP, q.c, self.heads)?;
        ensure(q.t == 1 && q.w == 1, OP, "queries", q, "one frame of one column")?;
        let tokens: usize = self.windows.iter().sum();
        ensure(tokens == q.h, OP, "tokens of the windows", tokens, q.h)?;
        for (what, view) in [("keys", &self.k), ("values", &self.v), ("output", &self.output)] {
            same_shape(OP, what, view, &self.q)?;
        }
        let expected = Shape::new(1, common.h, 1, q.c);
        let asked = self.common.as_ref();
        let commons =
            [Some(&self.common_k), Some(&self.common_v), asked.map(|c| &c.q), asked.map(|c| &c.output)];
        for view in commons.into_iter().flatten() {
            ensure(view.shape() == expected, OP, "common tokens", view.shape(), expected)?;
        }
        let own = [Some(&self.k), Some(&self.v), Some(&self.output)].into_iter();
        for view in own.chain(commons.into_iter().take(3)).flatten() {
            same_dtype(OP, "format", view, &self.q)?;
        }
        let inputs = [Some(&self.q), Some(&self.k), Some(&self.v), commons[0], commons[1], commons[2]];
        no_alias(OP, &self.output, &inputs)?;
        if let Some(CommonQueries { output, .. }) = asked {
            ensure(output.dtype() == DType::F32, OP, "sum of the common tokens", output.dtype(), DType::F32)?;
            no_alias(OP, output, &inputs)?;
            no_alias(OP, output, &[Some(&self.output)])?;
        }
        Ok(WindowAttentionWork {
            dtype: self.q.dtype(),
            windows: self.windows.to_vec(),
            common: common.h,
            asked: asked.is_some(),
            heads: self.heads,
            width: q.c / self.heads,
        })
    }
}
