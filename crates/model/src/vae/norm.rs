//! GroupNorm over one frame.

use remaster_compute::{
    CombineDesc, ComputeError, DType, NormalizeDesc, Ops, Prologue, RowSumsDesc, Shape, Tensor, Weight,
};

use super::VaeConfig;
use super::act::Act;
use crate::network::Module;
use crate::params::Scope;

/// Statistics over the channels of a group and all pixels of one frame, never over time.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/causal_inflation_lib.py#L329>
pub struct GroupNorm {
    groups: usize,
    affine: Weight,
}

impl GroupNorm {
    /// Over `channels` channels.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, name: &str, channels: usize) -> Self {
        GroupNorm { groups: config.groups, affine: scope.norm(name, channels) }
    }

    /// Mean and 1/deviation of every frame: `[t, h, w, c]` to `[t, 1, 1, 2 * groups]`.
    pub fn stats(&self, ops: &mut dyn Ops, x: &Act) -> Result<Tensor, ComputeError> {
        let Shape { t, h, w, c } = x.shape();
        let sums = match &x.sums {
            Some(sums) => sums.clone(),
            None => {
                let sums = ops.alloc(Shape::new(t, h, 1, 2 * self.groups), DType::F32)?;
                ops.row_sums(&RowSumsDesc { input: x.view(), groups: self.groups, output: sums.view() })?;
                sums
            }
        };
        let stats = ops.alloc(Shape::new(t, 1, 1, 2 * self.groups), DType::F32)?;
        let count = w * (c / self.groups);
        ops.combine_sums(&CombineDesc {
            name: self.affine.name(),
            sums: sums.view(),
            count,
            eps: VaeConfig::EPS,
            output: stats.view(),
        })?;
        Ok(stats)
    }

    /// Normalisation and SiLU on the way into a convolution.
    pub fn then_silu<'a>(&'a self, stats: &'a Tensor) -> Prologue<'a> {
        Prologue { stats: stats.view(), affine: &self.affine, silu: true }
    }

    /// Normalisation on its own: `[t, h, w, c]` to the same.
    pub fn forward(&self, ops: &mut dyn Ops, x: &Act, silu: bool) -> Result<Tensor, ComputeError> {
        let stats = self.stats(ops, x)?;
        let y = ops.alloc(x.shape(), x.x.dtype())?;
        let (input, stats, output) = (x.view(), stats.view(), y.view());
        ops.normalize(&NormalizeDesc { input, stats, affine: &self.affine, silu, output })?;
        Ok(y)
    }
}

impl Module for GroupNorm {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        f(&self.affine);
    }
}
