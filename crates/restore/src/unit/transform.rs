//! The second phase of a unit: latents to restored ones, window by window, each of which is kept.

use remaster_engine::Events;

use super::layout::Layout;
use super::run::Run;
use crate::error::RestoreError;
use crate::film::sampler;
use crate::sample::{Mixing, frames_done};

/// How far windows were restored by earlier runs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Shots that are left before this one are done.
    item: usize,
    /// Windows of it that are done.
    windows: usize,
    /// What the next window shares with them.
    mixing: Mixing,
    /// Its first latent.
    latent: usize,
}

impl Progress {
    /// Number in the unit of the first latent that is not restored.
    pub(super) fn place(&self, layout: &Layout) -> usize {
        layout.items.get(self.item).map_or(layout.places.end, |item| item.place(self.latent))
    }
}

impl Run<'_, '_> {
    /// Loads the windows that are kept, from the first on without a gap.
    pub(super) fn restored(&mut self) -> Result<Progress, RestoreError> {
        let sampling = &self.recipe.sampling;
        for (i, item) in self.layout.items.iter().enumerate() {
            let windows = item.range.windows(&sampling.windows, self.back);
            let mut mixing = Mixing::default();
            for (j, window) in windows.iter().enumerate() {
                let Some(values) = self.keeper.window(item.shot, window)? else {
                    return Ok(Progress { item: i, windows: j, mixing, latent: window.start });
                };
                let place = item.place(window.start) - self.layout.places.start;
                mixing.write(values, (&windows, j), &mut self.store, place)?;
            }
        }
        Ok(Progress { item: self.layout.items.len(), ..Progress::default() })
    }

    /// Restores the others. Behind a gap, what is kept is not restored again either.
    pub(super) fn transform(&mut self, progress: Progress, events: Events<'_>) -> Result<(), RestoreError> {
        let sampling = &self.recipe.sampling;
        let Progress { item: first, windows: mut skip, mut mixing, .. } = progress;
        let mut network = None;
        for item in self.layout.items.iter().skip(first) {
            let windows = item.range.windows(&sampling.windows, self.back);
            for (j, window) in windows.iter().enumerate().skip(std::mem::take(&mut skip)) {
                let place = item.place(window.start) - self.layout.places.start;
                let values = match self.keeper.window(item.shot, window)? {
                    Some(values) => values,
                    None => {
                        let network = match &mut network {
                            Some(network) => network,
                            None => network.insert(sampler(
                                self.networks.transform,
                                sampling,
                                self.size,
                                &mut self.done,
                                events,
                            )?),
                        };
                        let given = self.store.read(place..place + window.len())?;
                        let done = frames_done(&item.range, &windows, j);
                        let values = network.window(window.clone(), &given, done, events)?;
                        self.keeper.keep_window(item.shot, window, &values)?;
                        values
                    }
                };
                mixing.write(values, (&windows, j), &mut self.store, place)?;
            }
            mixing = Mixing::default();
        }
        Ok(())
    }
}
