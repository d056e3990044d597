//! `remaster bench`: times of kernels and of the whole network, every sample kept.

#[cfg(feature = "gpu")]
mod card;
mod dit;
#[cfg(feature = "gpu")]
mod gpu;
mod kernels;
mod scaling;
mod subjects;
mod vae;

#[cfg(feature = "gpu")]
pub(crate) use card::card;
pub(crate) use dit::dit;
pub(crate) use kernels::kernels;
pub(crate) use scaling::scaling;
pub(crate) use vae::vae;

use std::io::BufRead;
use std::time::Instant;

use remaster_compute::{Backend, DType};
use remaster_engine::{MemoryClip, Session};
use serde::Serialize;

use crate::error::CliError;
use crate::output::Output;

/// Multiply-adds per second of convolutions as wide as this, in less than a second.
pub(crate) fn convolutions(backend: Backend, dtype: DType, channels: usize) -> Result<f64, CliError> {
    // The channels of the VAE, or of a smaller one, in frames that make 10 GFLOP of them.
    let channels = channels.clamp(32, 512).next_multiple_of(32);
    let side = 24 * 512 / channels / 2;
    fastest(&mut subjects::conv(&backend.into(), dtype, channels, [4, side, side * 4 / 3], false)?)
}

/// Multiply-adds per second of linear layers as wide as this, in about a second.
pub(crate) fn linear_layers(backend: Backend, dtype: DType, channels: usize) -> Result<f64, CliError> {
    let channels = channels.clamp(64, 4096).next_multiple_of(64);
    fastest(&mut subjects::linear(&backend.into(), dtype, 512, [channels, 3 * channels])?)
}

/// Of a few runs the fastest: the first one also warms the device up.
fn fastest(bench: &mut subjects::Bench) -> Result<f64, CliError> {
    let (mut best, mut seconds) = (0.0f64, 0.0);
    for _ in 0..5 {
        let took = bench.step(1)?.max(1e-9);
        best = best.max(bench.work / 2.0 / took);
        seconds += took;
        if seconds > 0.4 {
            break;
        }
    }
    Ok(best)
}

/// Worker threads, and the kernels or the device. Nobody times the naive loops.
fn threads_and_path(backend: Backend) -> Result<(usize, String), CliError> {
    match backend {
        Backend::Cpu { threads, path } => Ok((threads, path.to_string())),
        Backend::Reference => Err(CliError::BenchBackend),
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => Ok((0, device.to_string())),
    }
}

/// Runs without a clock, then with one. With `step` there is one run per line on stdin: somebody else takes turns with us
/// on this machine.
fn timed(
    warmup: u16,
    repeat: u16,
    step: bool,
    out: &Output,
    mut run: impl FnMut() -> Result<f64, CliError>,
) -> Result<Samples, CliError> {
    for _ in 0..warmup {
        run()?;
    }
    let mut seconds = Vec::new();
    if step {
        out.say("ready");
        for line in std::io::stdin().lock().lines() {
            if line.is_err() {
                break;
            }
            let took = run()?;
            out.say(format_args!("{took}"));
            seconds.push(took);
        }
    }
    if seconds.is_empty() {
        for _ in 0..repeat {
            seconds.push(run()?);
        }
    }
    Ok(Samples::new(seconds))
}

/// Seconds of a clip through a network, from its first frame.
fn pass(session: &mut Session<'_>, source: &mut MemoryClip, sink: &mut MemoryClip) -> Result<f64, CliError> {
    let started = Instant::now();
    session.rewind()?;
    source.seek(0);
    *sink = MemoryClip::sink();
    while !session.is_done() {
        session.advance(source, sink, &mut |_| ())?;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Seconds of every run, and what people look at.
#[derive(Debug, Serialize)]
struct Samples {
    seconds: Vec<f64>,
    min: f64,
    median: f64,
}

impl Samples {
    fn new(seconds: Vec<f64>) -> Self {
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let min = sorted.first().copied().unwrap_or(f64::NAN);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        Samples { seconds, min, median }
    }
}
