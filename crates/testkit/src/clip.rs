//! A clip through one network, slice by slice, without an engine.

use std::ops::Range;

use remaster_compute::{ComputeError, DType, HostTensor, Ops, Shape, Tensor};
use remaster_model::{Network, Pass, State, load};

/// Writes the frames of a slice, whose numbers it gets, into a tensor.
type Fill<'a> = dyn FnMut(&mut dyn Ops, Range<usize>, &Tensor) -> Result<(), ComputeError> + 'a;

/// Gets the result of a slice.
type Take<'a> = dyn FnMut(&mut dyn Ops, Tensor) -> Result<(), ComputeError> + 'a;

/// Runs slices of `lengths` frames of a clip of `shape`. `fill` writes the frames of a slice into its
/// tensor, `take` gets each result; a meter needs neither to do anything.
fn run_slices(
    ops: &mut dyn Ops,
    network: &dyn Network,
    dtype: DType,
    shape: Shape,
    lengths: &[usize],
    fill: &mut Fill<'_>,
    take: &mut Take<'_>,
) -> Result<(), ComputeError> {
    let mut state = State::new();
    let mut start = 0;
    for (i, length) in lengths.iter().enumerate() {
        if i + 1 == lengths.len() {
            state.finish();
        }
        let x = ops.alloc(Shape { t: *length, ..shape }, dtype)?;
        fill(ops, start..start + length, &x)?;
        let y = network.forward(&mut Pass { ops, state: &mut state }, x)?;
        take(ops, y)?;
        start += length;
    }
    Ok(())
}

/// The same steps with nothing to fill in and nothing to take out: for a meter, which then knows what a
/// real run takes, weights included.
pub fn dry_run(
    ops: &mut dyn Ops,
    network: &dyn Network,
    dtype: DType,
    shape: Shape,
    lengths: &[usize],
) -> Result<(), ComputeError> {
    load(ops, network)?;
    run_slices(ops, network, dtype, shape, lengths, &mut |_, _, _| Ok(()), &mut |_, _| Ok(()))
}

/// A clip on the host through one network; the result is on the host again.
pub fn run_clip(
    ops: &mut dyn Ops,
    network: &dyn Network,
    dtype: DType,
    clip: &HostTensor,
    lengths: &[usize],
) -> Result<HostTensor, ComputeError> {
    let mut out = HostTensor { shape: Shape::new(0, 0, 0, 0), data: Vec::new() };
    let mut fill =
        |ops: &mut dyn Ops, frames: Range<usize>, x: &Tensor| ops.upload(clip.frames(frames), x.view());
    let mut take = |ops: &mut dyn Ops, y: Tensor| {
        out.shape = Shape { t: out.shape.t + y.shape().t, ..y.shape() };
        out.data.extend(ops.values(y.view())?);
        Ok(())
    };
    run_slices(ops, network, dtype, clip.shape, lengths, &mut fill, &mut take)?;
    Ok(out)
}
