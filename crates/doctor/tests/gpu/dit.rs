//! The goldens of the diffusion transformer on the GPU backend, on the first device of this machine, a software one
//! included.

use crate::common::{TRANSFORMERS, keeps_50_decibels};
use crate::{backend, check};
use remaster_compute::gpu::{all_variants, with_variant};
use remaster_compute::{Backend, DType};
use remaster_testkit::no_units;

dit_goldens!(check);

/// Blocks of the real widths: minutes on a software device.
mod real {
    use super::*;

    #[test]
    #[ignore = "nightly: minutes on a software device"]
    fn dit_real_3b_blocks() {
        check("dit_real_3b_blocks", 26);
    }

    #[test]
    #[ignore = "nightly: minutes on a software device"]
    fn dit_real_7b_blocks() {
        check("dit_real_7b_blocks", 20);
    }
}

#[test]
fn sixteen_bits_are_50_decibels_away_at_most() {
    let Some(backend) = backend("sixteen_bits_are_50_decibels_away_at_most") else { return };
    keeps_50_decibels(backend, DType::F16, &TRANSFORMERS, "");
    keeps_50_decibels(backend, DType::Bf16, &["3b_image", "7b_image"], "");
}

#[test]
fn matrix_units_are_50_decibels_away_at_most() {
    let name = "matrix_units_are_50_decibels_away_at_most";
    let Some(Backend::Gpu(device)) = backend(name) else { return };
    let variants = all_variants(&device).unwrap().into_iter().filter(|v| v.family() == "matrix");
    let variants: Vec<_> = variants.collect();
    if variants.is_empty() {
        no_units(name);
    }
    for variant in variants {
        let backend = Backend::Gpu(with_variant(device, &variant));
        keeps_50_decibels(backend, DType::F16, &["3b_image", "7b_image"], &format!(", {variant}"));
    }
}
