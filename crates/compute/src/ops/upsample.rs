//! Upsampling: a 1x1x1 convolution to many channels, a shuffle to finer pixels, and a 3x3x3 causal
//! convolution on them, as one op. All three are linear, so a backend may fold them into one small
//! convolution per output phase and never make the fine pixels in between.

use std::ops::Range;

use super::{ConvDesc, Padding, RowSums, one_format};
use crate::dtype::DType;
use crate::error::{Result, ensure, mismatch};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};

const OP: &str = "upsample";

/// `[t, h, w, cin]` to `[t', 2h, 2w, cout]`. Time is doubled if the weight says so; the first frame of a
/// clip then gives one frame, not two. Fine pixels outside the frame count as zero, also where the 1x1x1
/// convolution has a bias.
#[derive(Clone, Debug)]
pub struct UpsampleDesc<'a> {
    /// Coarse frames.
    pub input: View<'a>,
    /// The last coarse frames of the slice before: 1 if time doubles, else 2.
    pub carried: Option<View<'a>>,
    /// The slice before was the first frame of its clip alone: it gave one fine frame, not two.
    pub second: bool,
    /// Where to leave the last coarse frames of this slice; any rows of the input. May be `carried` itself.
    pub carry: Option<View<'a>>,
    /// Both convolutions.
    pub weight: &'a Weight,
    /// Partial sums of the output.
    pub sums: Option<RowSums<'a>>,
    /// Where the result goes; any rows.
    pub output: View<'a>,
}

/// The numbers of one upsampling.
#[derive(Clone, Debug)]
pub struct UpsampleWork {
    /// Format of input, output and weights.
    pub dtype: DType,
    /// Whether time doubles.
    pub time: bool,
    /// Input frames.
    pub t_in: usize,
    /// Whether a slice went before.
    pub continued: bool,
    /// Whether that slice was the first frame of its clip alone.
    pub second: bool,
    /// Frames of the tail.
    pub tail: usize,
    /// Output frames.
    pub t_out: usize,
    /// Rows of the whole coarse frame.
    pub h: usize,
    /// Columns of the coarse frame.
    pub w: usize,
    /// Input channels.
    pub cin: usize,
    /// Output channels.
    pub cout: usize,
    /// Absolute output rows to make.
    pub rows: Range<usize>,
    /// Groups of the row sums; 0 for none.
    pub groups: usize,
}

impl UpsampleWork {
    /// Multiply-adds when folded: 8 taps per output pixel where time doubles (4 for the first frame of a
    /// clip), 12 where it does not.
    pub fn macs(&self) -> u64 {
        let taps = match (self.time, self.continued) {
            (true, true) => 8 * self.t_out,
            (true, false) => 8 * self.t_out - 4,
            (false, _) => 12 * self.t_out,
        };
        (taps * self.rows.len() * 2 * self.w) as u64 * (self.cin * self.cout) as u64
    }

    /// Absolute coarse rows, inside the frame, that the output rows reach.
    pub fn input_rows(&self) -> Range<usize> {
        if self.rows.is_empty() {
            return 0..0;
        }
        // Fine row y sees fine rows y - 1 to y + 1.
        self.rows.start.saturating_sub(1) / 2..(self.rows.end / 2 + 1).min(self.h)
    }
}

impl<'a> UpsampleDesc<'a> {
    /// The first slice of a clip, nothing fused.
    pub fn new(input: View<'a>, weight: &'a Weight, output: View<'a>) -> Self {
        UpsampleDesc { input, carried: None, second: false, carry: None, weight, sums: None, output }
    }

    /// Its operands, as those of a convolution with nothing around it.
    pub(crate) fn as_conv(&self) -> ConvDesc<'a> {
        let UpsampleDesc { input, carried, carry, weight, sums, output, .. } = self.clone();
        ConvDesc { carried, carry, sums, ..ConvDesc::new(input, weight, Padding::default(), output) }
    }

    /// Checks that everything fits together and returns the numbers.
    pub fn check(&self) -> Result<UpsampleWork> {
        let WeightSpec::Upsample { cin, cout, time, dtype } = self.weight.spec() else {
            return Err(mismatch(OP, "weight", format!("{:?}", self.weight), "an upsampler's"));
        };
        let (input, output) = (self.input.shape(), self.output.shape());
        ensure(input.c == cin, OP, "input channels", input.c, cin)?;
        ensure(input.t > 0, OP, "input frames", input.t, "at least 1")?;
        one_format(OP, &self.input, &self.output, dtype)?;
        let continued = self.carried.is_some();
        let t_out = match (time, continued) {
            (true, true) => 2 * input.t,
            (true, false) => 2 * input.t - 1,
            (false, _) => input.t,
        };
        let rows = self.output.row_range();
        let expected = Shape::new(t_out, rows.len(), 2 * input.w, cout);
        ensure(output == expected, OP, "output", output, expected)?;
        let height = 2 * self.input.height();
        ensure(self.output.height() == height, OP, "output height", self.output.height(), height)?;
        let work = UpsampleWork {
            dtype,
            time,
            t_in: input.t,
            continued,
            second: continued && self.second,
            tail: if time { 1 } else { 2 },
            t_out,
            h: self.input.height(),
            w: input.w,
            cin,
            cout,
            rows,
            groups: self.sums.as_ref().map_or(0, |s| s.groups),
        };
        self.as_conv().check_around(OP, work.input_rows(), work.tail)?;
        Ok(work)
    }
}
