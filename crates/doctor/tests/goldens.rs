//! Every golden of `testdata`, number by number.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use remaster_compute::{Backend, CancelToken, CpuPath, DType, Isa};
use remaster_doctor::{Golden, Settings, Stage, embedded, run};
use remaster_model::Build;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn stages(name: &str, backend: Backend, build: impl Into<Build>) -> Vec<Stage> {
    let golden = Golden::open(&testdata().join(format!("{name}.safetensors"))).unwrap();
    let settings = Settings { backend, build: build.into(), cancel: CancelToken::default() };
    run(&golden, &settings).unwrap()
}

fn passes(name: &str, backend: Backend, comparisons: usize) {
    let stages = stages(name, backend, DType::F32);
    for stage in &stages {
        assert!(stage.passed, "{name}/{} is off by {:e}", stage.stage, stage.max_abs);
    }
    assert_eq!(stages.len(), comparisons, "{name}: some tensors of the golden were not compared");
}

macro_rules! goldens {
    ($backend:expr; $($name:ident: $comparisons:literal),* $(,)?) => {
        $(#[test] fn $name() { passes(stringify!($name), $backend, $comparisons); })*
    };
}

mod cpu {
    use super::*;
    goldens! { Backend::cpu();
        tiny_mod_conv: 18,
        tiny_mod_norm: 6,
        tiny_mod_resnet: 15,
        tiny_mod_downsample: 7,
        tiny_mod_upsample: 7,
        tiny_mod_mid: 18,
        tiny_mod_blocks: 8,
        tiny_mod_gaussian: 4,
        tiny_image_64x64: 4,
        tiny_video_5x64x64: 4,
        tiny_video_9x48x80: 4,
        tiny_sliced_17x32x32: 4,
        tiny_sliced_21x16x24: 4,
        full_image_64x64: 4,
        full_video_5x64x64: 4,
        full_video_9x48x80: 4,
        full_sliced_17x32x32: 4,
        tiny_tiled_5x112x144: 2,
        tiny_tiled_odd_1x104x120: 2,
        tiny_tiled_sliced_9x48x64: 2,
        tiny_tiled_image_96x72: 2,
        full_tiled_5x80x96: 2,
    }
}

mod reference {
    use super::*;
    goldens! { Backend::Reference;
        tiny_mod_conv: 18,
        tiny_mod_norm: 6,
        tiny_mod_resnet: 15,
        tiny_mod_downsample: 7,
        tiny_mod_upsample: 7,
        tiny_mod_mid: 18,
        tiny_mod_blocks: 8,
        tiny_mod_gaussian: 4,
    }
}

/// The real network takes minutes without vector instructions.
fn names(path: CpuPath) -> &'static [&'static str] {
    let all = &["tiny_mod_upsample", "tiny_video_9x48x80", "tiny_sliced_17x32x32", "full_image_64x64"];
    if path.isa == Isa::Portable { &all[..3] } else { all }
}

/// The small network, and one still of the real one, with every kernel path forced in turn; `remaster
/// doctor --goldens testdata --cpu-path PATH` runs the rest.
#[test]
fn every_cpu_path_passes_folded_or_not() {
    for path in CpuPath::all() {
        let backend = Backend::Cpu { threads: 2, path };
        for collapse in [true, false] {
            for name in names(path) {
                for stage in stages(name, backend, Build { dtype: DType::F32, collapse }) {
                    let Stage { stage, max_abs, passed, .. } = stage;
                    assert!(passed, "{name}/{stage} is off by {max_abs:e} on {path}, collapse {collapse}");
                }
            }
        }
    }
}

#[test]
fn bf16_storage_keeps_45_db_on_the_full_network() {
    let stages = stages("full_video_9x48x80", Backend::cpu(), DType::Bf16);
    for stage in stages.iter().filter(|s| s.stage == "decoded" || s.stage == "moments") {
        let psnr = stage.psnr.unwrap();
        println!("bf16 {}: {psnr:.1} dB", stage.stage);
        assert!(psnr >= 45.0, "{}: {psnr:.1} dB", stage.stage);
    }
}

#[test]
fn the_goldens_inside_the_binary_are_readable() {
    assert!(embedded().unwrap().len() >= 9);
}
