//! The distribution the encoder describes.

use remaster_compute::{HostTensor, Shape};

/// A normal distribution per latent value.
pub struct Gaussian {
    /// `[t, h, w, latent]`; what the pipeline uses as the latent.
    pub mean: HostTensor,
    /// `[t, h, w, latent]`, cut to [-30, 20].
    pub logvar: HostTensor,
}

impl Gaussian {
    /// From moments `[t, h, w, 2 * latent]`: mean first, log-variance second.
    pub fn new(moments: &HostTensor) -> Self {
        let latent = moments.shape.c / 2;
        let shape = Shape { c: latent, ..moments.shape };
        let pixels = || moments.data.chunks_exact(2 * latent);
        Gaussian {
            mean: HostTensor { shape, data: pixels().flat_map(|m| m[..latent].to_vec()).collect() },
            logvar: HostTensor {
                shape,
                data: pixels().flat_map(|m| m[latent..].to_vec()).map(|v| v.clamp(-30.0, 20.0)).collect(),
            },
        }
    }

    /// Standard deviations.
    pub fn std(&self) -> HostTensor {
        let data = self.logvar.data.iter().map(|v| libm::exp(f64::from(0.5 * v)) as f32).collect();
        HostTensor { shape: self.logvar.shape, data }
    }

    /// `mean + std * noise`.
    pub fn sample(&self, noise: &HostTensor) -> HostTensor {
        let spread = self.std();
        let parts = self.mean.data.iter().zip(&spread.data).zip(&noise.data);
        HostTensor { shape: self.mean.shape, data: parts.map(|((m, s), n)| m + s * n).collect() }
    }
}
