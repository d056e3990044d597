//! The diffusion transformer: however it is cut, the same bits, within the memory that was planned.

use crate::common::dit::{run, task};
use crate::common::way;
use remaster_compute::{Backend, DType};
use remaster_model::dit::{DitConfig, Family};
use remaster_plan::{Budget, Candidate, Wish};
use remaster_testkit::{Rng, nightly};

/// A grid with windows in every direction: 3 x 2 x 2 of them, cut at the border.
const GRID: [usize; 3] = [5, 22, 20];

#[test]
fn random_plans_give_the_same_bits() {
    let mut rng = Rng::new(5);
    for family in [Family::Shared, Family::Separate] {
        for dtype in [DType::F32, DType::Bf16] {
            let whole = task(&DitConfig::tiny(family), GRID, Backend::cpu_with(1), dtype);
            let expected = run(&whole, &whole.exactly(Candidate::WHOLE).unwrap());
            for _ in 0..nightly(8, 25) {
                let group = [0, 1, 100, 300, 700, 5000][rng.below(6)];
                let how = Candidate { group, slice: 0, ..way(&mut rng) };
                let cut = task(&DitConfig::tiny(family), GRID, Backend::cpu_with(1 + rng.below(3)), dtype);
                let plan = cut.exactly(how).unwrap();
                assert_eq!(run(&cut, &plan), expected, "{family:?} {dtype:?} {how:?}");
            }
        }
    }
}

/// Two blocks of the real width: the last of the 3B network, and one before it, whose streams share their weights.
#[test]
fn blocks_of_the_real_width_are_the_same_bits_in_groups_and_streamed() {
    let config = DitConfig { layers: 2, separate: 1, ..DitConfig::dit_3b() };
    let grid = [2, 16, 28];
    let whole = task(&config, grid, Backend::cpu_with(2), DType::Bf16);
    let expected = run(&whole, &whole.exactly(Candidate::WHOLE).unwrap());
    for (group, read_ahead) in [(300, true), (1, false)] {
        let how = Candidate { group, stream_weights: true, read_ahead, ..Candidate::WHOLE };
        let plan = whole.exactly(how).unwrap();
        assert_eq!(run(&whole, &plan), expected, "{how:?}");
    }
}

/// Within less memory than everything takes, weights are streamed and groups get small; within still less, the tokens
/// go to host memory.
#[test]
fn a_smaller_budget_finds_a_smaller_plan() {
    let task = task(&DitConfig::tiny(Family::Shared), GRID, Backend::cpu_with(1), DType::F32);
    let whole = task.exactly(Candidate::WHOLE).unwrap();
    let expected = run(&task, &whole);
    let whole = whole.peaks.device;
    for share in [2, 3] {
        let budget = Budget::Apart { vram: whole / share, ram: 1 << 30, disk: 1 << 30 };
        let plan = task.planner().plan(&budget, &Wish::default()).unwrap();
        assert!(plan.peaks.device <= whole / share);
        assert_eq!(run(&task, &plan), expected, "{:?}", plan.how);
    }
}

/// The published networks on clips as people have them: every plan is replayed on a meter that refuses to pass its peaks.
#[test]
fn plans_for_real_clips_hold() {
    const GIB: u64 = 1 << 30;
    let clips = [[12, 68, 120], [5, 135, 240]];
    for (config, budgets) in [(DitConfig::dit_3b(), [16, 2]), (DitConfig::dit_7b(), [32, 2])] {
        for (clip, budget) in clips.iter().flat_map(|clip| budgets.map(|budget| (*clip, budget))) {
            let task = task(&config, clip, Backend::cpu_with(2), DType::Bf16);
            let ram = budget * GIB;
            let budget = Budget::Shared { ram, disk: 16 * GIB };
            let plan = task.planner().plan(&budget, &Wish::default()).unwrap();
            assert!(plan.peaks.device + plan.peaks.host <= ram);
            task.replay(&plan, &|| Backend::cpu_with(2).sizing()).unwrap();
            if clip == clips[0] && !plan.how.stream_weights && config == DitConfig::dit_3b() {
                let sizing = Backend::cpu_with(2).sizing();
                let mut weights = 0;
                task.network.weights(&mut |w| weights += sizing.weight_bytes(&w.spec()));
                let beside = plan.peaks.device - weights;
                println!("45 frames of 1080p: {beside} bytes beside the weights");
                assert!(beside <= GIB * 16 / 10, "{beside} bytes beside the weights");
            }
        }
    }
}
