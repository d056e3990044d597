//! Twice the size, and where asked twice the frames.

use remaster_compute::{ComputeError, Shape, ShuffleDesc, Weight};

use super::act::{Act, Pass};
use super::causal_conv::{Around, CausalConv3d};
use super::{Module, VaeConfig};
use crate::params::Scope;

/// A 1x1x1 convolution makes all pixels a pixel becomes, a shuffle puts them in place, a convolution
/// smooths. The first frame of a clip becomes one frame, not two.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L54>
pub struct Upsample {
    conv: CausalConv3d,
    upscale: CausalConv3d,
    factors: [usize; 3],
    groups: usize,
}

impl Upsample {
    /// Over `channels` channels; `time` doubles the frames as well.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, channels: usize, time: bool) -> Self {
        let factors = if time { [2, 2, 2] } else { [1, 2, 2] };
        let many = factors.iter().product::<usize>() * channels;
        Upsample {
            conv: CausalConv3d::new(scope, "conv", channels, channels),
            upscale: CausalConv3d::pointwise(scope, "upscale_conv", channels, many),
            factors,
            groups: config.groups,
        }
    }

    /// `[t, h, w, c]` to `[t or 2t, 2h, 2w, c]`, one frame less at the start of a clip if time doubles.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        let Shape { t, h, w, c } = x.shape();
        let [z, fy, fx] = self.factors;
        let drop_second = z > 1 && !pass.state.is_continued();
        let many = self.upscale.forward(pass, x.view(), Around::default())?;
        drop(x);
        let wide = pass
            .ops
            .alloc(Shape::new(t * z - usize::from(drop_second), h * fy, w * fx, c), many.x.dtype())?;
        let (input, output) = (many.view(), wide.view());
        pass.ops.shuffle(&ShuffleDesc { input, factors: self.factors, drop_second, output })?;
        drop(many);
        self.conv.forward(pass, wide.view(), Around { groups: self.groups, ..Around::default() })
    }
}

impl Module for Upsample {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.upscale.weights(f);
        self.conv.weights(f);
    }
}
