//! A film of restored latents that were kept, without encoder and transformer.

use remaster_engine::Events;
use remaster_media::{FrameSink, FrameSource};
use remaster_plan::ShotRange;

use crate::error::RestoreError;
use crate::film::{Done, Recipe, completed, loaded, show};
use crate::finish::{Finisher, ShotShown};
use crate::kept::kind;
use crate::latent_file::LatentFile;
use crate::planned::Planned;

/// A film of latents that were kept. `input` has the frames that they were made of; a `recipe` says how what is decoded
/// is finished.
pub fn redecode(
    file: &LatentFile,
    input: Box<dyn FrameSource>,
    sink: Box<dyn FrameSink>,
    recipe: &Recipe,
    decode: Planned<'_>,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let mut done = Done { groups: 1, ..Done::default() };
    let (mut finisher, _) =
        Finisher::start(sink, input, recipe.sizes(), &recipe.finish, 0, Some(file.times()?));
    {
        let mut decoder = loaded(decode, &mut done, events)?;
        let mut start = 0;
        for shot in file.shots()? {
            let shot = shot?;
            done.shots.push(start);
            start += shot.frames;
            let windows = &recipe.sampling.windows;
            let shown = ShotShown::new(&ShotRange::whole(shot.frames), 0, kind(shot.alpha), windows);
            let mut latents = file.latents(shot.latents);
            show(&mut decoder, &mut latents, &mut finisher, shown, events)?;
        }
    }
    completed(finisher, &mut done, events)?;
    Ok(done)
}
