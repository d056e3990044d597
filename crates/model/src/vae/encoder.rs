//! Frames to latents.

use remaster_compute::{ComputeError, Tensor, Weight};

use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use super::down::Downsample;
use super::head::Head;
use super::mid::MidBlock;
use super::resnet::ResnetBlock;
use super::{Direction, VaeConfig};
use crate::network::{Levels, Module, Network, Pass};
use crate::params::Scope;

/// Resnets, then half the size.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L360>
pub struct DownBlock {
    pub(super) resnets: Vec<ResnetBlock>,
    down: Option<Downsample>,
}

impl DownBlock {
    /// Block `i` of the encoder. All but the last halve the size; the second and third halve the frames.
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

/// Frames `[t, h, w, 3]` to moments `[t', h/8, w/8, 2 * latent]`.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L700>
pub struct Encoder {
    pub(super) conv_in: CausalConv3d,
    pub(super) blocks: Vec<DownBlock>,
    pub(super) mid: MidBlock,
    pub(super) head: Head,
    pub(super) config: VaeConfig,
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
            head: Head::new(config, scope, last, 2 * config.latent),
            config: config.clone(),
        }
    }
}

impl Network for Encoder {
    fn name(&self) -> &'static str {
        Direction::Encode.name()
    }

    fn channels(&self) -> [usize; 2] {
        [self.config.colours, 2 * self.config.latent]
    }

    fn scale(&self) -> [usize; 2] {
        [VaeConfig::SPACE_FACTOR, 1]
    }

    fn step(&self) -> Option<[usize; 2]> {
        Some([VaeConfig::TIME_FACTOR, 1])
    }

    /// The first slice of a clip has 4n + 1 frames and n + 1 latents, later ones 4n and n.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let frames = x.shape().t;
        let mut x = self.conv_in.forward(pass, x.view(), Fused::sums(self.config.groups))?;
        for block in &self.blocks {
            x = block.forward(pass, x)?;
        }
        x = self.mid.forward(pass, x)?;
        x = self.head.forward(pass, x)?;
        pass.state.advance(frames);
        Ok(x.x)
    }

    fn levels(&self) -> Option<&dyn Levels> {
        Some(self)
    }
}

impl Module for Encoder {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.conv_in.weights(f);
        self.blocks.iter().for_each(|b| b.weights(f));
        self.mid.weights(f);
        self.head.weights(f);
    }
}
