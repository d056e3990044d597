//! The SeedVR2 networks over the op set of `remaster-compute`.
//!
//! A layer holds weights and nothing else; causal state is a value the caller owns and passes in. There
//! are no files, no tiles, no devices and no progress here: only the network.

mod params;
pub mod vae;

pub use params::{Build, Param, Params, Scope, tensors_of};
