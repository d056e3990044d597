//! Queries, keys and values of one stream.

use remaster_compute::{ComputeError, Ops, Rotation, Tensor, TokenNormDesc, View, Weight, WeightSpec};

use super::{DitConfig, project};
use crate::network::Module;
use crate::params::{Origin, Scope};

/// The projections of one stream around attention. Queries and keys are normalised head by head and turned by their
/// position.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/dit_v2/nablocks/attention/mmattn.py>
#[derive(Clone)]
pub struct Attention {
    q: Weight,
    k: Weight,
    v: Weight,
    norm_q: Weight,
    norm_k: Weight,
    out: Weight,
    heads: usize,
}

/// Queries, keys and values of some tokens.
pub struct Heads {
    /// Queries, if they are wanted.
    pub q: Option<Tensor>,
    /// Keys.
    pub k: Tensor,
    /// Values.
    pub v: Tensor,
}

impl Attention {
    /// Of the stream called `stream`.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>, stream: &str) -> Self {
        let d = config.width;
        let spec = WeightSpec::Linear { cin: d, cout: d, dtype: scope.build().dtype };
        let mut part = |i: usize| {
            let rows = Origin::Rows(format!("proj_qkv.{stream}.weight"), i * d..(i + 1) * d, 3 * d);
            scope.made_of(&format!("proj_qkv.{stream}.{}", ["q", "k", "v"][i]), spec, rows, None)
        };
        let (q, k, v) = (part(0), part(1), part(2));
        Attention {
            q,
            k,
            v,
            norm_q: scope.vector(&format!("norm_q.{stream}.weight"), config.head),
            norm_k: scope.vector(&format!("norm_k.{stream}.weight"), config.head),
            out: scope.linear(&format!("proj_out.{stream}"), d, d),
            heads: config.heads(),
        }
    }

    /// `[1, n, 1, d]` to three of the same; without queries unless they are wanted.
    pub fn heads(
        &self,
        ops: &mut dyn Ops,
        x: Tensor,
        rotation: Option<&Rotation<'_>>,
        asked: bool,
    ) -> Result<Heads, ComputeError> {
        let q = match asked {
            true => Some(self.turned(ops, x.view(), &self.q, &self.norm_q, rotation)?),
            false => None,
        };
        let k = self.turned(ops, x.view(), &self.k, &self.norm_k, rotation)?;
        let v = project(ops, x.view(), &self.v)?;
        Ok(Heads { q, k, v })
    }

    /// What was seen, projected: `[1, n, 1, d]` to the same.
    pub fn leave(&self, ops: &mut dyn Ops, seen: Tensor) -> Result<Tensor, ComputeError> {
        project(ops, seen.view(), &self.out)
    }

    fn turned(
        &self,
        ops: &mut dyn Ops,
        x: View<'_>,
        weight: &Weight,
        norm: &Weight,
        rotation: Option<&Rotation<'_>>,
    ) -> Result<Tensor, ComputeError> {
        let plain = project(ops, x, weight)?;
        let turned = ops.alloc(plain.shape(), plain.dtype())?;
        ops.token_norm(&TokenNormDesc {
            input: plain.view(),
            heads: self.heads,
            eps: DitConfig::EPS,
            affine: Some(norm),
            rotation: rotation.cloned(),
            output: turned.view(),
        })?;
        Ok(turned)
    }
}

impl Module for Attention {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        [&self.q, &self.norm_q, &self.k, &self.norm_k, &self.v, &self.out].into_iter().for_each(f);
    }
}
