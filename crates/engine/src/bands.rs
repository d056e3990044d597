//! Shared statistics: the large levels run band by band, normalised with statistics of the whole frame.
//!
//! Whole-frame statistics need the whole frame, which is what there is no room for. They are estimated on
//! the frame made smaller, once per slice; every band is then normalised alike, so bands cannot drift apart.
//! A band is computed with the rows of its neighbours that reach it, and only its own rows are kept.

use std::ops::Range;

use remaster_compute::{Ops, Shape, Tensor};
use remaster_model::{Levels, Pass, State};
use remaster_plan::Bands;

use crate::error::EngineError;
use crate::instrumented::{Instrumented, Record, Statistics};

/// Rows of cells of each band of a frame of `height` rows.
pub(crate) fn rows(bands: &Bands, height: usize) -> impl Iterator<Item = Range<usize>> {
    let count = bands.count.clamp(1, height.max(1));
    (0..count).map(move |i| height * i / count..height * (i + 1) / count)
}

/// One slice: `x` is what goes into the network, the result what comes out.
pub(crate) fn slice(
    ops: &mut Instrumented<'_>,
    network: &dyn Levels,
    bands: &Bands,
    states: &mut [State],
    x: Tensor,
) -> Result<Tensor, EngineError> {
    let frames = x.shape().t;
    let (count, level) = (network.count(), bands.level.min(network.count()));
    let [whole, small, each @ ..] = states else { return Ok(x) };
    // Of a network that grows the last levels are cut, of one that shrinks the first ones.
    let y = if network.scale(0) < network.scale(count) {
        let middle = network.run(&mut Pass { ops, state: whole }, x, 0..level)?;
        in_bands(ops, network, bands, small, each, middle, level..count)?
    } else {
        let middle = in_bands(ops, network, bands, small, each, x, 0..level)?;
        network.run(&mut Pass { ops, state: whole }, middle, level..count)?
    };
    states.iter_mut().for_each(|state| state.advance(frames));
    Ok(y)
}

/// Some levels, band by band.
fn in_bands(
    ops: &mut Instrumented<'_>,
    network: &dyn Levels,
    bands: &Bands,
    small: &mut State,
    each: &mut [State],
    x: Tensor,
    levels: Range<usize>,
) -> Result<Tensor, EngineError> {
    let statistics = estimate(ops, network, bands.reduce, small, &x, levels.clone())?;
    let (from, to) = (network.scale(levels.start), network.scale(levels.end));
    let height = x.shape().h / from;
    let halo = bands.halo.unwrap_or_else(|| network.reach(levels.clone()));
    let mut result = None;
    for (core, state) in rows(bands, height).zip(each) {
        let held = core.start.saturating_sub(halo)..(core.end + halo).min(height);
        // A frame of its own: zeros at its borders are wrong, and only reach what is thrown away.
        let part = ops.alloc(Shape { h: held.len() * from, ..x.shape() }, x.dtype())?;
        ops.copy(x.view().rows(held.start * from..held.end * from), part.view())?;
        let mut replay = ops.with(Statistics::Replay(&statistics));
        let made = network.run(&mut Pass { ops: &mut replay, state }, part, levels.clone())?;
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

/// Statistics of every normalisation of some levels, found on a smaller frame.
fn estimate(
    ops: &mut Instrumented<'_>,
    network: &dyn Levels,
    reduce: usize,
    state: &mut State,
    x: &Tensor,
    levels: Range<usize>,
) -> Result<Record, EngineError> {
    let small = shrink(ops, x, network.scale(levels.start), reduce.max(1))?;
    let mut record = Record::new();
    let mut recording = ops.with(Statistics::Record(&mut record));
    network.run(&mut Pass { ops: &mut recording, state }, small, levels)?;
    Ok(record)
}

/// Every `factor`th pixel each way; a whole number of cells of `scale` pixels. Pixels are picked, not
/// averaged: an average has less variance than what it stands for, and variance is what is looked for: on
/// noise the decoder is 3 dB from the whole frame with averages at half the size, 27 dB with picked pixels.
fn shrink(ops: &mut dyn Ops, x: &Tensor, scale: usize, factor: usize) -> Result<Tensor, EngineError> {
    let Shape { t, h, w, c } = x.shape();
    let side = |n: usize| (n / scale).div_ceil(factor) * scale;
    let small = ops.alloc(Shape::new(t, side(h), side(w), c), x.dtype())?;
    if ops.only_counts() {
        return Ok(small);
    }
    let mut line = vec![0.0; side(w) * c];
    for (frame, y) in (0..t).flat_map(|frame| (0..side(h)).map(move |y| (frame, y))) {
        // Beyond the end the last pixels are repeated.
        let from = (y * factor).min(h - 1);
        let row = ops.values(x.view().frames(frame..frame + 1).rows(from..from + 1))?;
        for (i, pixel) in line.chunks_exact_mut(c).enumerate() {
            pixel.copy_from_slice(&row[(i * factor).min(w - 1) * c..][..c]);
        }
        ops.upload(&line, small.view().frames(frame..frame + 1).rows(y..y + 1))?;
    }
    Ok(small)
}
