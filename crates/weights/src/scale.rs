//! The factor between the latents of a VAE and those a diffusion transformer was trained on.

use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::error::clip;

/// The factor of the public networks, for files that do not say theirs.
pub const LATENT_SCALE: f32 = 0.9152;

/// The metadata key for the factor.
const KEY: &str = "latent_scale";

/// A factor that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "its metadata says `latent_scale` is `{said}`, which must be a positive number such as {LATENT_SCALE}; correct the \
     metadata or use another file"
)]
pub struct LatentScaleError {
    /// What the metadata says, shortened.
    pub said: String,
}

impl Checkpoint {
    /// What latents are multiplied with before the transformer and divided by after it: `latent_scale` of the metadata,
    /// else [`LATENT_SCALE`].
    pub fn latent_scale(&self) -> Result<f32, LatentScaleError> {
        let Some(said) = self.metadata().get(KEY) else { return Ok(LATENT_SCALE) };
        // The reciprocal too: latents are divided by it, and that of a subnormal number is infinite.
        let fits = |scale: &f32| *scale > 0.0 && scale.is_normal() && scale.recip().is_normal();
        said.parse().ok().filter(fits).ok_or_else(|| LatentScaleError { said: clip(said) })
    }
}
