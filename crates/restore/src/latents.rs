//! Latents between encoder and decoder.

use std::collections::VecDeque;

use remaster_compute::{HostTensor, Shape};
use remaster_engine::{Link, Sink, SinkError, Source, SourceError};

use crate::tail::read_frames;

/// Latents that the encoder made and the decoder has not taken yet.
pub(crate) struct Latents {
    waiting: VecDeque<Vec<f32>>,
    /// Channels that the decoder takes: the mean, without the variance.
    channels: usize,
}

impl Latents {
    pub(crate) fn new(channels: usize) -> Self {
        Latents { waiting: VecDeque::new(), channels }
    }
}

/// The mean of moments, latent by latent.
pub(crate) fn means(moments: &HostTensor, channels: usize) -> impl Iterator<Item = Vec<f32>> {
    let Shape { t, c, .. } = moments.shape;
    let length = moments.data.len() / t.max(1);
    let mean = move |latent: &[f32]| -> Vec<f32> {
        latent.chunks_exact(c.max(1)).flat_map(|cell| cell.iter().take(channels).copied()).collect()
    };
    moments.data.chunks_exact(length.max(1)).map(mean)
}

impl Link for Latents {
    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Sink for Latents {
    fn write(&mut self, _first: usize, moments: HostTensor) -> Result<(), SinkError> {
        self.waiting.extend(means(&moments, self.channels));
        Ok(())
    }
}

impl Source for Latents {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        read_frames("latent", shape, out, || Ok(self.waiting.pop_front()))
    }
}
