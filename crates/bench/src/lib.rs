//! Times of kernels and of whole networks, every sample kept.

#[cfg(feature = "gpu")]
mod card;
mod dit;
#[cfg(feature = "gpu")]
mod gpu;
mod kernels;
mod plot;
mod scaling;
mod upscaler;
mod vae;

#[cfg(feature = "gpu")]
pub use card::{
    CardReport, CardRequest, Ceilings, Kernel as CardKernel, Network as CardNetwork, Skipped, card,
};
pub use dit::{DitReport, DitRequest, dit};
#[cfg(feature = "gpu")]
pub use gpu::GpuKernelsReport;
pub use kernels::{KernelReport, KernelsReport, KernelsRequest, Measured, kernels};
pub use scaling::{Point, ScalingReport, ScalingRequest, scaling};
pub use upscaler::{UpscalerReport, UpscalerRequest, upscaler};
pub use vae::{VaeReport, VaeRequest, vae};

use std::io::BufRead;
use std::time::Instant;

use remaster_compute::{Backend, HostTensor};
use remaster_engine::{MemoryClip, Session, Task};
use remaster_plan::Plan;
use remaster_weights::fill_uniform;
use serde::Serialize;

use remaster::Error;

/// What a measurement can fail with.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device, the networks or the plan.
    #[error(transparent)]
    Run(#[from] remaster::Error),
    /// A kernel is slower than it should be.
    #[error("{kernel} reaches {ratio:.2} of its limit, less than the required {floor:.2}")]
    Floor {
        /// Which.
        kernel: String,
        /// What it reaches.
        ratio: f64,
        /// What it should.
        floor: f64,
    },
    /// Only graphics cards have ceilings.
    #[error(
        "`bench card` measures graphics cards, but the device is {backend}; choose one listed by `remaster devices`, or use `remaster bench kernels` for the CPU"
    )]
    NoCard {
        /// The device.
        backend: &'static str,
    },
}

/// Worker threads, and the kernels or the device. The naive loops are not timed.
fn threads_and_path(backend: Backend) -> Result<(usize, String), Error> {
    match backend {
        Backend::Cpu { threads, path } => Ok((threads, path.to_string())),
        Backend::Reference => Err(Error::BenchBackend),
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => Ok((0, device.to_string())),
    }
}

/// Untimed runs, then timed ones. With `step`, one run per line on stdin, so that two programs can alternate on one machine.
fn timed(
    warmup: u16,
    repeat: u16,
    step: bool,
    say: &dyn Fn(&str),
    mut run: impl FnMut() -> Result<f64, Error>,
) -> Result<Samples, Error> {
    for _ in 0..warmup {
        run()?;
    }
    let mut seconds = Vec::new();
    if step {
        say("ready");
        for line in std::io::stdin().lock().lines() {
            if line.is_err() {
                break;
            }
            let took = run()?;
            say(&format!("{took}"));
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

/// A network that is loaded, and a clip of made-up values for it.
struct Loaded<'a> {
    session: Session<'a>,
    source: MemoryClip,
    /// What the last pass made.
    made: MemoryClip,
    /// How long the loading took.
    seconds: f64,
}

impl<'a> Loaded<'a> {
    fn new(task: &'a Task, plan: &Plan) -> Result<Self, Error> {
        let mut input = HostTensor::zeros(task.input());
        fill_uniform("input/bench", 0, &mut input.data);
        let started = Instant::now();
        let session = task.start(plan)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Loaded { session, source: MemoryClip::source(input), made: MemoryClip::sink(), seconds })
    }

    /// Seconds of the clip through the network, from its first frame.
    fn pass(&mut self) -> Result<f64, Error> {
        self.made = MemoryClip::sink();
        let started = Instant::now();
        self.session.rewind()?;
        self.source.seek(0);
        while !self.session.is_done() {
            self.session.advance(&mut self.source, &mut self.made, &mut |_| ())?;
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

/// Bytes of all weights of a network.
fn weight_bytes(task: &Task) -> u64 {
    let (sizing, mut bytes) = (task.settings.backend.sizing(), 0u64);
    task.network.weights(&mut |w| bytes = bytes.saturating_add(sizing.weight_bytes(&w.spec())));
    bytes
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1048576.0
}

/// Seconds of every run, the least and the median.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Samples {
    pub seconds: Vec<f64>,
    pub min: f64,
    pub median: f64,
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
