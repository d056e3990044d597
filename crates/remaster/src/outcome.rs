//! What a restoration will take, and what it took.

use remaster_media::Format;
use remaster_plan::Plan;
use remaster_restore::Geometry;
use serde::Serialize;

use crate::card::CardPlan;
use crate::plan::Total;

/// What was read, and how far to trust it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SourceInfo {
    /// Size, rate, number of frames.
    #[serde(flatten)]
    pub format: Format,
    /// `frames` was computed from duration and rate.
    pub frames_estimated: bool,
}

/// What a restoration will take.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FilmPlan {
    /// What is read.
    pub input: String,
    /// File or name of the transformer or upscaler.
    pub model: String,
    /// File or name of the VAE; absent with an upscaler.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vae: String,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Sizes of frames on their way.
    pub geometry: Geometry,
    /// The input.
    pub source: SourceInfo,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of encoder, transformer and decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
    /// Latents that wait on disk at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_bytes: Option<u64>,
    /// Frames that are saved on disk at most while they are encoded, with an upscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<u64>,
    /// How often the networks take turns, if the length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Multiply-adds of a frame.
    pub macs_per_frame: f64,
    /// How long it will take.
    #[serde(flatten)]
    pub time: Option<Estimate>,
    /// The card that it is planned for, if that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<CardPlan>,
    /// Display name of the model.
    #[serde(skip)]
    pub title: String,
    /// Kernels that compute.
    #[serde(skip)]
    pub numerics: String,
    /// Width and height of the output.
    #[serde(skip)]
    pub shown: [usize; 2],
    /// The number of frames is sure.
    #[serde(skip)]
    pub counted: bool,
    /// The device has memory of its own.
    #[serde(skip)]
    pub apart: bool,
}

/// What a restoration took.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FilmOutcome {
    /// What was read.
    pub input: String,
    /// What was written.
    pub output: String,
    /// File or name of the transformer or upscaler.
    pub model: String,
    /// File or name of the VAE; absent with an upscaler.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vae: String,
    /// Of the noise.
    pub seed: u64,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Frames that were written.
    pub frames: usize,
    /// Of the output.
    pub height: usize,
    /// Of the output.
    pub width: usize,
    /// Sizes of frames on their way.
    pub geometry: Geometry,
    /// The input.
    pub source: SourceInfo,
    /// First frame of every shot.
    pub shots: Vec<usize>,
    /// How often the networks took turns.
    pub groups: usize,
    /// Latents that waited at most.
    pub latent_bytes: u64,
    /// Time that networks took to load.
    pub load_seconds: f64,
    /// Units that could not be restored and have frames of the input.
    pub left: Vec<u32>,
    /// The file beside the output that says how it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of encoder, transformer and decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
}

/// A time with its basis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// Of the whole film, if its length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Of a frame, without what a run has once.
    pub seconds_per_frame: f64,
    /// Of a unit in a process of its own, about, if the length is known.
    #[serde(skip)]
    pub unit_seconds: Option<f64>,
    /// `recorded` by the last runs like this, or `calibrated` just now.
    pub basis: &'static str,
    /// How long the measurement took, if there was one.
    #[serde(skip)]
    pub(crate) measured_seconds: Option<f64>,
    /// `CPU` or `GPU`.
    #[serde(skip)]
    pub(crate) device: &'static str,
}

/// In words: `about 3 days on this CPU, estimated from a 2-second measurement`.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.seconds {
            Some(seconds) => write!(f, "about {}", words(seconds))?,
            None => write!(f, "about {} for each frame", words(self.seconds_per_frame))?,
        }
        match self.measured_seconds {
            Some(seconds) => {
                let whole = seconds.ceil().max(1.0);
                write!(f, " on this {}, estimated from a {whole}-second measurement", self.device)
            }
            None => write!(f, " on this {}, by the speed of the last run", self.device),
        }
    }
}

/// Formats a duration in the unit that leaves one or two digits: `3 days`.
pub fn words(seconds: f64) -> String {
    let units = [(1.0, "second"), (60.0, "minute"), (3600.0, "hour"), (86400.0, "day"), (604_800.0, "week")];
    let fits = |(length, _): &&(f64, &str)| seconds >= 1.5 * length;
    let (length, unit) = units.iter().rev().find(fits).copied().unwrap_or(units[0]);
    let count = (seconds / length).round().max(1.0);
    // A hundred weeks are enough to know.
    if count > 100.0 {
        return "more than 100 weeks".into();
    }
    format!("{count} {unit}{}", if count == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (seconds, expected) in [
            (0.0, "1 second"),
            (1.0, "1 second"),
            (80.0, "80 seconds"),
            (95.0, "2 minutes"),
            (3600.0, "60 minutes"),
            (6000.0, "2 hours"),
            (86400.0, "24 hours"),
            (260_000.0, "3 days"),
            (1_300_000.0, "2 weeks"),
            (1e12, "more than 100 weeks"),
            (f64::INFINITY, "more than 100 weeks"),
        ] {
            assert_eq!(words(seconds), expected, "{seconds}");
        }
        let estimate = Estimate {
            seconds: Some(260_000.0),
            seconds_per_frame: 10.0,
            unit_seconds: None,
            basis: "calibrated",
            measured_seconds: Some(1.4),
            device: "CPU",
        };
        assert_eq!(estimate.to_string(), "about 3 days on this CPU, estimated from a 2-second measurement");
        let recorded = Estimate { measured_seconds: None, seconds: None, basis: "recorded", ..estimate };
        assert_eq!(
            recorded.to_string(),
            "about 10 seconds for each frame on this CPU, by the speed of the last run"
        );
    }
}
