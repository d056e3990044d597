//! Kernels of a GPU. There is no limit to compare with: what a card can do at most its maker says.

use remaster_compute::gpu::{GpuDevice, variants, with_variant};
use remaster_compute::{Backend, DType, WeightSpec};
use serde::Serialize;

use super::Samples;
use super::kernels::{attention, conv, norm};
use crate::args::BenchKernelsArgs;
use crate::error::CliError;
use crate::output::Output;

#[derive(Debug, Serialize)]
struct Kernel {
    kernel: String,
    samples: Samples,
    /// Useful work per second of the fastest run: GFLOP/s, or GB/s for a normalisation.
    rate: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    name: String,
    driver: String,
    kernels: Vec<Kernel>,
}

/// Every kernel that a convolution of many channels can be done with, then normalisation and attention.
pub(super) fn kernels(args: &BenchKernelsArgs, device: GpuDevice, out: &Output) -> Result<(), CliError> {
    let units = device.info().and_then(|i| i.units);
    let mut kernels = Vec::new();
    for (dtype, channels) in
        [DType::F32, DType::F16].into_iter().flat_map(|d| [128, 256, 512].map(|c| (d, c)))
    {
        let spec = WeightSpec::Conv { cin: channels, cout: channels, kernel: [3; 3], stride: [1; 3], dtype };
        for variant in variants(&spec, units) {
            let mut subject = conv(Backend::Gpu(with_variant(device, &variant)), dtype, channels)?;
            subject.name = format!("{}, {variant}", subject.name);
            kernels.push(time(args, subject, out)?);
        }
    }
    let backend = Backend::Gpu(device);
    kernels.push(time(args, norm(backend)?, out)?);
    for dtype in [DType::F32, DType::F16] {
        kernels.push(time(args, attention(backend, dtype)?, out)?);
    }
    let (name, driver) = device.info().map(|d| (d.name, d.driver)).unwrap_or_default();
    let report = Report { device: device.to_string(), name, driver, kernels };
    out.result(&report, || describe(&report));
    Ok(())
}

fn time(
    args: &BenchKernelsArgs,
    mut subject: super::kernels::Subject,
    out: &Output,
) -> Result<Kernel, CliError> {
    out.say(format_args!("timing {}", subject.name));
    let mut seconds = Vec::new();
    for round in 0..args.repeat + args.warmup {
        let time = subject.step()?;
        if round >= args.warmup {
            seconds.push(time);
        }
    }
    let samples = Samples::new(seconds);
    Ok(Kernel { rate: subject.work / samples.min / 1e9, kernel: subject.name, samples })
}

fn describe(r: &Report) -> String {
    let mut text = format!("{} {} ({})\n", r.device, r.name, r.driver);
    for k in &r.kernels {
        let (min, median) = (k.samples.min * 1e3, k.samples.median * 1e3);
        text += &format!("{:52} {min:9.2} ms min {median:9.2} median  {:8.1} G/s\n", k.kernel, k.rate);
    }
    text
}
