//! The goldens of the diffusion transformer, number by number.

use crate::common::{TRANSFORMERS, keeps_50_decibels, passes, stages};
use remaster_compute::{Backend, CpuPath, DType};

mod cpu {
    use super::*;

    fn check(name: &str, comparisons: usize) {
        passes(name, Backend::cpu(), DType::F32, comparisons);
    }

    dit_goldens!(check);
    goldens! { check;
        dit_real_3b_blocks: 26,
        dit_real_7b_blocks: 20,
    }
}

#[test]
fn every_cpu_path_passes() {
    for path in CpuPath::all() {
        for name in ["dit_tiny_3b_small", "dit_tiny_7b_small", "dit_tiny_3b_multi", "dit_tiny_7b_multi"] {
            for stage in stages(name, Backend::Cpu { threads: 2, path }, DType::F32) {
                assert!(stage.passed, "{name}/{} is off by {:e} on {path}", stage.stage, stage.max_abs);
            }
        }
    }
}

#[test]
fn sixteen_bits_are_50_decibels_away_at_most() {
    for dtype in [DType::Bf16, DType::F16] {
        keeps_50_decibels(Backend::cpu(), dtype, &TRANSFORMERS, "");
    }
}
