//! Latents to frames.

use remaster_compute::{ComputeError, Tensor, Weight};

use super::act::Act;
use super::causal_conv::{CausalConv3d, Fused};
use super::head::Head;
use super::mid::MidBlock;
use super::resnet::ResnetBlock;
use super::up::Upsample;
use super::{Direction, VaeConfig};
use crate::network::{Levels, Module, Network, Pass};
use crate::params::Scope;

/// Resnets, then twice the size.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L460>
pub struct UpBlock {
    pub(super) resnets: Vec<ResnetBlock>,
    up: Option<Upsample>,
}

impl UpBlock {
    /// Block `i` of the decoder. All but the last double the size; the first two double the frames.
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

/// Latents `[t, h, w, latent]` to frames `[t', 8h, 8w, 3]`. Values may leave [-1, 1] a little.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/video_vae_v3/modules/attn_video_vae.py#L880>
pub struct Decoder {
    pub(super) conv_in: CausalConv3d,
    pub(super) mid: MidBlock,
    pub(super) blocks: Vec<UpBlock>,
    pub(super) head: Head,
    pub(super) config: VaeConfig,
    folded: bool,
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
            head: Head::new(config, scope, first, config.colours),
            config: config.clone(),
            folded: scope.build().collapse,
        }
    }
}

impl Network for Decoder {
    fn name(&self) -> &'static str {
        Direction::Decode.name()
    }

    fn variant(&self) -> &'static str {
        if self.folded { "folded" } else { "plain" }
    }

    fn channels(&self) -> [usize; 2] {
        [self.config.latent, self.config.colours]
    }

    fn scale(&self) -> [usize; 2] {
        [1, VaeConfig::SPACE_FACTOR]
    }

    fn step(&self) -> Option<[usize; 2]> {
        Some([1, VaeConfig::TIME_FACTOR])
    }

    /// The first slice of a clip has n + 1 latents and 4n + 1 frames, later ones n and 4n.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let latents = x.shape().t;
        let mut x = self.conv_in.forward(pass, x.view(), Fused::sums(self.config.groups))?;
        x = self.mid.forward(pass, x)?;
        for block in &self.blocks {
            x = block.forward(pass, x)?;
        }
        x = self.head.forward(pass, x)?;
        pass.state.advance(latents);
        Ok(x.x)
    }

    fn levels(&self) -> Option<&dyn Levels> {
        Some(self)
    }
}

impl Module for Decoder {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.conv_in.weights(f);
        self.mid.weights(f);
        self.blocks.iter().for_each(|b| b.weights(f));
        self.head.weights(f);
    }
}
