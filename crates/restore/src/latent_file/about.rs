//! What a latent file says about its clip. It was written by whoever made the file, so all of it is checked.

use remaster_media::{Colour, Format, Hdr, TimeBase};
use remaster_picture::Layout;
use remaster_plan::Windows;
use serde::{Deserialize, Serialize};

use super::origin::Origin;
use crate::geometry::Geometry;

/// The network that made latents. Those of one mean nothing to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkId {
    /// What it is: `vae`.
    pub kind: String,
    /// The name of its file, or of weights that are in no file.
    pub name: String,
    /// SHA-256 of that file.
    pub sha256: Option<String>,
}

impl NetworkId {
    /// Whether both are the same weights, whatever their files are called.
    pub fn is(&self, other: &NetworkId) -> bool {
        let same = match (&self.sha256, &other.sha256) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.name == other.name,
            _ => false,
        };
        same && self.kind == other.kind
    }
}

impl std::fmt::Display for NetworkId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)?;
        match self.sha256.as_deref().map(|hash| hash.get(..12).unwrap_or(hash)) {
            Some(hash) => write!(f, " (sha256 {hash}...)"),
            None => Ok(()),
        }
    }
}

/// What a latent file says about its clip.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// Sizes before, in and after the network.
    pub geometry: Geometry,
    /// How samples of the source were stored, in ffmpeg's words; the output keeps their depth.
    pub samples: String,
    /// What the numbers mean.
    pub colour: Colour,
    /// Static metadata of HDR10.
    pub hdr: Option<Hdr>,
    /// Shape of a pixel, width by height.
    pub sample_aspect: [u32; 2],
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Frames per second on average, if known.
    pub rate: Option<TimeBase>,
    /// Who made the latents.
    pub network: NetworkId,
    /// The file that the clip came from; pipes and pictures have none.
    pub origin: Option<Origin>,
    /// What a restoration adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
}

/// What else is known of latents that were restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Name of the transformer.
    pub model: String,
    /// Seed of its noise.
    pub seed: u64,
    /// Frames of its windows, over which colours may be matched.
    pub window: usize,
    /// Columns and rows that are written.
    pub shown: [usize; 2],
    /// Options with which the input was read: the same are needed to read it again.
    pub read: String,
}

/// ffmpeg keeps both halves of a fraction in 31 bits.
const FRACTION: std::ops::RangeInclusive<u64> = 1..=i32::MAX as u64;

impl About {
    /// Of a clip that is about to be encoded. Alpha does not go through the network and is not kept.
    pub fn new(format: &Format, geometry: Geometry, network: NetworkId, origin: Option<Origin>) -> Self {
        About {
            geometry: geometry.with_alpha(false),
            samples: Layout { alpha: false, ..format.layout }.name(),
            colour: format.colour.clone(),
            hdr: format.hdr.clone(),
            sample_aspect: format.sample_aspect,
            time_base: format.time_base,
            rate: format.rate,
            network,
            origin,
            restored: None,
        }
    }

    /// Refuses what no clip has.
    pub(super) fn check(&self) -> Result<(), String> {
        self.geometry.check()?;
        if self.geometry.alpha {
            return Err("it claims alpha, which latents have not".into());
        }
        for (what, TimeBase { num, den }) in
            [("time base", self.time_base)].into_iter().chain(self.rate.map(|r| ("frame rate", r)))
        {
            if !FRACTION.contains(&num) || !FRACTION.contains(&den) {
                return Err(format!("a {what} of {num}/{den}; both must be 1 to {}", FRACTION.end()));
            }
        }
        let [a, b] = self.sample_aspect;
        if !FRACTION.contains(&u64::from(a)) || !FRACTION.contains(&u64::from(b)) {
            return Err(format!("pixels of {a}:{b}; both must be 1 to {}", FRACTION.end()));
        }
        if Layout::from_name(&self.samples).is_none_or(|layout| layout.alpha) {
            return Err(format!("samples like `{}` are not known", self.samples.escape_debug()));
        }
        // Tags are words that an encoder is told.
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let Colour { matrix, range, primaries, transfer, siting } = &self.colour;
        for tag in [matrix, range, primaries, transfer, siting] {
            if tag.value.is_empty() || tag.value.len() > 32 || !tag.value.chars().all(word) {
                return Err(format!("a colour tag `{}`", tag.value.escape_debug()));
            }
        }
        self.colour.coding().map_err(|what| format!("{} is not known", what.escape_debug()))?;
        if let Some(Restored { window, shown, .. }) = &self.restored {
            Windows::new(*window).map_err(|e| e.to_string())?;
            let whole = self.geometry.shown;
            if (0..2).any(|i| !(1..=whole[i]).contains(&shown[i])) {
                return Err(format!("{shown:?} of {whole:?} columns and rows are written"));
            }
        }
        Ok(())
    }

    /// What frames made of these latents are.
    pub fn format(&self, frames: usize) -> Option<Format> {
        Some(Format {
            width: self.geometry.shown[0],
            height: self.geometry.shown[1],
            layout: Layout::from_name(&self.samples)?,
            colour: self.colour.clone(),
            hdr: self.hdr.clone(),
            sample_aspect: self.sample_aspect,
            time_base: self.time_base,
            rate: self.rate,
            frames: Some(frames),
        })
    }
}
