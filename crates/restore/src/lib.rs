//! A film in, a restored film out.
//!
//! * [`restore()`]: a film through encoder, transformer and decoder, shot by shot, in bounded memory;
//! * [`restore_stretch`]: a stretch of a long shot, to the same bits;
//! * [`redecode`]: another film of latents that were kept, without encoder and transformer;
//! * [`Recipe`]: everything that decides the result: sizes, [`Cuts`], [`Sampling`], [`Finish`];
//! * [`Noise`]: what the transformer starts from, the same on every machine;
//! * [`held_bytes`]: what it takes beside the networks.
//!
//! Nothing crosses a cut. Inside a shot the state of the VAE is carried from its first frame to its last, and the
//! transformer's windows are mixed in latent space.

mod blend;
mod cuts;
mod error;
mod film;
mod finish;
mod held;
mod kept;
mod noise;
mod prepare;
mod reader;
mod sample;
mod spool;
mod store;
mod stretch;
#[cfg(test)]
mod tests;

pub use blend::weight_before;
pub use cuts::Cuts;
pub use error::RestoreError;
pub use film::{Done, Film, Networks, Recipe, Room, restore};
pub use finish::{Finish, Pool};
pub use held::held_bytes;
pub use kept::redecode;
pub use noise::Noise;
pub use sample::{Sampling, Start};
pub use stretch::{ShotStretch, restore_stretch};
