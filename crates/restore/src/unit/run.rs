//! A unit through encoder, transformer and decoder, from wherever an earlier run came to.

use std::ops::Range;

use remaster_engine::Events;
use remaster_media::{FrameSink, FrameSource, MediaError};
use remaster_plan::LookBack;

use super::Unit;
use super::keeper::{Checkpoint, Keeper};
use super::layout::Layout;
use crate::error::RestoreError;
use crate::film::{Diffusion, Done, Recipe, Restored, Room, completed, loaded, show};
use crate::finish::{Finisher, ShotShown};
use crate::latent_store::LatentStore;

/// Opens frames of a film by number.
pub type Opener<'a> = dyn FnMut(Range<usize>) -> Result<Box<dyn FrameSource>, MediaError> + 'a;

/// What is to be done of a unit.
pub struct UnitWork<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// Number in the film of the first frame that is still to be made: the first of the unit, or one that a piece can
    /// start with.
    pub from: usize,
    /// Frames of the film; exactly those that are asked for.
    pub open: &'a mut Opener<'a>,
    /// Takes the frames from `from` to the end of the unit.
    pub sink: Box<dyn FrameSink>,
    /// Where finished latents are kept, if they are.
    pub checkpoint: Option<&'a mut (dyn Checkpoint + 'a)>,
}

/// Restores a unit of a film by its latents, to the same bits as the whole film. `back` is how far back encoder and decoder
/// see; latents are kept in chunks of up to so many bytes. Latents that are kept are not made again, and a network that has
/// nothing left to do is not loaded.
pub(crate) fn in_chunks(
    work: UnitWork<'_>,
    recipe: &Recipe,
    networks: Diffusion<'_>,
    back: LookBack,
    room: &Room,
    chunk: u64,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let UnitWork { unit, from, open, sink, checkpoint } = work;
    let layout = Layout::new(unit, from, &recipe.sampling.windows, recipe.finish.pool, back)?;
    let size = networks.latent(&recipe.geometry);
    let length = size.iter().product::<usize>();
    let mut store = LatentStore::new(room.folder.as_deref(), length, room.bytes)?;
    if !store.claim(layout.places.len()) {
        let needs = (layout.places.len() as u64).saturating_mul(4 * length as u64);
        return Err(RestoreError::UnitRoom { first: from, end: unit.frames().end, needs, room: room.bytes });
    }
    let latent_bytes = 4 * (layout.places.len() * length) as u64;
    let shots = layout.items.iter().map(|item| item.start + item.range.made.start).collect();
    let done = Done { shots, groups: 1, latent_bytes, ..Done::default() };
    let keeper = Keeper::new(checkpoint, length, chunk)?;
    let mut run = Run { layout: &layout, recipe, networks, back, size, store, keeper, done };
    let progress = run.restored()?;
    run.encode(&progress, open, events)?;
    run.transform(progress, events)?;
    let input = open(from..unit.frames().end)?;
    run.decode(from, input, sink, events)
}

/// A unit at work.
pub(super) struct Run<'a, 'k> {
    pub(super) layout: &'a Layout,
    pub(super) recipe: &'a Recipe,
    pub(super) networks: Diffusion<'a>,
    pub(super) back: LookBack,
    /// Rows, columns and channels of a latent.
    pub(super) size: [usize; 3],
    /// The latents that are needed: number `layout.places.start` of the unit is its first.
    pub(super) store: LatentStore,
    pub(super) keeper: Keeper<'k>,
    pub(super) done: Done,
}

impl Run<'_, '_> {
    /// The third phase: frames of all restored latents.
    fn decode(
        self,
        from: usize,
        input: Box<dyn FrameSource>,
        sink: Box<dyn FrameSink>,
        events: Events<'_>,
    ) -> Result<Done, RestoreError> {
        let Run { layout, recipe, networks, store, mut done, .. } = self;
        let sampling = &recipe.sampling;
        let (mut finisher, _) = Finisher::start(sink, input, recipe.sizes(), &recipe.finish, from, None);
        {
            let mut decoder = loaded(networks.decode, &mut done, events)?;
            for item in &layout.items {
                let place = |latent: usize| item.place(latent) - layout.places.start;
                let shot = place(item.needs.decoded.start)..place(item.needs.decoded.end);
                let mut latents = Restored { store: &store, shot, next: 0, scale: sampling.scale };
                // What has no alpha on its way gets none at its end.
                let alpha = item.alpha.filter(|_| recipe.geometry.alpha);
                let shown = ShotShown::new(&item.range, item.needs.early, alpha, &sampling.windows);
                show(&mut decoder, &mut latents, &mut finisher, shown, events)?;
            }
        }
        completed(finisher, &mut done, events)?;
        Ok(done)
    }
}
