//! A film in, a restored film out.
//!
//! * [`restore()`]: a film through encoder, transformer and decoder, shot by shot, through an upscaler, or through no network, in bounded memory;
//! * [`restore_unit`]: some shots, or a range of a long one, to the same bits; what is finished outlives the process;
//! * [`units_of`]: a film cut into such units;
//! * [`clip`]: a clip through encoder or decoder alone, or both;
//! * [`LatentFile`]: latents in a file; a [`LatentWriter`] makes one, an [`Origin`] is the file that they came from;
//! * [`Geometry`]: how a frame becomes one that the network takes, and back;
//! * [`redecode`]: another film of latents that were kept, without encoder and transformer;
//! * [`Recipe`]: everything that decides the result: sizes, [`Cuts`], [`Sampling`], [`Finish`];
//! * [`in_flight_bytes`] and [`unit_in_flight_bytes`]: what it takes of memory beside the networks, [`frame_seconds`] of time.
//!
//! Nothing crosses a cut. Inside a shot the state of the VAE is carried from its first frame to its last, and the
//! transformer's windows are mixed in latent space.

mod chain;
pub mod clip;
mod cuts;
mod decode_thread;
mod dispatch;
mod encode_thread;
mod error;
mod film;
mod finish;
mod frames;
mod geometry;
mod held;
mod kept;
mod latent_file;
mod latent_store;
mod latents;
mod noise;
mod pace;
mod planned;
mod prepare;
mod reader;
mod redecode;
mod sample;
mod spool;
mod tail;
mod tee;
#[cfg(test)]
mod tests;
mod unit;
mod upscale;
mod way;
mod worker;

pub use chain::Chain;
pub use cuts::{Cuts, Cutter};
pub use decode_thread::{Again, Footage};
pub use dispatch::{Networks, restore, restore_unit};
pub use error::{PipelineError, RestoreError};
pub use film::{Diffusion, Done, Film, Recipe, Room};
pub use finish::{Finish, Pool};
pub use geometry::{Geometry, Resize};
pub use held::{in_flight_bytes, unit_in_flight_bytes, upscaled_in_flight_bytes};
pub use latent_file::{
    About, LatentFile, LatentWriter, Lost, NetworkId, Origin, Restored, ShotLatents, ShotRows,
};
pub use pace::frame_seconds;
pub use planned::Planned;
pub use redecode::redecode;
pub use sample::{Sampling, Start};
pub use unit::{Checkpoint, Opener, Unit, UnitError, UnitShot, UnitWork, units_of};
pub use upscale::Upscale;
