//! Tokens to velocities.

use remaster_compute::{ComputeError, DType, Ops, Tensor, View, Weight};

use super::modulation::{Embedding, Modulation};
use super::{DitConfig, Family, normalized, project, rows_like};
use crate::network::Module;
use crate::params::Scope;

/// A norm in the 3B network, then a projection.
pub struct Head {
    norm: Option<Weight>,
    out: Weight,
    dtype: DType,
}

impl Head {
    /// `d` channels to those of a patch.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>, embedding: &Embedding) -> Self {
        let shared = config.family == Family::Shared;
        let patch = DitConfig::PATCH * DitConfig::PATCH * config.latent;
        Head {
            norm: shared.then(|| Modulation::head(scope, config.width, embedding)),
            out: scope.linear("vid_out.proj", config.width, patch),
            dtype: scope.build().dtype,
        }
    }

    /// Format of what comes out.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rows of `[t, h * w, 1, d]` to the same rows of `[t, h * w, 1, 64]`.
    pub fn forward(&self, ops: &mut dyn Ops, x: View<'_>) -> Result<Tensor, ComputeError> {
        let y = self.normalized(ops, x)?;
        project(ops, y.view(), &self.out)
    }

    /// As the projection sees it.
    pub fn normalized(&self, ops: &mut dyn Ops, x: View<'_>) -> Result<Tensor, ComputeError> {
        if self.norm.is_some() {
            return normalized(ops, x, self.norm.as_ref(), self.dtype);
        }
        let y = rows_like(ops, &x, x.shape(), self.dtype)?;
        ops.copy(x, y.view())?;
        Ok(y)
    }
}

impl Module for Head {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.norm.iter().chain([&self.out]).for_each(f);
    }
}
