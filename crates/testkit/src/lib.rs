//! What the tests share: numbers from a seed, and the op suite that every backend must pass.

pub mod op_cases;
mod rng;

pub use rng::{Noise, Rng};
