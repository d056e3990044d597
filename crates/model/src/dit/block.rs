//! One block: attention in windows, then an MLP, for video and text.

use std::sync::Arc;

use remaster_compute::{
    AddGatedDesc, CommonQueries, ComputeError, DType, Ops, Tensor, Weight, WindowAttentionDesc,
};

use super::attention::{Attention, Heads};
use super::layout::{Grid, Group, Layout, Layouts};
use super::mlp::Mlp;
use super::modulation::{Embedding, Modulation};
use super::{DitConfig, Family, normalized};
use crate::network::Module;
use crate::params::Scope;

/// What a block does to one stream.
struct Stream {
    attention: Attention,
    around_attention: Modulation,
    mlp: Mlp,
    around_mlp: Modulation,
}

/// A block. Video and text share their weights in the later blocks of the 3B network.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/dit_v2/nablocks/mmsr_block.py>
pub struct Block {
    video: Arc<Stream>,
    text: Arc<Stream>,
    /// The text is not used behind this block: it is only looked at, and not modulated.
    ends_text: bool,
    /// Windows are shifted.
    shifted: bool,
    dtype: DType,
    heads: usize,
    scale: f32,
}

impl Stream {
    fn new(config: &DitConfig, scope: &mut Scope<'_>, name: &str, embedding: &Embedding) -> Self {
        let [around_attention, around_mlp] =
            Modulation::pair(&mut scope.at("ada").at(name), config.width, embedding);
        Stream {
            attention: Attention::new(config, &mut scope.at("attn"), name),
            around_attention,
            mlp: Mlp::new(config, &mut scope.at("mlp").at(name)),
            around_mlp,
        }
    }

    /// Norm, attention's projection, gate: what was seen is added to `x`.
    fn add_seen(&self, ops: &mut dyn Ops, seen: Tensor, x: &Tensor) -> Result<(), ComputeError> {
        let y = self.attention.leave(ops, seen)?;
        let (input, residual) = (y.view(), x.view());
        ops.add_gated(&AddGatedDesc { input, gate: Some(&self.around_attention.gate), residual })
    }

    /// Norm, MLP, gate: added to `x`.
    fn add_mlp(&self, ops: &mut dyn Ops, x: &Tensor, dtype: DType) -> Result<(), ComputeError> {
        let y = normalized(ops, x.view(), Some(&self.around_mlp.affine), dtype)?;
        let y = self.mlp.forward(ops, y)?;
        let (input, residual) = (y.view(), x.view());
        ops.add_gated(&AddGatedDesc { input, gate: Some(&self.around_mlp.gate), residual })
    }
}

impl Block {
    /// Block `number` of the network. `scope` is where its parameters lie.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>, number: usize, embedding: &Embedding) -> Self {
        let mut stream = |name| Arc::new(Stream::new(config, scope, name, embedding));
        let (video, text) = match number < config.separate {
            true => (stream("vid"), stream("txt")),
            false => {
                let both = stream("all");
                (Arc::clone(&both), both)
            }
        };
        Block {
            video,
            text,
            ends_text: config.family == Family::Shared && number + 1 == config.layers,
            shifted: number % 2 == 1,
            dtype: scope.build().dtype,
            heads: config.heads(),
            scale: 1.0 / (config.head as f32).sqrt(),
        }
    }

    /// Tokens `[t, h * w, 1, d]` and text `[1, m, 1, d]`, both in place.
    pub fn forward(
        &self,
        ops: &mut dyn Ops,
        grid: &Grid,
        text: &Tensor,
        layouts: &Layouts,
    ) -> Result<(), ComputeError> {
        let layout = &layouts.layouts[usize::from(self.shifted)];
        let words = self.words(ops, text, layouts)?;
        let seen = match self.ends_text {
            true => None,
            false => Some(ops.alloc(text.shape(), DType::F32)?),
        };
        for group in layout.groups() {
            let x = grid.take(ops, &group)?;
            let y = self.look(ops, &x, &words, seen.as_ref(), (layouts, layout, &group))?;
            self.video.add_seen(ops, y, &x)?;
            self.video.add_mlp(ops, &x, self.dtype)?;
            grid.put(ops, &group, &x)?;
        }
        drop(words);
        let Some(sum) = seen else { return Ok(()) };
        let mean = ops.alloc(sum.shape(), self.dtype)?;
        ops.copy(sum.view(), mean.view())?;
        drop(sum);
        self.text.add_seen(ops, mean, text)?;
        self.text.add_mlp(ops, text, self.dtype)
    }

    /// The text as all windows see it.
    pub fn words(&self, ops: &mut dyn Ops, text: &Tensor, layouts: &Layouts) -> Result<Heads, ComputeError> {
        let affine = (!self.ends_text).then_some(&self.text.around_attention.affine);
        let x = normalized(ops, text.view(), affine, self.dtype)?;
        self.text.attention.heads(ops, x, layouts.text_rotation().as_ref(), !self.ends_text)
    }

    /// The tokens of a group before they look: `[1, n, 1, d]`.
    pub fn tokens(
        &self,
        ops: &mut dyn Ops,
        x: &Tensor,
        layouts: &Layouts,
        group: &Group<'_>,
    ) -> Result<Heads, ComputeError> {
        let x = normalized(ops, x.view(), Some(&self.video.around_attention.affine), self.dtype)?;
        self.video.attention.heads(ops, x, Some(&layouts.rotation(group)), true)
    }

    /// What a group sees; the mean of what the text sees in each window is added up in `seen`.
    fn look(
        &self,
        ops: &mut dyn Ops,
        x: &Tensor,
        words: &Heads,
        seen: Option<&Tensor>,
        (layouts, layout, group): (&Layouts, &Layout, &Group<'_>),
    ) -> Result<Tensor, ComputeError> {
        let Heads { q, k, v } = self.tokens(ops, x, layouts, group)?;
        let y = ops.alloc(x.shape(), self.dtype)?;
        let common = words.q.as_ref().zip(seen).map(|(q, seen)| CommonQueries {
            q: q.view(),
            share: 1.0 / layout.count() as f32,
            accumulate: group.rows.start > 0,
            output: seen.view(),
        });
        ops.window_attention(&WindowAttentionDesc {
            q: q.as_ref().unwrap_or(&k).view(),
            k: k.view(),
            v: v.view(),
            windows: group.lengths,
            common_k: words.k.view(),
            common_v: words.v.view(),
            common,
            heads: self.heads,
            scale: self.scale,
            output: y.view(),
        })?;
        Ok(y)
    }
}

impl Module for Stream {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        f(&self.around_attention.affine);
        self.attention.weights(f);
        f(&self.around_attention.gate);
        f(&self.around_mlp.affine);
        self.mlp.weights(f);
        f(&self.around_mlp.gate);
    }
}

impl Module for Block {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.video.weights(f);
        if !Arc::ptr_eq(&self.video, &self.text) {
            self.text.weights(f);
        }
    }
}
