//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.

#[path = "../common/mod.rs"]
mod common;

mod dit;
mod memory;
mod not_finite;
mod runs;
