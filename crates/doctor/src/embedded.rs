//! Goldens inside the binary: every kind of layer, the small network whole and sliced, and one still
//! image through the real one; the small transformers.

use crate::golden::{Golden, GoldenError};

macro_rules! goldens {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../testdata/", $name, ".safetensors")).as_slice())),*]
    };
}

/// Reads them.
pub fn embedded() -> Result<Vec<Golden>, GoldenError> {
    goldens![
        "tiny_mod_conv",
        "tiny_mod_norm",
        "tiny_mod_resnet",
        "tiny_mod_downsample",
        "tiny_mod_upsample",
        "tiny_mod_mid",
        "tiny_sliced_21x16x24",
        "tiny_video_5x64x64",
        "full_image_64x64",
        "dit/dit_diffusion",
        "dit/dit_tiny_3b_small",
        "dit/dit_tiny_7b_small",
    ]
    .into_iter()
    .map(|(name, bytes)| Golden::parse(name.trim_start_matches("dit/"), bytes))
    .collect()
}
