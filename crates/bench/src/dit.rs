//! The diffusion transformer over a clip.

use std::fmt::{Display, Formatter};

use remaster_plan::Candidate;
use remaster_weights::checksum;
use serde::Serialize;

use remaster::machine::resident;
use remaster::transformer::{Size, Transformer, in_flight_bytes};
use remaster::{Device, Error, Limits, Machine, plan_task};

use crate::{BenchError, Loaded, Samples, mebibytes, threads_and_path, timed, weight_bytes};

/// How long the transformer took.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct DitReport {
    pub weights: String,
    pub dtype: &'static str,
    pub path: String,
    pub threads: usize,
    pub layers: usize,
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    pub tokens: usize,
    /// How the work was cut, in words. Not stable.
    pub cut: String,
    pub load_seconds: f64,
    pub samples: Samples,
    pub milliseconds_per_token: f64,
    /// Linear layers and attention, per second of the fastest run.
    pub gflops: f64,
    pub attention_share: f64,
    pub arena_bytes: u64,
    /// What is beside the weights, if these are resident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_weights_bytes: Option<u64>,
    /// Highest resident memory of the process; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Checksum of the result: the same for the same bits.
    pub checksum: String,
}

/// Which transformer, on what clip, and how it is cut.
#[derive(Clone, Debug)]
pub struct DitRequest {
    /// Model file, or `formula:3b`, `formula:7b` for generated weights.
    pub weights: String,
    /// What computes.
    pub device: Device,
    /// Frames, height and width of the clip.
    pub clip: [usize; 3],
    /// Only the first blocks.
    pub layers: Option<u16>,
    /// Timed runs.
    pub repeat: u16,
    /// Untimed runs before them.
    pub warmup: u16,
    /// Tokens that go through a block together, instead of what fits into memory.
    pub group: Option<usize>,
    /// Stream the weights, instead of deciding by memory.
    pub stream_weights: bool,
    /// Memory and disk.
    pub limits: Limits,
    /// One run per line on stdin.
    pub step: bool,
}

/// Times the diffusion transformer.
pub fn dit(request: &DitRequest, say: &dyn Fn(&str)) -> Result<DitReport, BenchError> {
    let (backend, build) = (request.device.backend(&Machine::this())?, request.device.build());
    let (threads, path) = threads_and_path(backend)?;
    let [frames, height, width] = request.clip;
    let size = Size::new(frames, height, width)?;
    let mut transformer = Transformer::open(&request.weights)?.cut(request.layers.map(usize::from));
    for warning in &transformer.warnings {
        say(&format!("warning: {warning}"));
    }
    let mut task = transformer.task(&size, backend, build);
    task.settings.spill = Some(request.limits.spill_folder(&Machine::this())?);
    let plan = if request.stream_weights || request.group.is_some() {
        let how = Candidate {
            group: request.group.unwrap_or(0),
            stream_weights: request.stream_weights,
            read_ahead: request.stream_weights,
            ..Candidate::WHOLE
        };
        task.exactly(how).map_err(Error::from)?
    } else {
        plan_task(&task, backend, &request.limits, in_flight_bytes(&task), &Machine::this())?
    };
    let weights = (!plan.how.stream_weights).then(|| weight_bytes(&task));
    let mut loaded = Loaded::new(&task, &plan)?;
    let samples = timed(request.warmup, request.repeat, request.step, say, || loaded.pass())?;
    let (macs, attention) = (plan.work.macs as f64, plan.work.attention_macs as f64);
    Ok(DitReport {
        weights: request.weights.clone(),
        dtype: build.dtype.name(),
        path,
        threads,
        layers: transformer.config.layers,
        frames,
        height,
        width,
        tokens: size.tokens(),
        cut: plan.how.describe(),
        load_seconds: loaded.seconds,
        milliseconds_per_token: 1e3 * samples.min / size.tokens().max(1) as f64,
        gflops: 2.0 * (macs + attention) / samples.min / 1e9,
        attention_share: attention / (macs + attention),
        samples,
        arena_bytes: plan.peaks.device,
        beside_weights_bytes: weights.map(|bytes| plan.peaks.device.saturating_sub(bytes)),
        resident_bytes: resident(),
        checksum: format!("{:016x}", checksum(&loaded.made.clip.data).sum),
    })
}

impl Display for DitReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let DitReport { layers, tokens, dtype, path, threads, cut, gflops, checksum, .. } = self;
        let Samples { seconds, min, median } = &self.samples;
        let (runs, per_token) = (seconds.len(), self.milliseconds_per_token);
        let (arena, resident) = (mebibytes(self.arena_bytes), mebibytes(self.resident_bytes.unwrap_or(0)));
        write!(
            f,
            "blocks: {layers}; {tokens} tokens in {dtype} on {path} ({threads} threads, {cut}): min {min:.3} s, \
             median {median:.3} s of {runs}; {per_token:.3} ms a token; {gflops:.0} GFLOP/s; arena {arena:.0} MiB, \
             resident {resident:.0} MiB; {checksum}"
        )
    }
}
