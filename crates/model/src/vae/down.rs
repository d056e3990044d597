//! Half the size, and where asked half the frames.

use remaster_compute::{ComputeError, Padding, Weight};

use super::VaeConfig;
use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use crate::network::{Module, Pass};
use crate::params::Scope;

/// A convolution with step 2. The zero row and column are below and to the right only: a symmetric
/// padding would shift the picture by half a pixel.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L173>
pub struct Downsample {
    conv: CausalConv3d,
    groups: usize,
}

impl Downsample {
    /// Over `channels` channels; `time` halves the frames as well.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, channels: usize, time: bool) -> Self {
        let (kernel, stride) = if time { ([3, 3, 3], [2, 2, 2]) } else { ([1, 3, 3], [1, 2, 2]) };
        let padding = Padding { top: 0, bottom: 1, left: 0, right: 1 };
        let conv = CausalConv3d::with(scope, "conv", [channels; 2], kernel, stride, padding);
        Downsample { conv, groups: config.groups }
    }

    /// `[t, h, w, c]` to `[t or t/2, h/2, w/2, c]`.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        self.conv.forward(pass, x.view(), Fused::sums(self.groups))
    }
}

impl Module for Downsample {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.conv.weights(f);
    }
}
