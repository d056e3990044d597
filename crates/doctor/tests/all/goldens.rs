//! Every golden of `testdata`, number by number.

use crate::common::{passes, stages};
use remaster_compute::{Backend, CpuPath, DType};
use remaster_doctor::{Stage, embedded};
use remaster_model::Build;
use remaster_testkit::nightly;

mod cpu {
    use super::*;

    fn check(name: &str, comparisons: usize) {
        passes(name, Backend::cpu(), DType::F32, comparisons);
    }

    module_goldens!(check);
    tiny_goldens!(check);
    goldens! { check;
        tiny_tiled_5x112x144: 2,
        full_image_64x64: 4,
        full_video_5x64x64: 4,
        full_video_9x48x80: 4,
    }

    #[test]
    #[ignore = "nightly: a minute of two cores; the gate has the small network's"]
    fn full_sliced_17x32x32() {
        check("full_sliced_17x32x32", 4);
    }

    #[test]
    #[ignore = "nightly: a minute of two cores; the gate has the small network's"]
    fn full_tiled_5x80x96() {
        check("full_tiled_5x80x96", 2);
    }
}

mod reference {
    use super::*;

    fn check(name: &str, comparisons: usize) {
        passes(name, Backend::Reference, DType::F32, comparisons);
    }

    module_goldens!(check);
}

/// The real network takes minutes without vector instructions, and folding changes only its upsamplers, which are those of the
/// small one but for their widths. At night there is more time.
fn names(path: CpuPath, collapse: bool) -> &'static [&'static str] {
    let all = &["tiny_mod_upsample", "tiny_sliced_17x32x32", "tiny_video_9x48x80", "full_image_64x64"];
    let slow = path.is_portable() || !collapse;
    &all[..nightly(2, if slow { 3 } else { 4 })]
}

/// The small network, and at night one still of the real one, with every kernel path forced in turn; `remaster
/// doctor --goldens testdata --cpu-path PATH` runs the rest.
#[test]
fn every_cpu_path_passes_folded_or_not() {
    for path in CpuPath::all() {
        let backend = Backend::Cpu { threads: 2, path };
        for collapse in [true, false] {
            for name in names(path, collapse) {
                for stage in stages(name, backend, Build { dtype: DType::F32, collapse }) {
                    let Stage { stage, max_abs, passed, .. } = stage;
                    assert!(passed, "{name}/{stage} is off by {max_abs:e} on {path}, collapse {collapse}");
                }
            }
        }
    }
}

#[test]
#[ignore = "nightly: minutes on a CPU without AMX; the gate has the small network in 16 bits"]
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
