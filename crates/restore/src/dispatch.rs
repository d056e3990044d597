//! A film or a unit through whatever networks restore it.

use remaster_compute::CancelToken;
use remaster_engine::Events;
use remaster_plan::LookBack;

use crate::error::RestoreError;
use crate::film::{self, Diffusion, Done, Film, Recipe, Room};
use crate::frames;
use crate::planned::Planned;
use crate::unit::{CHUNK, UnitWork, in_chunks};
use crate::way::Frames;

/// What restores a film.
#[derive(Clone, Copy)]
pub enum Networks<'a> {
    /// Latents are restored.
    Diffusion(Diffusion<'a>),
    /// Frames become larger ones, each on its own; its clip is open-ended.
    Upscaler(Planned<'a>),
    /// Frames are resized and finished, until that is cancelled.
    None(&'a CancelToken),
}

/// Restores a film.
pub fn restore(
    film: Film<'_>,
    recipe: &Recipe,
    networks: Networks<'_>,
    room: &Room,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    match networks {
        Networks::Diffusion(networks) => film::restore(film, recipe, networks, room, events),
        Networks::Upscaler(network) => frames::film(film, recipe, Frames::Network(network), events),
        Networks::None(cancel) => frames::film(film, recipe, Frames::Unchanged(cancel), events),
    }
}

/// Restores a unit of a film, to the same bits as the whole film. `back` is how far back encoder and decoder see. What is
/// kept is not made again.
pub fn restore_unit(
    work: UnitWork<'_>,
    recipe: &Recipe,
    networks: Networks<'_>,
    back: LookBack,
    room: &Room,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    match networks {
        Networks::Diffusion(networks) => in_chunks(work, recipe, networks, back, room, CHUNK, events),
        Networks::Upscaler(network) => frames::unit(work, recipe, Frames::Network(network), events),
        Networks::None(cancel) => frames::unit(work, recipe, Frames::Unchanged(cancel), events),
    }
}
