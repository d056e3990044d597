//! All that is known of one card.

use std::path::Path;

use crate::budget::Found;
use crate::cards::Card;
use crate::compiler::compile_all;
use crate::counts::Counts;
use crate::kernels::{self, Kernel};
use crate::llama;

/// A card and what its compiler made of every kernel.
pub(crate) struct Measured {
    pub(crate) card: &'static Card,
    /// As the driver names it.
    pub(crate) device: String,
    pub(crate) kernels: Vec<(Kernel, Result<Counts, String>)>,
    /// llama.cpp's, by name.
    pub(crate) llama: Vec<(&'static str, Result<Counts, String>)>,
}

impl Measured {
    /// Compiles everything for a card.
    pub(crate) fn of(mesa: &Path, card: &'static Card) -> Result<Self, String> {
        let kernels = kernels::all(card.matrix_units())?;
        let results = compile_all(mesa, card, &kernels);
        let device = results.iter().flatten().map(|found| found.device.clone()).next().unwrap_or_default();
        let counts = results.into_iter().map(|result| result.map(|found| Counts::of(&found)));
        let kernels = kernels.into_iter().zip(counts).collect();
        Ok(Measured { card, device, kernels, llama: Vec::new() })
    }

    /// The same with llama.cpp's kernels, if they are there.
    pub(crate) fn with_llama(mut self, mesa: &Path) -> Self {
        if llama::is_there(mesa) {
            self.llama = llama::all(mesa, self.card);
        }
        self
    }

    /// Kernels that compiled.
    pub(crate) fn found(&self) -> Vec<Found<'_>> {
        self.kernels.iter().filter_map(|(kernel, counts)| Some((kernel, counts.as_ref().ok()?))).collect()
    }

    /// Version of Mesa, the last word of what the driver says.
    pub(crate) fn mesa(&self) -> &str {
        self.device.rsplit(' ').next().unwrap_or_default()
    }
}
