//! Goldens inside the binary: every kind of layer, the small network whole and sliced, and one still
//! image through the real one; the small transformers. They are copies of files in `testdata`, because a package
//! holds what it is built from; `cargo xtask rules` compares them.

use crate::golden::{Golden, GoldenError};

macro_rules! goldens {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../goldens/", $name, ".safetensors")).as_slice())),*]
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
        "dit_diffusion",
        "dit_tiny_3b_small",
        "dit_tiny_7b_small",
    ]
    .into_iter()
    .map(|(name, bytes)| Golden::parse(name, bytes))
    .collect()
}
