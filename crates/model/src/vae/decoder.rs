//! Latents to frames.

use std::ops::Range;

use remaster_compute::{ComputeError, Weight};

use super::act::{Act, Pass};
use super::causal_conv::{Around, CausalConv3d};
use super::half::Half;
use super::mid::MidBlock;
use super::norm::GroupNorm;
use super::resnet::ResnetBlock;
use super::up::Upsample;
use super::{Module, VaeConfig};
use crate::params::Scope;

/// Resnets, then twice the size.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L460>
pub struct UpBlock {
    resnets: Vec<ResnetBlock>,
    up: Option<Upsample>,
}

impl UpBlock {
    /// Stage `i` of the decoder. All but the last double the size; the first two double the frames.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, i: usize) -> Self {
        let (cin, cout) = (config.channels[(4 - i).min(3)], config.channels[3 - i]);
        let resnet = |r| {
            let from = if r == 0 { cin } else { cout };
            ResnetBlock::new(config, &mut scope.at(format_args!("resnets.{r}")), from, cout)
        };
        let resnets = (0..config.resnets + 1).map(resnet).collect();
        let up = (i < 3).then(|| Upsample::new(config, &mut scope.at("upsamplers.0"), cout, i < 2));
        UpBlock { resnets, up }
    }

    /// `[t, h, w, cin]` to `[t', 2h, 2w, cout]`, or `[t, h, w, cout]` for the last one.
    pub fn forward(&self, pass: &mut Pass<'_>, mut x: Act) -> Result<Act, ComputeError> {
        for resnet in &self.resnets {
            x = resnet.forward(pass, x)?;
        }
        match &self.up {
            Some(up) => up.forward(pass, x),
            None => Ok(x),
        }
    }
}

impl Module for UpBlock {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.resnets.iter().for_each(|r| r.weights(f));
        self.up.iter().for_each(|u| u.weights(f));
    }
}

/// The second half of the network.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L880>
pub struct Decoder {
    conv_in: CausalConv3d,
    mid: MidBlock,
    blocks: Vec<UpBlock>,
    norm_out: GroupNorm,
    conv_out: CausalConv3d,
    groups: usize,
}

impl Decoder {
    /// Builds the decoder from the tensors under `scope`.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>) -> Self {
        let [first, .., last] = config.channels;
        Decoder {
            conv_in: CausalConv3d::new(scope, "conv_in", config.latent, last),
            mid: MidBlock::new(config, &mut scope.at("mid_block"), last),
            blocks: (0..4)
                .map(|i| UpBlock::new(config, &mut scope.at(format_args!("up_blocks.{i}")), i))
                .collect(),
            norm_out: GroupNorm::new(config, scope, "conv_norm_out", first),
            conv_out: CausalConv3d::new(scope, "conv_out", first, config.colours),
            groups: config.groups,
        }
    }
}

impl Half for Decoder {
    /// One per block: 1/8, 1/4, 1/2 and full size.
    fn stages(&self) -> usize {
        self.blocks.len()
    }

    fn scale(&self, stage: usize) -> usize {
        1 << stage.min(3)
    }

    fn reach(&self, stages: Range<usize>) -> usize {
        // Two convolutions a resnet, and the one of the upsampler, which sees two fine pixels: at each
        // stage's size, in eighths of a cell. The last stage ends with one more.
        let convs = |stage: usize| 2 * self.blocks[stage].resnets.len() + 1;
        stages.map(|stage| convs(stage) * (8 >> stage.min(3))).sum::<usize>().div_ceil(8)
    }

    fn run(&self, pass: &mut Pass<'_>, x: Act, stages: Range<usize>) -> Result<Act, ComputeError> {
        let mut h = x;
        for stage in stages {
            if stage == 0 {
                let start = Around { groups: self.groups, ..Around::default() };
                h = self.conv_in.forward(pass, h.view(), start)?;
                h = self.mid.forward(pass, h)?;
            }
            h = self.blocks[stage].forward(pass, h)?;
            if stage + 1 == self.stages() {
                let stats = self.norm_out.stats(pass.ops, &h)?;
                let prologue = Some(self.norm_out.then_silu(&stats));
                h = self.conv_out.forward(pass, h.view(), Around { prologue, ..Around::default() })?;
            }
        }
        Ok(h)
    }
}

impl Module for Decoder {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.conv_in.weights(f);
        self.mid.weights(f);
        self.blocks.iter().for_each(|b| b.weights(f));
        self.norm_out.weights(f);
        self.conv_out.weights(f);
    }
}
