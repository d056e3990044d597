//! The video VAE: frames `[t, h, w, 3]` to latents `[t', h/8, w/8, 16]` and back.
//!
//! The first frame of a clip stands alone; every latent after the first stands for four frames.
//! Written from the public sources, ByteDance-Seed/SeedVR at 673b563, `models/video_vae_v3/modules`.

mod act;
mod attention;
mod causal_conv;
mod config;
mod decoder;
mod down;
mod encoder;
mod gaussian;
mod head;
mod levels;
mod look_back;
mod mid;
mod norm;
mod resnet;
mod up;

pub use act::Act;
pub use attention::Attention;
pub use causal_conv::{CausalConv3d, Fused};
pub use config::VaeConfig;
pub use decoder::{Decoder, UpBlock};
pub use down::Downsample;
pub use encoder::{DownBlock, Encoder};
pub use gaussian::Gaussian;
pub use head::Head;
pub use mid::MidBlock;
pub use norm::GroupNorm;
pub use resnet::ResnetBlock;
pub use up::Upsample;

use remaster_compute::DType;

use crate::network::Network;
use crate::params::{Build, Param, Params, Scope, listed};

/// Which of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Frames to latents.
    Encode,
    /// Latents to frames.
    Decode,
}

impl Direction {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Encode => "encode",
            Direction::Decode => "decode",
        }
    }

    /// Builds encoder or decoder out of a checkpoint's tensors.
    pub fn network(
        self,
        config: &VaeConfig,
        params: &mut dyn Params,
        build: impl Into<Build>,
    ) -> Box<dyn Network> {
        let mut scope = Scope::root(params, build);
        match self {
            Direction::Encode => Box::new(Encoder::new(config, &mut scope.at("encoder"))),
            Direction::Decode => Box::new(Decoder::new(config, &mut scope.at("decoder"))),
        }
    }
}

/// Every tensor the network needs, in the order of use: what a checkpoint must hold.
pub fn params(config: &VaeConfig) -> Vec<Param> {
    listed(|params| {
        Encoder::new(config, &mut Scope::root(params, DType::F32).at("encoder"));
        Decoder::new(config, &mut Scope::root(params, DType::F32).at("decoder"));
    })
}
