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
mod half;
mod mid;
mod norm;
mod null;
mod resnet;
mod state;
mod up;

pub use act::{Act, Pass};
pub use attention::Attention;
pub use causal_conv::{Around, CausalConv3d};
pub use config::VaeConfig;
pub use decoder::{Decoder, UpBlock};
pub use down::Downsample;
pub use encoder::{DownBlock, Encoder};
pub use gaussian::Gaussian;
pub use half::{Half, load, unload};
pub use mid::MidBlock;
pub use norm::GroupNorm;
pub use null::NullVae;
pub use resnet::ResnetBlock;
pub use state::{State, Tail};
pub use up::Upsample;

use std::sync::Arc;

use remaster_compute::{DType, Part, SourceError, Weight, WeightSource, WeightSpec};

use crate::params::{Param, Params, Scope, tensors_of};

/// A part of the network that has weights.
pub trait Module {
    /// Calls `f` with every weight, in the order of use.
    fn weights(&self, f: &mut dyn FnMut(&Weight));
}

/// Every tensor the network needs, in the order of use: what a checkpoint must hold.
pub fn params(config: &VaeConfig) -> Vec<Param> {
    #[derive(Default)]
    struct List(Vec<Param>);
    struct Nothing;

    impl WeightSource for Nothing {
        fn read(&self, _: Part, _: usize, _: &mut [f32]) -> Result<(), SourceError> {
            Err(SourceError("this network was only built to list its tensors".into()))
        }
    }
    impl Params for List {
        fn source(&mut self, prefix: &str, spec: WeightSpec) -> Arc<dyn WeightSource> {
            self.0.extend(tensors_of(prefix, spec));
            Arc::new(Nothing)
        }
    }

    let mut list = List::default();
    Encoder::new(config, &mut Scope::root(&mut list, DType::F32).at("encoder"));
    Decoder::new(config, &mut Scope::root(&mut list, DType::F32).at("decoder"));
    list.0
}
