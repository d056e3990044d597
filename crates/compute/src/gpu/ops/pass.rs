//! A pass of its own that normalises the input of a convolution, so that the product need not do it for each tap.

use std::ops::Range;

use crate::error::Result;
use crate::gpu::Gpu;
use crate::ops::{ConvDesc, ConvWork, NormalizeDesc, Prologue, Shortcut};
use crate::tensor::{Band, Shape, Tensor};

/// Bytes of normalised input at a time, unless one row of the output needs more. A slice of 16 frames of 1920x1080 with 128
/// channels takes 8.5 GB in f16: as scratch as a whole it would cost the slices of most cards. This much is 3 % of a card with
/// 8 GB, and 8192 workgroups of 128 pixels for the product, twenty for each of those that the largest cards run at a time.
const MOST: u64 = 256 << 20;

/// The output rows of a convolution in stripes whose input rows take at most `most` bytes; single rows if one takes more.
fn stripes(work: &ConvWork, most: u64) -> impl Iterator<Item = Range<usize>> {
    let [_, taps, _] = work.kernel;
    let [_, step, _] = work.stride;
    let held = usize::try_from(most / bytes(work, 1).max(1)).unwrap_or(usize::MAX);
    let fitting = held.checked_sub(taps).map_or(1, |more| more / step + 1);
    // Transformed tiles start at even rows.
    let fitting = if fitting > 1 { fitting / 2 * 2 } else { 1 };
    let Range { start, end } = work.rows;
    let count = (end - start).div_ceil(fitting).max(1);
    let each = (end - start).div_ceil(count).next_multiple_of(2).clamp(1, fitting);
    (start..end).step_by(each).map(move |first| first..(first + each).min(end))
}

/// Bytes of some rows of the input.
fn bytes(work: &ConvWork, rows: usize) -> u64 {
    Shape::new(work.t_in, rows, work.w_in, work.cin).bytes(work.dtype)
}

/// Scratch of the pass in front of a convolution: the normalised input of the largest stripe.
pub(in crate::gpu) fn pass_bytes(work: &ConvWork) -> u64 {
    let reach = |rows| ConvWork { rows, ..work.clone() }.input_rows().len();
    stripes(work, MOST).map(reach).max().map_or(0, |rows| bytes(work, rows))
}

impl Gpu {
    /// Normalises the input stripe by stripe, and convolves what that left. Rounded to the input's format it is what the
    /// product would make of it on the way in, and stripes change no bit.
    pub(super) fn convolve_after_pass(
        &mut self,
        d: &ConvDesc<'_>,
        prologue: &Prologue<'_>,
        work: &ConvWork,
    ) -> Result<()> {
        let scratch = self.arena.alloc(pass_bytes(work))?;
        for rows in stripes(work, MOST) {
            let part = ConvWork { rows: rows.clone(), prologue: false, ..work.clone() };
            let need = part.input_rows();
            let band = Band { first: need.start, height: work.h_in };
            let shape = Shape { h: need.len(), ..d.input.shape() };
            let normal = Tensor::new(scratch.clone(), work.dtype, shape, band)?;
            self.normalize_now(&NormalizeDesc {
                input: d.input.clone().rows(need.clone()),
                stats: prologue.stats.clone(),
                affine: prologue.affine,
                silu: prologue.silu,
                output: normal.view(),
            })?;
            let shortcut = d.shortcut.as_ref().map(|s| {
                let input = s.input.clone().rows(rows.clone());
                Shortcut { input, weight: s.weight }
            });
            let output = d.output.clone().rows(rows.clone());
            let alone = ConvDesc::new(normal.view(), d.weight, d.padding, output);
            let carried = d.carried.clone().map(|tail| tail.rows(need));
            let stripe = ConvDesc { carried, accumulate: d.accumulate, shortcut, ..alone };
            let multiply = self.places(&stripe, &part)?;
            self.convolve(&stripe, multiply)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::Padding;

    fn work(rows: Range<usize>, kernel: [usize; 3], stride: [usize; 3]) -> ConvWork {
        let (h_in, h_out) = (200, (200 + 2 * (kernel[1] / 2) - kernel[1]) / stride[1] + 1);
        ConvWork {
            dtype: DType::F16,
            t_in: 3,
            prefix: kernel[0] - 1,
            continued: false,
            prologue: true,
            tail: 0,
            t_out: 3,
            h_in,
            w_in: 10,
            cin: 8,
            h_out,
            w_out: 10,
            cout: 8,
            rows,
            kernel,
            stride,
            padding: Padding::all(kernel[1] / 2),
            shortcut: None,
            groups: 0,
            slopes: false,
        }
    }

    /// For every limit: each row once and in order, and never more bytes than the limit unless a row alone has them.
    #[test]
    fn stripes_take_every_row_once_and_keep_the_limit() {
        let shapes = [([3, 3, 3], [1, 1, 1]), ([1, 3, 3], [1, 2, 2]), ([1, 1, 1], [1, 1, 1])];
        for (rows, (kernel, stride)) in
            [0..100, 7..100, 99..100, 4..4].into_iter().flat_map(|r| shapes.map(|s| (r.clone(), s)))
        {
            let work = work(rows.clone(), kernel, stride);
            let row = bytes(&work, 1);
            for most in (0..120).map(|n| n * row + n % 7) {
                let all: Vec<Range<usize>> = stripes(&work, most).collect();
                assert_eq!(
                    all.iter().cloned().flatten().collect::<Vec<_>>(),
                    rows.clone().collect::<Vec<_>>()
                );
                for stripe in &all {
                    let reach = ConvWork { rows: stripe.clone(), ..work.clone() }.input_rows();
                    assert!(stripe.len() == 1 || bytes(&work, reach.len()) <= most, "{stripe:?} of {all:?}");
                }
            }
        }
    }

    #[test]
    fn a_small_input_is_one_stripe_and_its_bytes_are_the_scratch() {
        let work = work(0..200, [3; 3], [1; 3]);
        assert!(stripes(&work, MOST).eq(std::iter::once(0..200)));
        assert_eq!(pass_bytes(&work), bytes(&work, 200));
        let film =
            ConvWork { t_in: 16, w_in: 1920, cin: 128, h_in: 1080, h_out: 1080, rows: 0..1080, ..work };
        assert!(pass_bytes(&film) <= MOST && pass_bytes(&film) > MOST / 10 * 9, "{}", pass_bytes(&film));
    }
}
