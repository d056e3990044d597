//! What decides a film, as the values that a plan pins, and back.

use std::path::Path;

use remaster_media::{Encoding, Filters};
use remaster_units::{Request as Pinned, Share, UnitsError};

use crate::error::Error;
use crate::media::Target;
use crate::request::{Request, Restoration};

/// Filters and encoder options of a plan that cannot hold them, as they were given to the planner: a plan has them as they
/// are only if they are in closed lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// Filters.
    pub filters: Option<Filters>,
    /// Encoder options.
    pub encoder: Option<Encoding>,
}

/// What a plan holds.
pub fn of(how: &Restoration, target: &Target) -> Result<Pinned, Error> {
    let look = &how.look;
    let share = |value: f32| Share::try_from(value).map_err(|reason| UnitsError::Plan { reason });
    Ok(Pinned {
        seed: look.seed,
        softness: share(look.softness)?,
        // The window in use: assembly does not know the network, which may shorten it.
        window: how.pools()?.0.frames(),
        input_noise: share(look.input_noise)?,
        latent_noise: share(look.latent_noise)?,
        strength: share(look.finish.strength)?,
        color: look.finish.color(how.models.by_frame()),
        color_pool: look.finish.color_pool,
        dither: look.finish.dither,
        resolution: how.size.asked(),
        edges: how.size.edges,
        keep_sar: how.keep_sar,
        tiles: how.limits.tiles(),
        reading: how.source.asked(),
        writing: target.asked(),
    })
}

/// A restoration with the values and the encoder's threads of a plan, and otherwise the defaults.
pub fn planned(
    (pinned, threads): (&Pinned, u32),
    repeated: &Repeated,
    input: &Path,
    output: &Path,
) -> Result<Request, Error> {
    let mut request = Request::restore(input).output(output);
    let how = &mut request.how;
    how.look.seed = pinned.seed;
    how.look.softness = pinned.softness.get();
    how.look.window = pinned.window;
    how.look.input_noise = pinned.input_noise.get();
    how.look.latent_noise = pinned.latent_noise.get();
    how.look.finish.strength = pinned.strength.get();
    how.look.finish.color = Some(pinned.color);
    how.look.finish.color_pool = pinned.color_pool;
    how.look.finish.dither = pinned.dither;
    how.keep_sar = pinned.keep_sar;
    how.size = how.size.planned(pinned.resolution, pinned.edges);
    how.limits = how.limits.clone().with_tiles(pinned.tiles);
    how.source = how.source.clone().planned(&pinned.reading, repeated.filters.as_ref())?;
    request.target = request.target.planned(&pinned.writing, threads, repeated.encoder.as_ref())?;
    Ok(request)
}
