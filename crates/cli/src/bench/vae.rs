//! One half of the network over a clip.

use std::time::Instant;

use remaster_compute::HostTensor;
use remaster_engine::{MemoryClip, Task};
use remaster_model::vae::VaeConfig;
use remaster_plan::{Candidate, Mode, SPACE, Tiers, Tiling};
use remaster_weights::{FormulaParams, fill_uniform};
use serde::Serialize;

use super::{Samples, pass, threads_and_path, timed};
use crate::args::BenchVaeArgs;
use crate::error::CliError;
use crate::memory::resident;
use crate::output::Output;

#[derive(Debug, Serialize)]
struct VaeReport {
    what: &'static str,
    dtype: &'static str,
    path: String,
    threads: usize,
    collapse: bool,
    frames: usize,
    height: usize,
    width: usize,
    slice: usize,
    /// How the work was cut, in words. Not stable.
    cut: String,
    load_seconds: f64,
    samples: Samples,
    /// Convolutions and linear layers, per second of the fastest run.
    gflops: f64,
    attention_share: f64,
    arena_bytes: u64,
    /// Highest resident memory of the process; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
}

pub(crate) fn vae(args: &BenchVaeArgs, out: &Output) -> Result<(), CliError> {
    let (backend, build) = (args.device.backend()?, args.device.build());
    let (threads, path) = threads_and_path(backend)?;
    let size = |source| CliError::Sizes { source };
    let clip = remaster_plan::Clip::new(args.frames, args.height, args.width).map_err(size)?;
    let mut params = FormulaParams;
    let network = args.what.direction().network(&VaeConfig::full(), &mut params, build);
    let task = Task::new(network, clip.cells(), backend, build.dtype);
    let stream_weights = args.stream_weights;
    let read_ahead = stream_weights && args.stripes.is_none();
    let mut how = Candidate { slice: args.slice, stream_weights, read_ahead, ..Candidate::WHOLE };
    if let Some(stripes) = args.stripes {
        let kept = match args.keep {
            Some(amount) => amount.bytes("--keep")?,
            None => task.planner().cost(&how)?.largest / 2,
        };
        let (mode, far) = (Mode::Exact { stripes: stripes.into() }, Tiers::file(kept));
        how = Candidate { mode, activations: far, state: far, ..how };
    }
    if let Some(tile) = args.tile {
        how.mode = Mode::Blend(Tiling::new([tile; 2], [tile / 4; 2], SPACE).map_err(size)?);
    }
    let plan = task.exactly(how)?;
    let mut input = HostTensor::zeros(task.input());
    fill_uniform("input/bench", 0, &mut input.data);
    let started = Instant::now();
    let mut session = task.start(&plan)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let mut source = MemoryClip::source(input);
    let mut run = || pass(&mut session, &mut source, &mut MemoryClip::sink());
    let samples = timed(args.warmup, args.repeat, args.step, out, &mut run)?;
    let (macs, attention) = (plan.work.macs as f64, plan.work.attention_macs as f64);
    let report = VaeReport {
        what: args.what.name(),
        dtype: build.dtype.name(),
        path,
        threads,
        collapse: build.collapse,
        frames: clip.frames(),
        height: clip.height(),
        width: clip.width(),
        slice: args.slice,
        cut: plan.how.describe(),
        load_seconds,
        gflops: 2.0 * macs / samples.min / 1e9,
        attention_share: attention / (macs + attention),
        samples,
        arena_bytes: plan.peaks.device,
        resident_bytes: resident(),
    };
    out.result(&report, || describe(&report));
    Ok(())
}

fn describe(r: &VaeReport) -> String {
    format!(
        "{} {} x {} x {} {} on {} ({} threads, {}): min {:.3} s, median {:.3} s of {}; {:.0} GFLOP/s; \
         arena {:.0} MiB, resident {:.0} MiB",
        r.what,
        r.frames,
        r.height,
        r.width,
        r.dtype,
        r.path,
        r.threads,
        r.cut,
        r.samples.min,
        r.samples.median,
        r.samples.seconds.len(),
        r.gflops,
        r.arena_bytes as f64 / 1048576.0,
        r.resident_bytes.unwrap_or(0) as f64 / 1048576.0
    )
}
