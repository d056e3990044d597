//! What the tests share: numbers from a seed, and the op suite that every backend must pass.

mod clip;
mod null_vae;
pub mod op_cases;
mod rng;

pub use clip::{dry_run, run_clip};
pub use null_vae::NullVae;
pub use rng::{Noise, Rng};
