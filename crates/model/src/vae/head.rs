//! The end of encoder and decoder.

use remaster_compute::{ComputeError, Weight};

use super::VaeConfig;
use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use super::norm::GroupNorm;
use crate::network::{Module, Pass};
use crate::params::Scope;

/// `conv_out(silu(conv_norm_out(x)))`.
pub struct Head {
    norm: GroupNorm,
    conv: CausalConv3d,
}

impl Head {
    /// From `cin` to `cout` channels.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, cin: usize, cout: usize) -> Self {
        Head {
            norm: GroupNorm::new(config, scope, "conv_norm_out", cin),
            conv: CausalConv3d::new(scope, "conv_out", cin, cout),
        }
    }

    /// `[t, h, w, cin]` to `[t, h, w, cout]`.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        let stats = self.norm.stats(pass.ops, &x)?;
        let prologue = Some(self.norm.then_silu(&stats));
        self.conv.forward(pass, x.view(), Fused { prologue, ..Fused::default() })
    }
}

impl Module for Head {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.norm.weights(f);
        self.conv.weights(f);
    }
}
