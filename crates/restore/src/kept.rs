//! Restored latents in a file, and films made of them again, without encoder and transformer.

use remaster_colour::alpha::AlphaKind;
use remaster_media::{FrameSink, FrameSource};
use remaster_pipeline::{LatentFile, LatentWriter, Planned};
use remaster_plan::Stretch;

use crate::error::RestoreError;
use crate::film::{Done, Events, Recipe, Shot, completed, loaded, show};
use crate::finish::{Finisher, ShotShown};
use crate::store::Store;

/// Alpha as a number in a file.
fn code(alpha: Option<AlphaKind>) -> u8 {
    match alpha {
        None => 0,
        Some(AlphaKind::Binary) => 1,
        Some(AlphaKind::Soft) => 2,
    }
}

/// The kind of alpha with this number.
fn kind(code: u8) -> Option<AlphaKind> {
    match code {
        1 => Some(AlphaKind::Binary),
        2 => Some(AlphaKind::Soft),
        _ => None,
    }
}

/// Writes the latents of a shot as the decoder takes them.
pub(crate) fn shot(
    keep: &mut LatentWriter,
    store: &Store,
    shot: &Shot,
    scale: f32,
) -> Result<(), RestoreError> {
    for latent in shot.latents.clone() {
        let values = store.read(latent..latent + 1).map_err(RestoreError::Latents)?;
        keep.latent(values.iter().map(|value| value / scale))?;
    }
    keep.shot(shot.stretch.shot, code(shot.alpha));
    Ok(())
}

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
    let (mut finisher, _) = Finisher::start(sink, input, recipe, 0, Some(file.times()?));
    {
        let mut decoder = loaded(decode, &mut done, events)?;
        let mut start = 0;
        for shot in file.shots()? {
            let shot = shot?;
            done.shots.push(start);
            start += shot.frames;
            let windows = &recipe.sampling.windows;
            let shown = ShotShown::new(&Stretch::whole(shot.frames), 0, kind(shot.alpha), windows);
            let mut latents = file.latents(shot.latents);
            show(&mut decoder, &mut latents, &mut finisher, shown, events)?;
        }
    }
    completed(finisher, &mut done, events)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remaster_pipeline::KINDS;

    #[test]
    fn every_kind_of_alpha_has_a_number() {
        let kinds = [None, Some(AlphaKind::Binary), Some(AlphaKind::Soft)];
        assert_eq!(kinds.len(), usize::from(KINDS));
        for alpha in kinds {
            assert_eq!(kind(code(alpha)), alpha);
        }
    }
}
