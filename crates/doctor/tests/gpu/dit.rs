//! The goldens of the diffusion transformer on the GPU backend, on the first device of this machine, a software one
//! included.
#![expect(clippy::print_stdout, reason = "tests")]

use crate::common::stages;
use crate::{backend, check};
use remaster_compute::gpu::{all_variants, with_variant};
use remaster_compute::{Backend, DType};
use remaster_testkit::no_units;

goldens! { check;
    dit_diffusion: 3,
    dit_tiny_3b_small: 8,
    dit_tiny_3b_image: 1,
    dit_tiny_3b_multi: 1,
    dit_tiny_7b_small: 9,
    dit_tiny_7b_image: 1,
    dit_tiny_7b_multi: 1,
}

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

/// PSNR for the largest value of the original's output.
fn keeps_50_decibels(backend: Backend, dtype: DType, names: &[&str], what: &str) {
    for name in names {
        let name = format!("dit_tiny_{name}");
        let out = stages(&name, backend, dtype).into_iter().find(|s| s.stage == "out");
        let psnr = out.and_then(|s| s.psnr).unwrap_or(0.0);
        println!("{name} in {}{what}: {psnr:.1} dB", dtype.name());
        assert!(psnr >= 50.0, "{name} in {}{what}: {psnr:.1} dB", dtype.name());
    }
}

#[test]
fn sixteen_bits_are_50_decibels_away_at_most() {
    let Some(backend) = backend("sixteen_bits_are_50_decibels_away_at_most") else { return };
    let names = ["3b_small", "3b_image", "3b_multi", "7b_small", "7b_image", "7b_multi"];
    keeps_50_decibels(backend, DType::F16, &names, "");
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
