//! Attention of the mid block.

use remaster_compute::{AttentionDesc, ComputeError, LinearDesc, Ops, Tensor, Weight};

use super::VaeConfig;
use super::act::Act;
use super::norm::GroupNorm;
use crate::network::Module;
use crate::params::Scope;

/// One head as wide as the channels, over the pixels of one frame, around a residual.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L600>
pub struct Attention {
    norm: GroupNorm,
    to_q: Weight,
    to_k: Weight,
    to_v: Weight,
    to_out: Weight,
    channels: usize,
}

impl Attention {
    /// Over `channels` channels.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, channels: usize) -> Self {
        Attention {
            norm: GroupNorm::new(config, scope, "group_norm", channels),
            to_q: scope.linear("to_q", channels, channels),
            to_k: scope.linear("to_k", channels, channels),
            to_v: scope.linear("to_v", channels, channels),
            to_out: scope.linear("to_out.0", channels, channels),
            channels,
        }
    }

    /// `[t, h, w, c]` to the same.
    pub fn forward(&self, ops: &mut dyn Ops, x: Act) -> Result<Act, ComputeError> {
        let y = self.norm.forward(ops, &x, false)?;
        let q = project(ops, &y, &self.to_q)?;
        let k = project(ops, &y, &self.to_k)?;
        let v = project(ops, &y, &self.to_v)?;
        let scale = 1.0 / (self.channels as f32).sqrt();
        // The normalised frame is not needed any more: its memory takes the result.
        let (qv, kv, vv, output) = (q.view(), k.view(), v.view(), y.view());
        ops.attention(&AttentionDesc { q: qv, k: kv, v: vv, heads: 1, scale, output })?;
        drop((q, k, v));

        ops.linear(&LinearDesc {
            input: y.view(),
            weight: &self.to_out,
            accumulate: true,
            sums: x.sums_out(),
            output: x.view(),
        })?;
        Ok(x)
    }
}

fn project(ops: &mut dyn Ops, x: &Tensor, weight: &Weight) -> Result<Tensor, ComputeError> {
    let y = ops.alloc(x.shape(), x.dtype())?;
    ops.linear(&LinearDesc { input: x.view(), weight, accumulate: false, sums: None, output: y.view() })?;
    Ok(y)
}

impl Module for Attention {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.norm.weights(f);
        [&self.to_q, &self.to_k, &self.to_v, &self.to_out].into_iter().for_each(f);
    }
}
