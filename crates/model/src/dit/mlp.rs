//! The part of a block that looks at each token alone.

use remaster_compute::{ActivateDesc, Activation, ComputeError, Ops, Tensor, Weight, WeightSpec};

use super::{DitConfig, Family, project};
use crate::network::Module;
use crate::params::{Origin, Scope};

/// `proj_out(silu(proj_in_gate(x)) * proj_in(x))` in the 3B network, `proj_out(gelu(proj_in(x)))` in the 7B one.
pub struct Mlp {
    gate: Option<Weight>,
    enter: Weight,
    leave: Weight,
}

impl Mlp {
    /// `d` channels to `hidden` and back.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>) -> Self {
        let (d, hidden) = (config.width, config.hidden);
        match config.family {
            Family::Shared => Mlp {
                gate: Some(unbiased(scope, "proj_in_gate", d, hidden)),
                enter: unbiased(scope, "proj_in", d, hidden),
                leave: unbiased(scope, "proj_out", hidden, d),
            },
            Family::Separate => Mlp {
                gate: None,
                enter: scope.linear("proj_in", d, hidden),
                leave: scope.linear("proj_out", hidden, d),
            },
        }
    }

    /// `[1, n, 1, d]` to the same. Takes its input, which is not needed behind the first product.
    pub fn forward(&self, ops: &mut dyn Ops, x: Tensor) -> Result<Tensor, ComputeError> {
        let Some(gate) = &self.gate else {
            let y = project(ops, x.view(), &self.enter)?;
            drop(x);
            ops.activate(&ActivateDesc { x: y.view(), function: Activation::GeluTanh, times: None })?;
            return project(ops, y.view(), &self.leave);
        };
        let y = project(ops, x.view(), gate)?;
        let times = project(ops, x.view(), &self.enter)?;
        drop(x);
        let function = Activation::Silu;
        ops.activate(&ActivateDesc { x: y.view(), function, times: Some(times.view()) })?;
        drop(times);
        project(ops, y.view(), &self.leave)
    }
}

/// A linear layer without bias.
pub(super) fn unbiased(scope: &mut Scope<'_>, name: &str, cin: usize, cout: usize) -> Weight {
    let spec = WeightSpec::Linear { cin, cout, dtype: scope.build().dtype };
    scope.made_of(name, spec, Origin::Tensor(format!("{name}.weight")), None)
}

impl Module for Mlp {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.gate.iter().chain([&self.enter, &self.leave]).for_each(f);
    }
}
