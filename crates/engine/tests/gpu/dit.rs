//! The diffusion transformer on the GPU: however it is cut, the same bits, within the memory that was planned.

use crate::common::dit::{run, task};
use crate::common::{WHOLE, same, way};
use crate::device;
use remaster_compute::gpu::Gpu;
use remaster_compute::{Backend, CancelToken, DType};
use remaster_model::dit::{DitConfig, Family};
use remaster_plan::Candidate;
use remaster_testkit::Rng;

/// A clip of tokens with windows in every direction, cut at the border.
const GRID: [usize; 3] = [2, 14, 12];

#[test]
fn random_plans_give_the_same_bits_and_keep_their_promise() {
    let Some(device) = device("random_plans_give_the_same_bits_and_keep_their_promise") else { return };
    // Held open: what one run compiled the next one finds.
    let _open = Gpu::new(device, 1024, CancelToken::default()).unwrap();
    let mut rng = Rng::new(6);
    for (family, dtype) in [
        (Family::Shared, DType::F32),
        (Family::Separate, DType::F32),
        (Family::Shared, DType::F16),
        (Family::Separate, DType::Bf16),
    ] {
        let task = task(&DitConfig::tiny(family), GRID, Backend::Gpu(device), dtype);
        let whole = run(&task, &task.exactly(WHOLE).unwrap());
        for _ in 0..2 {
            let group = [0, 1, 50, 100, 5000][rng.below(5)];
            let plan = task.exactly(Candidate { group, slice: 0, ..way(&mut rng) }).unwrap();
            let cut = run(&task, &plan);
            assert!(same(&cut, &whole), "{family:?} {dtype}: {:?}", plan.how);
        }
    }
}
