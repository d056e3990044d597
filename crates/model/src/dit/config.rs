//! The numbers of the network.

/// Which of the two published architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// That of the 3B checkpoint: SwiGLU, video and text rotated, later blocks share weights between the streams, a
    /// normalised head.
    Shared,
    /// That of the 7B checkpoints: GELU, only video rotated, every block has weights for both streams, a plain head.
    Separate,
}

/// Sizes of a SeedVR2 diffusion transformer. `dit_3b` and `dit_7b` are the public ones; others are the same networks,
/// narrower.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DitConfig {
    /// Architecture.
    pub family: Family,
    /// Channels of a token.
    pub width: usize,
    /// Channels of an attention head.
    pub head: usize,
    /// Blocks.
    pub layers: usize,
    /// How many of the first blocks have weights of their own for video and text.
    pub separate: usize,
    /// Channels inside the MLP.
    pub hidden: usize,
    /// Channels of the text embedding.
    pub text: usize,
    /// Channels of a latent.
    pub latent: usize,
}

impl DitConfig {
    /// The public 3B checkpoint: 3,391,476,448 parameters in 635 tensors.
    pub const fn dit_3b() -> Self {
        DitConfig {
            family: Family::Shared,
            width: 2560,
            head: 128,
            layers: 32,
            separate: 10,
            hidden: 6912,
            text: 5120,
            latent: 16,
        }
    }

    /// The public 7B checkpoints: 8,239,608,232 parameters in 1,128 tensors.
    pub const fn dit_7b() -> Self {
        DitConfig {
            family: Family::Separate,
            width: 3072,
            head: 128,
            layers: 36,
            separate: 36,
            hidden: 12288,
            text: 5120,
            latent: 16,
        }
    }

    /// The same networks in small, for tests: 4 blocks of 64 channels.
    pub const fn tiny(family: Family) -> Self {
        let separate = if matches!(family, Family::Shared) { 2 } else { 4 };
        DitConfig { family, width: 64, head: 32, layers: 4, separate, hidden: 256, text: 48, latent: 16 }
    }

    /// Cells of a token, each way.
    pub const PATCH: usize = 2;

    /// Channels of the sinusoids that stand for the time.
    pub const TIME: usize = 256;

    /// The time of the one step.
    pub const STEP: f32 = 1000.0;

    /// Added to every mean of squares.
    pub const EPS: f32 = 1e-5;

    /// Channels of a cell on the way in: noise, latent, and a one.
    pub const fn input(&self) -> usize {
        2 * self.latent + 1
    }

    /// Attention heads.
    pub const fn heads(&self) -> usize {
        self.width / self.head
    }

    /// Frequencies of the rotation of one axis.
    pub const fn frequencies(&self) -> usize {
        match self.family {
            Family::Shared => self.head / 3 / 2,
            Family::Separate => self.head / 2 / 3 / 2,
        }
    }
}
