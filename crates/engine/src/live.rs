//! Frames of one slice between source, device and sink.

use std::time::{Duration, Instant};

use remaster_compute::{HostTensor, Ops, Shape, Tensor};
use remaster_model::Network;
use remaster_plan::{INPUT, OUTPUT, Tile};

use crate::blend::Canvas;
use crate::error::EngineError;
use crate::io::{Event, Sink, Source};
use crate::slice_loop::{SliceLoop, Traffic};

/// The end of an open-ended clip, read and not yet run. A slice that was cut short is not run in one piece: its tensors
/// lie in the arena in an order that was not planned, and may not fit although they are smaller. Slices of one step were
/// measured.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    values: Vec<f32>,
    /// Values that were taken.
    taken: usize,
}

impl Ahead {
    /// Whether anything waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.values.len()
    }

    /// Copies the next values, at most `count` of them. With what waits they are no more than a planned slice: a slice
    /// that was cut short lacks a step.
    fn take(&mut self, count: usize) -> Vec<f32> {
        let end = self.taken.saturating_add(count).min(self.values.len());
        let next = self.values[self.taken..end].to_vec();
        self.taken = end;
        if self.is_empty() {
            *self = Ahead::default();
        }
        next
    }
}

/// Frames of one slice on their way.
pub(crate) struct Live<'a, 'b> {
    pub(crate) slice_loop: &'a SliceLoop,
    pub(crate) network: &'a dyn Network,
    pub(crate) source: &'a mut dyn Source,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) ahead: &'a mut Ahead,
    pub(crate) events: &'a mut (dyn FnMut(Event<'_>) + 'b),
    /// Multiply-adds done, and about how many in all.
    pub(crate) work: [u64; 2],
    /// Input frames before the slice.
    pub(crate) seen: usize,
    /// Output frames before the slice.
    pub(crate) written: usize,
    pub(crate) slice: Slice,
}

/// What is there of a slice.
#[derive(Default)]
pub(crate) struct Slice {
    made: usize,
    input: Vec<f32>,
    /// A tile of the input.
    part: Vec<f32>,
    result: Made,
    /// How long source and sink were waited for.
    pub(crate) waited: Duration,
}

/// The result of a slice.
#[derive(Default)]
enum Made {
    #[default]
    Nothing,
    /// Of a frame that is not cut.
    Whole(HostTensor),
    /// Tiles so far.
    Tiles(Canvas),
    /// Bands so far.
    Bands(HostTensor),
}

impl Live<'_, '_> {
    /// Reads up to `frames` frames.
    fn read(&mut self, frames: usize) -> Result<usize, EngineError> {
        let shape = Shape { t: frames, ..self.slice_loop.input };
        self.slice.input.resize(shape.len(), 0.0);
        let started = Instant::now();
        let failed = |source| EngineError::Source { frame: self.seen, source };
        let got = self.source.read(shape, &mut self.slice.input).map_err(failed)?;
        self.slice.waited += started.elapsed();
        let may_end = self.slice_loop.open_ended && self.slice_loop.network.may_end(self.seen + got);
        if got < frames && !may_end {
            return Err(EngineError::Short { got: self.seen + got, expected: self.slice_loop.input.t });
        }
        self.slice.input.truncate(got * shape.len() / frames.max(1));
        Ok(got)
    }
}

impl Traffic for Live<'_, '_> {
    fn begin(&mut self, frames: usize, last: bool) -> Result<(usize, bool), EngineError> {
        let frame = Shape { t: 1, ..self.slice_loop.input }.len().max(1);
        // As short as slices get.
        let one = if self.seen == 0 { 1 } else { self.slice_loop.step().unwrap_or(frames) };
        let mut last = last;
        if self.ahead.is_empty() {
            let got = self.read(frames)?;
            last |= got < frames;
            if one < got && got < frames {
                *self.ahead = Ahead { values: std::mem::take(&mut self.slice.input), taken: 0 };
            }
        }
        if !self.ahead.is_empty() {
            self.slice.input = self.ahead.take(one * frame);
            last = self.ahead.is_empty();
        }
        let got = self.slice.input.len() / frame;
        self.slice.made = self.slice_loop.network.made(self.seen, got);
        Ok((got, last))
    }

    fn worked(&mut self, macs: u64) {
        let [done, of] = &mut self.work;
        *done = done.saturating_add(macs).min(*of);
        (self.events)(Event::Working { network: self.network.name(), done: *done, of: *of });
    }

    fn fill(&mut self, ops: &mut dyn Ops, tile: &Tile, x: &Tensor) -> Result<(), EngineError> {
        let Shape { h, w, c, .. } = self.slice_loop.input;
        let shape = x.shape();
        if (shape.h, shape.w) == (h, w) {
            return Ok(ops.upload(&self.slice.input, x.view())?);
        }
        let scale = self.slice_loop.scale()[INPUT];
        let (top, left) = (tile.rows.start * scale, tile.columns.start * scale);
        self.slice.part.clear();
        for (t, y) in (0..shape.t).flat_map(|t| (0..shape.h).map(move |y| (t, y))) {
            let start = ((t * h + top + y) * w + left) * c;
            self.slice.part.extend_from_slice(&self.slice.input[start..start + shape.w * c]);
        }
        Ok(ops.upload(&self.slice.part, x.view())?)
    }

    fn take(&mut self, ops: &mut dyn Ops, i: usize, tile: &Tile, y: Tensor) -> Result<(), EngineError> {
        let part = HostTensor { shape: y.shape(), data: ops.values(y.view())? };
        if part.shape.t != self.slice.made {
            let (planned, given) = (format!("{} frames", self.slice.made), format!("{}", part.shape));
            return Err(EngineError::Mismatch { planned, given });
        }
        if let Some(t) = first_bad_frame(&part.data, part.shape) {
            return Err(self.not_finite(ops, t));
        }
        let of = self.slice_loop.tiles.len();
        if of == 1 {
            self.slice.result = Made::Whole(part);
            return Ok(());
        }
        let (scale, own) = (self.slice_loop.scale()[OUTPUT], self.slice_loop.tiles.own(i));
        if let Made::Nothing = self.slice.result {
            let shape = Shape { t: self.slice.made, ..self.slice_loop.output };
            self.slice.result = match own {
                Some(_) => Made::Bands(HostTensor::zeros(shape)),
                None => Made::Tiles(Canvas::new(shape, scale, self.slice_loop.ramp)),
            };
        }
        match (&mut self.slice.result, own) {
            (Made::Tiles(canvas), _) => canvas.add(tile, &part),
            (Made::Bands(whole), Some(own)) => {
                let row = part.shape.w * part.shape.c;
                let (from, rows) = ((own.start - tile.rows.start) * scale, own.len() * scale);
                for t in 0..part.shape.t {
                    let from = (t * part.shape.h + from) * row;
                    let to = (t * whole.shape.h + own.start * scale) * row;
                    whole.data[to..to + rows * row].copy_from_slice(&part.data[from..from + rows * row]);
                }
            }
            _ => {}
        }
        (self.events)(Event::TileDone { network: self.network.name(), tile: i, of });
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Ops) -> Result<(), EngineError> {
        let frames = match std::mem::take(&mut self.slice.result) {
            Made::Whole(frames) => frames,
            Made::Tiles(canvas) => canvas.finish(),
            Made::Bands(frames) => frames,
            Made::Nothing => return Ok(()),
        };
        let started = Instant::now();
        let written = self.sink.write(self.written, frames);
        self.slice.waited += started.elapsed();
        written.map_err(|source| EngineError::Sink { frame: self.written, source })
    }
}

impl Live<'_, '_> {
    /// Who made frame `t` of the result NaN or infinite.
    fn not_finite(&self, ops: &mut dyn Ops, t: usize) -> EngineError {
        if let Some(t) = first_bad_frame(&self.slice.input, self.slice_loop.input) {
            return EngineError::BadInput { frame: self.seen + t };
        }
        let layer = match ops.first_spoiled() {
            Ok(Some(layer)) => layer,
            // No normalisation saw it, so it came behind the last of them.
            Ok(None) => last_layer(self.network),
            Err(error) => return error.into(),
        };
        let frame = self.slice_loop.network.shown(self.written + t);
        EngineError::NotFinite { frame, layer, dtype: self.slice_loop.dtype }
    }
}

/// The first frame with a value that is NaN or infinite. Asked of every result: with one test per frame it takes a
/// thousandth of the time that the network takes.
fn first_bad_frame(values: &[f32], shape: Shape) -> Option<usize> {
    let frame = shape.h * shape.w * shape.c;
    values.chunks(frame.max(1)).position(|f| f.iter().fold(false, |bad, v| bad | !v.is_finite()))
}

fn last_layer(network: &dyn Network) -> String {
    let mut last = String::new();
    network.weights(&mut |w| last = w.name().to_owned());
    last
}
