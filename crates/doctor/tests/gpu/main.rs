//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod dit;
mod goldens;
