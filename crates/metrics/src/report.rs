//! What a comparison found. No number in it is infinite or not a number, so that it can be JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ciede2000::DeltaE;
use crate::drift::Drift;
use crate::sample::Sample;
use crate::seams::Seams;

/// One measure per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// PSNR over RGB, dB.
    Psnr,
    /// PSNR of luma, dB.
    PsnrLuma,
    /// SSIM of luma.
    Ssim,
    /// SSIMULACRA2.
    Ssimulacra2,
    /// Mean CIEDE2000.
    DeltaE,
    /// 95th percentile of CIEDE2000.
    DeltaEP95,
    /// Largest CIEDE2000.
    DeltaEMax,
    /// Flicker against the first clip, 8-bit levels.
    Flicker,
    /// Flicker of the first clip alone, 8-bit levels.
    FlickerA,
    /// Flicker of the second clip alone, 8-bit levels.
    FlickerB,
    /// Mean difference of the worst block, 8-bit levels.
    Drift,
}

impl Metric {
    /// All, in the order of a report.
    pub const ALL: [Metric; 11] = [
        Metric::Psnr,
        Metric::PsnrLuma,
        Metric::Ssim,
        Metric::Ssimulacra2,
        Metric::DeltaE,
        Metric::DeltaEP95,
        Metric::DeltaEMax,
        Metric::Flicker,
        Metric::FlickerA,
        Metric::FlickerB,
        Metric::Drift,
    ];

    /// Display title, with the unit; and the value of a frame, if it has one.
    fn about(self) -> (&'static str, fn(&FrameScores) -> Option<f64>) {
        match self {
            Metric::Psnr => ("PSNR (dB)", |s| s.psnr),
            Metric::PsnrLuma => ("PSNR of luma (dB)", |s| s.psnr_luma),
            Metric::Ssim => ("SSIM", |s| s.ssim),
            Metric::Ssimulacra2 => ("SSIMULACRA2", |s| s.ssimulacra2),
            Metric::DeltaE => ("delta E 2000, mean", |s| s.delta_e.map(|d| d.mean)),
            Metric::DeltaEP95 => ("delta E 2000, 95th percentile", |s| s.delta_e.map(|d| d.p95)),
            Metric::DeltaEMax => ("delta E 2000, largest", |s| s.delta_e.map(|d| d.max)),
            Metric::Flicker => ("flicker (levels)", |s| s.flicker),
            Metric::FlickerA => ("flicker of A alone (levels)", |s| s.flicker_a),
            Metric::FlickerB => ("flicker of B alone (levels)", |s| s.flicker_b),
            Metric::Drift => ("drift of the worst block (levels)", |s| Some(s.drift)),
        }
    }

    /// Display title, with the unit.
    pub fn title(self) -> &'static str {
        self.about().0
    }

    /// More is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Metric::Psnr | Metric::PsnrLuma | Metric::Ssim | Metric::Ssimulacra2)
    }

    /// The value of a frame, if it has one.
    pub fn of(self, scores: &FrameScores) -> Option<f64> {
        self.about().1(scores)
    }
}

/// The scores of one frame. Absent in JSON: not asked for, or the picture is too small, or it is among the
/// first frames and has nothing before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameScores {
    /// Number of the frame, from 0.
    pub frame: usize,
    /// Not one value differs.
    pub identical: bool,
    /// PSNR over RGB in dB; `None` (null) if it is infinite because nothing differs.
    pub psnr: Option<f64>,
    /// PSNR of luma in dB; `None` (null) if it is infinite because no luma differs.
    pub psnr_luma: Option<f64>,
    /// SSIM of luma.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssim: Option<f64>,
    /// SSIMULACRA2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssimulacra2: Option<f64>,
    /// CIEDE2000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_e: Option<DeltaE>,
    /// Flicker against the first clip, 8-bit levels. From the second frame on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flicker: Option<f64>,
    /// Flicker of the first clip alone, 8-bit levels. From the third frame on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flicker_a: Option<f64>,
    /// Flicker of the second clip alone, 8-bit levels. From the third frame on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flicker_b: Option<f64>,
    /// How far the worst block of the drift map is off in this frame, 8-bit levels.
    pub drift: f64,
}

/// A measure over the frames that have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stat {
    /// Mean of the frames' values.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Most.
    pub max: f64,
    /// The first frame with the worst value: the least where more is better, else the most.
    pub worst_frame: usize,
    /// How many frames have a value.
    pub frames: usize,
}

impl Stat {
    /// `None` if no frame has the value.
    pub fn of(metric: Metric, frames: &[FrameScores]) -> Option<Stat> {
        let mut stat = None::<Stat>;
        for (frame, value) in frames.iter().filter_map(|s| Some((s.frame, metric.of(s)?))) {
            let s =
                stat.get_or_insert(Stat { mean: 0.0, min: value, max: value, worst_frame: frame, frames: 0 });
            if (metric.more_is_better() && value < s.min) || (!metric.more_is_better() && value > s.max) {
                s.worst_frame = frame;
            }
            s.min = s.min.min(value);
            s.max = s.max.max(value);
            s.mean += value;
            s.frames += 1;
        }
        stat.map(|s| Stat { mean: s.mean / s.frames as f64, ..s })
    }

    /// The value of the worst frame.
    pub fn worst(&self, metric: Metric) -> f64 {
        if metric.more_is_better() { self.min } else { self.max }
    }
}

/// PSNR of the whole clip, from the squared errors of all frames together. Unlike the mean of the frames'
/// values it exists as soon as one frame differs, and frames that are nearly equal do not carry it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// Over RGB in dB; `None` (null) if nothing differs.
    pub psnr: Option<f64>,
    /// Of luma in dB; `None` (null) if no luma differs.
    pub psnr_luma: Option<f64>,
}

/// A frame for the sheet.
#[derive(Clone, Debug, Serialize)]
pub struct Pick {
    /// Why it was chosen: `first`, `median`, `worst`, or `detail`, a part of the worst at full size.
    pub label: &'static str,
    /// Number of the frame, from 0.
    pub frame: usize,
    /// Small pictures of it.
    #[serde(skip)]
    pub sample: Sample,
}

/// What a comparison found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// Pairs of frames that were compared.
    pub frames: usize,
    /// There were frames, and not one value of them differs.
    pub identical: bool,
    /// PSNR of the clip as a whole.
    pub pooled: Pooled,
    /// Each measure over the frames that have it; a measure that no frame has is not there. PSNR is over the
    /// frames that differ.
    pub summary: BTreeMap<Metric, Stat>,
    /// Where colour drifts.
    pub drift: Drift,
    /// Where the difference jumps.
    pub seams: Seams,
    /// Frames for the sheet: worst with its detail, median, first. Empty if none were asked for.
    pub picks: Vec<Pick>,
    /// The scores of every frame.
    pub per_frame: Vec<FrameScores>,
}
