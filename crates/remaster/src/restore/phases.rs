//! The phases of a restoration: how much work each is, and how fast it went.

use super::film::Film;
use crate::event::{PHASES, Reporter};
use crate::machine::rates;
use crate::plan::macs_per_frame;

impl Film {
    /// Work of a frame in each phase. Windows share latents, which are computed twice.
    pub(crate) fn work(&self) -> [f64; 3] {
        if self.networks.by_frame() {
            let macs = self.plans.first().map_or(0.0, |plan| macs_per_frame(plan, plan.job.picture()[0]));
            return [0.0, macs, 0.0];
        }
        let frames = |i: usize| self.plans[i].job.picture()[0];
        let windows = self.recipe.sampling.windows;
        let steps = self.plans[1].job.cells.steps;
        let new = if steps == windows.length() { windows.step() * 4 } else { (steps - 1) * 4 + 1 };
        [
            macs_per_frame(&self.plans[0], frames(0)),
            macs_per_frame(&self.plans[1], new),
            macs_per_frame(&self.plans[2], frames(2)),
        ]
    }

    /// Keeps how fast the networks were, for later estimates.
    pub(crate) fn record(&self, report: &Reporter<'_>) {
        let ([encode, restore, decode], keys) = (self.work(), self.networks.rate_keys(&self.site));
        let of = |parts: &[(&str, f64)]| {
            parts.iter().fold((0.0, 0.0), |(macs, seconds), (phase, work)| {
                let took = report.took(phase);
                (macs + work * took.frames as f64, seconds + took.busy.as_secs_f64())
            })
        };
        let vae = of(&[(PHASES[0], encode), (PHASES[2], decode)]);
        for (key, work) in keys.into_iter().zip([vae, of(&[(PHASES[1], restore)])]) {
            if let Some(key) = key {
                rates::record(&self.site.machine, &key, work, report);
            }
        }
    }

    /// Frames of a unit of a film of so many.
    pub(crate) fn unit_of(&self, frames: usize) -> usize {
        frames.min(self.surroundings.unit_frames.max(1))
    }

    /// The phases that there are.
    pub(crate) fn phases(&self) -> &'static [&'static str] {
        if self.networks.by_frame() { &PHASES[1..2] } else { &PHASES }
    }

    /// Bytes of all latents, as far as the length of the film is known.
    pub(crate) fn kept_bytes(&self) -> Option<u64> {
        let frames = self.format.frames? as u64;
        let latent = self.latent();
        Some((frames.div_ceil(4) + 1).saturating_mul(latent))
    }

    /// Groups of shots, about: one that does not fill its room to the end leaves more for the next.
    pub(crate) fn groups(&self) -> Option<u64> {
        Some(self.kept_bytes()?.div_ceil(self.room.bytes.max(1)).max(1))
    }

    /// Bytes of latents that wait at most.
    pub(crate) fn latent_bytes(&self) -> Option<u64> {
        Some(self.kept_bytes()?.min(self.room.bytes))
    }

    /// Work of a frame in each phase that there is, against that of the others.
    pub(crate) fn weights(&self) -> Vec<(&'static str, f64)> {
        let work = PHASES.into_iter().zip(self.work().map(|work| work.max(1.0)));
        work.filter(|(phase, _)| self.phases().contains(phase)).collect()
    }

    /// Declares the phases; the number of frames is sure if they were `counted`.
    pub(super) fn declare(&self, counted: bool, report: &Reporter<'_>) {
        let phases = self.phases();
        report.only(phases);
        report.plan(self.total.ram(), &self.weights());
        for (i, phase) in phases.iter().copied().enumerate() {
            report.phase_about(phase, self.format.frames, counted);
            let slice = match phase {
                "restore" if phases.len() > 1 => self.recipe.sampling.windows.step() * 4,
                _ => self.plans.get(i).map_or(1, |plan| plan.how.slice),
            };
            report.slice(phase, if slice == 0 { self.format.frames.unwrap_or(0) } else { slice });
        }
        report.phase("finish", Some(0));
    }
}
