//! What a checkpoint is, from the names and shapes of its tensors.

use std::fmt;

use remaster_model::compact::CompactConfig;
use remaster_model::dit::{DitConfig, Family};
use remaster_model::rrdb::RrdbConfig;
use remaster_model::vae::VaeConfig;
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::dit::{self, DitDoubt};
use crate::error::clip;
use crate::names::Names;
use crate::upscaler::{self, Upscaler, UpscalerDoubt};

/// What a checkpoint is and how large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which network it is for.
    pub kind: Kind,
    /// Number of tensors.
    pub tensors: usize,
    /// Number of values in all of them, without the scales of quantised layers.
    pub parameters: u64,
}

/// The network a checkpoint is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SeedVR2 video VAE.
    Vae {
        /// Its sizes.
        config: VaeConfig,
    },
    /// A SeedVR2 video VAE by its names, with sizes that cannot be used.
    UnclearVae {
        /// What is not clear.
        doubt: VaeDoubt,
    },
    /// A SeedVR2 diffusion transformer.
    Dit {
        /// Its sizes.
        config: DitConfig,
    },
    /// A SeedVR2 diffusion transformer by its names, with sizes that cannot be used.
    UnclearDit {
        /// What is not clear.
        doubt: DitDoubt,
    },
    /// A Compact network of Real-ESRGAN.
    Compact {
        /// Its sizes.
        config: CompactConfig,
    },
    /// An RRDB network of Real-ESRGAN.
    Rrdb {
        /// Its sizes.
        config: RrdbConfig,
    },
    /// One of Real-ESRGAN's networks by its names, with sizes that cannot be used.
    UnclearUpscaler {
        /// What is not clear.
        doubt: UpscalerDoubt,
    },
    /// Something else.
    Unknown,
}

/// Why the sizes of a VAE cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VaeDoubt {
    /// The number of groups is not among the tensors.
    #[error(
        "the number of norm groups is unknown for channels {channels:?}; \
         set `norm_num_groups` in its metadata"
    )]
    GroupsUnknown {
        /// Channels from the shapes.
        channels: [usize; 4],
    },
    /// The metadata's number of groups cannot be used with these channels.
    #[error(
        "its metadata says `norm_num_groups` is {said}, which must be a number that divides all of {channels:?}"
    )]
    Groups {
        /// What the metadata says.
        said: String,
        /// Channels from the shapes.
        channels: [usize; 4],
    },
    /// A size no such network has.
    #[error("its {what} is {got}, but must be 1 to {max}")]
    Size {
        /// Which size.
        what: &'static str,
        /// What the shapes say.
        got: usize,
        /// Largest accepted.
        max: usize,
    },
}

/// The metadata key for what no tensor shows.
const GROUPS_KEY: &str = "norm_num_groups";

/// An axis of a tensor, and what its length is divided by, that shows a size. Several for one size, so
/// that a file that lacks a tensor is still recognised and the report can say which.
type Seen<'a> = (&'a str, usize, usize);

const COLOURS: [Seen<'_>; 2] = [("encoder.conv_in.weight", 1, 1), ("decoder.conv_out.weight", 0, 1)];
const LATENT: [Seen<'_>; 2] = [("decoder.conv_in.weight", 1, 1), ("encoder.conv_out.weight", 0, 2)];

/// Largest sizes accepted. The public network has 3, 16, 512 and 2; these leave room and keep every
/// number computed from them far from overflow.
const MAX_COLOURS: usize = 16;
pub(crate) const MAX_LATENT: usize = 1024;
const MAX_CHANNELS: usize = 16384;
const MAX_RESNETS: usize = 16;

/// What `checkpoint` is.
pub fn identify(checkpoint: &Checkpoint) -> Identity {
    let names = Names::of(checkpoint);
    let kind = match dit::sizes(checkpoint, &names) {
        Some(Ok(config)) => Kind::Dit { config },
        Some(Err(doubt)) => Kind::UnclearDit { doubt },
        None => match vae(&names, checkpoint.metadata().get(GROUPS_KEY)) {
            None => upscaler(&names),
            Some(Ok(config)) => Kind::Vae { config },
            Some(Err(doubt)) => Kind::UnclearVae { doubt },
        },
    };
    let parameters = checkpoint.tensors().filter(|t| !t.is_companion()).map(|t| t.elements() as u64).sum();
    Identity { kind, tensors: checkpoint.tensors().len(), parameters }
}

fn upscaler(names: &Names<'_>) -> Kind {
    match upscaler::sizes(names) {
        None => Kind::Unknown,
        Some(Ok(Upscaler::Compact(config))) => Kind::Compact { config },
        Some(Ok(Upscaler::Rrdb(config))) => Kind::Rrdb { config },
        Some(Err(doubt)) => Kind::UnclearUpscaler { doubt },
    }
}

/// `None` if the tensors are not those of a VAE.
fn vae(names: &Names<'_>, groups: Option<&String>) -> Option<Result<VaeConfig, VaeDoubt>> {
    let size = |seen: &[Seen<'_>]| {
        seen.iter().find_map(|&(name, axis, per)| Some(names.get(name)?.shape().get(axis)? / per))
    };
    let colours = size(&COLOURS)?;
    let latent = size(&LATENT)?;
    let stage = |n: usize| {
        let down = format!("encoder.down_blocks.{n}.resnets.0.conv1.weight");
        let up = format!("decoder.up_blocks.{}.resnets.0.conv1.weight", 3 - n);
        size(&[(&down, 0, 1), (&up, 0, 1)])
    };
    let channels = [stage(0)?, stage(1)?, stage(2)?, stage(3)?];
    let resnets =
        resnets(names, "encoder.down_blocks.0").max(resnets(names, "decoder.up_blocks.3").saturating_sub(1));
    let known = known_groups(groups, channels);
    Some(known.and_then(|groups| accepted(VaeConfig { colours, latent, channels, resnets, groups })))
}

/// Number of resnets in a stage, counted up to one more than is accepted.
fn resnets(names: &Names<'_>, stage: &str) -> usize {
    (0..=MAX_RESNETS + 1)
        .take_while(|r| names.get(&format!("{stage}.resnets.{r}.conv1.weight")).is_some())
        .count()
}

/// A norm has one scale per channel whatever its groups are, so no tensor shows them.
fn known_groups(said: Option<&String>, channels: [usize; 4]) -> Result<usize, VaeDoubt> {
    let divides = |groups: usize| groups > 0 && channels.iter().all(|c| c % groups == 0);
    if let Some(said) = said {
        let wrong = || VaeDoubt::Groups { said: clip(said), channels };
        return said.parse().ok().filter(|&groups| divides(groups)).ok_or_else(wrong);
    }
    let (full, tiny) = (VaeConfig::full(), VaeConfig::tiny());
    let groups = if channels[0] == full.channels[0] {
        full.groups
    } else if channels == tiny.channels {
        tiny.groups
    } else {
        0
    };
    Some(groups).filter(|&groups| divides(groups)).ok_or(VaeDoubt::GroupsUnknown { channels })
}

fn accepted(config: VaeConfig) -> Result<VaeConfig, VaeDoubt> {
    let widest = config.channels.iter().copied().max().unwrap_or(0);
    let narrowest = config.channels.iter().copied().min().unwrap_or(0);
    for (what, got, max) in [
        ("number of colours", config.colours, MAX_COLOURS),
        ("number of latent channels", config.latent, MAX_LATENT),
        ("largest number of channels", widest, MAX_CHANNELS),
        ("smallest number of channels", narrowest, MAX_CHANNELS),
        ("number of resnets per stage", config.resnets, MAX_RESNETS),
    ] {
        if !(1..=max).contains(&got) {
            return Err(VaeDoubt::Size { what, got, max });
        }
    }
    Ok(config)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Vae { config } => write!(f, "a SeedVR2 video VAE with channels {:?}", config.channels),
            Kind::UnclearVae { doubt } => write!(f, "a SeedVR2 video VAE, but {doubt}"),
            Kind::Dit { config } if *config == DitConfig::dit_3b() => {
                f.write_str("the SeedVR2 3B diffusion transformer")
            }
            Kind::Dit { config } if *config == DitConfig::dit_7b() => {
                f.write_str("the SeedVR2 7B diffusion transformer")
            }
            Kind::Dit { config } => {
                let family = if config.family == Family::Shared { "3B" } else { "7B" };
                let DitConfig { width, layers, .. } = config;
                write!(
                    f,
                    "a SeedVR2 diffusion transformer like {family} with width {width} and {layers} blocks"
                )
            }
            Kind::UnclearDit { doubt } => write!(f, "a SeedVR2 diffusion transformer, but {doubt}"),
            Kind::Compact { config } => Upscaler::Compact(*config).fmt(f),
            Kind::Rrdb { config } => Upscaler::Rrdb(*config).fmt(f),
            Kind::UnclearUpscaler { doubt } => write!(f, "a Real-ESRGAN upscaler, but {doubt}"),
            Kind::Unknown => f.write_str("of an unknown kind"),
        }
    }
}
