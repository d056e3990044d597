//! What the tests of goldens share.
#![allow(dead_code, unused_macros, clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

pub(crate) mod compact;

use std::path::{Path, PathBuf};

use remaster_compute::{Backend, CancelToken, DType};
use remaster_doctor::{DoctorSettings, Golden, Stage, run};
use remaster_model::Build;
use remaster_weights::{NamedTensor, read_tensors};

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// One tensor of a file of `testdata`.
pub(crate) fn tensor(file: &str, name: &str) -> NamedTensor {
    read_tensors(&testdata(file)).unwrap().into_iter().find(|t| t.name == name).unwrap()
}

pub(crate) fn stages(name: &str, backend: Backend, build: impl Into<Build>) -> Vec<Stage> {
    let folder = if name.starts_with("dit_") { "dit/" } else { "" };
    let golden = Golden::open(&testdata(&format!("{folder}{name}.safetensors"))).unwrap();
    let settings = DoctorSettings { backend, build: build.into(), cancel: CancelToken::default() };
    run(&golden, &settings).unwrap()
}

/// Within the tolerance, and as many comparisons as the golden has.
pub(crate) fn passes(name: &str, backend: Backend, build: impl Into<Build>, comparisons: usize) {
    let stages = stages(name, backend, build);
    for stage in &stages {
        println!("{name}/{}: {:.2e}", stage.stage, stage.max_abs);
        assert!(stage.passed, "{name}/{} is off by {:e}", stage.stage, stage.max_abs);
    }
    assert_eq!(stages.len(), comparisons, "{name}: some tensors of the golden were not compared");
}

/// PSNR of small transformers for the largest value of the original's output.
pub(crate) fn keeps_50_decibels(backend: Backend, dtype: DType, names: &[&str], what: &str) {
    for name in names {
        let name = format!("dit_tiny_{name}");
        let out = stages(&name, backend, dtype).into_iter().find(|s| s.stage == "out");
        let psnr = out.and_then(|s| s.psnr).unwrap_or(0.0);
        println!("{name} in {}{what}: {psnr:.1} dB", dtype.name());
        assert!(psnr >= 50.0, "{name} in {}{what}: {psnr:.1} dB", dtype.name());
    }
}

/// The small transformers, without `dit_tiny_`.
pub(crate) const TRANSFORMERS: [&str; 6] =
    ["3b_small", "3b_image", "3b_multi", "7b_small", "7b_image", "7b_multi"];

/// A test for each golden, which calls `$check` with its name and its number of comparisons.
macro_rules! goldens {
    ($check:expr; $($name:ident: $comparisons:literal),* $(,)?) => {
        $(#[test] fn $name() { $check(stringify!($name), $comparisons); })*
    };
}

/// Those of single modules of the small network.
macro_rules! module_goldens {
    ($check:expr) => {
        goldens! { $check;
            tiny_mod_conv: 18,
            tiny_mod_norm: 6,
            tiny_mod_resnet: 15,
            tiny_mod_downsample: 7,
            tiny_mod_upsample: 7,
            tiny_mod_mid: 18,
            tiny_mod_blocks: 8,
            tiny_mod_gaussian: 4,
        }
    };
}

/// Those of the whole small network.
macro_rules! tiny_goldens {
    ($check:expr) => {
        goldens! { $check;
            tiny_image_64x64: 4,
            tiny_video_5x64x64: 4,
            tiny_video_9x48x80: 4,
            tiny_sliced_17x32x32: 4,
            tiny_sliced_21x16x24: 4,
            tiny_tiled_odd_1x104x120: 2,
            tiny_tiled_sliced_9x48x64: 2,
            tiny_tiled_image_96x72: 2,
        }
    };
}

/// Those of the small transformers and of the sampler.
macro_rules! dit_goldens {
    ($check:expr) => {
        goldens! { $check;
            dit_diffusion: 3,
            dit_tiny_3b_small: 8,
            dit_tiny_3b_image: 1,
            dit_tiny_3b_multi: 1,
            dit_tiny_7b_small: 9,
            dit_tiny_7b_image: 1,
            dit_tiny_7b_multi: 1,
        }
    };
}
