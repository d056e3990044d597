//! Channels to time, rows and columns.

use super::{no_alias, same_dtype};
use crate::error::{Result, ensure};
use crate::tensor::{Shape, View};

/// Source channel `((y * X + x) * Z + z) * C + c` of pixel `[f, i, j]` goes to
/// `[f * Z + z, i * Y + y, j * X + x, c]`. With `drop_second` output frame 1 is left out and the frames
/// behind it move up: the rule for the first slice of a clip.
#[derive(Clone, Debug)]
pub struct ShuffleDesc<'a> {
    /// `[t, h, w, Z * Y * X * C]`.
    pub input: View<'a>,
    /// `[Z, Y, X]`.
    pub factors: [usize; 3],
    /// Leave out output frame 1.
    pub drop_second: bool,
    /// `[t * Z (- 1), h * Y, w * X, C]`.
    pub output: View<'a>,
}

impl ShuffleDesc<'_> {
    /// Checks that everything fits together.
    pub fn check(&self) -> Result<()> {
        const OP: &str = "shuffle";
        let input = self.input.shape();
        let [z, y, x] = self.factors;
        ensure(z * y * x > 0, OP, "factors", format!("{:?}", self.factors), "at least 1 each")?;
        let fits = input.c > 0 && input.c.is_multiple_of(z * y * x);
        ensure(fits, OP, "input channels", input.c, format!("a multiple of {}", z * y * x))?;
        ensure(!self.drop_second || z > 1, OP, "frame to drop", "none", "a factor in time above 1")?;
        let t = input.t * z - usize::from(self.drop_second && input.t > 0);
        let expected = Shape::new(t, input.h * y, input.w * x, input.c / (z * y * x));
        ensure(self.output.shape() == expected, OP, "output", self.output.shape(), expected)?;
        let rows = self.input.row_range();
        let out = self.output.row_range();
        let same = out == (rows.start * y..rows.end * y) && self.output.height() == self.input.height() * y;
        ensure(same, OP, "output rows", format!("{out:?}"), format!("{rows:?} times {y}"))?;
        same_dtype(OP, "output", &self.output, &self.input)?;
        no_alias(OP, &self.output, &[Some(&self.input)])
    }
}
