//! Ops with their operands on a device, to be timed again and again.

use std::sync::Arc;
use std::time::Instant;

use remaster_compute::{
    AttentionDesc, Backend, CancelToken, CombineDesc, ComputeError, ConvDesc, DType, LinearDesc,
    NormalizeDesc, Ops, Padding, Prologue, RowSumsDesc, Shape, SourceError, Tensor, Weight, WeightPart,
    WeightSource, WeightSpec,
};

use crate::error::Error;

/// Groups of the VAE's normalisations.
pub const GROUPS: usize = 32;

/// Where to run, and what stops it.
#[derive(Clone)]
pub struct Site {
    /// The device.
    pub backend: Backend,
    /// What stops it.
    pub cancel: CancelToken,
}

impl From<Backend> for Site {
    fn from(backend: Backend) -> Self {
        Site { backend, cancel: CancelToken::default() }
    }
}

type Run = Box<dyn FnMut(&mut dyn Ops) -> Result<(), ComputeError>>;

/// An op that is ready to run.
pub struct Bench {
    ops: Box<dyn Ops>,
    run: Run,
    /// Operations of one run: multiply-adds times two, or bytes read and written.
    pub work: f64,
    /// Bytes of all operands.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "only a card is short of memory"))]
    pub bytes: u64,
}

impl Bench {
    /// Seconds of so many runs in a row.
    pub fn step(&mut self, times: usize) -> Result<f64, Error> {
        let started = Instant::now();
        for _ in 0..times {
            (self.run)(self.ops.as_mut())?;
        }
        self.ops.wait()?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// Values for timing: any will do, but not all the same, which cards compute with less power and so faster.
struct Ramp;

fn ramp(i: usize) -> f32 {
    (i % 31) as f32 * 1e-3 - 0.015
}

impl WeightSource for Ramp {
    fn read(&self, _: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        out.iter_mut().enumerate().for_each(|(i, v)| *v = ramp(start + i));
        Ok(())
    }
}

/// Operands in a device's memory.
pub struct Operands {
    ops: Box<dyn Ops>,
    tensors: Vec<Tensor>,
    weights: Vec<Weight>,
    bytes: u64,
}

impl Operands {
    /// Makes and fills them.
    pub fn new(site: &Site, tensors: &[(Shape, DType)], weights: &[WeightSpec]) -> Result<Self, Error> {
        let sizing = site.backend.sizing();
        let of_tensors: u64 = tensors.iter().map(|(shape, dtype)| shape.bytes(*dtype)).sum();
        let bytes = of_tensors + weights.iter().map(|w| sizing.weight_bytes(w)).sum::<u64>();
        // Host memory is only taken when it is touched; the CPU's kernels have scratch in it, too. The rest is for
        // alignment.
        let room = if let Backend::Cpu { .. } = site.backend { 4 << 30 } else { bytes + (1 << 20) };
        let mut ops = site.backend.open(room, site.cancel.clone())?;
        let mut made = (Vec::new(), Vec::new());
        for spec in weights {
            let weight = Weight::upsampler("bench", *spec, Arc::new(Ramp), Arc::new(Ramp));
            ops.load(&weight)?;
            made.1.push(weight);
        }
        for (shape, dtype) in tensors {
            let tensor = ops.alloc(*shape, *dtype)?;
            let frame: Vec<f32> = (0..shape.len() / shape.t).map(ramp).collect();
            for t in 0..shape.t {
                ops.upload(&frame, tensor.view().frames(t..t + 1))?;
            }
            made.0.push(tensor);
        }
        ops.wait()?;
        Ok(Operands { ops, tensors: made.0, weights: made.1, bytes })
    }

    /// With what is to be done, which is so much work.
    pub fn bench(
        self,
        work: f64,
        mut run: impl FnMut(&mut dyn Ops, &[Tensor], &[Weight]) -> Result<(), ComputeError> + 'static,
    ) -> Bench {
        let Operands { ops, tensors, weights, bytes } = self;
        let run: Run = Box::new(move |ops| run(ops, &tensors, &weights));
        Bench { ops, run, work, bytes }
    }
}

/// 3x3x3 over some frames with a carried tail, on its own or behind a normalisation and SiLU.
pub fn conv(
    site: &Site,
    dtype: DType,
    channels: usize,
    [t, h, w]: [usize; 3],
    norm: bool,
) -> Result<Bench, Error> {
    let spec = WeightSpec::conv([channels, channels], [3; 3], dtype);
    let shape = Shape::new(t, h, w, channels);
    let stats = Shape::new(t, 1, 1, 2 * GROUPS);
    let tensors = [(shape, dtype), (Shape { t: 2, ..shape }, dtype), (shape, dtype), (stats, DType::F32)];
    let operands = Operands::new(site, &tensors, &[spec, WeightSpec::Norm { channels }])?;
    let work = 2.0 * (shape.len() * channels * 27) as f64;
    Ok(operands.bench(work, move |ops, tensors, weights| {
        let ([x, tail, y, stats], [weight, affine]) = (tensors, weights) else { return Ok(()) };
        let alone = ConvDesc::new(x.view(), weight, Padding::all(1), y.view());
        let prologue = norm.then(|| Prologue { stats: stats.view(), affine, silu: true });
        ops.conv(&ConvDesc { carried: Some(tail.view()), prologue, ..alone })
    }))
}

/// 3x3 over one frame, with PReLU behind, as upscalers have it.
pub fn frame_conv(site: &Site, dtype: DType, channels: usize, [h, w]: [usize; 2]) -> Result<Bench, Error> {
    let (cin, cout, kernel, stride) = (channels, channels, [1, 3, 3], [1; 3]);
    let spec = WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes: true };
    let shape = Shape::new(1, h, w, channels);
    let operands = Operands::new(site, &[(shape, dtype), (shape, dtype)], &[spec])?;
    let work = 2.0 * (shape.len() * channels * 9) as f64;
    Ok(operands.bench(work, |ops, tensors, weights| {
        let ([x, y], [weight]) = (tensors, weights) else { return Ok(()) };
        ops.conv(&ConvDesc::new(x.view(), weight, Padding::all(1), y.view()))
    }))
}

/// A linear layer over so many tokens, a multiple of 64.
pub fn linear(site: &Site, dtype: DType, tokens: usize, [cin, cout]: [usize; 2]) -> Result<Bench, Error> {
    let shape = Shape::new(1, 64, tokens / 64, cin);
    let tensors = [(shape, dtype), (Shape { c: cout, ..shape }, dtype)];
    let operands = Operands::new(site, &tensors, &[WeightSpec::Linear { cin, cout, dtype }])?;
    let work = 2.0 * (shape.len() * cout) as f64;
    Ok(operands.bench(work, |ops, tensors, weights| {
        let ([x, y], [weight]) = (tensors, weights) else { return Ok(()) };
        let (input, output) = (x.view(), y.view());
        ops.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output })
    }))
}

/// GroupNorm and SiLU on their own: sums, then one read and one write.
pub fn norm(site: &Site, dtype: DType, shape: Shape) -> Result<Bench, Error> {
    let pairs = 2 * GROUPS;
    let sums = Shape::new(shape.t, shape.h, 1, pairs);
    let stats = Shape::new(shape.t, 1, 1, pairs);
    let tensors = [(shape, dtype), (shape, dtype), (sums, DType::F32), (stats, DType::F32)];
    let operands = Operands::new(site, &tensors, &[WeightSpec::Norm { channels: shape.c }])?;
    let work = 3.0 * shape.bytes(dtype) as f64;
    Ok(operands.bench(work, move |ops, tensors, weights| {
        let ([x, y, sums, stats], [affine]) = (tensors, weights) else { return Ok(()) };
        ops.row_sums(&RowSumsDesc { input: x.view(), groups: GROUPS, output: sums.view() })?;
        let count = shape.w * shape.c / GROUPS;
        ops.combine_sums(&CombineDesc {
            name: "bench",
            sums: sums.view(),
            count,
            eps: 1e-6,
            output: stats.view(),
        })?;
        let (input, stats, output) = (x.view(), stats.view(), y.view());
        ops.normalize(&NormalizeDesc { input, stats, affine, silu: true, output })
    }))
}

/// One head of the VAE's attention over a frame.
pub fn attention(site: &Site, dtype: DType, [h, w]: [usize; 2]) -> Result<Bench, Error> {
    let shape = Shape::new(1, h, w, 512);
    let operands = Operands::new(site, &[(shape, dtype); 4], &[])?;
    let work = 2.0 * 2.0 * ((h * w).pow(2) * shape.c) as f64;
    Ok(operands.bench(work, |ops, tensors, _| {
        let [q, k, v, y] = tensors else { return Ok(()) };
        ops.attention(&AttentionDesc {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            heads: 1,
            scale: 1.0 / 512f32.sqrt(),
            output: y.view(),
        })
    }))
}
