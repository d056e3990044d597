//! The network inside the binary against PyTorch.

use std::sync::Arc;

use remaster_compute::{Backend, DType, HostTensor};
use remaster_engine::{MemoryClip, Task};
use remaster_model::Network;
use remaster_model::compact::{Compact, CompactConfig};
use remaster_plan::{Candidate, Cells};
use remaster_weights::{Checkpoint, CheckpointParams};

use super::tensor;

/// All goldens: a crop of a picture first, then noise of odd sizes.
pub(crate) const GOLDENS: [&str; 5] = ["crop_64x96", "random_17x31", "random_24x40", "thin_3x70", "one_1x1"];

/// A tensor of a golden as `[t, h, w, c]`.
pub(crate) fn golden(case: &str, part: &str) -> HostTensor {
    golden_of("compact/anime.safetensors", case, part)
}

/// All goldens of the larger network.
pub(crate) const RRDB: [&str; 4] = ["crop_32x48", "random_17x31", "thin_3x70", "one_1x1"];

pub(crate) fn rrdb_golden(case: &str, part: &str) -> HostTensor {
    golden_of("compact/rrdb_anime6b.safetensors", case, part)
}

pub(crate) fn golden_of(file: &str, case: &str, part: &str) -> HostTensor {
    let found = tensor(file, &format!("{case}.{part}"));
    let shape: [usize; 4] = found.shape.try_into().unwrap();
    HostTensor::from_channels_first([shape[1], 1, shape[2], shape[3]], &found.data)
}

/// The network over frames like these.
pub(crate) fn task(frames: &HostTensor, backend: Backend, dtype: DType) -> Task {
    let checkpoint = Checkpoint::from_bytes(remaster_anime::WEIGHTS).unwrap();
    let mut params = CheckpointParams::new(Arc::new(checkpoint));
    let network = Compact::new(&CompactConfig::anime(), &mut params, dtype);
    task_of(Box::new(network), frames, backend, dtype)
}

pub(crate) fn task_of(
    network: Box<dyn Network>,
    frames: &HostTensor,
    backend: Backend,
    dtype: DType,
) -> Task {
    let cell = network.scale()[0];
    let (rows, columns) = (frames.shape.h / cell, frames.shape.w / cell);
    let cells = Cells { steps: frames.shape.t, rows, columns };
    Task::new(network, cells, backend, dtype)
}

pub(crate) fn run(task: &Task, frames: &HostTensor, how: Candidate) -> HostTensor {
    let plan = task.exactly(how).unwrap();
    let (mut source, mut sink) = (MemoryClip::source(frames.clone()), MemoryClip::sink());
    let used = task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    assert_eq!((used.device_peak, used.disk_peak), (plan.peaks.device, plan.peaks.disk), "{how:?}");
    sink.clip
}

/// The goldens within 2e-5 in f32, and the crop with at least 45 dB in 16 bits.
pub(crate) fn keeps_goldens(backend: Backend, dtypes: &[DType], cases: &[&str]) {
    for (dtype, case) in dtypes.iter().flat_map(|d| cases.iter().map(move |c| (*d, *c))) {
        let (input, expected) = (golden(case, "input"), golden(case, "output"));
        let task = task(&input, backend, dtype);
        let made = run(&task, &input, Candidate { slice: 1, ..Candidate::WHOLE });
        let off = made.difference(&expected);
        let (max, psnr) = (off.max_abs, off.psnr(1.0));
        println!("{case} in {dtype}, {}: {max:.2e}, {psnr:.1} dB", backend.numerics());
        match dtype {
            DType::F32 => assert!(max <= 2e-5, "{case}: off by {max:e}"),
            _ => assert!(psnr >= 45.0 || case != "crop_64x96", "{case} in {dtype}: {psnr:.1} dB"),
        }
    }
}
