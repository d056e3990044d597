//! Overlapping tiles to one picture: weighted sums, then divided by the weights.

use remaster_compute::{HostTensor, Shape};
use remaster_plan::{Tile, tiles};

/// Sums of one slice of the result.
pub(crate) struct Canvas {
    sums: HostTensor,
    /// One weight per pixel; the same for every frame and channel.
    weights: Vec<f32>,
    /// Result pixels per latent cell: 8, or 1 where latents are blended.
    scale: usize,
    /// Length of the ramps, rows and columns.
    ramp: [usize; 2],
}

impl Canvas {
    pub(crate) fn new(shape: Shape, scale: usize, ramp: [usize; 2]) -> Self {
        Canvas { sums: HostTensor::zeros(shape), weights: vec![0.0; shape.h * shape.w], scale, ramp }
    }

    /// Adds the result of one tile.
    pub(crate) fn add(&mut self, tile: &Tile, part: &HostTensor) {
        let Shape { t, h, w, c } = self.sums.shape;
        let rows = tile.rows.start * self.scale..tile.rows.end * self.scale;
        let columns = tile.columns.start * self.scale..tile.columns.end * self.scale;
        let down = tiles::weights(&rows, h, self.ramp[0]);
        let across = tiles::weights(&columns, w, self.ramp[1]);
        for (y, wy) in rows.clone().zip(&down) {
            for (x, wx) in columns.clone().zip(&across) {
                self.weights[y * w + x] += wy * wx;
            }
        }
        for f in 0..t {
            for (i, (y, wy)) in rows.clone().zip(&down).enumerate() {
                let from = &part.data[(f * rows.len() + i) * columns.len() * c..][..columns.len() * c];
                let to = &mut self.sums.data[((f * h + y) * w + columns.start) * c..][..columns.len() * c];
                for ((to, from), wx) in to.chunks_exact_mut(c).zip(from.chunks_exact(c)).zip(&across) {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += from * (wy * wx));
                }
            }
        }
    }

    /// The blended picture.
    pub(crate) fn finish(mut self) -> HostTensor {
        let c = self.sums.shape.c;
        let frame = self.weights.len() * c;
        for values in self.sums.data.chunks_exact_mut(frame.max(1)) {
            for (pixel, weight) in values.chunks_exact_mut(c).zip(&self.weights) {
                pixel.iter_mut().for_each(|v| *v /= weight.max(1e-6));
            }
        }
        self.sums
    }
}
