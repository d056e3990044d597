//! The numbers of the network.

/// Sizes of a SeedVR2 video VAE. The public one is `full`; the others are the same network, narrower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaeConfig {
    /// Colour channels in and out.
    pub colours: usize,
    /// Channels of a latent; the encoder emits twice as many (mean and log-variance).
    pub latent: usize,
    /// Channels at full, 1/2, 1/4 and 1/8 size.
    pub channels: [usize; 4],
    /// Resnets in each stage of the encoder; the decoder has one more.
    pub resnets: usize,
    /// Groups of every GroupNorm.
    pub groups: usize,
}

impl VaeConfig {
    /// The public checkpoint: 250,648,227 parameters.
    pub const fn full() -> Self {
        VaeConfig { colours: 3, latent: 16, channels: [128, 256, 512, 512], resnets: 2, groups: 32 }
    }

    /// The same network in small, for tests: 4.2 M parameters.
    pub const fn tiny() -> Self {
        VaeConfig { colours: 3, latent: 16, channels: [32, 32, 64, 64], resnets: 2, groups: 8 }
    }

    /// Output frames per latent in steady state.
    pub const TIME_FACTOR: usize = 4;

    /// Output pixels per latent cell, each way.
    pub const SPACE_FACTOR: usize = 8;

    /// Added to every variance.
    pub const EPS: f32 = 1e-6;
}
