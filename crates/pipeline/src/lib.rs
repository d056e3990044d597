//! Clips through the networks.
//!
//! Frames are decoded in one thread and encoded in another; between them the engine takes slice after slice
//! through the network. All queues are bounded: memory does not depend on the length of a clip.
//!
//! * [`roundtrip`]: frames to latents and back;
//! * [`encode`], [`decode`]: one of the two, with a [`LatentFile`] in between; a [`LatentWriter`] makes one;
//! * [`Origin`]: the file that latents came from, and still belongs to them;
//! * [`Tail`], [`read_frames`], [`means`]: what every way of a clip to the engine and out of it shares;
//! * [`Geometry`]: how a frame becomes one that the network takes, and back.

mod about;
mod error;
mod geometry;
mod held;
mod intake;
mod latent_file;
mod latents;
mod origin;
mod outlet;
mod run;
mod tail;

pub use about::{About, NetworkId, Restored};
pub use error::PipelineError;
pub use geometry::{Geometry, Resize};
pub use held::held_bytes;
pub use intake::{Again, Footage};
pub use latent_file::{KINDS, LatentFile, LatentReader, LatentWriter, ShotLatents, ShotRows, Times};
pub use latents::means;
pub use origin::{Lost, Origin};
pub use remaster_engine::Event;
pub use run::{Done, LatentTarget, Planned, decode, encode, roundtrip};
pub use tail::{Tail, read_frames};
