//! Finds the fastest kernel for each layer. A kernel can win only if it agrees with the reference backend on a
//! small input.

mod attention;

pub use attention::{AttentionLayer, tune_attention};

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::choice::{Choices, Variant, layer_name, variants};
use super::{Gpu, GpuDevice, GpuSizing};
use crate::cancel::CancelToken;
use crate::dtype::DType;
use crate::error::{Result, SourceError, mismatch};
use crate::host_tensor::Difference;
use crate::ops::{ConvDesc, LinearDesc, Ops, Padding, Sizing, UpsampleDesc};
use crate::reference::Reference;
use crate::tensor::Shape;
use crate::weight::{Weight, WeightPart, WeightSource, WeightSpec};

/// Result of one kernel in one layer.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// Name of the layer.
    pub layer: String,
    /// Name of the kernel, and of its family. Kernels of one family give the same bits.
    pub kernel: String,
    /// See above.
    pub family: &'static str,
    /// Largest difference from the reference.
    pub max_abs: f64,
    /// Whether that difference is within rounding.
    pub right: bool,
    /// Fastest of a few runs; infinite if the kernel was wrong or could not run.
    pub seconds: f64,
}

/// Weights from pseudo-random numbers.
struct Numbers;

fn number(i: usize) -> f32 {
    let h = (i as u32).wrapping_mul(0x9e37_79b9) ^ 0x85eb_ca6b;
    (h ^ (h >> 15)) as f32 / u32::MAX as f32 * 2.0 - 1.0
}

impl WeightSource for Numbers {
    fn read(&self, _part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        out.iter_mut().enumerate().for_each(|(i, v)| *v = 0.05 * number(start + i));
        Ok(())
    }
}

/// The same layer with other channels; `None` if it is not a product.
fn with_channels(spec: &WeightSpec, cin: usize, cout: usize) -> Option<WeightSpec> {
    Some(match *spec {
        WeightSpec::Conv { kernel, stride, dtype, slopes, .. } => {
            WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes }
        }
        WeightSpec::Upsample { time, dtype, .. } => WeightSpec::Upsample { cin, cout, time, dtype },
        WeightSpec::Linear { dtype, .. } => WeightSpec::Linear { cin, cout, dtype },
        WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => return None,
    })
}

/// What is timed in place of a layer: a part of a wide linear one. 3072 to 12288 channels over 128 by 128 pixels would take
/// 1.2 GB in f32. That the kernel which is fastest on the part is fastest on the whole is assumed, not measured.
fn timed(spec: &WeightSpec) -> WeightSpec {
    match *spec {
        WeightSpec::Linear { cin, cout, dtype } => {
            WeightSpec::Linear { cin: cin.min(1024), cout: cout.min(2048), dtype }
        }
        other => other,
    }
}

/// Format of a layer, and its input and output for `frames` frames of `side` by `side` pixels.
fn shapes(spec: &WeightSpec, frames: usize, side: usize) -> Result<(DType, Shape, Shape)> {
    let Some((cin, cout, dtype)) = spec.product() else {
        return Err(mismatch("tune", "layer", layer_name(spec), "one that is multiplied"));
    };
    let (t, output) = match *spec {
        WeightSpec::Conv { kernel: [_, ky, kx], stride: [st, sy, sx], .. } => {
            // Rounded down to whole steps in time.
            let t = (frames - 1) / st * st + 1;
            let steps = |size: usize, k: usize, s: usize| (size + k / 2 * 2 - k) / s + 1;
            (t, Shape::new((t - 1) / st + 1, steps(side, ky, sy), steps(side, kx, sx), cout))
        }
        WeightSpec::Upsample { time, .. } => {
            let t = if time { 2 * frames - 1 } else { frames };
            (frames, Shape::new(t, 2 * side, 2 * side, cout))
        }
        _ => (frames, Shape::new(frames, side, side, cout)),
    };
    Ok((dtype, Shape::new(t, side, side, cin), output))
}

/// Runs one layer over a slice. Returns its output and the seconds of the fastest of `runs`.
fn layer(
    ops: &mut dyn Ops,
    spec: &WeightSpec,
    frames: usize,
    side: usize,
    runs: usize,
) -> Result<(Vec<f32>, f64)> {
    let weight = Weight::upsampler("tune", *spec, Arc::new(Numbers), Arc::new(Numbers));
    let (dtype, input, output) = shapes(spec, frames, side)?;
    ops.load(&weight)?;
    let (x, y) = (ops.alloc(input, dtype)?, ops.alloc(output, dtype)?);
    let values: Vec<f32> = (0..input.len()).map(number).collect();
    ops.upload(&values, x.view())?;
    ops.wait()?;
    let mut fastest = f64::INFINITY;
    for _ in 0..runs {
        let started = Instant::now();
        let (input, output, weight) = (x.view(), y.view(), &weight);
        match *spec {
            WeightSpec::Upsample { .. } => ops.upsample(&UpsampleDesc::new(input, weight, output))?,
            WeightSpec::Linear { .. } => {
                ops.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output })?;
            }
            WeightSpec::Conv { kernel: [_, ky, kx], .. } => {
                let padding = Padding { top: ky / 2, bottom: ky / 2, left: kx / 2, right: kx / 2 };
                ops.conv(&ConvDesc::new(input, weight, padding, output))?;
            }
            WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => {}
        }
        ops.wait()?;
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    let out = ops.values(y.view())?;
    ops.evict(&weight);
    Ok((out, fastest))
}

/// Largest difference due to rounding for results around 1: a unit in the last place of the format, and another
/// where sums are added in a different order.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        DType::Bf16 => 1.6e-2,
    }
}

/// The largest difference from the reference, whether it is within rounding, and the seconds of the fastest run. A kernel
/// that this device cannot run loses, as one that is wrong does. Any other device error will show again in a run.
fn tried(
    dtype: DType,
    max_abs: impl FnOnce() -> Result<f64>,
    seconds: impl FnOnce() -> Result<f64>,
) -> (f64, bool, f64) {
    let result = max_abs().and_then(|max_abs| match max_abs <= tolerance(dtype) {
        true => Ok((max_abs, true, seconds()?)),
        false => Ok((max_abs, false, f64::INFINITY)),
    });
    result.unwrap_or((f64::INFINITY, false, f64::INFINITY))
}

/// The device with one kernel chosen for every layer that can use it.
pub fn with_variant(device: GpuDevice, variant: &Variant) -> GpuDevice {
    let everywhere = BTreeMap::from([("*".to_owned(), variant.to_string())]);
    GpuDevice { choices: Choices::new(everywhere), ..device }
}

/// Bytes of an arena for one layer, alignment included.
fn arena(device: &GpuDevice, spec: &WeightSpec, frames: usize, side: usize) -> Result<u64> {
    let (dtype, input, output) = shapes(spec, frames, side)?;
    let values = ((input.len() + output.len()) * dtype.bytes()) as u64;
    let weight = GpuSizing { choices: device.choices }.weight_bytes(spec);
    Ok(values + weight + (1 << 20))
}

/// Times every kernel of `device`, or those of one `family`, for each layer over a frame of `side` by `side` pixels,
/// and passes each result to `tell`. Returns the device with the fastest kernels chosen. A layer listed twice is
/// timed once; so are wide linear layers of which the same part is timed.
pub fn tune(
    device: GpuDevice,
    layers: &[WeightSpec],
    family: Option<&str>,
    side: usize,
    runs: usize,
    tell: &mut dyn FnMut(&Tuned),
) -> Result<GpuDevice> {
    let device = GpuDevice { choices: Choices::default(), ..device };
    let mut table = BTreeMap::new();
    let mut done: HashMap<WeightSpec, Vec<Tuned>> = HashMap::new();
    for layer in layers {
        let name = layer_name(layer);
        if table.contains_key(&name) {
            continue;
        }
        let spec = timed(layer);
        let results = match done.entry(spec) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(new) => new.insert(times(device, &spec, family, side, runs)?),
        };
        for result in results.iter_mut() {
            result.layer.clone_from(&name);
            tell(result);
        }
        if let Some(best) = fastest(results) {
            table.insert(name, best.kernel.clone());
        }
    }
    Ok(GpuDevice { choices: Choices::new(table), ..device })
}

/// The fastest kernel, the first of several; none if no kernel could run.
fn fastest(results: &[Tuned]) -> Option<&Tuned> {
    results.iter().filter(|t| t.seconds.is_finite()).min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// The results of every kernel in one layer.
fn times(
    device: GpuDevice,
    spec: &WeightSpec,
    family: Option<&str>,
    side: usize,
    runs: usize,
) -> Result<Vec<Tuned>> {
    let mut all = variants(spec, device.open()?.units);
    all.retain(|v| family.is_none_or(|f| v.family() == f));
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let (dtype, _, output) = shapes(spec, 1, side)?;
    // Channels that do not divide into tiles, few enough for the reference.
    let Some(small) = with_channels(spec, 24, if output.c > 16 { 40 } else { 7 }) else {
        return Ok(Vec::new());
    };
    let (twin, _) = layer(&mut Reference::new(8 << 20)?, &small, 3, 6, 1)?;
    let mut results = Vec::new();
    for variant in all {
        let with = with_variant(device, &variant);
        let run = |spec: &WeightSpec, frames: usize, side: usize, runs: usize| {
            let mut gpu = Gpu::new(with, arena(&with, spec, frames, side)?, CancelToken::default())?;
            layer(&mut gpu, spec, frames, side, runs)
        };
        let (max_abs, right, seconds) = tried(
            dtype,
            || Ok(Difference::between(&run(&small, 3, 6, 1)?.0, &twin).max_abs),
            || Ok(run(spec, 1, side, runs.max(1) + 1)?.1),
        );
        let (kernel, family) = (variant.to_string(), variant.family());
        results.push(Tuned { layer: layer_name(spec), kernel, family, max_abs, right, seconds });
    }
    Ok(results)
}
