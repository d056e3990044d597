//! What the tests share: numbers from a seed, and the op suite that every backend must pass.

mod clip;
pub mod op_cases;
mod rng;

pub use clip::{dry_run, run_clip};
pub use rng::{Noise, Rng};
