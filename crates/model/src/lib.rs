//! The SeedVR2 networks and those of Real-ESRGAN over the op set of `remaster-compute`.
//!
//! A layer holds weights and nothing else; causal state is a value the caller owns and passes in. There
//! are no files, no tiles, no devices and no progress here: only the network.

pub mod compact;
pub mod dit;
mod network;
mod null;
mod params;
pub mod rrdb;
mod state;
pub mod vae;

pub use network::{Levels, Module, Network, Pass, load};
pub use null::{NullDit, NullVae};
pub use params::{Build, Origin, Param, Params, Scope, Values, Wanted, computed, listed, tensors_of};
pub use state::{State, Tail};
