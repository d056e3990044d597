//! Kernels of a GPU. There is no limit to compare with: what a card can do at most its maker says.

use std::fmt::{Display, Formatter};

use remaster_compute::gpu::{GpuDevice, variants, with_variant};
use remaster_compute::{Backend, DType, WeightSpec};
use serde::Serialize;

use crate::BenchError;
use crate::Samples;
use crate::kernels::KernelsRequest;
use crate::kernels::{attention, conv, norm};

/// A kernel that was timed.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Kernel {
    pub kernel: String,
    pub samples: Samples,
    /// Useful work per second of the fastest run: GFLOP/s, or GB/s for a normalisation.
    pub rate: f64,
}

/// Kernels of a GPU.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct GpuKernelsReport {
    pub device: String,
    pub name: String,
    pub driver: String,
    pub kernels: Vec<Kernel>,
}

/// Every kernel that a convolution of many channels can be done with, then normalisation and attention.
pub(crate) fn kernels(
    request: &KernelsRequest,
    device: GpuDevice,
    say: &dyn Fn(&str),
) -> Result<GpuKernelsReport, BenchError> {
    let units = device.info().and_then(|i| i.units);
    let mut kernels = Vec::new();
    for (dtype, channels) in
        [DType::F32, DType::F16].into_iter().flat_map(|d| [128, 256, 512].map(|c| (d, c)))
    {
        let spec = WeightSpec::Conv { cin: channels, cout: channels, kernel: [3; 3], stride: [1; 3], dtype };
        for variant in variants(&spec, units) {
            let mut subject = conv(Backend::Gpu(with_variant(device, &variant)), dtype, channels)?;
            subject.name = format!("{}, {variant}", subject.name);
            kernels.push(time(request, subject, say)?);
        }
    }
    let backend = Backend::Gpu(device);
    kernels.push(time(request, norm(backend)?, say)?);
    for dtype in [DType::F32, DType::F16] {
        kernels.push(time(request, attention(backend, dtype)?, say)?);
    }
    let (name, driver) = device.info().map(|d| (d.name, d.driver)).unwrap_or_default();
    let report = GpuKernelsReport { device: device.to_string(), name, driver, kernels };
    Ok(report)
}

fn time(
    request: &KernelsRequest,
    mut subject: crate::kernels::Subject,
    say: &dyn Fn(&str),
) -> Result<Kernel, BenchError> {
    say(&format!("timing {}", subject.name));
    let mut seconds = Vec::new();
    for round in 0..request.repeat + request.warmup {
        let time = subject.step()?;
        if round >= request.warmup {
            seconds.push(time);
        }
    }
    let samples = Samples::new(seconds);
    Ok(Kernel { rate: subject.work / samples.min / 1e9, kernel: subject.name, samples })
}

impl Display for GpuKernelsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&describe(self))
    }
}

fn describe(r: &GpuKernelsReport) -> String {
    let mut text = format!("{} {} ({})\n", r.device, r.name, r.driver);
    for k in &r.kernels {
        let (min, median) = (k.samples.min * 1e3, k.samples.median * 1e3);
        text += &format!("{:52} {min:9.2} ms min {median:9.2} median  {:8.1} G/s\n", k.kernel, k.rate);
    }
    text
}
