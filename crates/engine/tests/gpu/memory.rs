//! The memory that a GPU's driver counts against the plan: at most a tenth more. On a software device the
//! process holds it, so the system is asked too.

use std::sync::{Mutex, PoisonError};

use crate::common::{Bench, WHOLE, build};
use crate::found;
use remaster_compute::gpu::{Choices, Gpu, GpuDevice, GpuSizing};
use remaster_compute::{Backend, CancelToken, DType, HostTensor, Ops, Shape, Sizing};
use remaster_engine::{MemoryClip, Task};
use remaster_model::NullVae;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip};

/// Each test counts what the whole process has.
static ALONE: Mutex<()> = Mutex::new(());

fn device(test: &str) -> Option<GpuDevice> {
    found(&["vulkan:0"], test)
}

/// Bytes as everybody counts them.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// wgpu's allocator.
    reserved: u64,
    /// The driver, where it has `VK_EXT_memory_budget`. That of a software device counts the whole machine.
    used: Option<u64>,
    /// The system, where it says.
    resident: Option<u64>,
}

impl Counted {
    /// By all who share the device of `gpu`.
    fn now(gpu: &Gpu) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        let (reserved, used) = (gpu.reserved_bytes().unwrap(), gpu.memory().and_then(|m| m.used));
        Counted { reserved, used, resident: kib.map(|kib| kib << 10) }
    }

    fn most(self, other: Self) -> Self {
        let (reserved, used) = (self.reserved.max(other.reserved), self.used.max(other.used));
        Counted { reserved, used, resident: self.resident.max(other.resident) }
    }

    fn since(self, before: Self) -> Self {
        let less = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        let (used, resident) = (less(self.used, before.used), less(self.resident, before.resident));
        Counted { reserved: self.reserved.saturating_sub(before.reserved), used, resident }
    }
}

/// Runs a task twice and compares. The first run compiles the kernels: what the compiler of a software
/// device holds is not the plan's.
fn keeps_its_promise(device: GpuDevice, task: &Task, least: u64) {
    let software = device.info().unwrap().kind == "software";
    let watch = Gpu::new(device, 1024, CancelToken::default()).unwrap();
    let used = |taken: &Counted| taken.used.filter(|_| !software);
    let plan = task.exactly(Candidate { slice: 4, ..WHOLE }).unwrap();
    let planned = plan.peaks.device;
    assert!(planned >= least, "{planned} bytes are no test");
    for compiled in [false, true] {
        let (mut source, mut sink) =
            (MemoryClip::source(HostTensor::zeros(task.input())), MemoryClip::sink());
        let before = Counted::now(&watch);
        let mut most = before;
        task.run(&plan, &mut source, &mut sink, &mut |_| most = most.most(Counted::now(&watch))).unwrap();
        let taken = most.since(before);
        println!("planned {planned} bytes, {} in host memory; {taken:?}", plan.peaks.host);
        assert!(taken.reserved <= planned / 10 * 11, "{taken:?} for {planned}");
        let fixed = GpuSizing { choices: Choices::default() }.fixed_bytes();
        assert!(taken.reserved + fixed >= planned, "{taken:?} for {planned}");
        assert!(used(&taken).is_none_or(|used| used <= planned / 10 * 11), "{taken:?} for {planned}");
        if let (true, true, Some(resident)) = (software, compiled, taken.resident) {
            // The sink keeps what it gets.
            let all = planned + plan.peaks.host + 4 * sink.clip.data.len() as u64;
            assert!(resident <= all / 10 * 11, "{taken:?} for {all}");
        }
    }
}

#[test]
fn a_run_of_more_than_300_mib_takes_at_most_a_tenth_more() {
    let Some(device) = device("a_run_of_more_than_300_mib_takes_at_most_a_tenth_more") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Frames that are only moved: a software device would compute on so many for an hour.
    let (clip, which) = (Clip::new(9, 1440, 2560).unwrap(), NullVae::Encoder);
    let (backend, build) = (Backend::Gpu(device), build(DType::F32, true));
    let task = Task::new(Box::new(which), clip.cells(), backend, build.dtype);
    keeps_its_promise(device, &task, 300 << 20);
}

#[test]
fn a_small_run_takes_at_most_a_tenth_more() {
    let Some(device) = device("a_small_run_takes_at_most_a_tenth_more") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (clip, build) = (Clip::new(5, 40, 48).unwrap(), build(DType::F32, true));
    let bench = Bench::new(&VaeConfig::tiny(), Direction::Decode, clip, Backend::Gpu(device), build);
    keeps_its_promise(device, &bench.task, 0);
}

#[test]
fn what_lies_beside_an_arena_of_any_size_is_counted() {
    let Some(device) = device("what_lies_beside_an_arena_of_any_size_is_counted") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let watch = Gpu::new(device, 1024, CancelToken::default()).unwrap();
    let fixed = GpuSizing { choices: Choices::default() }.fixed_bytes();
    let software = device.info().unwrap().kind == "software";
    // Around the sizes of blocks and bindings, where an allocator rounds.
    for mib in [1u64, 3, 4, 5, 7, 9, 100, 127, 128, 129, 131, 135, 300, 1000, 1023] {
        let before = Counted::now(&watch);
        let arena = (mib << 20) + 4096;
        let mut gpu = Gpu::new(device, arena, CancelToken::default()).unwrap();
        // Two tensors that fill it.
        let shape = Shape::new(1, (mib as usize) << 5, 64, 64);
        let (x, y) = (gpu.alloc(shape, DType::F32).unwrap(), gpu.alloc(shape, DType::F32).unwrap());
        gpu.upload(&vec![1.0; 64 * 64], x.view().rows(0..1)).unwrap();
        gpu.copy(x.view(), y.view()).unwrap();
        assert!(gpu.values(y.view().rows(0..1)).unwrap().iter().all(|v| *v == 1.0));
        let taken = Counted::now(&watch).since(before);
        println!("arena of {arena} bytes: {} beside it, {taken:?}", taken.reserved.saturating_sub(arena));
        let planned = arena + fixed;
        assert!(taken.reserved <= planned, "{taken:?} for {arena} + {fixed}");
        if let (true, Some(resident)) = (software, taken.resident) {
            assert!(resident <= planned / 10 * 11, "{taken:?} for {planned}");
            // All of it was written, so it is really there.
            assert!(mib < 300 || resident >= arena / 10 * 9, "{taken:?} for {arena}");
        }
    }
}
