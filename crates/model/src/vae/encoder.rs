//! Frames to latents.

use std::ops::Range;

use remaster_compute::{ComputeError, Weight};

use super::act::{Act, Pass};
use super::causal_conv::{Around, CausalConv3d};
use super::down::Downsample;
use super::half::Half;
use super::mid::MidBlock;
use super::norm::GroupNorm;
use super::resnet::ResnetBlock;
use super::{Module, VaeConfig};
use crate::params::Scope;

/// Resnets, then half the size.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L360>
pub struct DownBlock {
    resnets: Vec<ResnetBlock>,
    down: Option<Downsample>,
}

impl DownBlock {
    /// Stage `i` of the encoder. All but the last halve the size; the second and third halve the frames.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>, i: usize) -> Self {
        let (cin, cout) = (config.channels[i.saturating_sub(1)], config.channels[i]);
        let resnet = |r| {
            let from = if r == 0 { cin } else { cout };
            ResnetBlock::new(config, &mut scope.at(format_args!("resnets.{r}")), from, cout)
        };
        let resnets = (0..config.resnets).map(resnet).collect();
        let down = (i < 3).then(|| Downsample::new(config, &mut scope.at("downsamplers.0"), cout, i > 0));
        DownBlock { resnets, down }
    }

    /// `[t, h, w, cin]` to `[t', h/2, w/2, cout]`, or `[t, h, w, cout]` for the last one.
    pub fn forward(&self, pass: &mut Pass<'_>, mut x: Act) -> Result<Act, ComputeError> {
        for resnet in &self.resnets {
            x = resnet.forward(pass, x)?;
        }
        match &self.down {
            Some(down) => down.forward(pass, x),
            None => Ok(x),
        }
    }
}

impl Module for DownBlock {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.resnets.iter().for_each(|r| r.weights(f));
        self.down.iter().for_each(|d| d.weights(f));
    }
}

/// The first half of the network.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L700>
pub struct Encoder {
    conv_in: CausalConv3d,
    blocks: Vec<DownBlock>,
    mid: MidBlock,
    norm_out: GroupNorm,
    conv_out: CausalConv3d,
    groups: usize,
}

impl Encoder {
    /// Builds the encoder from the tensors under `scope`.
    pub fn new(config: &VaeConfig, scope: &mut Scope<'_>) -> Self {
        let [first, .., last] = config.channels;
        Encoder {
            conv_in: CausalConv3d::new(scope, "conv_in", config.colours, first),
            blocks: (0..4)
                .map(|i| DownBlock::new(config, &mut scope.at(format_args!("down_blocks.{i}")), i))
                .collect(),
            mid: MidBlock::new(config, &mut scope.at("mid_block"), last),
            norm_out: GroupNorm::new(config, scope, "conv_norm_out", last),
            conv_out: CausalConv3d::new(scope, "conv_out", last, 2 * config.latent),
            groups: config.groups,
        }
    }
}

impl Half for Encoder {
    /// One per block: full, 1/2, 1/4 and 1/8 size.
    fn stages(&self) -> usize {
        self.blocks.len()
    }

    fn scale(&self, stage: usize) -> usize {
        8 >> stage.min(3)
    }

    fn reach(&self, stages: Range<usize>) -> usize {
        // Two convolutions a resnet, the step to half the size, and in front of the first one more: at each
        // stage's size, in eighths of a cell.
        let convs = |stage: usize| 2 * self.blocks[stage].resnets.len() + 2 + usize::from(stage == 0);
        stages.map(|stage| convs(stage) << stage.min(3)).sum::<usize>().div_ceil(8)
    }

    fn run(&self, pass: &mut Pass<'_>, x: Act, stages: Range<usize>) -> Result<Act, ComputeError> {
        let mut h = x;
        for stage in stages {
            if stage == 0 {
                let start = Around { groups: self.groups, ..Around::default() };
                h = self.conv_in.forward(pass, h.view(), start)?;
            }
            h = self.blocks[stage].forward(pass, h)?;
            if stage + 1 == self.stages() {
                h = self.mid.forward(pass, h)?;
                let stats = self.norm_out.stats(pass.ops, &h)?;
                let prologue = Some(self.norm_out.then_silu(&stats));
                h = self.conv_out.forward(pass, h.view(), Around { prologue, ..Around::default() })?;
            }
        }
        Ok(h)
    }
}

impl Module for Encoder {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.conv_in.weights(f);
        self.blocks.iter().for_each(|b| b.weights(f));
        self.mid.weights(f);
        self.norm_out.weights(f);
        self.conv_out.weights(f);
    }
}
