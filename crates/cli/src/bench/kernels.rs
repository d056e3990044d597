//! Kernels against what the machine can do at most, measured in the same minutes.

use std::sync::Arc;
use std::time::Instant;

use remaster_compute::cpu::Limits;
use remaster_compute::{
    AttentionDesc, Backend, CancelToken, ConvDesc, CpuPath, DType, LinearDesc, NormalizeDesc, Ops, Padding,
    Part, Shape, SourceError, Weight, WeightSource, WeightSpec,
};
use remaster_weights::fill_uniform;
use serde::Serialize;

use super::Samples;
use crate::args::BenchKernelsArgs;
use crate::error::CliError;
use crate::output::Output;

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
    /// The ratio below which something is broken.
    floor: f64,
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
pub(super) struct Subject {
    pub(super) name: String,
    /// Operations of one run: multiply-adds times two, or bytes.
    pub(super) work: f64,
    limit: Limit,
    floor: f64,
    pub(super) step: Box<dyn FnMut() -> Result<f64, CliError>>,
}

/// Recorded floors: about two thirds of the lowest ratio seen on a machine whose neighbours took up to half of
/// it (direct 0.64, Winograd 1.28, tiles 0.17, normalisation 0.31, attention 0.71), for linear layers with a load of 14
/// on two cores (0.36). With tiles they come from other shapes at a load of 5: 1536 pixels of a linear layer (0.14), 1024
/// tokens of 20 heads (0.05). A kernel that loses its vector instructions falls to a tenth.
mod floors {
    pub(super) const DIRECT: f64 = 0.42;
    pub(super) const WINOGRAD: f64 = 0.85;
    pub(super) const TILES: f64 = 0.11;
    pub(super) const LINEAR: f64 = 0.24;
    pub(super) const LINEAR_TILES: f64 = 0.09;
    pub(super) const NORM: f64 = 0.20;
    pub(super) const ATTENTION: f64 = 0.45;
    pub(super) const ATTENTION_TILES: f64 = 0.03;
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Sgemm,
    Amx,
    Copy,
}

pub(crate) fn kernels(args: &BenchKernelsArgs, out: &Output) -> Result<(), CliError> {
    let (threads, path) = match args.device.backend()? {
        Backend::Cpu { threads, path } => (threads, path),
        Backend::Reference => return Err(CliError::BenchBackend),
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => return super::gpu::kernels(args, device, out),
    };
    let on = |path| Backend::Cpu { threads, path };
    let mut limits = Limits::new(threads)?;
    let mut subjects = Vec::new();
    for channels in [128, 256, 512] {
        subjects.push(conv(on(CpuPath { winograd: false, amx: false, ..path }), DType::F32, channels)?);
        subjects.push(conv(on(CpuPath { winograd: true, amx: false, ..path }), DType::F32, channels)?);
        if path.amx {
            subjects.push(conv(on(path), DType::Bf16, channels)?);
        }
    }
    subjects.push(linear(on(path), DType::F32)?);
    if path.amx {
        subjects.push(linear(on(path), DType::Bf16)?);
    }
    subjects.push(norm(on(path))?);
    subjects.push(attention(on(path), DType::F32)?);
    if path.amx {
        subjects.push(attention(on(path), DType::Bf16)?);
    }
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
                    floor: s.floor,
                    samples,
                }
            })
            .collect(),
    };
    out.result(&report, || describe_kernels(&report));
    match report.kernels.iter().find(|k| args.gate && k.ratio < k.floor) {
        Some(k) => Err(CliError::Floor { kernel: k.kernel.clone(), ratio: k.ratio, floor: k.floor }),
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

/// Room for the largest kernel; host memory is only taken when it is touched.
fn start(backend: Backend) -> Result<Box<dyn Ops>, CliError> {
    let room = if let Backend::Cpu { .. } = backend { 4 << 30 } else { 768 << 20 };
    Ok(backend.open(room, CancelToken::default())?)
}

/// 3x3x3 over 4 frames, with a carried tail, sized so that every width does the same work: 43.5 GFLOP.
pub(super) fn conv(backend: Backend, dtype: DType, channels: usize) -> Result<Subject, CliError> {
    let mut ops = start(backend)?;
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
    let (kind, floor) = match backend {
        Backend::Cpu { .. } if dtype == DType::Bf16 => (" amx", floors::TILES),
        Backend::Cpu { path, .. } if path.winograd => (" winograd", floors::WINOGRAD),
        Backend::Cpu { .. } => (" direct", floors::DIRECT),
        _ => ("", 0.0),
    };
    let name = format!("conv 3x3x3 {channels} {dtype}{kind}");
    let step = move || {
        let started = Instant::now();
        let alone = ConvDesc::new(x.view(), &weight, Padding::all(1), y.view());
        ops.conv(&ConvDesc { carried: Some(tail.view()), ..alone })?;
        ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let limit = if dtype == DType::Bf16 { Limit::Amx } else { Limit::Sgemm };
    let work = 2.0 * (shape.len() * channels * 27) as f64;
    Ok(Subject { name, work, limit, floor, step: Box::new(step) })
}

/// A wide linear layer of a transformer over 4096 tokens: 161 GFLOP.
fn linear(backend: Backend, dtype: DType) -> Result<Subject, CliError> {
    let mut ops = start(backend)?;
    let (shape, cout) = (Shape::new(1, 64, 64, 2560), 7680);
    let weight = Weight::new("bench", WeightSpec::Linear { cin: shape.c, cout, dtype }, Arc::new(Ramp));
    ops.load(&weight)?;
    let (x, y) = (ops.alloc(shape, dtype)?, ops.alloc(Shape { c: cout, ..shape }, dtype)?);
    ops.upload(&vec![0.5; shape.len()], x.view())?;
    let (kind, limit, floor) = match dtype {
        DType::Bf16 => (" amx", Limit::Amx, floors::LINEAR_TILES),
        _ => ("", Limit::Sgemm, floors::LINEAR),
    };
    let step = move || {
        let started = Instant::now();
        ops.linear(&LinearDesc {
            input: x.view(),
            weight: &weight,
            accumulate: false,
            sums: None,
            output: y.view(),
        })?;
        ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let name = format!("linear 4096 x 2560 x 7680 {dtype}{kind}");
    let work = 2.0 * (shape.len() * cout) as f64;
    Ok(Subject { name, work, limit, floor, step: Box::new(step) })
}

/// GroupNorm and SiLU on their own: sums, then one read and one write.
pub(super) fn norm(backend: Backend) -> Result<Subject, CliError> {
    let mut ops = start(backend)?;
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
            name: "bench",
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
        floor: floors::NORM,
        step: Box::new(step),
    })
}

/// One head of 512 over 64 x 64 pixels.
pub(super) fn attention(backend: Backend, dtype: DType) -> Result<Subject, CliError> {
    let mut ops = start(backend)?;
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
    let (kind, limit, floor) = match backend {
        Backend::Cpu { path, .. } if path.amx && dtype == DType::Bf16 => {
            (" amx", Limit::Amx, floors::ATTENTION_TILES)
        }
        _ => ("", Limit::Sgemm, floors::ATTENTION),
    };
    Ok(Subject {
        name: format!("attention 4096 x 512 {dtype}{kind}"),
        work,
        limit,
        floor,
        step: Box::new(step),
    })
}
