//! The block at the end of a run that people paste into reports.

use std::fmt;

use remaster_plan::bytes;
use serde::Serialize;

use remaster::About;
use remaster::numbers::clock;

use super::view::speed;

/// What a run took, phase by phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) version: &'static str,
    /// `linux x86_64`.
    pub(crate) system: String,
    /// The processor's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<String>,
    #[serde(flatten)]
    pub(crate) about: About,
    /// What `frames` counts.
    pub(crate) unit: &'static str,
    pub(crate) phases: Vec<PhaseSummary>,
    pub(crate) total_seconds: f64,
    /// Of the phase with the most.
    pub(crate) frames: usize,
    /// Frames by total time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planned_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PhaseSummary {
    pub(crate) phase: &'static str,
    pub(crate) seconds: f64,
    /// Of the total time. Phases side by side add up to more than 1.
    pub(crate) share: f64,
    pub(crate) frames: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_bytes: Option<u64>,
}

/// A result with what its run took.
#[derive(Serialize)]
pub(crate) struct Summed<'a, T> {
    #[serde(flatten)]
    pub(crate) outcome: &'a T,
    pub(crate) summary: &'a Summary,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "remaster {} on {}", self.version, self.system)?;
        let device = match &self.cpu {
            Some(cpu) => format!("{} ({cpu})", self.about.device),
            None => self.about.device.clone(),
        };
        let About { model, input, output, .. } = &self.about;
        for (what, value) in [("device", &device), ("model", model), ("input", input), ("output", output)] {
            if !value.is_empty() {
                writeln!(f, "{what:8} {value}")?;
            }
        }
        let row = |f: &mut fmt::Formatter<'_>, cells: [&str; 6]| {
            let [name, time, share, frames, rate, peak] = cells;
            writeln!(f, "{name:10} {time:>10} {share:>7} {frames:>8} {rate:>13} {peak:>12}")
        };
        row(f, ["phase", "time", "share", self.unit, "rate", "peak memory"])?;
        let dash = || "-".to_owned();
        let line = |f: &mut fmt::Formatter<'_>, name: &str, seconds, share, frames: usize, fps, peak| {
            let frames = if frames > 0 { frames.to_string() } else { dash() };
            let rate = Option::<f64>::map_or_else(fps, dash, |r| speed(r, self.unit));
            let peak = Option::<u64>::map_or_else(peak, dash, bytes);
            row(f, [name, &took(seconds), &format!("{:.1}%", 100.0 * share), &frames, &rate, &peak])
        };
        let mut rest = self.total_seconds;
        for p in &self.phases {
            rest -= p.seconds;
            line(f, p.phase, p.seconds, p.share, p.frames, p.fps, p.peak_bytes)?;
        }
        // Reading, writing and planning that no phase counts. Below a hundredth it is not worth a line.
        if rest > self.total_seconds / 100.0 && !self.phases.is_empty() {
            line(f, "rest", rest, rest / self.total_seconds, 0, None, None)?;
        }
        line(f, "total", self.total_seconds, 1.0, self.frames, self.fps, self.peak_bytes)?;
        match (self.planned_bytes, self.peak_bytes) {
            (Some(planned), Some(peak)) if planned > 0 => {
                let share = 100.0 * peak as f64 / planned as f64;
                writeln!(f, "memory   {} planned, {} used ({share:.0}%)", bytes(planned), bytes(peak))
            }
            _ => Ok(()),
        }
    }
}

/// Seconds with hundredths as long as they matter.
fn took(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.2} s") } else { clock(seconds.round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_reads_like_a_table() {
        let phase = |phase, seconds, frames, fps, peak_bytes| {
            let share = seconds / 250.0;
            PhaseSummary { phase, seconds, share, frames, fps, peak_bytes }
        };
        let summary = Summary {
            version: "0.1.0",
            system: "linux x86_64".into(),
            cpu: Some("Abacus 3000".into()),
            about: About {
                device: "cpu avx512, 2 threads".into(),
                model: "ema_vae_fp16.safetensors".into(),
                input: "in.mp4, 65 x 720 x 1280".into(),
                output: String::new(),
            },
            unit: "frames",
            phases: vec![
                phase("load", 1.0, 0, None, Some(1 << 20)),
                phase("encode", 99.0, 65, Some(65.0 / 99.0), Some(1 << 30)),
                phase("decode", 140.0, 65, Some(65.0 / 140.0), Some(3 << 29)),
            ],
            total_seconds: 250.0,
            frames: 65,
            fps: Some(0.26),
            planned_bytes: Some(2 << 30),
            peak_bytes: Some(3 << 29),
        };
        let expected = "\
remaster 0.1.0 on linux x86_64
device   cpu avx512, 2 threads (Abacus 3000)
model    ema_vae_fp16.safetensors
input    in.mp4, 65 x 720 x 1280
phase            time   share   frames          rate  peak memory
load           1.00 s    0.4%        -             -     1.00 MiB
encode        99.00 s   39.6%       65      0.66 fps     1.00 GiB
decode           2:20   56.0%       65      0.46 fps     1.50 GiB
rest          10.00 s    4.0%        -             -            -
total            4:10  100.0%       65      0.26 fps     1.50 GiB
memory   2.00 GiB planned, 1.50 GiB used (75%)
";
        assert_eq!(summary.to_string(), expected);
    }
}
