//! Which variant of a kernel is the fastest here. A variant may only win if it gives the numbers of the slow
//! twin on a small input; all of them add in the same order, so the choice changes no bit.

use std::sync::Arc;
use std::time::Instant;

use super::{Gpu, GpuDevice, Variant, variants};
use crate::cancel::CancelToken;
use crate::dtype::DType;
use crate::error::{ComputeError, SourceError};
use crate::host_tensor::Difference;
use crate::ops::{ConvDesc, Ops, Padding};
use crate::reference::Reference;
use crate::tensor::Shape;
use crate::weight::{Part, Weight, WeightSource, WeightSpec};

/// What one variant did.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    /// Which one.
    pub variant: Variant,
    /// Largest difference from the twin.
    pub max_abs: f64,
    /// Whether that is rounding.
    pub right: bool,
    /// Fastest of a few runs; infinite if it is not right or could not run.
    pub seconds: f64,
}

/// Numbers between -1 and 1 that look random.
struct Numbers;

fn number(i: usize) -> f32 {
    let h = (i as u32).wrapping_mul(0x9e37_79b9) ^ 0x85eb_ca6b;
    (h ^ (h >> 15)) as f32 / u32::MAX as f32 * 2.0 - 1.0
}

impl WeightSource for Numbers {
    fn read(&self, _part: Part, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        out.iter_mut().enumerate().for_each(|(i, v)| *v = 0.05 * number(start + i));
        Ok(())
    }
}

/// A 3x3x3 convolution over one slice; how long each of `runs` took.
fn convolve(
    ops: &mut dyn Ops,
    input: Shape,
    cout: usize,
    runs: usize,
) -> Result<(Vec<f32>, f64), ComputeError> {
    let spec = WeightSpec::Conv { cin: input.c, cout, kernel: [3; 3], stride: [1; 3], dtype: DType::F32 };
    let weight = Weight::new("tune", spec, Arc::new(Numbers));
    ops.load(&weight)?;
    let x = ops.alloc(input, DType::F32)?;
    let y = ops.alloc(Shape { c: cout, ..input }, DType::F32)?;
    let values: Vec<f32> = (0..input.len()).map(number).collect();
    ops.upload(&values, x.view())?;
    ops.wait()?;
    let mut fastest = f64::INFINITY;
    for _ in 0..runs {
        let started = Instant::now();
        ops.conv(&ConvDesc {
            input: x.view(),
            prologue: None,
            carried: None,
            carry: None,
            weight: &weight,
            padding: Padding::all(1),
            accumulate: false,
            shortcut: None,
            sums: None,
            output: y.view(),
        })?;
        ops.wait()?;
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    let mut out = vec![0.0; y.shape().len()];
    ops.download(y.view(), &mut out)?;
    ops.evict(&weight);
    Ok((out, fastest))
}

/// Times every variant on `device` over a frame of `side` by `side` pixels, and returns the device with the
/// fastest ones chosen.
pub fn tune(device: GpuDevice, side: usize, runs: usize) -> Result<(GpuDevice, Vec<Tuned>), ComputeError> {
    let mut best = device;
    let mut all = Vec::new();
    let small = Shape::new(2, 5, 7, 20);
    for (place, name, check, cin, cout) in [(0, "wide", 40, 128, 128), (1, "narrow", 7, 128, 3)] {
        let (twin, _) = convolve(&mut Reference::new(1 << 20)?, small, check, 1)?;
        let mut fastest = f64::INFINITY;
        for variant in variants().into_iter().filter(|v| v.name == name) {
            let mut tiles = [0; 2];
            tiles[place] = variant.index;
            let with = GpuDevice { tiles, ..device };
            let input = Shape::new(1, side, side, cin);
            let bytes = (input.len() * 4 + side * side * cout.max(4) * 4 + cin * cout.max(4) * 27 * 4) as u64;
            // A variant that this device cannot run loses; another error of the device comes back later.
            let tried = Gpu::new(with, bytes + (1 << 20), CancelToken::default()).and_then(|mut gpu| {
                let (ours, _) = convolve(&mut gpu, small, check, 1)?;
                let max_abs = Difference::between(&ours, &twin).max_abs;
                let right = max_abs <= 2e-5;
                let seconds = match right {
                    true => convolve(&mut gpu, input, cout, runs.max(1) + 1)?.1,
                    false => f64::INFINITY,
                };
                Ok(Tuned { variant, max_abs, right, seconds })
            });
            let tuned = tried.unwrap_or(Tuned {
                variant,
                max_abs: f64::INFINITY,
                right: false,
                seconds: f64::INFINITY,
            });
            if tuned.seconds < fastest {
                fastest = tuned.seconds;
                best.tiles[place] = variant.index;
            }
            all.push(tuned);
        }
    }
    Ok((best, all))
}
