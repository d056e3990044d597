//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod compact;
mod dit;
mod goldens;

use remaster_compute::{Backend, CancelToken, DType};
use remaster_testkit::no_gpu;

/// The first device of this machine, a software one included.
fn backend(test: &str) -> Option<Backend> {
    let names = ["vulkan:0", "metal:0", "dx12:0"];
    let found: Option<Backend> = names.iter().find_map(|n| n.parse().ok());
    if let Some(backend) = found {
        // Held open to the end: what one golden compiled the next one finds.
        std::mem::forget(backend.open(1024, CancelToken::default()));
    }
    if found.is_none() {
        no_gpu(test);
    }
    found
}

fn check(name: &str, comparisons: usize) {
    let Some(backend) = backend(name) else { return };
    common::passes(name, backend, DType::F32, comparisons);
}
