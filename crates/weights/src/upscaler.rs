//! What a checkpoint of one of Real-ESRGAN's networks is and what it must hold.

use std::fmt;
use std::ops::RangeInclusive;

use remaster_model::Param;
use remaster_model::compact::{self, CompactConfig};
use remaster_model::rrdb::{self, RrdbConfig};
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::names::Names;
use crate::report::{LoadReport, check};
use crate::size_doubt::{SizeDoubt, shown, within};

/// A network that makes frames larger, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upscaler {
    /// Compact (SRVGGNetCompact).
    Compact(CompactConfig),
    /// RRDB (RRDBNet).
    Rrdb(RrdbConfig),
}

impl Upscaler {
    /// Every tensor that the network needs, in the order of use.
    pub fn params(&self) -> Vec<Param> {
        match self {
            Upscaler::Compact(config) => compact::params(config),
            Upscaler::Rrdb(config) => rrdb::params(config),
        }
    }

    /// How many times larger frames get, each way.
    pub const fn scale(&self) -> usize {
        match self {
            Upscaler::Compact(config) => config.scale,
            Upscaler::Rrdb(config) => config.scale,
        }
    }
}

impl fmt::Display for Upscaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upscaler::Compact(CompactConfig { width, depth, scale }) => {
                write!(f, "a Real-ESRGAN upscaler (Compact, width {width}, depth {depth}, x{scale})")
            }
            Upscaler::Rrdb(RrdbConfig { width, blocks, scale, .. }) => {
                let many = if *blocks == 1 { "" } else { "s" };
                write!(f, "a Real-ESRGAN upscaler (RRDB, width {width}, {blocks} block{many}, x{scale})")
            }
        }
    }
}

/// Why the sizes of one of Real-ESRGAN's networks cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpscalerDoubt {
    /// A single size.
    #[error(transparent)]
    Size(#[from] SizeDoubt),
    /// Activations without values.
    #[error(
        "it has no PReLU slopes (`body.1.weight`, `body.3.weight` and so on): whether it was trained with ReLU or with \
         LeakyReLU cannot be told from a file, so use a model with PReLU"
    )]
    NoSlopes,
    /// A last convolution that makes no whole pixels.
    #[error(
        "its last convolution makes {got} values a pixel, but must make 3, 12, 27 or 48: x1, x2, x3 or x4"
    )]
    Factor {
        /// What the shape says.
        got: usize,
    },
    /// A first convolution for other inputs.
    #[error("its first convolution reads {got} channels, but must read 3, 12 or 48: x4, x2 or x1")]
    Inputs {
        /// What the shape says.
        got: usize,
    },
}

/// Largest sizes accepted. The published networks have 64, 32 and 23; these leave room and keep every number computed
/// from them far from overflow.
const MAX_WIDTH: usize = 1024;
const MAX_DEPTH: usize = 256;

/// Colours of a pixel.
const COLOURS: usize = 3;

/// `None` if the tensors are not those of one of the networks.
pub(crate) fn sizes(names: &Names<'_>) -> Option<Result<Upscaler, UpscalerDoubt>> {
    let rrdb = rrdb_sizes(names).map(|found| found.map(Upscaler::Rrdb));
    rrdb.or_else(|| Some(compact_sizes(names)?.map(Upscaler::Compact)))
}

/// The number of `body.N.weight` or `body.N.bias`.
fn layer(name: &str) -> Option<usize> {
    let (number, part) = name.strip_prefix("body.")?.split_once('.')?;
    if matches!(part, "weight" | "bias") { number.parse().ok() } else { None }
}

fn compact_sizes(names: &Names<'_>) -> Option<Result<CompactConfig, UpscalerDoubt>> {
    // A convolution near the front, whichever is there: the report is to name what is missing.
    let is_conv = |name: &&str| names.get(name).is_some_and(|t| t.shape().len() == 4);
    if !["body.0.weight", "body.2.weight"].iter().any(is_conv) {
        return None;
    }
    let layers = || names.all().filter_map(layer);
    // Slopes have odd numbers, so the last convolution has the next even one.
    let last = layers().max()?.checked_next_multiple_of(2)?;
    let depth = (last / 2).checked_sub(1)?;
    let size = |seen: &[(String, usize)]| {
        seen.iter().find_map(|(name, axis)| names.get(name)?.shape().get(*axis).copied())
    };
    let weight = |number: usize, axis| (format!("body.{number}.weight"), axis);
    let judge = || {
        let depth = within("depth", depth, 0, MAX_DEPTH)?;
        if !layers().any(|number| number % 2 == 1) {
            return Err(UpscalerDoubt::NoSlopes);
        }
        let width = size(&[weight(0, 0), weight(1, 0), weight(last, 1)]);
        let width = within("width", shown("width", width)?, 1, MAX_WIDTH)?;
        let made = size(&[weight(last, 0), (format!("body.{last}.bias"), 0)]);
        let made = shown("factor", made)?;
        let scale = (1..=4).find(|scale| COLOURS * scale * scale == made);
        let scale = scale.ok_or(UpscalerDoubt::Factor { got: made })?;
        Ok(CompactConfig { width, depth, scale })
    };
    Some(judge())
}

/// The block of `body.I.rdbR.convK.weight` or its bias.
fn block(name: &str) -> Option<usize> {
    let (number, rest) = name.strip_prefix("body.")?.split_once(".rdb")?;
    let is_conv = rest.get(1..).is_some_and(|rest| rest.starts_with(".conv"));
    if is_conv { number.parse().ok() } else { None }
}

fn rrdb_sizes(names: &Names<'_>) -> Option<Result<RrdbConfig, UpscalerDoubt>> {
    let blocks = names.all().filter_map(block).max()?.saturating_add(1);
    let axis = |name: &str, axis: usize| names.get(name)?.shape().get(axis).copied();
    let judge = || {
        let blocks = within("number of blocks", blocks, 1, MAX_DEPTH)?;
        // Any dense block may show these: the report is to name what one of them lacks.
        let made = |convs: RangeInclusive<usize>| {
            let convs =
                |dense: String| convs.clone().find_map(|k| axis(&format!("{dense}.conv{k}.weight"), 0));
            (0..blocks).find_map(|i| (1..=3).find_map(|r| convs(format!("body.{i}.rdb{r}"))))
        };
        let width = axis("conv_first.weight", 0).or(axis("conv_body.weight", 0)).or_else(|| made(5..=5));
        let width = within("width", shown("width", width)?, 1, MAX_WIDTH)?;
        let growth = within("growth", shown("growth", made(1..=4))?, 1, MAX_WIDTH)?;
        let (scale, unshuffle) = match names.old() {
            Some(old) => (within("factor", 1 << old.steps, 1, 4)?, 1),
            // A file that lacks the first convolution is missing that, whatever its factor.
            None => match axis("conv_first.weight", 1).unwrap_or(COLOURS) {
                3 => (4, 1),
                12 => (2, 2),
                48 => (1, 4),
                got => return Err(UpscalerDoubt::Inputs { got }),
            },
        };
        Ok(RrdbConfig { width, growth, blocks, scale, unshuffle })
    };
    Some(judge())
}

/// Holds `checkpoint` against the tensors of one of the networks.
pub fn check_upscaler(checkpoint: &Checkpoint, upscaler: &Upscaler) -> LoadReport {
    check(checkpoint, &upscaler.params())
}
