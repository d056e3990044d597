//! One half of the network over a clip.

use std::fmt::{Display, Formatter};

use remaster_engine::Task;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Mode, SPACE, Tiers, Tiling};
use remaster_weights::FormulaParams;
use serde::Serialize;

use remaster::machine::resident;
use remaster::{Amount, Device, Error, Machine};

use crate::{BenchError, Loaded, Samples, mebibytes, threads_and_path, timed};

/// How long the VAE took.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct VaeReport {
    pub what: &'static str,
    pub dtype: &'static str,
    pub path: String,
    pub threads: usize,
    pub collapse: bool,
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    pub slice: usize,
    /// How the work was cut, in words. Not stable.
    pub cut: String,
    pub load_seconds: f64,
    pub samples: Samples,
    /// Convolutions and linear layers, per second of the fastest run.
    pub gflops: f64,
    pub attention_share: f64,
    pub arena_bytes: u64,
    /// Highest resident memory of the process; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// Which half of the VAE, on what clip, and how it is cut.
#[derive(Clone, Debug)]
pub struct VaeRequest {
    /// Encoder or decoder.
    pub direction: Direction,
    /// What computes.
    pub device: Device,
    /// Frames, height and width of the clip.
    pub clip: [usize; 3],
    /// Frames per slice; 0 runs the whole clip at once.
    pub slice: usize,
    /// Timed runs.
    pub repeat: u16,
    /// Untimed runs before them.
    pub warmup: u16,
    /// Load each weight when it is needed and free it afterwards.
    pub stream_weights: bool,
    /// Exact mode with so many stripes, spilling state and large activations.
    pub stripes: Option<u16>,
    /// Activations up to this size stay in memory; half of the largest if `None`.
    pub keep: Option<Amount>,
    /// Blend mode with tiles of this size that overlap by a quarter.
    pub tile: Option<usize>,
    /// One run per line on stdin.
    pub step: bool,
}

/// Times the full encoder or decoder on generated weights and frames.
pub fn vae(request: &VaeRequest, say: &dyn Fn(&str)) -> Result<VaeReport, BenchError> {
    let (backend, build) = (request.device.backend(&Machine::this())?, request.device.build());
    let (threads, path) = threads_and_path(backend)?;
    let size = |source| Error::Sizes { source };
    let [frames, height, width] = request.clip;
    let clip = remaster_plan::Clip::new(frames, height, width).map_err(size)?;
    let network = request.direction.network(&VaeConfig::full(), &mut FormulaParams, build);
    let task = Task::new(network, clip.cells(), backend, build.dtype);
    let stream_weights = request.stream_weights;
    let read_ahead = stream_weights && request.stripes.is_none();
    let mut how = Candidate { slice: request.slice, stream_weights, read_ahead, ..Candidate::WHOLE };
    if let Some(stripes) = request.stripes {
        let kept = match request.keep {
            Some(amount) => amount.bytes("--keep")?,
            None => task.planner().cost(&how).map_err(Error::from)?.largest / 2,
        };
        let (mode, far) = (Mode::Exact { stripes: stripes.into() }, Tiers::file(kept));
        how = Candidate { mode, activations: far, state: far, ..how };
    }
    if let Some(tile) = request.tile {
        how.mode = Mode::Blend(Tiling::new([tile; 2], [tile / 4; 2], SPACE).map_err(size)?);
    }
    let plan = task.exactly(how).map_err(Error::from)?;
    let mut loaded = Loaded::new(&task, &plan)?;
    let samples = timed(request.warmup, request.repeat, request.step, say, || loaded.pass())?;
    let (macs, attention) = (plan.work.macs as f64, plan.work.attention_macs as f64);
    Ok(VaeReport {
        what: request.direction.name(),
        dtype: build.dtype.name(),
        path,
        threads,
        collapse: build.collapse,
        frames: clip.frames(),
        height: clip.height(),
        width: clip.width(),
        slice: request.slice,
        cut: plan.how.describe(),
        load_seconds: loaded.seconds,
        gflops: 2.0 * macs / samples.min / 1e9,
        attention_share: attention / (macs + attention),
        samples,
        arena_bytes: plan.peaks.device,
        resident_bytes: resident(),
    })
}

impl Display for VaeReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let VaeReport { what, frames, height, width, dtype, path, threads, cut, gflops, .. } = self;
        let Samples { seconds, min, median } = &self.samples;
        let runs = seconds.len();
        let (arena, resident) = (mebibytes(self.arena_bytes), mebibytes(self.resident_bytes.unwrap_or(0)));
        write!(
            f,
            "{what} {frames} x {height} x {width} {dtype} on {path} ({threads} threads, {cut}): min {min:.3} s, \
             median {median:.3} s of {runs}; {gflops:.0} GFLOP/s; arena {arena:.0} MiB, resident {resident:.0} MiB"
        )
    }
}
