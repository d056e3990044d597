//! Clips through the networks.
//!
//! Frames are decoded in one thread and encoded in another; between them the engine takes slice after slice
//! through the network. All queues are bounded: memory does not depend on the length of a clip.
//!
//! * [`roundtrip`]: frames to latents and back;
//! * [`encode`], [`decode`]: the halves alone, with a [`LatentFile`] in between;
//! * [`Geometry`]: how a frame becomes one that the network takes, and back.

mod error;
mod geometry;
mod intake;
mod latent_file;
mod latents;
mod outlet;
mod run;

pub use error::PipelineError;
pub use geometry::{Geometry, Resize};
pub use intake::{Again, Footage};
pub use latent_file::{About, LatentFile};
pub use run::{Done, Event, Half, decode, encode, held_bytes, roundtrip};
