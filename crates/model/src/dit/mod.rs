//! The diffusion transformer: noise and latents `[t, h, w, 33]` to a velocity `[t, h, w, 16]`.
//!
//! Tokens are patches of 2 x 2 cells, a row of a tensor each. They attend to each other inside windows, and to the tokens
//! of a text that every window sees. A block goes through its windows group by group, and what it makes of a group takes
//! the group's place: beside the tokens themselves, a block takes the memory of one group.
//! Written from the public sources, ByteDance-Seed/SeedVR at 673b563, `models/dit_v2` (3B) and `models/dit` (7B).

mod attention;
mod block;
mod config;
mod head;
mod layout;
mod mlp;
mod modulation;
mod network;
mod patch;
mod rope;
mod text;
mod time;
mod windows;

pub use attention::{Attention, Heads};
pub use block::Block;
pub use config::{DitConfig, Family};
pub use head::Head;
pub use layout::{Grid, Group, Layout, Layouts};
pub use mlp::Mlp;
pub use modulation::{Embedding, Modulation};
pub use network::Dit;
pub use patch::{patches, unpatched};
pub use rope::{Turns, frequencies};
pub use text::Text;
pub use time::{embedding, sinusoids};
pub use windows::windows;

use remaster_compute::{
    Band, ComputeError, DType, LinearDesc, Ops, Shape, Tensor, TokenNormDesc, View, Weight,
};

use crate::params::{Param, Scope, computed, listed};

/// Every tensor the network needs, in the order of use: what a checkpoint must hold. The tables of the rotation are in
/// every checkpoint too, but some hold them rounded to 8 bits, so they are computed instead.
pub fn params(config: &DitConfig) -> Vec<Param> {
    let text = |scope: &mut Scope<'_>| Text::new(config, scope, 0, computed(|_| 0.0));
    listed(|params| {
        let scope = &mut Scope::root(params, DType::F32);
        let text = text(scope);
        Dit::new(config, scope, text, [1, 1], DitConfig::STEP);
    })
}

/// A matrix product into a new tensor, for the rows of `x`.
fn project(ops: &mut dyn Ops, x: View<'_>, weight: &Weight) -> Result<Tensor, ComputeError> {
    let shape = Shape { c: weight.spec().bias_len(), ..x.shape() };
    let y = rows_like(ops, &x, shape, x.dtype())?;
    ops.linear(&LinearDesc { input: x, weight, accumulate: false, sums: None, output: y.view() })?;
    Ok(y)
}

/// RMS norm of the rows of `x` without a weight of its own, then scale and shift.
fn normalized(
    ops: &mut dyn Ops,
    x: View<'_>,
    affine: Option<&Weight>,
    dtype: DType,
) -> Result<Tensor, ComputeError> {
    let y = rows_like(ops, &x, x.shape(), dtype)?;
    let (eps, output) = (DitConfig::EPS, y.view());
    ops.token_norm(&TokenNormDesc { input: x, heads: 1, eps, affine, rotation: None, output })?;
    Ok(y)
}

/// Room for the same rows as `x`.
fn rows_like(ops: &mut dyn Ops, x: &View<'_>, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
    ops.alloc_band(shape, dtype, Band { first: x.row_range().start, height: x.height() })
}
