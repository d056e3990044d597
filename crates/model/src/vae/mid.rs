//! The middle of both halves, at 1/8 size.

use remaster_compute::{ComputeError, Weight};

use super::VaeConfig;
use super::act::Act;
use super::attention::Attention;
use super::resnet::ResnetBlock;
use crate::network::{Module, Pass};
use crate::params::Scope;

/// Resnet, attention, resnet.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L559>
pub struct MidBlock {
    attention: Attention,
    first: ResnetBlock,
    second: ResnetBlock,
}

impl MidBlock {
    /// Over `channels` channels.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, channels: usize) -> Self {
        MidBlock {
            attention: Attention::new(config, &mut scope.at("attentions.0"), channels),
            first: ResnetBlock::new(config, &mut scope.at("resnets.0"), channels, channels),
            second: ResnetBlock::new(config, &mut scope.at("resnets.1"), channels, channels),
        }
    }

    /// `[t, h, w, c]` to the same.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        let x = self.first.forward(pass, x)?;
        let x = self.attention.forward(pass.ops, x)?;
        self.second.forward(pass, x)
    }
}

impl Module for MidBlock {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.first.weights(f);
        self.attention.weights(f);
        self.second.weights(f);
    }
}
