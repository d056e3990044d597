//! Goldens on the CPU and on the naive loops.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod compact;
mod dit;
mod goldens;
mod nano;
mod nano_dit;
