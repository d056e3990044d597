//! The diffusion transformer: the small networks whole and block by block, single blocks of the real ones.

use std::sync::Arc;

use remaster_compute::{
    Backend, ComputeError, DType, Difference, HostTensor, Ops, Shape, Tensor, TokenNormDesc,
};
use remaster_engine::{EngineError, MemoryClip, Task};
use remaster_model::dit::{
    Block, Dit, DitConfig, Embedding, Family, Grid, Layouts, Text, embedding, patches, sinusoids, unpatched,
};
use remaster_model::{Scope, Values, computed, load};
use remaster_plan::{Candidate, Cells};
use remaster_weights::{FormulaParams, uniform};

use crate::golden::{Golden, GoldenError};
use crate::{DIT_GPU_TOLERANCE, DIT_TOLERANCE, DoctorError, Judge};

/// Room for a block of the 7B network in f32 and its activations; and for the whole of a small network, which every
/// GPU has.
const REAL_ARENA: u64 = 3 << 30;
const ARENA: u64 = 128 << 20;

/// The original's exponential is off by up to one unit in the last place, 6e-8, which the time multiplies by 1000.
const SINUSOIDS: f64 = 6e-5;

/// The tokens of the real goldens that are not stored, and the size of their grid.
const MULTI: [usize; 3] = [1, 16, 28];

pub(crate) fn run(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    let result = match judge.golden.name.as_str() {
        "dit_diffusion" => diffusion(judge),
        name if name.starts_with("dit_real") => real(judge),
        _ => tiny(judge),
    };
    result.map_err(|failure| match failure {
        Failure::Golden(error) => error.into(),
        Failure::Compute(source) => judge.golden.failed(source),
    })
}

enum Failure {
    Golden(GoldenError),
    Compute(EngineError),
}

impl From<GoldenError> for Failure {
    fn from(error: GoldenError) -> Self {
        Failure::Golden(error)
    }
}

impl<E: Into<EngineError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Compute(error.into())
    }
}

/// Which network, from the name.
fn config(golden: &Golden) -> DitConfig {
    let family = if golden.name.contains("3b") { Family::Shared } else { Family::Separate };
    match (golden.name.contains("real"), family) {
        (true, Family::Shared) => DitConfig::dit_3b(),
        (true, Family::Separate) => DitConfig::dit_7b(),
        (false, family) => DitConfig::tiny(family),
    }
}

impl Judge<'_> {
    fn open(&self) -> Result<Box<dyn Ops + Send>, ComputeError> {
        let bytes = if self.golden.name.starts_with("dit_real") { REAL_ARENA } else { ARENA };
        self.settings.backend.open(bytes, self.settings.cancel.clone())
    }

    fn dtype(&self) -> DType {
        self.settings.build.dtype
    }

    /// Compares some values with a tensor. Values of 16-bit runs are judged by the largest value there is.
    fn judge(&mut self, tensor: &str, ours: &[f32]) -> Result<(), GoldenError> {
        let theirs = self.golden.tensor(tensor)?;
        if theirs.data.len() != ours.len() {
            return Err(self.golden.misshapen(tensor));
        }
        let peak = theirs.data.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
        let difference = Difference::between(ours, &theirs.data);
        let exact = matches!(self.settings.backend, Backend::Cpu { .. } | Backend::Reference);
        let tolerance = if exact { DIT_TOLERANCE } else { DIT_GPU_TOLERANCE };
        self.record(tensor, difference, f64::from(peak), tolerance);
        Ok(())
    }
}

fn upload(ops: &mut dyn Ops, shape: Shape, values: &[f32]) -> Result<Tensor, ComputeError> {
    let tensor = ops.alloc(shape, DType::F32)?;
    ops.upload(values, tensor.view())?;
    Ok(tensor)
}

fn constant(values: &[f32]) -> Arc<dyn Values> {
    let values = values.to_vec();
    computed(move |i| values.get(i).copied().unwrap_or(0.0))
}

/// The whole network by the engine, then block by block.
fn tiny(judge: &mut Judge<'_>) -> Result<(), Failure> {
    let (golden, config) = (judge.golden, config(judge.golden));
    let (cells, text) = (golden.tensor("vid")?, golden.tensor("txt")?);
    let [t, h, w, c] = cells.shape[..] else { return Err(golden.misshapen("vid").into()) };
    let time = golden.tensor("timestep")?.data.first().copied().unwrap_or_default();
    let tokens = text.shape.first().copied().unwrap_or(0);
    let size = [h / DitConfig::PATCH, w / DitConfig::PATCH];
    let build = || {
        let mut params = FormulaParams;
        let scope = &mut Scope::root(&mut params, judge.settings.build);
        let text = Text::new(&config, scope, tokens, constant(&text.data));
        Dit::new(&config, scope, text, size, time)
    };
    let patches = patches(&cells.data, [t, h, w], c);
    let input = HostTensor {
        shape: Shape::new(t, size[0] * size[1], 1, patches.len() / (t * size[0] * size[1]).max(1)),
        data: patches,
    };
    let grid = Cells { steps: t, rows: size[0] * size[1], columns: 1 };
    let mut task = Task::new(Box::new(build()), grid, judge.settings.backend, judge.dtype());
    task.settings.cancel = judge.settings.cancel.clone();
    let plan = task.exactly(Candidate::WHOLE)?;
    let (mut source, mut sink) = (MemoryClip::source(input.clone()), MemoryClip::sink());
    task.run(&plan, &mut source, &mut sink, &mut |_| ())?;
    judge.judge("out", &unpatched(&sink.clip.data, [t, h, w], config.latent))?;
    if !golden.has("blocks.0/vid") {
        return Ok(());
    }
    let network = build();
    let ops = &mut *judge.open()?;
    load(ops, &network)?;
    let layouts = Layouts::new(ops, &config, [t, size[0], size[1]], tokens)?;
    let text = network.text().upload(ops)?;
    let x = ops.alloc(input.shape, judge.dtype())?;
    ops.upload(&input.data, x.view())?;
    let grid = network.enter(ops, x)?;
    for (i, block) in network.blocks().iter().enumerate() {
        block.forward(ops, &grid, &text, &layouts)?;
        judge.judge(&format!("blocks.{i}/vid"), &ops.values(grid.tokens.view())?)?;
        // The text of the 3B network is not used after the last block, and is not computed.
        if config.family == Family::Separate || i + 1 < config.layers {
            judge.judge(&format!("blocks.{i}/txt"), &ops.values(text.view())?)?;
        }
    }
    Ok(())
}

/// What a block makes of video and text, and its queries and keys, window by window with the text behind each.
struct Made {
    video: Vec<f32>,
    text: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
}

/// One block on its own, on video and text.
fn single(
    judge: &Judge<'_>,
    config: &DitConfig,
    number: usize,
    [t, h, w]: [usize; 3],
    [video, text]: [&[f32]; 2],
    embedding: &Embedding,
) -> Result<Made, Failure> {
    let ops = &mut *judge.open()?;
    let mut params = FormulaParams;
    let scope = &mut Scope::root(&mut params, judge.settings.build);
    let mut scope = scope.at("blocks");
    let block = Block::new(config, &mut scope.at(number), number, embedding);
    load(ops, &block)?;
    let d = config.width;
    let tokens = text.len() / d;
    let layouts = Layouts::new(ops, config, [t, h, w], tokens)?;
    let grid = Grid { tokens: upload(ops, Shape::new(t, h * w, 1, d), video)?, width: w };
    let text = upload(ops, Shape::new(1, tokens, 1, d), text)?;
    let (mut q, mut k) = (Vec::new(), Vec::new());
    let words = block.words(ops, &text, &layouts)?;
    for group in layouts.layouts[number % 2].groups() {
        let x = grid.take(ops, &group)?;
        let heads = block.tokens(ops, &x, &layouts, &group)?;
        let both = [(&mut q, &heads.q, &words.q), (&mut k, &Some(heads.k), &Some(words.k.clone()))];
        for (all, own, common) in both {
            let (Some(own), Some(common)) = (own, common) else { continue };
            let (own, common) = (ops.values(own.view())?, ops.values(common.view())?);
            let mut first = 0;
            for n in group.lengths {
                all.extend(&own[first * d..(first + n) * d]);
                all.extend(&common);
                first += n;
            }
        }
    }
    block.forward(ops, &grid, &text, &layouts)?;
    Ok(Made { video: ops.values(grid.tokens.view())?, text: ops.values(text.view())?, q, k })
}

/// Every `step`th of `rows` rows of `width` values.
fn rows(values: &[f32], width: usize, step: usize) -> Vec<f32> {
    values.chunks_exact(width).step_by(step).flatten().copied().collect()
}

fn real(judge: &mut Judge<'_>) -> Result<(), Failure> {
    let (golden, config) = (judge.golden, config(judge.golden));
    let d = config.width;
    let shared = config.family == Family::Shared;
    let uniforms =
        |name: String, n: usize| -> Vec<f32> { (0..n).map(|i| uniform(&name, i as u64)).collect() };
    let time = DitConfig::STEP;
    let emb = embedding(&config, &mut Scope::root(&mut FormulaParams, judge.settings.build), time);
    judge.judge("emb_in", emb.values().map_err(|e| source_failed("emb_in", e))?)?;
    let words = uniforms("input/dit_real_txt".into(), 58 * config.text);
    let text =
        Text::new(&config, &mut Scope::root(&mut FormulaParams, judge.settings.build), 58, constant(&words));
    judge.judge("txt_in", text.values().map_err(|e| source_failed("txt_in", e))?)?;

    let (video, text) = (golden.tensor("vid_in")?.data.clone(), golden.tensor("txt_in")?.data.clone());
    let size = [5, 3, 4];
    for number in (0..config.layers).filter(|i| golden.has(&format!("blocks.{i}/vid"))) {
        let made = single(judge, &config, number, size, [&video, &text], &emb)?;
        judge.judge(&format!("blocks.{number}/vid"), &made.video)?;
        if !shared || number + 1 < config.layers {
            judge.judge(&format!("blocks.{number}/txt"), &made.text)?;
        }
        if number == 1 {
            let some = |all: &[f32]| -> Vec<f32> {
                let heads = |token: &[f32]| {
                    [0, 7, 19].map(|h| token[h * config.head..(h + 1) * config.head].to_vec())
                };
                all.chunks_exact(d).flat_map(heads).flatten().collect()
            };
            judge.judge("blocks.1.attn.varlen/q_heads", &some(&made.q))?;
            judge.judge("blocks.1.attn.varlen/k_heads", &some(&made.k))?;
        }
    }
    let name = if shared { "input/dit_real_3b_multi_vid" } else { "input/dit_real_7b_multi_vid" };
    let many = uniforms(name.into(), MULTI.iter().product::<usize>() * d);
    for number in (0..2).filter(|i| golden.has(&format!("multi/blocks.{i}/vid_rows"))) {
        let made = single(judge, &config, number, MULTI, [&many, &text], &emb)?;
        let (ys, xs) = ([0, 6, 7, 8, 14, 15], [0, 12, 13, 14, 26, 27]);
        let places = ys.iter().flat_map(|y| xs.iter().map(move |x| y * MULTI[2] + x));
        let some: Vec<f32> = places.flat_map(|i| made.video[i * d..(i + 1) * d].to_vec()).collect();
        let columns = |all: &[f32]| -> Vec<f32> { all.iter().step_by(64).copied().collect() };
        judge.judge(&format!("multi/blocks.{number}/vid_rows"), &some)?;
        judge.judge(&format!("multi/blocks.{number}/vid_cols"), &columns(&made.video))?;
        judge.judge(&format!("multi/blocks.{number}/txt_rows"), &rows(&made.text, d, 8))?;
        judge.judge(&format!("multi/blocks.{number}/txt_cols"), &columns(&made.text))?;
    }
    // A time embedding that nearly cancels the modulation: the norm of queries and keys sees tiny values.
    let number = if shared { 10 } else { 35 };
    let tiny = golden.tensor("eps/emb")?.data.clone();
    let tiny = Embedding::new(move || Ok(tiny.clone()));
    let made = single(judge, &config, number, size, [&video, &text], &tiny)?;
    judge.judge(&format!("eps/blocks.{number}/vid"), &rows(&made.video, d, 5))?;
    judge.judge(&format!("eps/blocks.{number}/txt"), &rows(&made.text, d, 8))?;
    let head =
        |all: &[f32]| -> Vec<f32> { all.chunks_exact(d).flat_map(|t| t[..config.head].to_vec()).collect() };
    judge.judge(&format!("eps/blocks.{number}.attn.varlen/q_head0"), &head(&made.q))?;
    judge.judge(&format!("eps/blocks.{number}.attn.varlen/k_head0"), &head(&made.k))?;
    ends(judge, &config, size)
}

/// The first layer and the head.
fn ends(judge: &mut Judge<'_>, config: &DitConfig, [t, h, w]: [usize; 3]) -> Result<(), Failure> {
    let golden = judge.golden;
    let mut params = FormulaParams;
    let scope = &mut Scope::root(&mut params, judge.settings.build);
    let text = Text::new(config, scope, 58, constant(&[]));
    let none = DitConfig { layers: 0, ..config.clone() };
    let network = Dit::new(&none, scope, text, [h, w], DitConfig::STEP);
    let ops = &mut *judge.open()?;
    load(ops, &network)?;
    let p = DitConfig::PATCH;
    let cells = patches(&golden.tensor("vid")?.data, [t, h * p, w * p], config.input());
    let x = ops.alloc(Shape::new(t, h * w, 1, cells.len() / (t * h * w)), judge.dtype())?;
    ops.upload(&cells, x.view())?;
    let entered = network.enter(ops, x)?;
    judge.judge("vid_in", &ops.values(entered.tokens.view())?)?;
    let last = golden.tensor(&format!("blocks.{}/vid", config.layers - 1))?.data.clone();
    let grid = Grid { tokens: upload(ops, Shape::new(t, h * w, 1, config.width), &last)?, width: w };
    if golden.has("vid_out_ada") {
        let ada = network.head().normalized(ops, grid.tokens.view())?;
        let ada = ops.values(ada.view())?;
        let some = golden.tensor("vid_out_ada")?.data.len().min(ada.len());
        judge.judge("vid_out_ada", &ada[..some])?;
    }
    let out = network.leave(ops, grid)?;
    judge.judge("out", &unpatched(&ops.values(out.view())?, [t, h * p, w * p], config.latent))?;
    Ok(())
}

fn source_failed(name: &str, source: remaster_compute::SourceError) -> ComputeError {
    ComputeError::Source { name: name.into(), source }
}

/// The time as sinusoids, an RMS norm where its eps shows, and the one step of the sampler.
fn diffusion(judge: &mut Judge<'_>) -> Result<(), Failure> {
    let golden = judge.golden;
    let times = golden.tensor("time/t")?.data.clone();
    let ours: Vec<f32> = times.iter().flat_map(|t| sinusoids(*t)).collect();
    let theirs = &golden.tensor("time/sinusoidal_256")?.data;
    judge.record("time/sinusoidal_256", Difference::between(&ours, theirs), 2.0, SINUSOIDS);
    let x = golden.tensor("rms_eps1e-5/in")?;
    let [n, c] = x.shape[..] else { return Err(golden.misshapen("rms_eps1e-5/in").into()) };
    let ops = &mut *judge.open()?;
    let input = upload(ops, Shape::new(1, n, 1, c), &x.data)?;
    let output = ops.alloc(input.shape(), DType::F32)?;
    ops.token_norm(&TokenNormDesc {
        input: input.view(),
        heads: 1,
        eps: DitConfig::EPS,
        affine: None,
        rotation: None,
        output: output.view(),
    })?;
    judge.judge("rms_eps1e-5/out", &ops.values(output.view())?)?;
    // The golden's velocity is v = 0.5 x - target.
    let (noise, target) = (golden.tensor("euler1/x_T")?, golden.tensor("euler1/target")?);
    let step = noise.data.iter().zip(&target.data).map(|(x, target)| x - (0.5 * x - target));
    judge.judge("euler1/x_0", &step.collect::<Vec<_>>())?;
    Ok(())
}
