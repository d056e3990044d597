//! Causal state: what a clip's earlier slices leave for the next one.

use std::collections::BTreeMap;

use remaster_compute::Tensor;

/// The last input frames of one convolution, after its normalisation.
pub type Tail = Tensor;

/// The state of one clip in one network, owned by the caller. A new clip starts with a new
/// state; two clips with a state each may take turns on one model.
#[derive(Clone, Debug, Default)]
pub struct State {
    tails: BTreeMap<String, Tail>,
    seen: usize,
    last: bool,
}

impl State {
    /// Before the first slice.
    pub fn new() -> Self {
        State::default()
    }

    /// For a clip that is one slice: nothing is kept behind it.
    pub fn single() -> Self {
        State { last: true, ..State::default() }
    }

    /// Says that the next slice is the last one: convolutions then leave no tail.
    pub fn finish(&mut self) {
        self.last = true;
    }

    /// Whether a slice went before.
    pub fn is_continued(&self) -> bool {
        self.seen > 0
    }

    /// Whether all that went before is the clip's first frame (of the encoder) or latent (of the decoder).
    pub fn is_second(&self) -> bool {
        self.seen == 1
    }

    /// Whether tails must be kept for another slice.
    pub fn keeps(&self) -> bool {
        !self.last
    }

    /// Tails by the name of their convolution.
    pub fn tails(&self) -> impl Iterator<Item = (&str, &Tail)> {
        self.tails.iter().map(|(name, tail)| (name.as_str(), tail))
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.tails.values().map(|t| t.view().bytes()).sum()
    }

    /// A state after `seen` frames or latents. With 0 the tails are room that is not filled yet.
    pub fn with(tails: impl IntoIterator<Item = (String, Tail)>, seen: usize) -> Self {
        State { tails: tails.into_iter().collect(), seen, last: false }
    }

    /// Frames or latents that went through.
    pub fn seen(&self) -> usize {
        self.seen
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Tail> {
        self.tails.remove(name)
    }

    pub(crate) fn put(&mut self, name: &str, tail: Tail) {
        self.tails.insert(name.to_owned(), tail);
    }

    /// A slice of this many frames or latents went through the whole network.
    pub fn advance(&mut self, frames: usize) {
        self.seen += frames;
    }
}
