//! What a film takes of a card that is not there.

use remaster_compute::DType;
use remaster_plan::Windows;

use super::film::Film;
use crate::card::ceilings::Table;
use crate::card::{Card, CardPlan, Ceiling, DECODER, TRANSFORMER};
use crate::limits::Amount;

impl Film {
    /// What it takes of the card that it was planned for.
    pub(super) fn on_card(&self, card: &Card) -> CardPlan {
        let allowed = match self.site.limits.vram {
            Some(Amount::Bytes(bytes)) => bytes,
            _ => card.memory().allowed(),
        };
        CardPlan::new(card, allowed, &self.plans, self.ceiling(card, &Table::built_in()))
    }

    /// Ceilings are known for the published VAE and the 3B transformer in f16, in windows of the usual length.
    fn ceiling(&self, card: &Card, table: &Table) -> Option<Ceiling> {
        let least = table.find(card.name)?;
        let diffusion = self.networks.diffusion()?;
        if !diffusion.vae.is_full() || self.site.build.dtype != DType::F16 {
            return None;
        }
        let usual = self.recipe.sampling.windows.frames() == Windows::FRAMES;
        let (networks, each) = match diffusion.is_3b() && usual {
            true => (vec![DECODER, TRANSFORMER], least.decode.seconds() + least.transformer_3b.seconds()),
            false => (vec![DECODER], least.decode.seconds()),
        };
        let [width, height] = self.recipe.shown;
        let seconds_per_frame = each * (width * height) as f64 / 1e6;
        let seconds = self.format.frames.map(|frames| seconds_per_frame * frames as f64);
        Some(Ceiling { networks, seconds_per_frame, seconds })
    }
}
