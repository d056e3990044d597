//! Twice the size, and where asked twice the frames.

use remaster_compute::{ComputeError, Shape, ShuffleDesc, UpsampleDesc, Weight};

use super::VaeConfig;
use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use crate::network::{Module, Pass, Tails};
use crate::params::Scope;

/// A 1x1x1 convolution makes all pixels a pixel becomes, a shuffle puts them in place, a convolution
/// smooths. The first frame of a clip becomes one frame, not two.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L54>
pub struct Upsample {
    form: Form,
    time: bool,
    groups: usize,
}

/// All three steps are linear, so they can be one.
enum Form {
    Spelled { conv: CausalConv3d, upscale: CausalConv3d },
    Folded { weight: Weight },
}

impl Upsample {
    /// Over `channels` channels; `time` doubles the frames as well.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, channels: usize, time: bool) -> Self {
        let form = match scope.build().collapse {
            true => Form::Folded { weight: scope.upsample(channels, time) },
            false => Form::Spelled {
                conv: CausalConv3d::new(scope, "conv", channels, channels),
                upscale: CausalConv3d::pointwise(scope, "upscale_conv", channels, 4 * scale(time) * channels),
            },
        };
        Upsample { form, time, groups: config.groups }
    }

    /// `[t, h, w, c]` to `[t or 2t, 2h, 2w, c]`, one frame less at the start of a clip if time doubles.
    pub fn forward(&self, pass: &mut Pass<'_>, x: Act) -> Result<Act, ComputeError> {
        let Shape { t, h, w, c } = x.shape();
        let drop_second = self.time && !pass.state.is_continued();
        let shape = Shape::new(t * scale(self.time) - usize::from(drop_second), 2 * h, 2 * w, c);
        match &self.form {
            Form::Spelled { conv, upscale } => {
                let many = upscale.forward(pass, x.view(), Fused::default())?;
                drop(x);
                let wide = pass.ops.alloc(shape, many.x.dtype())?;
                let (input, factors, output) = (many.view(), [scale(self.time), 2, 2], wide.view());
                pass.ops.shuffle(&ShuffleDesc { input, factors, drop_second, output })?;
                drop(many);
                conv.forward(pass, wide.view(), Fused::sums(self.groups))
            }
            Form::Folded { weight } => {
                let tail = Shape { t: if self.time { 1 } else { 2 }, ..x.shape() };
                let Tails { carried, carry } = pass.tails(weight.name(), tail, x.x.dtype())?;
                let y = Act::alloc(pass.ops, shape, x.x.dtype(), self.groups)?;
                pass.ops.upsample(&UpsampleDesc {
                    input: x.view(),
                    carried: carried.as_ref().map(|t| t.view()),
                    second: pass.state.is_second(),
                    carry: carry.as_ref().map(|t| t.view()),
                    weight,
                    sums: y.sums_out(),
                    output: y.view(),
                })?;
                pass.leave(weight.name(), carry);
                Ok(y)
            }
        }
    }
}

/// Output frames per input frame.
fn scale(time: bool) -> usize {
    if time { 2 } else { 1 }
}

impl Module for Upsample {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        match &self.form {
            Form::Spelled { conv, upscale } => {
                upscale.weights(f);
                conv.weights(f);
            }
            Form::Folded { weight } => f(weight),
        }
    }
}
