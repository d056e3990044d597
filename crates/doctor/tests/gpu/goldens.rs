//! Goldens on the GPU backend, on the first device of this machine, a software one included.

use crate::common::{passes, stages};
use crate::{backend, check};
use remaster_compute::gpu::{all_variants, with_variant};
use remaster_compute::{Backend, DType};
use remaster_model::Build;
use remaster_testkit::no_units;

module_goldens!(check);
tiny_goldens!(check);

/// Large tiles, which `winograd_passes_too` computes, too, and the real network.
mod large {
    use super::*;

    #[test]
    #[ignore = "nightly: a minute on a software device"]
    fn tiny_tiled_5x112x144() {
        check("tiny_tiled_5x112x144", 2);
    }

    #[test]
    #[ignore = "nightly: 75 s on a software device"]
    fn full_image_64x64() {
        check("full_image_64x64", 4);
    }

    #[test]
    #[ignore = "nightly: minutes on a software device"]
    fn full_video_5x64x64() {
        check("full_video_5x64x64", 4);
    }
}

/// With transformed tiles wherever a layer can have them.
#[test]
fn winograd_passes_too() {
    let name = "winograd_passes_too";
    let Some(Backend::Gpu(device)) = backend(name) else { return };
    let winograd = all_variants(&device).unwrap().into_iter().find(|v| v.family() == "winograd").unwrap();
    let backend = Backend::Gpu(with_variant(device, &winograd));
    for (golden, comparisons) in
        [("tiny_mod_resnet", 15), ("tiny_video_9x48x80", 4), ("tiny_tiled_5x112x144", 2)]
    {
        passes(golden, backend, DType::F32, comparisons);
    }
}

#[test]
fn upsamplers_step_by_step() {
    let Some(backend) = backend("upsamplers_step_by_step") else { return };
    let build = Build { dtype: DType::F32, collapse: false };
    passes("tiny_mod_upsample", backend, build, 9);
    passes("tiny_video_9x48x80", backend, build, 4);
}

/// Kernels on matrix units are given the same 16-bit values as the others and only add in another order, after
/// which some results round the other way. Their error is noise of the same size: both are held to the golden,
/// and two samples of one noise are within a decibel of each other over the tensors of a clip.
#[test]
fn matrix_units_keep_the_golden_as_well_as_other_kernels() {
    let name = "matrix_units_keep_the_golden_as_well_as_other_kernels";
    let Some(Backend::Gpu(device)) = backend(name) else { return };
    let direct = stages("tiny_video_9x48x80", Backend::Gpu(device), DType::F16);
    // One for all: kernels of a family give the same bits, and software Vulkan compiles those on matrix units for minutes.
    let Some(variant) = all_variants(&device).unwrap().into_iter().find(|v| v.family() == "matrix") else {
        return no_units(name);
    };
    let backend = Backend::Gpu(with_variant(device, &variant));
    for (ours, theirs) in stages("tiny_video_9x48x80", backend, DType::F16).iter().zip(&direct) {
        let (a, b) = (ours.psnr.unwrap(), theirs.psnr.unwrap());
        println!("{variant} {}: {a:.1} dB, direct {b:.1} dB, max {:.1e}", ours.stage, ours.max_abs);
        assert!(a >= b - 1.0, "{variant} {}: {a:.1} dB, direct {b:.1} dB", ours.stage);
    }
}

#[test]
#[ignore = "nightly: a minute on a software device"]
fn f16_storage_keeps_50_db_against_f32_on_the_full_network() {
    let name = "f16_storage_keeps_50_db_against_f32_on_the_full_network";
    let Some(backend) = backend(name) else { return };
    // The goldens are f32, and f32 on this backend is within 5e-5 of them: 86 dB and more.
    for stage in stages("full_image_64x64", backend, DType::F16) {
        let psnr = stage.psnr.unwrap();
        println!("f16 {}: {psnr:.1} dB", stage.stage);
        let video = stage.stage == "decoded" || stage.stage == "moments";
        assert!(!video || psnr >= 50.0, "{}: {psnr:.1} dB", stage.stage);
    }
}
