//! Kernels against what the machine can do at most, measured in the same minutes.

use std::fmt::{Display, Formatter};

use remaster_compute::cpu::Limits;
use remaster_compute::{Backend, DType, Shape};
use serde::Serialize;

use crate::{BenchError, Samples};
use remaster::machine::calibrate::subjects::{self, Bench};
use remaster::{Device, Error, Machine};

/// A kernel against its limit, samples taken in turn with it.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct KernelReport {
    pub kernel: String,
    pub samples: Samples,
    /// Useful work per second of the fastest run: GFLOP/s, or GB/s for a copy.
    pub rate: f64,
    pub limit: &'static str,
    pub limit_rate: f64,
    /// `rate / limit_rate`, both from the fastest run.
    pub ratio: f64,
    /// The same from medians.
    pub median_ratio: f64,
    /// The ratio below which something is broken.
    pub floor: f64,
}

/// All kernels of the CPU.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct KernelsReport {
    pub threads: usize,
    pub path: String,
    /// Multiply-adds per second times two, f32, by the `gemm` crate.
    pub sgemm_gflops: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amx_gflops: Option<f64>,
    /// Bytes copied per second, each counted once.
    pub copy_gbytes: f64,
    pub kernels: Vec<KernelReport>,
}

/// One kernel to time.
pub(crate) struct Subject {
    pub(crate) name: String,
    /// Operations of one run: multiply-adds times two, or bytes.
    pub(crate) work: f64,
    limit: Limit,
    floor: f64,
    pub(crate) bench: Bench,
}

/// Recorded floors: about two thirds of the lowest ratio seen on a machine whose neighbours took up to half of
/// it (direct 0.64, Winograd 1.28, tiles 0.17, normalisation 0.31, attention 0.71), for linear layers with a load of 14
/// on two cores (0.36). With tiles they come from other shapes at a load of 5: 1536 pixels of a linear layer (0.14), 1024
/// tokens of 20 heads (0.05). A kernel that loses its vector instructions falls to a tenth.
mod floors {
    pub(crate) const DIRECT: f64 = 0.42;
    pub(crate) const WINOGRAD: f64 = 0.85;
    pub(crate) const TILES: f64 = 0.11;
    pub(crate) const FRAME_DIRECT: f64 = 0.30;
    pub(crate) const FRAME_WINOGRAD: f64 = 0.50;
    pub(crate) const FRAME_TILES: f64 = 0.08;
    pub(crate) const LINEAR: f64 = 0.24;
    pub(crate) const LINEAR_TILES: f64 = 0.09;
    pub(crate) const NORM: f64 = 0.20;
    pub(crate) const ATTENTION: f64 = 0.45;
    pub(crate) const ATTENTION_TILES: f64 = 0.03;
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Sgemm,
    Amx,
    Copy,
}

/// Which kernels, and how often.
#[derive(Clone, Debug)]
pub struct KernelsRequest {
    /// What computes.
    pub device: Device,
    /// Timed runs.
    pub repeat: u16,
    /// Untimed runs before them.
    pub warmup: u16,
}

/// What was measured.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Measured {
    /// On the CPU, against its limits.
    Cpu(KernelsReport),
    /// On a GPU.
    #[cfg(feature = "gpu")]
    Gpu(crate::GpuKernelsReport),
}

impl Measured {
    /// An error if a kernel is slower than its recorded share of the limit.
    pub fn check(&self) -> Result<(), BenchError> {
        let kernels = match self {
            Measured::Cpu(report) => &report.kernels[..],
            #[cfg(feature = "gpu")]
            Measured::Gpu(_) => &[],
        };
        match kernels.iter().find(|k| k.ratio < k.floor) {
            Some(k) => Err(BenchError::Floor { kernel: k.kernel.clone(), ratio: k.ratio, floor: k.floor }),
            None => Ok(()),
        }
    }
}

impl Display for Measured {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Measured::Cpu(report) => report.fmt(f),
            #[cfg(feature = "gpu")]
            Measured::Gpu(report) => report.fmt(f),
        }
    }
}

/// Times convolutions, normalisation and attention against the machine's limits.
pub fn kernels(request: &KernelsRequest, say: &dyn Fn(&str)) -> Result<Measured, BenchError> {
    let (threads, path) = match request.device.backend(&Machine::this())? {
        Backend::Cpu { threads, path } => (threads, path),
        Backend::Reference => return Err(Error::BenchBackend.into()),
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => return Ok(Measured::Gpu(crate::gpu::kernels(request, device, say)?)),
    };
    let on = |path| Backend::Cpu { threads, path };
    let mut limits = Limits::new(threads).map_err(Error::from)?;
    let mut subjects = Vec::new();
    let [direct, plain] = [false, true].map(|winograd| path.without_amx().with_winograd(winograd));
    for channels in [128, 256, 512] {
        subjects.push(conv(on(direct), DType::F32, channels)?);
        subjects.push(conv(on(plain), DType::F32, channels)?);
        if path.has_amx() {
            subjects.push(conv(on(path), DType::Bf16, channels)?);
        }
    }
    subjects.push(frame_conv(on(direct), DType::F32)?);
    subjects.push(frame_conv(on(plain), DType::F32)?);
    if path.has_amx() {
        subjects.push(frame_conv(on(path), DType::Bf16)?);
    }
    subjects.push(linear(on(path), DType::F32)?);
    if path.has_amx() {
        subjects.push(linear(on(path), DType::Bf16)?);
    }
    subjects.push(norm(on(path))?);
    subjects.push(attention(on(path), DType::F32)?);
    if path.has_amx() {
        subjects.push(attention(on(path), DType::Bf16)?);
    }
    let rounds = request.repeat + request.warmup;
    let mut bounds: [Vec<f64>; 3] = Default::default();
    let mut seconds: Vec<Vec<f64>> = subjects.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let (sgemm, amx, copy) = (limits.sgemm(), limits.amx(), limits.copy());
        if round >= request.warmup {
            bounds[0].push(2.0 * sgemm);
            bounds[1].push(2.0 * amx.unwrap_or(f64::NAN));
            bounds[2].push(copy);
        }
        for (subject, seconds) in subjects.iter_mut().zip(&mut seconds) {
            let time = subject.bench.step(1)?;
            if round >= request.warmup {
                seconds.push(time);
            }
        }
        say(&format!("round {} of {rounds}", round + 1));
    }
    let best = |v: &[f64]| v.iter().copied().fold(f64::NAN, f64::max);
    let report = KernelsReport {
        threads,
        path: path.to_string(),
        sgemm_gflops: best(&bounds[0]) / 1e9,
        amx_gflops: path.has_amx().then(|| best(&bounds[1]) / 1e9),
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
                    median_ratio: s.work / samples.median / Samples::new(bound.clone()).median,
                    floor: s.floor,
                    samples,
                }
            })
            .collect(),
    };
    Ok(Measured::Cpu(report))
}

impl Display for KernelsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let KernelsReport { threads, path, sgemm_gflops, amx_gflops, copy_gbytes, kernels } = self;
        write!(f, "{threads} threads, {path}; sgemm {sgemm_gflops:.0} GFLOP/s")?;
        if let Some(amx) = amx_gflops {
            write!(f, ", amx {amx:.0} GFLOP/s")?;
        }
        writeln!(f, ", copy {copy_gbytes:.1} GB/s")?;
        for KernelReport { kernel, samples, rate, limit, ratio, median_ratio, .. } in kernels {
            let (min, median) = (samples.min * 1e3, samples.median * 1e3);
            writeln!(
                f,
                "{kernel:34} {min:9.2} ms min {median:9.2} median  {rate:8.1} G/s  {ratio:.2} of {limit} \
                 (median {median_ratio:.2})"
            )?;
        }
        Ok(())
    }
}

/// 3x3x3 over 4 frames, with a carried tail, sized so that every width does the same work: 43.5 GFLOP.
pub(crate) fn conv(backend: Backend, dtype: DType, channels: usize) -> Result<Subject, BenchError> {
    let (h, w) = (24 * (512 / channels), 32 * (512 / channels));
    let (kind, floor) = match backend {
        Backend::Cpu { .. } if dtype == DType::Bf16 => (" amx", floors::TILES),
        Backend::Cpu { path, .. } if path.has_winograd() => (" winograd", floors::WINOGRAD),
        Backend::Cpu { .. } => (" direct", floors::DIRECT),
        _ => ("", 0.0),
    };
    let bench = subjects::conv(&backend.into(), dtype, channels, [4, h, w], false)?;
    let name = format!("conv 3x3x3 {channels} {dtype}{kind}");
    let limit = if dtype == DType::Bf16 { Limit::Amx } else { Limit::Sgemm };
    Ok(Subject { name, work: bench.work, limit, floor, bench })
}

/// A layer of the upscaler inside the program: 3x3 with PReLU over a frame of 480 x 270, 9.6 GFLOP.
fn frame_conv(backend: Backend, dtype: DType) -> Result<Subject, BenchError> {
    let (kind, floor) = match backend {
        Backend::Cpu { .. } if dtype == DType::Bf16 => (" amx", floors::FRAME_TILES),
        Backend::Cpu { path, .. } if path.has_winograd() => (" winograd", floors::FRAME_WINOGRAD),
        _ => (" direct", floors::FRAME_DIRECT),
    };
    let bench = subjects::frame_conv(&backend.into(), dtype, 64, [270, 480])?;
    let name = format!("conv 3x3 64 PReLU {dtype}{kind}");
    let limit = if dtype == DType::Bf16 { Limit::Amx } else { Limit::Sgemm };
    Ok(Subject { name, work: bench.work, limit, floor, bench })
}

/// A wide linear layer of a transformer over 4096 tokens: 161 GFLOP.
fn linear(backend: Backend, dtype: DType) -> Result<Subject, BenchError> {
    let (kind, limit, floor) = match dtype {
        DType::Bf16 => (" amx", Limit::Amx, floors::LINEAR_TILES),
        _ => ("", Limit::Sgemm, floors::LINEAR),
    };
    let bench = subjects::linear(&backend.into(), dtype, 4096, [2560, 7680])?;
    let name = format!("linear 4096 x 2560 x 7680 {dtype}{kind}");
    Ok(Subject { name, work: bench.work, limit, floor, bench })
}

/// GroupNorm and SiLU on their own.
pub(crate) fn norm(backend: Backend) -> Result<Subject, BenchError> {
    let bench = subjects::norm(&backend.into(), DType::F32, Shape::new(5, 256, 256, 128))?;
    Ok(Subject {
        name: "groupnorm+silu f32 [5,256,256,128]".into(),
        // A copy counts each byte once, though it is read and written.
        work: bench.work / 2.0,
        limit: Limit::Copy,
        floor: floors::NORM,
        bench,
    })
}

/// One head of 512 over 64 x 64 pixels.
pub(crate) fn attention(backend: Backend, dtype: DType) -> Result<Subject, BenchError> {
    let (kind, limit, floor) = match backend {
        Backend::Cpu { path, .. } if path.has_amx() && dtype == DType::Bf16 => {
            (" amx", Limit::Amx, floors::ATTENTION_TILES)
        }
        _ => ("", Limit::Sgemm, floors::ATTENTION),
    };
    let bench = subjects::attention(&backend.into(), dtype, [64, 64])?;
    let name = format!("attention 4096 x 512 {dtype}{kind}");
    Ok(Subject { name, work: bench.work, limit, floor, bench })
}
