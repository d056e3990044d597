//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod drivers;
mod not_finite;
mod ops;
mod pass;
mod recheck;
mod tokens;
mod tune;

use remaster_compute::gpu::{Gpu, GpuDevice, Variant, all_variants};
use remaster_compute::{Backend, CancelToken, Ops};

const ARENA: u64 = 64 << 20;

/// The first device of this machine, a software one included.
fn device(test: &str) -> Option<GpuDevice> {
    let found = ["vulkan:0", "metal:0", "dx12:0"].iter().find_map(|n| n.parse().ok());
    if found.is_none() {
        remaster_testkit::no_gpu(test);
    }
    found
}

fn open(device: GpuDevice) -> Gpu {
    Gpu::new(device, ARENA, CancelToken::default()).unwrap()
}

fn reference() -> Box<dyn Ops> {
    Backend::Reference.open(ARENA, CancelToken::default()).unwrap()
}

/// The first kernel of a family that a device can run.
fn variant(device: &GpuDevice, family: &str) -> Option<Variant> {
    all_variants(device).unwrap().into_iter().find(|v| v.family() == family)
}
