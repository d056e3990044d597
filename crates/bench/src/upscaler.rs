//! An upscaler, frame by frame.

use std::fmt::{Display, Formatter};

use remaster_plan::Candidate;
use remaster_weights::checksum;
use serde::Serialize;

use remaster::machine::resident;
use remaster::upscaler::Upscaler;
use remaster::{Device, Error, Machine};

use crate::{BenchError, Loaded, Samples, mebibytes, threads_and_path, timed};

/// How long an upscaler took.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct UpscalerReport {
    pub model: String,
    pub dtype: &'static str,
    pub path: String,
    pub threads: usize,
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    pub load_seconds: f64,
    /// Of all frames.
    pub samples: Samples,
    /// Of the fastest run.
    pub seconds_per_frame: f64,
    pub gflops: f64,
    pub arena_bytes: u64,
    /// Highest resident memory of the process; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Checksum of the result: the same for the same bits.
    pub checksum: String,
}

/// Which upscaler, on what clip.
#[derive(Clone, Debug)]
pub struct UpscalerRequest {
    /// Its name, or its file.
    pub model: String,
    /// What computes.
    pub device: Device,
    /// Frames, height and width of the clip.
    pub clip: [usize; 3],
    /// Timed runs.
    pub repeat: u16,
    /// Untimed runs before them.
    pub warmup: u16,
    /// One run per line on stdin.
    pub step: bool,
}

/// Times an upscaler on generated frames.
pub fn upscaler(request: &UpscalerRequest, say: &dyn Fn(&str)) -> Result<UpscalerReport, BenchError> {
    let (backend, build) = (request.device.backend(&Machine::this())?, request.device.build());
    let (threads, path) = threads_and_path(backend)?;
    let upscaler = Upscaler::named(&request.model)?;
    let [frames, height, width] = request.clip;
    let task = upscaler.task(frames, [width, height], backend, build);
    let plan = task.exactly(Candidate { slice: 1, ..Candidate::WHOLE }).map_err(Error::from)?;
    let mut loaded = Loaded::new(&task, &plan)?;
    let samples = timed(request.warmup, request.repeat, request.step, say, || loaded.pass())?;
    Ok(UpscalerReport {
        model: request.model.clone(),
        dtype: build.dtype.name(),
        path,
        threads,
        frames,
        height,
        width,
        load_seconds: loaded.seconds,
        seconds_per_frame: samples.min / frames.max(1) as f64,
        gflops: 2.0 * plan.work.macs as f64 / samples.min / 1e9,
        samples,
        arena_bytes: plan.peaks.device,
        resident_bytes: resident(),
        checksum: format!("{:016x}", checksum(&loaded.made.clip.data).sum),
    })
}

impl Display for UpscalerReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let UpscalerReport { model, frames, height, width, dtype, path, threads, gflops, .. } = self;
        let Samples { seconds, min, median } = &self.samples;
        let (runs, each) = (seconds.len(), self.seconds_per_frame);
        let (arena, resident) = (mebibytes(self.arena_bytes), mebibytes(self.resident_bytes.unwrap_or(0)));
        write!(
            f,
            "{model} {frames} x {height} x {width} {dtype} on {path} ({threads} threads): min {min:.3} s, median \
             {median:.3} s of {runs}; {each:.3} s a frame; {gflops:.0} GFLOP/s; arena {arena:.0} MiB, resident \
             {resident:.0} MiB"
        )
    }
}
