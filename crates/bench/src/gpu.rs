//! Kernels of a GPU. There is no limit to compare with: what a card can do at most its maker says.

use std::fmt::{Display, Formatter};

use remaster_compute::gpu::{GpuDevice, variants, with_variant};
use remaster_compute::{Backend, DType, WeightSpec};
use serde::Serialize;

use crate::kernels::{KernelsRequest, Subject, attention, conv, norm};
use crate::{BenchError, Samples, timed};

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
        let spec = WeightSpec::conv([channels, channels], [3; 3], dtype);
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
    Ok(GpuKernelsReport { device: device.to_string(), name, driver, kernels })
}

fn time(request: &KernelsRequest, mut subject: Subject, say: &dyn Fn(&str)) -> Result<Kernel, BenchError> {
    say(&format!("timing {}", subject.name));
    let samples = timed(request.warmup, request.repeat, false, say, || subject.bench.step(1))?;
    Ok(Kernel { rate: subject.work / samples.min / 1e9, kernel: subject.name, samples })
}

impl Display for GpuKernelsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} {} ({})", self.device, self.name, self.driver)?;
        for Kernel { kernel, samples, rate } in &self.kernels {
            let (min, median) = (samples.min * 1e3, samples.median * 1e3);
            writeln!(f, "{kernel:52} {min:9.2} ms min {median:9.2} median  {rate:8.1} G/s")?;
        }
        Ok(())
    }
}
