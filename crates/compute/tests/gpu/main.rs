//! On a GPU, or on software Vulkan. Programs of this name run with the Mesa of `.ci/mesa`.

mod not_finite;
mod ops;
mod tokens;
mod tune;
