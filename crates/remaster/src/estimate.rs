//! How long a run will take, and what that rests on.

use std::time::Instant;

use remaster_compute::Backend;

use crate::event::Reporter;
use crate::machine::{calibrate, rates};
use crate::restore::Film;

/// The VAE runs at this share of the rate of its convolutions: decoding 5 frames of 128 x 128 in f32 reached 137 GFLOP/s
/// where they reached 169 to 184.
pub(crate) const NETWORK_SHARE: f64 = 0.75;

/// The transformer runs at this share of the rate of a linear layer: 3B in bf16 reached 791 GFLOP/s where that reached 1458.
const TRANSFORMER_SHARE: f64 = 0.54;

/// Multiply-adds that are done sooner than the speed is measured.
const SHORT: f64 = 2e11;

/// A time with its basis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Of the whole film, if its length is known.
    pub seconds: Option<f64>,
    /// Of a frame.
    pub seconds_per_frame: f64,
    /// `recorded` by the last runs like this, or `calibrated` just now.
    pub basis: &'static str,
    /// How long the measurement took, if there was one.
    measured_seconds: Option<f64>,
    /// `CPU` or `GPU`.
    device: &'static str,
}

impl Estimate {
    /// Estimates from recorded runs, or from a short measurement. `None` for networks that compute nothing and for software
    /// GPUs.
    pub(crate) fn of(film: &Film, report: &Reporter<'_>) -> Option<Self> {
        let ([encode, restore, decode], keys) = (film.work(), film.networks.rate_keys(&film.site));
        let (backend, dtype) = (film.site.backend, film.site.build.dtype);
        let device = match backend {
            Backend::Cpu { .. } => "CPU",
            #[cfg(feature = "gpu")]
            Backend::Gpu(gpu) if gpu.info().is_none_or(|info| info.kind != "software") => "GPU",
            _ => return None,
        };
        let (started, mut measured) = (Instant::now(), false);
        let mut each = 0.0;
        for (n, (key, work)) in keys.into_iter().zip([encode + decode, restore]).enumerate() {
            let Some(key) = key else { continue };
            let rate = match rates::recorded(&key) {
                Some(rate) => rate,
                None => {
                    measured = true;
                    let rate = match n {
                        0 => calibrate::convolutions(backend, dtype, key.channels())
                            .map(|rate| rate * NETWORK_SHARE),
                        _ => calibrate::linear_layers(backend, dtype, key.channels())
                            .map(|rate| rate * TRANSFORMER_SHARE),
                    };
                    match rate {
                        Ok(rate) => rate,
                        Err(error) => {
                            report.detail(format_args!("cannot estimate the time: {error}"));
                            return None;
                        }
                    }
                }
            };
            each += work / rate;
        }
        (each > 0.0).then(|| Estimate {
            seconds: film.format.frames.map(|frames| each * frames as f64),
            seconds_per_frame: each,
            basis: if measured { "calibrated" } else { "recorded" },
            measured_seconds: measured.then(|| started.elapsed().as_secs_f64()),
            device,
        })
    }

    /// The same before a run, unless that takes no longer than the measurement.
    pub(crate) fn before(film: &Film, report: &Reporter<'_>) -> Option<Self> {
        let macs = film.work().iter().sum::<f64>() * film.format.frames.unwrap_or(1) as f64;
        if macs < SHORT { None } else { Self::of(film, report) }
    }
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

/// Formats a duration in the unit that leaves one or two digits: `about 3 days`.
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
