//! A stretch of a long shot, restored apart from the others, to the same bits.

use remaster_colour::alpha::AlphaKind;
use remaster_plan::{LookBack, Needs, Stretch};

use crate::cuts::Cuts;
use crate::error::RestoreError;
use crate::film::{
    Done, Encoded, Events, Film, Networks, Recipe, Restored, Room, completed, loaded, sampler, show, telling,
};
use crate::finish::{Finisher, ShotShown};
use crate::reader::Reader;
use crate::store::Store;

/// A stretch of a shot of a film.
#[derive(Clone, Debug)]
pub struct ShotStretch {
    /// Which frames of the shot.
    pub stretch: Stretch,
    /// Number of the first one in the film.
    pub first: usize,
    /// Of what kind the alpha of the whole shot is.
    pub alpha: Option<AlphaKind>,
}

/// Restores a stretch of a shot. The film's `footage` has the frames that it [needs](Stretch::needs), its `input` those that
/// are made; both end where these end. `back` is how far back encoder and decoder see.
pub fn restore_stretch(
    film: Film<'_>,
    recipe: &Recipe,
    shot: &ShotStretch,
    networks: Networks<'_>,
    back: LookBack,
    room: &Room,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let Film { footage, input, sink, .. } = film;
    let ShotStretch { stretch, first, alpha } = shot;
    let sampling = &recipe.sampling;
    let needs = stretch.needs(&sampling.windows, back);
    let size = networks.latent(&recipe.geometry);
    let length = size.iter().product::<usize>();
    let mut done = Done { shots: vec![*first], groups: 1, ..Done::default() };
    let mut store = Store::new(room.folder.as_deref(), length, room.bytes)?;
    let mut reader = Reader::start(footage, recipe.prepare(), Cuts::None, needs.read.start);
    let (mut finisher, _) = Finisher::start(sink, input, recipe, *first, None);
    {
        let missing = || RestoreError::Changed { frame: *first };
        if !reader.next_shot()? {
            return Err(missing());
        }
        let mut encoder = loaded(networks.encode, &mut done, events)?;
        let before = stretch.made.start - needs.read.start;
        let mut engine = telling(before, stretch.made.len(), events);
        let early = needs.encoded.start - needs.first;
        let mut sink = Encoded { store: &mut store, channels: size[2], start: *first, early };
        encoder.clip(&mut reader, &mut sink, &mut engine)?;
        if reader.shot()?.frames != needs.read.len() || store.latents() != needs.encoded.len() {
            return Err(missing());
        }
    }
    done.latent_bytes = 4 * (store.latents() * length) as u64;
    {
        let mut sampler = sampler(networks.transform, sampling, size, &mut done, events)?;
        sampler.stretch(&mut store, 0, stretch, back, events)?;
    }
    {
        let mut decoder = loaded(networks.decode, &mut done, events)?;
        let Needs { encoded, decoded, early, .. } = needs;
        let latents = decoded.start - encoded.start..decoded.end - encoded.start;
        let mut latents = Restored { store: &store, shot: latents, next: 0, scale: sampling.scale };
        let shown = ShotShown::new(stretch, early, *alpha, &sampling.windows);
        show(&mut decoder, &mut latents, &mut finisher, shown, events)?;
    }
    completed(finisher, &mut done, events)?;
    Ok(done)
}
