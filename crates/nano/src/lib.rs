//! `nano`: the small networks of `testdata`, inside the binary, so that a clip can be restored without a download.
//!
//! Both are whole safetensors files, for `vae_from_bytes` and `dit_from_bytes` of the crate `weights`. What to expect of
//! them is in their model card, `testdata/nano.md`.

/// What people call them.
pub const NAME: &str = "nano";

/// The video VAE.
pub static VAE: &[u8] = include_bytes!("../../../testdata/nano.safetensors");

/// The diffusion transformer, with its text embedding and the factor of its latents.
pub static DIT: &[u8] = include_bytes!("../../../testdata/nano_dit.safetensors");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_together_are_at_most_16_megabytes() {
        let bytes = VAE.len() + DIT.len();
        assert!(bytes <= 16_000_000, "{bytes} bytes");
    }
}
