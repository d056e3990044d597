//! The goldens of the diffusion transformer, number by number.

use crate::common::{passes, stages};
use remaster_compute::{Backend, CpuPath, DType};

mod cpu {
    use super::*;

    fn check(name: &str, comparisons: usize) {
        passes(name, Backend::cpu(), DType::F32, comparisons);
    }

    goldens! { check;
        dit_diffusion: 3,
        dit_tiny_3b_small: 8,
        dit_tiny_3b_image: 1,
        dit_tiny_3b_multi: 1,
        dit_tiny_7b_small: 9,
        dit_tiny_7b_image: 1,
        dit_tiny_7b_multi: 1,
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

/// PSNR for the largest value of the original's output.
#[test]
fn sixteen_bits_are_50_decibels_away_at_most() {
    for dtype in [DType::Bf16, DType::F16] {
        for name in ["3b_small", "3b_image", "3b_multi", "7b_small", "7b_image", "7b_multi"] {
            let name = format!("dit_tiny_{name}");
            let out = stages(&name, Backend::cpu(), dtype).into_iter().find(|s| s.stage == "out");
            let psnr = out.and_then(|s| s.psnr).unwrap_or(0.0);
            println!("{name} in {}: {psnr:.1} dB", dtype.name());
            assert!(psnr >= 50.0, "{name} in {}: {psnr:.1} dB", dtype.name());
        }
    }
}
