//! How long a run will take, and what that rests on.

use std::time::Instant;

use remaster_compute::Backend;

use crate::around::Around;
use crate::error::Error;
use crate::event::Reporter;
use crate::machine::calibrate;
use crate::machine::host::Machine;
use crate::machine::rates::{self, Key};
use crate::outcome::Estimate;
use crate::restore::Film;

/// The VAE runs at this share of the rate of its convolutions: decoding 5 frames of 128 x 128 in f32 reached 137 GFLOP/s
/// where they reached 169 to 184.
pub(crate) const NETWORK_SHARE: f64 = 0.75;

/// The transformer runs at this share of the rate of a linear layer: 3B in bf16 reached 791 GFLOP/s where that reached 1458.
const TRANSFORMER_SHARE: f64 = 0.54;

/// Multiply-adds that are done sooner than the speed is measured.
const SHORT: f64 = 2e11;

/// Seconds of a run of which nothing is said before.
const MOMENT: f64 = 10.0;

/// What a rate rests on.
const RECORDED: &str = "recorded";
const MEASURED: &str = "calibrated";

/// Multiply-adds a second of earlier runs, else of a measurement, and which of the two it is.
pub(crate) fn recorded_or_measured(
    machine: &Machine,
    key: &Key,
    report: &Reporter<'_>,
    measure: impl FnOnce() -> Result<f64, Error>,
) -> Option<(f64, &'static str)> {
    if let Some(rate) = rates::recorded(machine, key) {
        return Some((rate, RECORDED));
    }
    let failed = |error: &Error| report.detail(format_args!("cannot estimate the time: {error}"));
    Some((measure().inspect_err(failed).ok()?, MEASURED))
}

impl Estimate {
    /// Estimates from recorded runs, or from a short measurement: the networks, and what is around them. `is_ready` says whether
    /// all is done that comes before the first frame. `None` for software GPUs.
    pub(crate) fn of(film: &Film, is_ready: bool, report: &Reporter<'_>) -> Option<Self> {
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
            let (rate, basis) = recorded_or_measured(&film.site.machine, &key, report, || match n {
                0 => Ok(calibrate::convolutions(backend, dtype, key.channels)? * NETWORK_SHARE),
                _ if film.networks.upscaler().is_some() => {
                    Ok(calibrate::frame_convolutions(backend, dtype, key.channels)? * NETWORK_SHARE)
                }
                _ => Ok(calibrate::linear_layers(backend, dtype, key.channels)? * TRANSFORMER_SHARE),
            })?;
            measured |= basis == MEASURED;
            each += work / rate;
        }
        // Where there is no network the little that is timed is all that there is.
        measured |= each == 0.0;
        let around = Around::of(film, is_ready);
        Some(Estimate {
            seconds: film.format.frames.map(|frames| around.film(frames, each)),
            seconds_per_frame: around.frame(each),
            unit_seconds: film.format.frames.map(|frames| around.unit(film.unit_of(frames), each)),
            basis: if measured { MEASURED } else { RECORDED },
            measured_seconds: measured.then(|| started.elapsed().as_secs_f64()),
            device,
        })
    }

    /// The same before a run, unless that takes no longer than the measurement.
    pub(crate) fn before(film: &Film, is_ready: bool, report: &Reporter<'_>) -> Option<Self> {
        let frames = film.format.frames.unwrap_or(1);
        if Self::is_short(film) && Around::of(film, is_ready).film(frames, 0.0) < MOMENT {
            return None;
        }
        Self::of(film, is_ready, report)
    }

    /// Whether the networks take no longer than a measurement of their speed.
    pub(crate) fn is_short(film: &Film) -> bool {
        film.work().iter().sum::<f64>() * (film.format.frames.unwrap_or(1) as f64) < SHORT
    }
}
