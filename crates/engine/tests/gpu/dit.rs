//! The diffusion transformer on the GPU: however it is cut, the same bits, within the memory that was planned.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{WHOLE, way};
use remaster_compute::gpu::{Gpu, GpuDevice};
use remaster_compute::{Backend, CancelToken, DType, HostTensor};
use remaster_engine::{MemoryClip, Task};
use remaster_model::Scope;
use remaster_model::dit::{Dit, DitConfig, Family, Text};
use remaster_plan::{Candidate, Cells, Plan};
use remaster_testkit::{Rng, no_gpu};
use remaster_weights::{FormulaParams, uniform};

fn device(test: &str) -> Option<GpuDevice> {
    let found = ["vulkan:0", "metal:0", "dx12:0"].iter().find_map(|n| n.parse().ok());
    if found.is_none() {
        no_gpu(test);
    }
    found
}

/// A clip of tokens with windows in every direction, cut at the border.
const GRID: [usize; 3] = [2, 14, 12];

fn task(family: Family, device: GpuDevice, dtype: DType) -> Task {
    let (config, [t, h, w]) = (DitConfig::tiny(family), GRID);
    let mut params = FormulaParams;
    let scope = &mut Scope::root(&mut params, dtype);
    let text = Text::new(&config, scope, 9, remaster_model::computed(|i| uniform("text", i as u64)));
    let network = Dit::new(&config, scope, text, [h, w], DitConfig::STEP);
    let cells = Cells { steps: t, rows: h * w, columns: 1 };
    let mut task = Task::new(Box::new(network), cells, Backend::Gpu(device), dtype);
    task.settings.spill = Some(std::env::temp_dir());
    task
}

fn run(task: &Task, plan: &Plan) -> HostTensor {
    let mut x = HostTensor::zeros(task.input());
    x.data = Rng::new(11).values(x.data.len());
    let (mut source, mut sink) = (MemoryClip::source(x), MemoryClip::sink());
    let used = task.run(plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    assert_eq!(used.device_peak, plan.peaks.device, "{:?}", plan.how);
    sink.clip
}

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
        let task = task(family, device, dtype);
        let whole = run(&task, &task.exactly(WHOLE).unwrap());
        for _ in 0..2 {
            let group = [0, 1, 50, 100, 5000][rng.below(5)];
            let plan = task.exactly(Candidate { group, slice: 0, ..way(&mut rng) }).unwrap();
            let cut = run(&task, &plan);
            let bits = |x: &HostTensor| x.data.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(bits(&cut) == bits(&whole), "{family:?} {dtype}: {:?}", plan.how);
        }
    }
}
