//! Shared statistics: the large stages run band by band, normalised with statistics of the whole frame.
//!
//! Whole-frame statistics need the whole frame, which is what there is no room for. They are estimated on
//! the frame made smaller, once per slice; every band is then normalised alike, so bands cannot drift apart.
//! A band is computed with the rows of its neighbours that reach it, and only its own rows are kept.

use std::collections::VecDeque;
use std::ops::Range;

use remaster_compute::staged::{Staged, Statistics};
use remaster_compute::{Ops, Shape, Tensor};
use remaster_model::vae::{Act, Half, Pass, State};
use remaster_plan::Bands;

use crate::error::EngineError;

/// Latent rows of each band of a frame of `height` rows.
pub(crate) fn rows(bands: &Bands, height: usize) -> impl Iterator<Item = Range<usize>> {
    let count = bands.count.clamp(1, height.max(1));
    (0..count).map(move |i| height * i / count..height * (i + 1) / count)
}

/// One slice: `x` is what goes into the half, the result what comes out.
pub(crate) fn slice(
    ops: &mut Staged,
    half: &dyn Half,
    bands: &Bands,
    states: &mut [State],
    x: Tensor,
) -> Result<Tensor, EngineError> {
    let frames = x.shape().t;
    let (stages, stage) = (half.stages(), bands.stage.min(half.stages()));
    let [whole, small, each @ ..] = states else { return Ok(x) };
    // A decoder grows: its last stages are cut. An encoder shrinks: its first ones are.
    let y = if half.scale(0) < half.scale(stages) {
        let middle = half.run(&mut Pass { ops, state: whole }, Act { x, sums: None }, 0..stage)?;
        in_bands(ops, half, bands, small, each, middle.x, stage..stages)?
    } else {
        let middle = in_bands(ops, half, bands, small, each, x, 0..stage)?;
        half.run(&mut Pass { ops, state: whole }, Act { x: middle, sums: None }, stage..stages)?.x
    };
    states.iter_mut().for_each(|state| state.advance(frames));
    Ok(y)
}

/// Some stages, band by band.
fn in_bands(
    ops: &mut Staged,
    half: &dyn Half,
    bands: &Bands,
    small: &mut State,
    each: &mut [State],
    x: Tensor,
    stages: Range<usize>,
) -> Result<Tensor, EngineError> {
    let statistics = estimate(ops, half, bands.reduce, small, &x, stages.clone())?;
    let (from, to) = (half.scale(stages.start), half.scale(stages.end));
    let height = x.shape().h / from;
    let halo = bands.halo.unwrap_or_else(|| half.reach(stages.clone()));
    let mut result = None;
    for (core, state) in rows(bands, height).zip(each) {
        let held = core.start.saturating_sub(halo)..(core.end + halo).min(height);
        // A frame of its own: zeros at its borders are wrong, and only reach what is thrown away.
        let part = ops.alloc(Shape { h: held.len() * from, ..x.shape() }, x.dtype())?;
        ops.copy(x.view().rows(held.start * from..held.end * from), part.view())?;
        ops.set_statistics(Statistics::Replay(statistics.clone()));
        let made = half.run(&mut Pass { ops, state }, Act { x: part, sums: None }, stages.clone());
        ops.set_statistics(Statistics::Own);
        let made = made?.x;
        let y = match result.take() {
            Some(y) => y,
            None => ops.alloc(Shape { h: height * to, ..made.shape() }, made.dtype())?,
        };
        let own = (core.start - held.start) * to..(core.end - held.start) * to;
        ops.copy(made.view().rows(own), y.view().rows(core.start * to..core.end * to))?;
        ops.wait()?;
        result = Some(y);
    }
    Ok(result.unwrap_or(x))
}

/// Statistics of every normalisation of some stages, found on a smaller frame.
fn estimate(
    ops: &mut Staged,
    half: &dyn Half,
    reduce: usize,
    state: &mut State,
    x: &Tensor,
    stages: Range<usize>,
) -> Result<VecDeque<Vec<f32>>, EngineError> {
    let small = shrink(ops, x, half.scale(stages.start), reduce.max(1))?;
    ops.set_statistics(Statistics::Record(Vec::new()));
    let made = half.run(&mut Pass { ops, state }, Act { x: small, sums: None }, stages);
    let record = ops.set_statistics(Statistics::Own);
    made?;
    Ok(if let Statistics::Record(list) = record { list.into() } else { VecDeque::new() })
}

/// Every `factor`th pixel each way; a whole number of cells of `scale` pixels. Pixels are picked, not
/// averaged: an average has less variance than what it stands for, and variance is what is looked for: on
/// noise the decoder is 3 dB from the whole frame with averages at half the size, 27 dB with picked pixels.
fn shrink(ops: &mut Staged, x: &Tensor, scale: usize, factor: usize) -> Result<Tensor, EngineError> {
    let Shape { t, h, w, c } = x.shape();
    let side = |n: usize| (n / scale).div_ceil(factor) * scale;
    let small = ops.alloc(Shape::new(t, side(h), side(w), c), x.dtype())?;
    if ops.only_counts() {
        return Ok(small);
    }
    let (mut row, mut line) = (vec![0.0; w * c], vec![0.0; side(w) * c]);
    for (frame, y) in (0..t).flat_map(|frame| (0..side(h)).map(move |y| (frame, y))) {
        // Beyond the end the last pixels are repeated.
        let from = (y * factor).min(h - 1);
        ops.download(x.view().frames(frame..frame + 1).rows(from..from + 1), &mut row)?;
        for (i, pixel) in line.chunks_exact_mut(c).enumerate() {
            pixel.copy_from_slice(&row[(i * factor).min(w - 1) * c..][..c]);
        }
        ops.upload(&line, small.view().frames(frame..frame + 1).rows(y..y + 1))?;
    }
    Ok(small)
}
