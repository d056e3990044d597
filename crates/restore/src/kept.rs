//! Restored latents in a file.

use std::ops::Range;

use remaster_colour::alpha::AlphaKind;

use crate::error::RestoreError;
use crate::latent_file::LatentWriter;
use crate::latent_store::LatentStore;

/// Alpha as a number in a file.
fn code(alpha: Option<AlphaKind>) -> u8 {
    match alpha {
        None => 0,
        Some(AlphaKind::Binary) => 1,
        Some(AlphaKind::Soft) => 2,
    }
}

/// The kind of alpha with this number.
pub(crate) fn kind(code: u8) -> Option<AlphaKind> {
    match code {
        1 => Some(AlphaKind::Binary),
        2 => Some(AlphaKind::Soft),
        _ => None,
    }
}

/// Writes the latents of a shot of so many frames as the decoder takes them.
pub(crate) fn shot(
    keep: &mut LatentWriter,
    store: &LatentStore,
    latents: Range<usize>,
    (frames, alpha): (usize, Option<AlphaKind>),
    scale: f32,
) -> Result<(), RestoreError> {
    for latent in latents {
        let values = store.read(latent..latent + 1)?;
        keep.latent(values.iter().map(|value| value / scale))?;
    }
    keep.shot(frames, code(alpha));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latent_file::KINDS;

    #[test]
    fn every_kind_of_alpha_has_a_number() {
        let kinds = [None, Some(AlphaKind::Binary), Some(AlphaKind::Soft)];
        assert_eq!(kinds.len(), usize::from(KINDS));
        for alpha in kinds {
            assert_eq!(kind(code(alpha)), alpha);
        }
    }
}
