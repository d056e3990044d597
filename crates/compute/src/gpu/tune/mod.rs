//! Finds the fastest kernel for each layer. A kernel can win only if it agrees with the naive loops on a small input, gives the
//! same bits twice, and writes nothing but its output.

mod attention;

pub use attention::{AttentionLayer, tune_attention};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::choice::{Choices, Variant, layer_name, variants};
use super::{Gpu, GpuDevice, GpuSizing};
use crate::cancel::CancelToken;
use crate::dtype::DType;
use crate::error::{Result, SourceError, mismatch};
use crate::host_tensor::Difference;
use crate::ops::{ConvDesc, LinearDesc, Ops, Padding, Prologue, Sizing, UpsampleDesc};
use crate::reference::Reference;
use crate::tensor::{Shape, Tensor};
use crate::weight::{Weight, WeightPart, WeightSource, WeightSpec};

/// A layer that is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductLayer {
    /// Its weight.
    pub spec: WeightSpec,
    /// Whether it is a convolution whose input is normalised. It is then timed so, on the way in and by a pass of its own.
    pub prologue: bool,
}

impl ProductLayer {
    /// Groups of the normalisation: 32 as in the VAE if the channels allow it.
    fn groups(&self) -> Option<usize> {
        let WeightSpec::Conv { cin, .. } = self.spec else { return None };
        let groups = if cin.is_multiple_of(32) { 32 } else { 1 };
        self.prologue.then_some(groups)
    }
}

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
    /// Why it cannot be chosen.
    pub fault: Option<KernelFault>,
    /// Fastest of a few runs; infinite if the kernel was wrong or could not run, and 0 if it was not timed.
    pub seconds: f64,
}

/// Why a kernel cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// The device refused it.
    Refused,
    /// Its results differ from those of the naive loops by more than rounding.
    Differs,
    /// It gave other bits the second time.
    Unsteady,
    /// It wrote where it must not.
    Beyond,
}

impl KernelFault {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            KernelFault::Refused => "cannot run",
            KernelFault::Differs => "differs from the naive loops",
            KernelFault::Unsteady => "gives other bits the second time",
            KernelFault::Beyond => "writes beyond its buffers",
        }
    }
}

/// How kernels are timed: over a frame of `side` by `side` pixels, the fastest of `runs`.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Rows and columns.
    pub side: usize,
    /// Runs of each.
    pub runs: usize,
}

/// Weights from pseudo-random numbers.
struct Numbers;

/// Some are large, and some are small enough to be flushed to zero.
fn number(i: usize) -> f32 {
    match i % 97 {
        11 => return 4.0,
        23 => return 3e-8,
        _ => {}
    }
    let h = (i as u32).wrapping_mul(0x9e37_79b9) ^ 0x85eb_ca6b;
    (h ^ (h >> 15)) as f32 / u32::MAX as f32 * 2.0 - 1.0
}

impl WeightSource for Numbers {
    fn read(&self, _part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        out.iter_mut().enumerate().for_each(|(i, v)| *v = 0.05 * number(start + i));
        Ok(())
    }
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

/// What a layer gave.
struct Ran {
    values: Vec<f32>,
    /// Of the fastest run.
    seconds: f64,
    /// The last two runs gave the same bits.
    steady: bool,
    /// Nothing was written between the operands.
    intact: bool,
}

impl Ran {
    /// Runs an op at least once, and compares what the last two runs left in `output`.
    fn of(
        ops: &mut dyn Ops,
        output: &Tensor,
        guards: &[Guard],
        runs: usize,
        mut op: impl FnMut(&mut dyn Ops) -> Result<()>,
    ) -> Result<Self> {
        ops.wait()?;
        let mut seconds = f64::INFINITY;
        let (mut before, mut values) = (Vec::new(), Vec::new());
        for left in (0..runs.max(1)).rev() {
            let started = Instant::now();
            op(ops)?;
            ops.wait()?;
            seconds = seconds.min(started.elapsed().as_secs_f64());
            if left < 2 {
                before = std::mem::replace(&mut values, ops.values(output.view())?);
            }
        }
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let steady = runs < 2 || bits(&before) == bits(&values);
        let mut intact = true;
        for guard in guards {
            intact &= guard.is_intact(ops)?;
        }
        Ok(Ran { values, seconds, steady, intact })
    }
}

/// Numbers between operands that nothing may change.
struct Guard(Tensor);

impl Guard {
    const VALUES: usize = 64;

    fn values() -> Vec<f32> {
        (0..Self::VALUES).map(|i| 7.0 + i as f32).collect()
    }

    fn new(ops: &mut dyn Ops) -> Result<Self> {
        let tensor = ops.alloc(Shape::new(1, 1, 1, Self::VALUES), DType::F32)?;
        ops.upload(&Self::values(), tensor.view())?;
        Ok(Guard(tensor))
    }

    fn is_intact(&self, ops: &mut dyn Ops) -> Result<bool> {
        Ok(ops.values(self.0.view())? == Self::values())
    }
}

/// Runs one layer over a slice, at least once.
fn layer(ops: &mut dyn Ops, one: &ProductLayer, frames: usize, side: usize, runs: usize) -> Result<Ran> {
    let spec = &one.spec;
    let weight = Weight::upsampler("tune", *spec, Arc::new(Numbers), Arc::new(Numbers));
    let (dtype, input, output) = shapes(spec, frames, side)?;
    ops.load(&weight)?;
    let mut guards = vec![Guard::new(ops)?];
    let x = ops.alloc(input, dtype)?;
    guards.push(Guard::new(ops)?);
    let y = ops.alloc(output, dtype)?;
    guards.push(Guard::new(ops)?);
    let values: Vec<f32> = (0..input.len()).map(number).collect();
    ops.upload(&values, x.view())?;
    let affine = Weight::new("tune", WeightSpec::Norm { channels: input.c }, Arc::new(Numbers));
    let groups = one.groups();
    let stats = ops.alloc(Shape::new(input.t, 1, 1, 2 * groups.unwrap_or(1)), DType::F32)?;
    if let Some(groups) = groups {
        ops.load(&affine)?;
        ops.upload(&[0.1, 20.0].repeat(input.t * groups), stats.view())?;
    }
    let prologue = groups.map(|_| Prologue { stats: stats.view(), affine: &affine, silu: true });
    let ran = Ran::of(ops, &y, &guards, runs, |ops| {
        let (input, output, weight) = (x.view(), y.view(), &weight);
        match *spec {
            WeightSpec::Upsample { .. } => ops.upsample(&UpsampleDesc::new(input, weight, output)),
            WeightSpec::Linear { .. } => {
                ops.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output })
            }
            WeightSpec::Conv { kernel: [_, ky, kx], .. } => {
                let padding = Padding { top: ky / 2, bottom: ky / 2, left: kx / 2, right: kx / 2 };
                let prologue = prologue.clone();
                ops.conv(&ConvDesc { prologue, ..ConvDesc::new(input, weight, padding, output) })
            }
            WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => Ok(()),
        }
    })?;
    ops.evict(&weight);
    ops.evict(&affine);
    Ok(ran)
}

/// Largest difference due to rounding for results around 1: a unit in the last place of the format, and another
/// where sums are added in a different order.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        DType::Bf16 => 1.6e-2,
    }
}

/// What a kernel is worth: the largest difference from the reference, its fault, and the seconds of the fastest run. A kernel
/// that this device cannot run loses, as one that is wrong does. Any other device error will show again in a run.
fn tried(
    dtype: DType,
    twin: &[f32],
    check: impl FnOnce() -> Result<Ran>,
    seconds: impl FnOnce() -> Result<f64>,
) -> (f64, Option<KernelFault>, f64) {
    let Ok(Ran { values, steady, intact, .. }) = check() else {
        return (f64::INFINITY, Some(KernelFault::Refused), f64::INFINITY);
    };
    let largest = twin.iter().fold(1.0f64, |most, v| most.max(f64::from(v.abs())));
    let max_abs = Difference::between(&values, twin).max_abs;
    let fault = match (max_abs <= tolerance(dtype) * largest, steady, intact) {
        (false, ..) => KernelFault::Differs,
        (_, false, _) => KernelFault::Unsteady,
        (.., false) => KernelFault::Beyond,
        _ => {
            return match seconds() {
                Ok(seconds) => (max_abs, None, seconds),
                Err(_) => (max_abs, Some(KernelFault::Refused), f64::INFINITY),
            };
        }
    };
    (max_abs, Some(fault), f64::INFINITY)
}

/// The device with one kernel chosen for every layer that can use it.
pub fn with_variant(device: GpuDevice, variant: &Variant) -> GpuDevice {
    let everywhere = BTreeMap::from([("*".to_owned(), variant.to_string())]);
    GpuDevice { choices: Choices::new(everywhere), ..device }
}

/// Bytes of an arena for one layer, alignment included.
fn arena(device: &GpuDevice, layer: &ProductLayer, frames: usize, side: usize) -> Result<u64> {
    let (dtype, input, output) = shapes(&layer.spec, frames, side)?;
    // A pass before the product keeps the input once more.
    let inputs = if layer.prologue { 2 } else { 1 };
    let values = ((inputs * input.len() + output.len()) * dtype.bytes()) as u64;
    let weight = GpuSizing { choices: device.choices }.weight_bytes(&layer.spec);
    Ok(values + weight + (1 << 20))
}

/// Checks every kernel of `device`, or those of one `family`, for each layer: against the naive loops at the layer's width,
/// twice for the same bits, and with guards between its operands. Those that are right are timed, both ways where the input is
/// normalised, or the first of them is taken. Each result is passed to `tell`. Returns the device with the fastest kernels
/// chosen. A layer listed twice is checked once.
pub fn tune(
    device: GpuDevice,
    layers: &[ProductLayer],
    family: Option<&str>,
    timing: Option<Timing>,
    tell: &mut dyn FnMut(&Tuned),
) -> Result<GpuDevice> {
    let device = GpuDevice { choices: Choices::default(), ..device };
    let mut table = BTreeMap::new();
    for layer in layers {
        let name = layer_name(&layer.spec);
        if table.contains_key(&name) {
            continue;
        }
        let results = checked(device, layer, family, timing)?;
        results.iter().for_each(&mut *tell);
        if let Some(best) = fastest(&results) {
            table.insert(name, best.kernel.clone());
        }
    }
    Ok(GpuDevice { choices: Choices::new(table), ..device })
}

/// The fastest kernel, the first of several; none if no kernel could run.
fn fastest(results: &[Tuned]) -> Option<&Tuned> {
    results.iter().filter(|t| t.seconds.is_finite()).min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Most multiply-adds of a layer that the naive loops compute: a tenth of a second.
const NAIVE: usize = 120_000_000;

/// Frames and sides of what is computed by the naive loops, the largest that they can afford first. One row and column more
/// than the taps of a layer are enough for all its borders.
const SMALL: [[usize; 2]; 4] = [[3, 6], [2, 5], [1, 4], [1, 2]];

/// The results of every kernel in one layer.
fn checked(
    device: GpuDevice,
    one: &ProductLayer,
    family: Option<&str>,
    timing: Option<Timing>,
) -> Result<Vec<Tuned>> {
    let ProductLayer { spec, prologue } = one;
    let mut all = variants(spec, device.open()?.units);
    all.retain(|v| family.is_none_or(|f| v.family() == f));
    if *prologue {
        all = all.into_iter().flat_map(|v| [v, v.after_a_pass()]).collect();
    }
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let fits = |[frames, side]: &[usize; 2]| spec.main_len() * frames * side * side <= NAIVE;
    let [frames, side] = SMALL.into_iter().find(fits).unwrap_or([1, 2]);
    let (dtype, ..) = shapes(spec, frames, side)?;
    let room = 4 * (spec.main_len() + spec.bias_len()) as u64 + (64 << 20);
    let twin = layer(&mut Reference::new(room)?, one, frames, side, 1)?.values;
    let part = ProductLayer { spec: timed(spec), ..*one };
    let mut results = Vec::new();
    for variant in all {
        let with = with_variant(device, &variant);
        let run = |one: &ProductLayer, frames: usize, side: usize, runs: usize| {
            let mut gpu = Gpu::new(with, arena(&with, one, frames, side)?, CancelToken::default())?;
            layer(&mut gpu, one, frames, side, runs)
        };
        let (max_abs, fault, seconds) = tried(
            dtype,
            &twin,
            || run(one, frames, side, 2),
            || match timing {
                Some(Timing { side, runs }) => Ok(run(&part, 1, side, runs.max(1) + 1)?.seconds),
                None => Ok(0.0),
            },
        );
        let (kernel, family) = (variant.to_string(), variant.family());
        results.push(Tuned { layer: layer_name(spec), kernel, family, max_abs, fault, seconds });
    }
    Ok(results)
}
