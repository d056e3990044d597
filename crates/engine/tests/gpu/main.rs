//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod dit;
mod memory;
mod not_finite;
mod runs;

use remaster_compute::gpu::GpuDevice;
use remaster_testkit::no_gpu;

/// The first of these devices that is there.
fn found(names: &[&str], test: &str) -> Option<GpuDevice> {
    let found = names.iter().find_map(|name| name.parse().ok());
    if found.is_none() {
        no_gpu(test);
    }
    found
}

/// The first device of this machine.
fn device(test: &str) -> Option<GpuDevice> {
    found(&["vulkan:0", "metal:0", "dx12:0"], test)
}
