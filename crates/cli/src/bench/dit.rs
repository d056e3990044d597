//! The diffusion transformer over a clip.

use std::time::Instant;

use remaster_compute::HostTensor;
use remaster_engine::MemoryClip;
use remaster_plan::Candidate;
use remaster_weights::{checksum, fill_uniform};
use serde::Serialize;

use super::{Samples, pass, threads_and_path, timed};
use crate::args::BenchDitArgs;
use crate::dit::{Size, Transformer, held_bytes};
use crate::error::CliError;
use crate::memory::{Room, resident};
use crate::output::Output;
use crate::plan::Search;

#[derive(Debug, Serialize)]
struct DitReport {
    weights: String,
    dtype: &'static str,
    path: String,
    threads: usize,
    layers: usize,
    frames: usize,
    height: usize,
    width: usize,
    tokens: usize,
    /// How the work was cut, in words. Not stable.
    cut: String,
    load_seconds: f64,
    samples: Samples,
    milliseconds_per_token: f64,
    /// Linear layers and attention, per second of the fastest run.
    gflops: f64,
    attention_share: f64,
    arena_bytes: u64,
    /// What is beside the weights, if these are resident.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside_weights_bytes: Option<u64>,
    /// Highest resident memory of the process; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    /// Checksum of the result: the same for the same bits.
    checksum: String,
}

pub(crate) fn dit(args: &BenchDitArgs, out: &Output) -> Result<(), CliError> {
    let (backend, build) = (args.device.backend()?, args.device.build());
    let (threads, path) = threads_and_path(backend)?;
    let size = Size::new(args.frames, args.height, args.width)?;
    let mut transformer = Transformer::open(&args.weights)?.cut(args.layers.map(usize::from));
    for warning in &transformer.warnings {
        out.say(format_args!("warning: {warning}"));
    }
    let mut task = transformer.task(&size, backend, build);
    task.settings.spill = Some(args.memory.spill(None)?.folder);
    let plan = if args.stream_weights || args.group.is_some() {
        let how = Candidate {
            group: args.group.unwrap_or(0),
            stream_weights: args.stream_weights,
            read_ahead: args.stream_weights,
            ..Candidate::WHOLE
        };
        task.exactly(how)?
    } else {
        let search = Search {
            backend,
            memory: &args.memory,
            vram: None,
            room: Room { real: true, output: None },
            children: 0,
        };
        search.once(held_bytes(&task), |budget, wish| task.planner().plan(budget, wish))?.0
    };
    let weights = match plan.how.stream_weights {
        true => None,
        false => {
            let sizing = backend.sizing();
            let mut bytes = 0u64;
            task.network.weights(&mut |w| bytes = bytes.saturating_add(sizing.weight_bytes(&w.spec())));
            Some(bytes)
        }
    };
    let mut input = HostTensor::zeros(task.input());
    fill_uniform("input/bench", 0, &mut input.data);
    let started = Instant::now();
    let mut session = task.start(&plan)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let mut source = MemoryClip::source(input);
    let mut made = MemoryClip::sink();
    let run = || pass(&mut session, &mut source, &mut made);
    let samples = timed(args.warmup, args.repeat, args.step, out, run)?;
    let (macs, attention) = (plan.work.macs as f64, plan.work.attention_macs as f64);
    let report = DitReport {
        weights: args.weights.clone(),
        dtype: build.dtype.name(),
        path,
        threads,
        layers: transformer.config.layers,
        frames: args.frames,
        height: args.height,
        width: args.width,
        tokens: size.tokens(),
        cut: plan.how.describe(),
        load_seconds,
        milliseconds_per_token: 1e3 * samples.min / size.tokens().max(1) as f64,
        gflops: 2.0 * (macs + attention) / samples.min / 1e9,
        attention_share: attention / (macs + attention),
        samples,
        arena_bytes: plan.peaks.device,
        beside_weights_bytes: weights.map(|bytes| plan.peaks.device.saturating_sub(bytes)),
        resident_bytes: resident(),
        checksum: format!("{:016x}", checksum(&made.clip.data).sum),
    };
    out.result(&report, || describe(&report));
    Ok(())
}

fn describe(r: &DitReport) -> String {
    format!(
        "blocks: {}; {} tokens in {} on {} ({} threads, {}): min {:.3} s, median {:.3} s of {}; {:.3} ms a token; \
         {:.0} GFLOP/s; arena {:.0} MiB, resident {:.0} MiB; {}",
        r.layers,
        r.tokens,
        r.dtype,
        r.path,
        r.threads,
        r.cut,
        r.samples.min,
        r.samples.median,
        r.samples.seconds.len(),
        r.milliseconds_per_token,
        r.gflops,
        r.arena_bytes as f64 / 1048576.0,
        r.resident_bytes.unwrap_or(0) as f64 / 1048576.0,
        r.checksum,
    )
}
