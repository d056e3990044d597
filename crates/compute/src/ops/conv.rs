//! Causal 3-D convolution.

use std::ops::Range;

use super::{RowSumsDesc, divisible, no_alias, one_format, pairs, same_dtype, same_rows, tail_alias};
use crate::dtype::DType;
use crate::error::{Result, ensure, mismatch};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};

const OP: &str = "conv";

/// Zero rows and columns around a frame. Time is not padded with zeros: see `ConvDesc::carried`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns to the left.
    pub left: usize,
    /// Columns to the right.
    pub right: usize,
}

impl Padding {
    /// The same on all sides.
    pub const fn all(n: usize) -> Self {
        Padding { top: n, bottom: n, left: n, right: n }
    }
}

/// Normalisation applied to the input on the way in; its result is rounded to the input's format, as if
/// it had been stored.
#[derive(Clone, Debug)]
pub struct Prologue<'a> {
    /// Mean and 1/deviation, `[t, 1, 1, 2 * groups]` f32, one frame per input frame.
    pub stats: View<'a>,
    /// Scale and shift.
    pub affine: &'a Weight,
    /// SiLU afterwards.
    pub silu: bool,
}

/// A 1x1x1 convolution of another input, added to the output. Same frames and rows as the output.
#[derive(Clone, Debug)]
pub struct Shortcut<'a> {
    /// What to convolve.
    pub input: View<'a>,
    /// Kernel of size 1 and bias.
    pub weight: &'a Weight,
}

/// Partial sums of the output as stored, for the normalisation that follows.
#[derive(Clone, Debug)]
pub struct RowSums<'a> {
    /// Groups of the normalisation.
    pub groups: usize,
    /// `[t, h, 1, 2 * groups]` f32, the rows of the output.
    pub output: View<'a>,
}

/// One convolution. The time axis sees `prefix ++ input`: the carried tail if there is one, else
/// `kt - 1` copies of the first input frame. There is no padding behind.
///
/// Rows are absolute: the output view says which rows `[a, b)` to make, the input view must hold every
/// row they need that lies inside the frame, and zero padding happens only at the frame's true borders.
#[derive(Clone, Debug)]
pub struct ConvDesc<'a> {
    /// Frames to convolve.
    pub input: View<'a>,
    /// Normalisation on the way in; not applied to the carried tail, which is stored after it.
    pub prologue: Option<Prologue<'a>>,
    /// The last `kt - st` frames of the slice before, after their prologue.
    pub carried: Option<View<'a>>,
    /// Where to leave the last `kt - st` frames of this slice, after the prologue; any rows of the input.
    /// May be `carried` itself: the new tail then takes the place of the old one.
    pub carry: Option<View<'a>>,
    /// Kernel, bias and slopes. PReLU comes last, behind the residual.
    pub weight: &'a Weight,
    /// Zeros at the frame's borders.
    pub padding: Padding,
    /// Added to what the output holds, a residual, instead of taking its place.
    pub accumulate: bool,
    /// Added to the output after a 1x1x1 convolution.
    pub shortcut: Option<Shortcut<'a>>,
    /// Partial sums of the output.
    pub sums: Option<RowSums<'a>>,
    /// Where the result goes.
    pub output: View<'a>,
}

/// The numbers of one convolution.
#[derive(Clone, Debug)]
pub struct ConvWork {
    /// Format of input, output and kernel.
    pub dtype: DType,
    /// Input frames.
    pub t_in: usize,
    /// Frames in front of the input: carried, or copies of the first.
    pub prefix: usize,
    /// Whether the prefix is a carried tail.
    pub continued: bool,
    /// Whether the input is normalised on the way in.
    pub prologue: bool,
    /// Frames of the tail.
    pub tail: usize,
    /// Output frames.
    pub t_out: usize,
    /// Rows of the whole input frame.
    pub h_in: usize,
    /// Columns of the input.
    pub w_in: usize,
    /// Input channels.
    pub cin: usize,
    /// Rows of the whole output frame.
    pub h_out: usize,
    /// Columns of the output.
    pub w_out: usize,
    /// Output channels.
    pub cout: usize,
    /// Absolute output rows to make.
    pub rows: Range<usize>,
    /// Taps in time, down and across.
    pub kernel: [usize; 3],
    /// Steps in time, down and across.
    pub stride: [usize; 3],
    /// Zeros at the frame's borders.
    pub padding: Padding,
    /// Input channels of the shortcut.
    pub shortcut: Option<usize>,
    /// Groups of the row sums; 0 for none.
    pub groups: usize,
    /// Whether PReLU follows.
    pub slopes: bool,
}

impl ConvWork {
    /// Multiply-adds, shortcut included.
    pub fn macs(&self) -> u64 {
        let pixels = (self.t_out * self.rows.len() * self.w_out) as u64;
        let taps = self.kernel.iter().product::<usize>();
        pixels * (self.cout * (self.cin * taps + self.shortcut.unwrap_or(0))) as u64
    }

    /// The layer.
    pub fn spec(&self) -> WeightSpec {
        let ConvWork { cin, cout, kernel, stride, dtype, slopes, .. } = *self;
        WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes }
    }
}

impl<'a> ConvDesc<'a> {
    /// A convolution with nothing around it, over a clip of its own.
    pub fn new(input: View<'a>, weight: &'a Weight, padding: Padding, output: View<'a>) -> Self {
        ConvDesc {
            input,
            prologue: None,
            carried: None,
            carry: None,
            weight,
            padding,
            accumulate: false,
            shortcut: None,
            sums: None,
            output,
        }
    }
}

impl ConvDesc<'_> {
    /// Checks that everything fits together and returns the numbers.
    pub fn check(&self) -> Result<ConvWork> {
        let WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes } = self.weight.spec() else {
            return Err(mismatch(OP, "weight", format!("{:?}", self.weight), "a convolution's"));
        };
        let (input, output) = (self.input.shape(), self.output.shape());
        let pad = self.padding;
        let some = kernel.iter().all(|k| *k > 0);
        ensure(some, OP, "kernel", format!("{kernel:?}"), "at least 1 on each axis")?;
        let within = stride.iter().zip(&kernel).all(|(s, k)| *s > 0 && s <= k);
        ensure(within, OP, "stride", format!("{stride:?}"), format!("1 to the kernel {kernel:?}"))?;
        let smaller =
            pad.top < kernel[1] && pad.bottom < kernel[1] && pad.left < kernel[2] && pad.right < kernel[2];
        ensure(smaller, OP, "padding", format!("{pad:?}"), format!("less than the kernel {kernel:?}"))?;
        ensure(input.c == cin, OP, "input channels", input.c, cin)?;
        ensure(output.c == cout, OP, "output channels", output.c, cout)?;
        one_format(OP, &self.input, &self.output, dtype)?;
        ensure(input.t > 0, OP, "input frames", input.t, "at least 1")?;

        let tail = kernel[0] - stride[0];
        let prefix = if self.carried.is_some() { tail } else { kernel[0] - 1 };
        let reach = (prefix + input.t).checked_sub(kernel[0]);
        let whole = reach.is_some_and(|r| r.is_multiple_of(stride[0]));
        ensure(whole, OP, "input frames", input.t, format!("a whole number of steps of {}", stride[0]))?;
        let t_out = reach.unwrap_or(0) / stride[0] + 1;

        let steps =
            |size: usize, pad: usize, k: usize, s: usize| (size + pad).checked_sub(k).map(|r| r / s + 1);
        let h_out = steps(self.input.height(), pad.top + pad.bottom, kernel[1], stride[1]);
        let w_out = steps(input.w, pad.left + pad.right, kernel[2], stride[2]);
        let (Some(h_out), Some(w_out)) = (h_out, w_out) else {
            return Err(mismatch(OP, "input", input, format!("no smaller than the kernel {kernel:?}")));
        };
        ensure(self.output.height() == h_out, OP, "output height", self.output.height(), h_out)?;
        let rows = self.output.row_range();
        let expected = Shape::new(t_out, rows.len(), w_out, cout);
        ensure(output == expected, OP, "output", output, expected)?;

        let work = ConvWork {
            dtype,
            t_in: input.t,
            prefix,
            continued: self.carried.is_some(),
            prologue: self.prologue.is_some(),
            tail,
            t_out,
            h_in: self.input.height(),
            w_in: input.w,
            cin,
            h_out,
            w_out,
            cout,
            rows,
            kernel,
            stride,
            padding: pad,
            shortcut: self.shortcut.as_ref().map(|s| s.input.shape().c),
            groups: self.sums.as_ref().map_or(0, |s| s.groups),
            slopes,
        };
        // The product of a shortcut may be added by a kernel of its own, behind PReLU.
        ensure(!slopes || self.shortcut.is_none(), OP, "shortcut", "one before PReLU", "none")?;
        self.check_around(OP, work.input_rows(), tail)?;
        Ok(work)
    }

    /// Checks what a convolution or an upsampler with a tail of `tail` frames has around it, where the output rows
    /// reach the input rows `need`.
    pub(super) fn check_around(&self, op: &'static str, need: Range<usize>, tail: usize) -> Result<()> {
        self.check_rows(op, need, tail)?;
        self.check_extras(op)?;
        let prologue = self.prologue.as_ref().map(|p| &p.stats);
        let shortcut = self.shortcut.as_ref().map(|s| &s.input);
        let reads = [Some(&self.input), prologue, self.carried.as_ref(), shortcut];
        no_alias(op, &self.output, &reads)?;
        if let Some(carry) = &self.carry {
            no_alias(op, carry, &[Some(&self.input), prologue, shortcut])?;
            tail_alias(op, carry, self.carried.as_ref())?;
        }
        Ok(())
    }

    /// Input and tail must hold the rows that the output rows reach.
    fn check_rows(&self, op: &'static str, need: Range<usize>, tail: usize) -> Result<()> {
        let held = self.input.row_range();
        let holds = |r: &Range<usize>| need.is_empty() || (r.start <= need.start && r.end >= need.end);
        ensure(holds(&held), op, "input rows", format!("{held:?}"), format!("at least {need:?}"))?;
        let check_tail = |what: &'static str, view: &View<'_>| {
            let expected = Shape { t: tail, h: view.shape().h, ..self.input.shape() };
            ensure(view.shape() == expected, op, what, view.shape(), expected)?;
            ensure(view.height() == self.input.height(), op, what, view.height(), self.input.height())?;
            same_dtype(op, what, view, &self.input)
        };
        if let Some(carried) = &self.carried {
            let rows = carried.row_range();
            ensure(holds(&rows), op, "carried rows", format!("{rows:?}"), format!("at least {need:?}"))?;
            check_tail("carried tail", carried)?;
        }
        if let Some(carry) = &self.carry {
            let rows = carry.row_range();
            let inside = rows.start >= held.start && rows.end <= held.end;
            ensure(inside, op, "rows of the new tail", format!("{rows:?}"), format!("inside {held:?}"))?;
            check_tail("new tail", carry)?;
        }
        Ok(())
    }

    fn check_extras(&self, op: &'static str) -> Result<()> {
        let (output, rows, dtype) = (self.output.shape(), self.output.row_range(), self.input.dtype());
        if let Some(prologue) = &self.prologue {
            prologue.check(op, &self.input)?;
        }
        if let Some(shortcut) = &self.shortcut {
            let s = shortcut.input.shape();
            let spec = shortcut.weight.spec();
            let expected = WeightSpec::conv([s.c, output.c], [1; 3], dtype);
            ensure(spec == expected, op, "shortcut weight", format!("{spec:?}"), format!("{expected:?}"))?;
            ensure(Shape { c: output.c, ..s } == output, op, "shortcut input", s, output)?;
            same_dtype(op, "shortcut", &shortcut.input, &self.input)?;
            same_rows(op, "shortcut rows", &shortcut.input, &rows)?;
        }
        if let Some(sums) = &self.sums {
            sums.check(op, "row sums", &self.output)?;
            same_rows(op, "rows of the sums", &sums.output, &rows)?;
        }
        Ok(())
    }
}

impl Prologue<'_> {
    /// Checks that it fits what it normalises.
    pub(super) fn check(&self, op: &'static str, input: &View<'_>) -> Result<()> {
        let Shape { t, c, .. } = input.shape();
        let (spec, expected) = (self.affine.spec(), WeightSpec::Norm { channels: c });
        ensure(spec == expected, op, "scale and shift", format!("{spec:?}"), format!("{expected:?}"))?;
        let pair_count = self.stats.shape().c / 2;
        divisible(op, c, pair_count)?;
        pairs(op, "statistics", &self.stats, Shape::new(t, 1, 1, 2 * pair_count))
    }
}

impl<'a> RowSums<'a> {
    /// The op that makes them from an output as stored.
    pub(crate) fn of(&self, input: &View<'a>) -> RowSumsDesc<'a> {
        RowSumsDesc { input: input.clone(), groups: self.groups, output: self.output.clone() }
    }

    /// Checks that they have room for the sums of the rows of a view.
    pub(super) fn check(&self, op: &'static str, what: &'static str, of: &View<'_>) -> Result<()> {
        let Shape { t, h, c, .. } = of.shape();
        divisible(op, c, self.groups)?;
        pairs(op, what, &self.output, Shape::new(t, h, 1, 2 * self.groups))
    }
}

impl ConvWork {
    /// Absolute input rows, inside the frame, that the output rows reach.
    pub fn input_rows(&self) -> Range<usize> {
        if self.rows.is_empty() {
            return 0..0;
        }
        let start = (self.rows.start * self.stride[1]).saturating_sub(self.padding.top).min(self.h_in);
        let end = ((self.rows.end - 1) * self.stride[1] + self.kernel[1]).saturating_sub(self.padding.top);
        start..end.clamp(start, self.h_in)
    }
}
