//! Single modules: the golden's tensors are named after the module's place in the checkpoint.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use remaster_compute::{ComputeError, DType, HostTensor, Ops, Padding, Shape, Tensor};
use remaster_model::vae::{
    Act, Attention, CausalConv3d, DownBlock, Downsample, Fused, Gaussian, GroupNorm, MidBlock, ResnetBlock,
    UpBlock, Upsample, VaeConfig,
};
use remaster_model::{Build, Module, Pass, Scope, State, load};
use remaster_weights::FormulaParams;

use crate::{DoctorError, Golden, GoldenError, Judge};

/// Enough for any module golden with its weights; pages are only used when touched.
const ARENA: u64 = 256 << 20;

#[expect(clippy::large_enum_variant, reason = "a handful exist at a time")]
enum VaeModule {
    Conv(CausalConv3d),
    Norm(GroupNorm),
    Resnet(ResnetBlock),
    Attention(Attention),
    Mid(MidBlock),
    Down(Downsample),
    Up(Upsample),
    DownBlock(DownBlock),
    UpBlock(UpBlock),
}

impl VaeModule {
    /// The module at `path`, for inputs of `cin` and outputs of `cout` channels.
    fn at(config: &VaeConfig, build: Build, path: &str, cin: usize, cout: usize) -> Option<Self> {
        let mut params = FormulaParams;
        let mut scope = Scope::root(&mut params, build);
        let (outer, last) = path.rsplit_once('.')?;
        let stage = last.parse::<usize>().ok().filter(|i| *i < 4);
        // A plain convolution is named inside its parent.
        let conv = |scope: &mut Scope<'_>, kernel, stride, padding| {
            Self::Conv(CausalConv3d::with(&mut scope.at(outer), last, [cin, cout], kernel, stride, padding))
        };
        let time = !path.contains("_blocks.0.downsamplers") && !path.contains("_blocks.2.upsamplers");
        Some(match (outer.rsplit('.').next()?, last) {
            (_, "conv_in") => conv(&mut scope, [3; 3], [1; 3], Padding::all(1)),
            (_, "conv_shortcut") => conv(&mut scope, [1; 3], [1; 3], Padding::default()),
            (_, "conv") if time => conv(&mut scope, [3; 3], [2; 3], Padding::default()),
            (_, "conv") => conv(&mut scope, [1, 3, 3], [1, 2, 2], Padding::default()),
            (_, "conv_norm_out") => Self::Norm(GroupNorm::new(config, &mut scope.at(outer), last, cin)),
            (_, "mid_block") => Self::Mid(MidBlock::new(config, &mut scope.at(path), cin)),
            ("resnets", _) => Self::Resnet(ResnetBlock::new(config, &mut scope.at(path), cin, cout)),
            ("attentions", _) => Self::Attention(Attention::new(config, &mut scope.at(path), cin)),
            ("downsamplers", _) => Self::Down(Downsample::new(config, &mut scope.at(path), cin, time)),
            ("upsamplers", _) => Self::Up(Upsample::new(config, &mut scope.at(path), cin, time)),
            ("down_blocks", _) => Self::DownBlock(DownBlock::new(config, &mut scope.at(path), stage?)),
            ("up_blocks", _) => Self::UpBlock(UpBlock::new(config, &mut scope.at(path), stage?)),
            _ => return None,
        })
    }

    fn module(&self) -> &dyn Module {
        match self {
            Self::Conv(m) => m,
            Self::Norm(m) => m,
            Self::Resnet(m) => m,
            Self::Attention(m) => m,
            Self::Mid(m) => m,
            Self::Down(m) => m,
            Self::Up(m) => m,
            Self::DownBlock(m) => m,
            Self::UpBlock(m) => m,
        }
    }

    fn forward(&self, pass: &mut Pass<'_>, x: Tensor, silu: bool) -> Result<Tensor, ComputeError> {
        let frames = x.shape().t;
        let x = Act { x, sums: None };
        let y = match self {
            Self::Conv(m) => m.forward(pass, x.view(), Fused::default())?.x,
            Self::Norm(m) => m.forward(pass.ops, &x, silu)?,
            Self::Resnet(m) => m.forward(pass, x)?.x,
            Self::Attention(m) => m.forward(pass.ops, x)?.x,
            Self::Mid(m) => m.forward(pass, x)?.x,
            Self::Down(m) => m.forward(pass, x)?.x,
            Self::Up(m) => m.forward(pass, x)?.x,
            Self::DownBlock(m) => m.forward(pass, x)?.x,
            Self::UpBlock(m) => m.forward(pass, x)?.x,
        };
        pass.state.advance(frames);
        Ok(y)
    }
}

pub(crate) fn run(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    if judge.golden.has("params") {
        return gaussian(judge);
    }
    let golden = judge.golden;
    let paths: BTreeSet<&str> = golden.names().filter_map(|n| n.strip_suffix("/in")).collect();
    for path in paths {
        let (input, output) = (golden.video(&format!("{path}/in"))?, golden.video(&format!("{path}/out"))?);
        let part = VaeModule::at(&golden.config(), judge.settings.build, path, input.shape.c, output.shape.c)
            .ok_or_else(|| misshapen(golden, path, input.shape))?;
        let failed = |source: ComputeError| golden.failed(source);
        let mut ops = judge.settings.backend.open(ARENA, judge.settings.cancel.clone()).map_err(failed)?;
        load(ops.as_mut(), part.module()).map_err(failed)?;
        for (from, to, silu) in [
            ("in", "out", false),
            ("in", "out_silu", true),
            ("in_small", "out_small", false),
            ("image_in", "image_out", false),
        ] {
            let stage = format!("{path}/{to}");
            if golden.has(&stage) {
                let x = golden.video(&format!("{path}/{from}"))?;
                let (dtype, state) = (judge.settings.build.dtype, &mut State::single());
                let y = forward(ops.as_mut(), &part, dtype, &x, 0..x.shape.t, state, silu);
                judge.check(&stage, &y.map_err(failed)?)?;
            }
        }
        slices(judge, ops.as_mut(), &part, path, &input, output.shape.t)?;
    }
    Ok(())
}

/// The same input in slices, each compared, and what is carried after the first.
fn slices(
    judge: &mut Judge<'_>,
    ops: &mut dyn Ops,
    part: &VaeModule,
    path: &str,
    input: &HostTensor,
    t_out: usize,
) -> Result<(), DoctorError> {
    let golden = judge.golden;
    let mut state = State::new();
    let mut start = 0;
    for i in 0.. {
        let name = format!("{path}/out_slice{i}");
        if !golden.has(&name) {
            break;
        }
        let theirs = golden.video(&name)?;
        // The module keeps, halves or doubles the number of frames; the very first one stays alone.
        let frames = match (t_out.cmp(&input.shape.t), i) {
            (Ordering::Equal, _) => theirs.shape.t,
            (Ordering::Less, 0) => 2 * theirs.shape.t - 1,
            (Ordering::Less, _) => 2 * theirs.shape.t,
            (Ordering::Greater, _) => theirs.shape.t.div_ceil(2),
        };
        if frames == 0 || start + frames > input.shape.t {
            return Err(misshapen(golden, &name, theirs.shape).into());
        }
        let dtype = judge.settings.build.dtype;
        let y = forward(ops, part, dtype, input, start..start + frames, &mut state, false);
        judge.compare(&name, &y.map_err(|source| golden.failed(source))?, &theirs);
        if i == 0 {
            memories(judge, ops, path, &state)?;
        }
        start += frames;
    }
    Ok(())
}

fn memories(judge: &mut Judge<'_>, ops: &mut dyn Ops, path: &str, state: &State) -> Result<(), DoctorError> {
    let golden = judge.golden;
    for (name, tail) in state.tails() {
        let inner = name.strip_prefix(path).unwrap_or(name).trim_start_matches('.');
        let key = format!("{path}/memory_after_slice0/{inner}");
        let key = key.trim_end_matches('/');
        if !golden.has(key) {
            continue;
        }
        let data = ops.values(tail.view()).map_err(|source| golden.failed(source))?;
        let ours = HostTensor { shape: tail.shape(), data };
        // The original keeps the zero row and column of a downsampler with the tail; we do not.
        judge.compare(key, &ours, &crop(&golden.video(key)?, ours.shape));
    }
    Ok(())
}

fn misshapen(golden: &Golden, tensor: &str, Shape { t, h, w, c }: Shape) -> GoldenError {
    GoldenError::Shape { name: golden.name.clone(), tensor: tensor.to_owned(), shape: vec![c, t, h, w] }
}

/// The upper left part of each frame; all of it if it is not larger.
fn crop(x: &HostTensor, to: Shape) -> HostTensor {
    let Shape { h, w, c, .. } = x.shape;
    if h < to.h || w < to.w {
        return x.clone();
    }
    let rows = x.data.chunks_exact((w * c).max(1)).enumerate().filter(|(i, _)| i % h < to.h);
    HostTensor {
        shape: Shape { t: x.shape.t, c, ..to },
        data: rows.flat_map(|(_, r)| r[..to.w * c].to_vec()).collect(),
    }
}

/// Some frames of `x`.
fn forward(
    ops: &mut dyn Ops,
    part: &VaeModule,
    dtype: DType,
    x: &HostTensor,
    frames: Range<usize>,
    state: &mut State,
    silu: bool,
) -> Result<HostTensor, ComputeError> {
    let input = ops.alloc(Shape { t: frames.len(), ..x.shape }, dtype)?;
    ops.upload(x.frames(frames), input.view())?;
    let y = part.forward(&mut Pass { ops, state }, input, silu)?;
    Ok(HostTensor { shape: y.shape(), data: ops.values(y.view())? })
}

fn gaussian(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    let golden = judge.golden;
    let params = golden.video("params")?;
    // Half of the channels are means, the other half log-variances.
    if params.shape.c == 0 || !params.shape.c.is_multiple_of(2) {
        return Err(misshapen(golden, "params", params.shape).into());
    }
    let gaussian = Gaussian::new(&params);
    let sample = gaussian.sample(&golden.video("noise")?);
    let std = gaussian.std();
    for (name, ours) in
        [("mean", &gaussian.mean), ("logvar_clamped", &gaussian.logvar), ("std", &std), ("sample", &sample)]
    {
        judge.check(name, ours)?;
    }
    Ok(())
}
