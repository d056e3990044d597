//! `remaster bench`: times of kernels and of the whole network, every sample kept.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Instant;

use remaster_compute::cpu::Limits;
use remaster_compute::meter::Meter;
use remaster_compute::{
    AttentionDesc, Backend, CancelToken, ConvDesc, CpuPath, DType, HostTensor, NormalizeDesc, Ops, Padding,
    Part, Shape, SourceError, Weight, WeightSource, WeightSpec,
};
use remaster_model::Scope;
use remaster_model::vae::{Decoder, Encoder, Half, VaeConfig, dry_run, load, run_clip};
use remaster_plan::slices;
use remaster_weights::{FormulaParams, fill_uniform};
use serde::Serialize;

use crate::args::{BenchKernelsArgs, BenchVaeArgs, What};
use crate::error::CliError;
use crate::output::Output;

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

/// Highest resident memory of this process so far.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

pub(crate) fn vae(args: &BenchVaeArgs, out: &Output) -> Result<(), CliError> {
    let Backend::Cpu { threads, path } = args.device.backend()? else {
        return Err(CliError::BenchBackend);
    };
    let (backend, build) = (Backend::Cpu { threads, path }, args.device.build());
    let size = |source| CliError::BenchSize { source };
    let clip = remaster_plan::Clip::new(args.frames, args.height, args.width).map_err(size)?;
    let config = VaeConfig::full();
    let (name, shape, lengths) = match args.what {
        What::Encode => {
            let lengths = slices::frames(clip.frames(), args.slice).map_err(size)?;
            ("input/bench_x", Shape::new(clip.frames(), clip.height(), clip.width(), 3), lengths)
        }
        What::Decode => {
            let (t, h, w) = clip.latent();
            let lengths = slices::latents(t, args.slice).map_err(size)?;
            ("input/bench_z", Shape::new(t, h, w, config.latent), lengths)
        }
    };
    let half_of = || -> Box<dyn Half> {
        let mut params = FormulaParams;
        let mut scope = Scope::root(&mut params, build);
        match args.what {
            What::Encode => Box::new(Encoder::new(&config, &mut scope.at("encoder"))),
            What::Decode => Box::new(Decoder::new(&config, &mut scope.at("decoder"))),
        }
    };
    let mut meter = Meter::endless(backend.sizing());
    dry_run(&mut meter, half_of().as_ref(), build.dtype, shape, &lengths)?;
    let half = half_of();
    let started = Instant::now();
    let mut ops = backend.open(meter.arena().peak(), CancelToken::default())?;
    load(ops.as_mut(), half.as_ref())?;
    let load_seconds = started.elapsed().as_secs_f64();
    let mut noise = vec![0.0; shape.len()];
    fill_uniform(name, 0, &mut noise);
    let input = HostTensor::from_channels_first([shape.c, shape.t, shape.h, shape.w], &noise);
    drop(noise);

    let mut run = || -> Result<f64, CliError> {
        let started = Instant::now();
        run_clip(ops.as_mut(), half.as_ref(), build.dtype, &input, &lengths)?;
        Ok(started.elapsed().as_secs_f64())
    };
    for _ in 0..args.warmup {
        run()?;
    }
    let mut seconds = Vec::new();
    if args.step {
        // Somebody else takes turns with us on this machine: run when told, say when done.
        out.say("ready");
        for line in std::io::stdin().lock().lines() {
            if line.is_err() {
                break;
            }
            seconds.push(run()?);
            out.say(format_args!("{}", seconds[seconds.len() - 1]));
        }
    } else {
        for _ in 0..args.repeat {
            seconds.push(run()?);
        }
    }
    let counts = meter.counts();
    let samples = Samples::new(seconds);
    let macs = (counts.conv_macs + counts.linear_macs) as f64;
    let report = VaeReport {
        what: args.what.name(),
        dtype: build.dtype.name(),
        path: path.to_string(),
        threads,
        collapse: build.collapse,
        frames: clip.frames(),
        height: clip.height(),
        width: clip.width(),
        slice: args.slice,
        load_seconds,
        gflops: 2.0 * macs / samples.min / 1e9,
        attention_share: counts.attention_macs as f64 / (macs + counts.attention_macs as f64),
        samples,
        arena_bytes: meter.arena().peak(),
        resident_bytes: resident(),
    };
    out.result(&report, || describe(&report));
    Ok(())
}

fn describe(r: &VaeReport) -> String {
    format!(
        "{} {} x {} x {} {} on {} ({} threads, slice {}): min {:.3} s, median {:.3} s of {}; {:.0} GFLOP/s; \
         arena {:.0} MiB, resident {:.0} MiB",
        r.what,
        r.frames,
        r.height,
        r.width,
        r.dtype,
        r.path,
        r.threads,
        r.slice,
        r.samples.min,
        r.samples.median,
        r.samples.seconds.len(),
        r.gflops,
        r.arena_bytes as f64 / 1048576.0,
        r.resident_bytes.unwrap_or(0) as f64 / 1048576.0
    )
}

/// A kernel against its limit, samples taken in turn with it.
#[derive(Debug, Serialize)]
struct KernelReport {
    kernel: String,
    samples: Samples,
    /// Useful work per second of the fastest run: GFLOP/s, or GB/s for a copy.
    rate: f64,
    limit: &'static str,
    limit_rate: f64,
    /// `rate / limit_rate`, both from the fastest run.
    ratio: f64,
    /// The same from medians.
    median_ratio: f64,
}

#[derive(Debug, Serialize)]
struct KernelsReport {
    threads: usize,
    path: String,
    /// Multiply-adds per second times two, f32, by the `gemm` crate.
    sgemm_gflops: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    amx_gflops: Option<f64>,
    /// Bytes copied per second, each counted once.
    copy_gbytes: f64,
    kernels: Vec<KernelReport>,
}

/// Weights for timing: any values will do.
struct Ramp;

impl WeightSource for Ramp {
    fn read(&self, _: Part, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        for (i, v) in out.iter_mut().enumerate() {
            *v = ((start + i) % 31) as f32 * 1e-3 - 0.015;
        }
        Ok(())
    }
}

/// One kernel to time.
struct Subject {
    name: String,
    /// Operations of one run: multiply-adds times two, or bytes.
    work: f64,
    limit: Limit,
    step: Box<dyn FnMut() -> Result<f64, CliError>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Sgemm,
    Amx,
    Copy,
}

pub(crate) fn kernels(args: &BenchKernelsArgs, out: &Output) -> Result<(), CliError> {
    let Backend::Cpu { threads, path } = args.device.backend()? else {
        return Err(CliError::BenchBackend);
    };
    let mut limits = Limits::new(threads)?;
    let mut subjects = Vec::new();
    for channels in [128, 256, 512] {
        subjects.push(conv(threads, CpuPath { winograd: false, amx: false, ..path }, DType::F32, channels)?);
        subjects.push(conv(threads, CpuPath { winograd: true, amx: false, ..path }, DType::F32, channels)?);
        if path.amx {
            subjects.push(conv(threads, path, DType::Bf16, channels)?);
        }
    }
    subjects.push(norm(threads, path)?);
    subjects.push(attention(threads, path, DType::F32)?);
    let rounds = args.repeat + args.warmup;
    let mut bounds: [Vec<f64>; 3] = Default::default();
    let mut seconds: Vec<Vec<f64>> = subjects.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let (sgemm, amx, copy) = (limits.sgemm(), limits.amx(), limits.copy());
        if round >= args.warmup {
            bounds[0].push(2.0 * sgemm);
            bounds[1].push(2.0 * amx.unwrap_or(f64::NAN));
            bounds[2].push(copy);
        }
        for (subject, seconds) in subjects.iter_mut().zip(&mut seconds) {
            let time = (subject.step)()?;
            if round >= args.warmup {
                seconds.push(time);
            }
        }
        out.say(format_args!("round {} of {rounds}", round + 1));
    }
    let best = |v: &[f64]| v.iter().copied().fold(f64::NAN, f64::max);
    let middle = |v: &[f64]| {
        let mut v = v.to_vec();
        v.sort_by(f64::total_cmp);
        v.get(v.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let report = KernelsReport {
        threads,
        path: path.to_string(),
        sgemm_gflops: best(&bounds[0]) / 1e9,
        amx_gflops: path.amx.then(|| best(&bounds[1]) / 1e9),
        copy_gbytes: best(&bounds[2]) / 1e9,
        kernels: subjects
            .iter()
            .zip(seconds)
            .map(|(s, seconds)| {
                let (limit, bound) = match s.limit {
                    Limit::Sgemm => ("sgemm", &bounds[0]),
                    Limit::Amx => ("amx", &bounds[1]),
                    Limit::Copy => ("copy", &bounds[2]),
                };
                let samples = Samples::new(seconds);
                KernelReport {
                    kernel: s.name.clone(),
                    rate: s.work / samples.min / 1e9,
                    limit,
                    limit_rate: best(bound) / 1e9,
                    ratio: s.work / samples.min / best(bound),
                    median_ratio: s.work / samples.median / middle(bound),
                    samples,
                }
            })
            .collect(),
    };
    out.result(&report, || describe_kernels(&report));
    match report.kernels.iter().find(|k| args.floor.is_some_and(|floor| k.limit != "copy" && k.ratio < floor))
    {
        Some(k) => Err(CliError::Floor {
            kernel: k.kernel.clone(),
            ratio: k.ratio,
            floor: args.floor.unwrap_or(0.0),
        }),
        None => Ok(()),
    }
}

fn describe_kernels(r: &KernelsReport) -> String {
    let mut text = format!("{} threads, {}; sgemm {:.0} GFLOP/s", r.threads, r.path, r.sgemm_gflops);
    if let Some(amx) = r.amx_gflops {
        text += &format!(", amx {amx:.0} GFLOP/s");
    }
    text += &format!(", copy {:.1} GB/s\n", r.copy_gbytes);
    for k in &r.kernels {
        text += &format!(
            "{:34} {:9.2} ms min {:9.2} median  {:8.1} G/s  {:.2} of {} (median {:.2})\n",
            k.kernel,
            k.samples.min * 1e3,
            k.samples.median * 1e3,
            k.rate,
            k.ratio,
            k.limit,
            k.median_ratio
        );
    }
    text
}

fn start(threads: usize, path: CpuPath) -> Result<Box<dyn Ops>, CliError> {
    Ok(Backend::Cpu { threads, path }.open(4 << 30, CancelToken::default())?)
}

/// 3x3x3 over 4 frames, with a carried tail, sized so that every width does the same work: 43.5 GFLOP.
fn conv(threads: usize, path: CpuPath, dtype: DType, channels: usize) -> Result<Subject, CliError> {
    let mut ops = start(threads, path)?;
    let (h, w) = (24 * (512 / channels), 32 * (512 / channels));
    let spec = WeightSpec::Conv { cin: channels, cout: channels, kernel: [3; 3], stride: [1; 3], dtype };
    let weight = Weight::new("bench", spec, Arc::new(Ramp));
    ops.load(&weight)?;
    let shape = Shape::new(4, h, w, channels);
    let x = ops.alloc(shape, dtype)?;
    let tail = ops.alloc(Shape { t: 2, ..shape }, dtype)?;
    let y = ops.alloc(shape, dtype)?;
    ops.upload(&vec![0.5; shape.len()], x.view())?;
    ops.upload(&vec![0.5; shape.len() / 2], tail.view())?;
    let name = match (dtype, path.winograd) {
        (DType::Bf16, _) => format!("conv 3x3x3 {channels} bf16 amx"),
        (_, true) => format!("conv 3x3x3 {channels} f32 winograd"),
        (_, false) => format!("conv 3x3x3 {channels} f32 direct"),
    };
    let step = move || {
        let started = Instant::now();
        ops.conv(&ConvDesc {
            input: x.view(),
            prologue: None,
            carried: Some(tail.view()),
            carry: None,
            weight: &weight,
            padding: Padding::all(1),
            residual: None,
            shortcut: None,
            sums: None,
            output: y.view(),
        })?;
        ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let limit = if dtype == DType::Bf16 { Limit::Amx } else { Limit::Sgemm };
    let work = 2.0 * (shape.len() * channels * 27) as f64;
    Ok(Subject { name, work, limit, step: Box::new(step) })
}

/// GroupNorm and SiLU on their own: sums, then one read and one write.
fn norm(threads: usize, path: CpuPath) -> Result<Subject, CliError> {
    let mut ops = start(threads, path)?;
    let shape = Shape::new(5, 256, 256, 128);
    let weight = Weight::new("bench", WeightSpec::Norm { channels: 128 }, Arc::new(Ramp));
    ops.load(&weight)?;
    let (x, y) = (ops.alloc(shape, DType::F32)?, ops.alloc(shape, DType::F32)?);
    let sums = ops.alloc(Shape::new(5, 256, 1, 64), DType::F32)?;
    let stats = ops.alloc(Shape::new(5, 1, 1, 64), DType::F32)?;
    ops.upload(&vec![0.5; shape.len()], x.view())?;
    let step = move || {
        let started = Instant::now();
        let (input, output) = (x.view(), y.view());
        ops.row_sums(&remaster_compute::RowSumsDesc {
            input: input.clone(),
            groups: 32,
            output: sums.view(),
        })?;
        let count = 256 * 4;
        ops.combine_sums(&remaster_compute::CombineDesc {
            sums: sums.view(),
            count,
            eps: 1e-6,
            output: stats.view(),
        })?;
        ops.normalize(&NormalizeDesc { input, stats: stats.view(), affine: &weight, silu: true, output })?;
        ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    // Two reads and one write are one and a half copies.
    let work = 1.5 * shape.bytes(DType::F32) as f64;
    Ok(Subject {
        name: "groupnorm+silu f32 [5,256,256,128]".into(),
        work,
        limit: Limit::Copy,
        step: Box::new(step),
    })
}

/// One head of 512 over 64 x 64 pixels.
fn attention(threads: usize, path: CpuPath, dtype: DType) -> Result<Subject, CliError> {
    let mut ops = start(threads, path)?;
    let shape = Shape::new(1, 64, 64, 512);
    let mut tensors = Vec::new();
    for _ in 0..4 {
        let tensor = ops.alloc(shape, dtype)?;
        let mut values = vec![0.0; shape.len()];
        fill_uniform("bench/attention", 0, &mut values);
        ops.upload(&values, tensor.view())?;
        tensors.push(tensor);
    }
    let step = move || {
        let started = Instant::now();
        let [q, k, v, y] = &tensors[..] else { return Ok(f64::NAN) };
        let scale = 1.0 / 512f32.sqrt();
        ops.attention(&AttentionDesc {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            heads: 1,
            scale,
            output: y.view(),
        })?;
        ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let work = 2.0 * 2.0 * 4096.0 * 4096.0 * 512.0;
    Ok(Subject {
        name: format!("attention 4096 x 512 {dtype}"),
        work,
        limit: Limit::Sgemm,
        step: Box::new(step),
    })
}
