//! The block most of the network is made of.

use remaster_compute::{ComputeError, Weight};

use super::VaeConfig;
use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use super::norm::GroupNorm;
use crate::network::{Module, Pass};
use crate::params::Scope;

/// `x + conv2(silu(norm2(conv1(silu(norm1(x))))))`; where the channels change, x goes through a 1x1x1
/// convolution first.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L249>
pub struct ResnetBlock {
    norm1: GroupNorm,
    conv1: CausalConv3d,
    norm2: GroupNorm,
    conv2: CausalConv3d,
    shortcut: Option<CausalConv3d>,
    groups: usize,
}

impl ResnetBlock {
    /// From `cin` to `cout` channels.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, cin: usize, cout: usize) -> Self {
        ResnetBlock {
            norm1: GroupNorm::new(config, scope, "norm1", cin),
            conv1: CausalConv3d::new(scope, "conv1", cin, cout),
            norm2: GroupNorm::new(config, scope, "norm2", cout),
            conv2: CausalConv3d::new(scope, "conv2", cout, cout),
            shortcut: (cin != cout).then(|| CausalConv3d::pointwise(scope, "conv_shortcut", cin, cout)),
            groups: config.groups,
        }
    }

    /// `[t, h, w, cin]` to `[t, h, w, cout]`.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        let groups = self.groups;
        let stats = self.norm1.stats(pass.ops, &x)?;
        let prologue = Some(self.norm1.then_silu(&stats));
        let h = self.conv1.forward(pass, x.view(), Fused { prologue, groups, ..Fused::default() })?;

        let stats = self.norm2.stats(pass.ops, &h)?;
        let prologue = Some(self.norm2.then_silu(&stats));
        let fused = match &self.shortcut {
            None => Fused { prologue, residual: Some(x), groups, ..Fused::default() },
            Some(conv) => Fused { prologue, shortcut: Some((x.view(), conv)), groups, ..Fused::default() },
        };
        self.conv2.forward(pass, h.view(), fused)
    }
}

impl Module for ResnetBlock {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.norm1.weights(f);
        self.conv1.weights(f);
        self.norm2.weights(f);
        self.conv2.weights(f);
        self.shortcut.iter().for_each(|s| s.weights(f));
    }
}
