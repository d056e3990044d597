//! What the real networks ask of a backend: the networks themselves run on a meter, and each op is written down.

use std::sync::Arc;

use remaster_compute::gpu::{Choices, GpuSizing, LayerUse};
use remaster_compute::meter::{Counts, Meter};
use remaster_compute::{
    ActivateDesc, AddGatedDesc, Arena, AttentionDesc, CombineDesc, ComputeError, ConvDesc, DType, Extent,
    LinearDesc, NormalizeDesc, Ops, RowSumsDesc, Shape, ShuffleDesc, TensorStore, TokenNormDesc,
    UpsampleDesc, View, Weight, WeightSpec, WindowAttentionDesc, WindowsDesc,
};
use remaster_model::compact::{Compact, CompactConfig};
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_model::{Build, Network, Params, Pass, Scope, State, Values, Wanted, computed, load};
use remaster_plan::Windows;

/// The kernel that does a part of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A product with a weight. `shortcut` is how many channels its shortcut has.
    Product { spec: WeightSpec, used: LayerUse, shortcut: usize },
    /// Attention inside frames, with heads of this width.
    Attention(usize),
    /// Attention inside windows.
    WindowAttention(usize),
    /// Everything that moves values and multiplies no matrices.
    Move(&'static str),
}

/// One op.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    /// Multiply-adds.
    pub(crate) macs: u64,
    /// Bytes of its operands and of its weight, each once.
    pub(crate) bytes: u64,
}

/// Work of a network on some pixels of the film.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) jobs: Vec<Job>,
    /// Millions of pixels of the film that come out of it.
    pub(crate) megapixels: f64,
}

/// Rows and columns of the film that ceilings are for.
const FILM: [usize; 2] = [1080, 1920];
/// Latents of a slice.
const SLICE: usize = 4;
/// Tokens of the published text.
const TEXT: usize = 58;

/// Names of what a ceiling is made for, as the document says them.
pub(crate) const DECODE: &str = "a slice of 4 latents (16 frames) at 1920x1080 behind another";
pub(crate) const TRANSFORMER: &str =
    "one step over the usual window of 12 latents at 1920x1088, which goes on by 10 latents (40 frames)";

pub(crate) const UPSCALER: &str = "a frame of 480x270 to 1920x1080";

struct Zeros;

impl Params for Zeros {
    fn values(&mut self, _: &Wanted) -> Arc<dyn Values> {
        computed(|_| 0.0)
    }
}

/// A slice of the VAE that goes on where another one ended.
pub(crate) fn vae(direction: Direction, dtype: DType) -> Result<Workload, ComputeError> {
    let (config, cell) = (VaeConfig::full(), VaeConfig::SPACE_FACTOR);
    let network = direction.network(&config, &mut Zeros, Build::from(dtype));
    let [rows, columns] = FILM;
    let frames = VaeConfig::TIME_FACTOR * SLICE;
    let shapes = match direction {
        Direction::Encode => [1, frames].map(|t| Shape::new(t, rows, columns, 3)),
        Direction::Decode => [1, SLICE].map(|t| Shape::new(t, rows / cell, columns / cell, config.latent)),
    };
    let jobs = run(&*network, &shapes, dtype)?;
    Ok(Workload { jobs, megapixels: (frames * rows * columns) as f64 / 1e6 })
}

/// A window of the transformer.
pub(crate) fn transformer(config: &DitConfig, dtype: DType) -> Result<Workload, ComputeError> {
    let [rows, columns] = FILM;
    let token = VaeConfig::SPACE_FACTOR * DitConfig::PATCH;
    let size = [rows.div_ceil(token), columns.div_ceil(token)];
    let params: &mut dyn Params = &mut Zeros;
    let scope = &mut Scope::root(params, dtype);
    let text = Text::new(config, scope, TEXT, computed(|_| 0.0));
    let network = Dit::new(config, scope, text, size, DitConfig::STEP);
    let latents = (Windows::FRAMES - 1) / VaeConfig::TIME_FACTOR + 1;
    let [channels, _] = network.channels();
    let jobs = run(&network, &[Shape::new(latents, size[0] * size[1], 1, channels)], dtype)?;
    // Neighbouring windows share two latents.
    let frames = VaeConfig::TIME_FACTOR * (latents - 2);
    Ok(Workload { jobs, megapixels: (frames * rows * columns) as f64 / 1e6 })
}

/// A frame of the upscaler inside the program, whose result is as large as the film.
pub(crate) fn upscaler(dtype: DType) -> Result<Workload, ComputeError> {
    let config = CompactConfig::anime();
    let network = Compact::new(&config, &mut Zeros, dtype);
    let [rows, columns] = FILM;
    let shape = Shape::new(1, rows / config.scale, columns / config.scale, 3);
    let jobs = run(&network, &[shape], dtype)?;
    Ok(Workload { jobs, megapixels: (rows * columns) as f64 / 1e6 })
}

/// The ops of the last of some slices.
fn run(network: &dyn Network, slices: &[Shape], dtype: DType) -> Result<Vec<Job>, ComputeError> {
    let sizing = GpuSizing { choices: Choices::default() };
    let mut recorder = Recorder { meter: Meter::endless(Box::new(sizing)), jobs: Vec::new() };
    load(&mut recorder, network)?;
    let mut state = State::new();
    for shape in slices {
        recorder.jobs.clear();
        let x = recorder.alloc(*shape, dtype)?;
        network.forward(&mut Pass { ops: &mut recorder, state: &mut state }, x)?;
        state.advance(shape.t);
    }
    Ok(recorder.jobs)
}

/// A meter that keeps each op.
struct Recorder {
    meter: Meter,
    jobs: Vec<Job>,
}

impl Recorder {
    /// Runs an op on the meter and keeps what it counted.
    fn keep(
        &mut self,
        task: Task,
        weights: &[Option<&Weight>],
        op: impl FnOnce(&mut Meter) -> Result<(), ComputeError>,
    ) -> Result<(), ComputeError> {
        let sum = |c: Counts| c.conv_macs + c.linear_macs + c.attention_macs;
        let before = self.meter.counts();
        op(&mut self.meter)?;
        let after = self.meter.counts();
        let weights: u64 = weights.iter().flatten().map(|w| self.meter.weight_bytes(&w.spec())).sum();
        let bytes = after.bytes_moved - before.bytes_moved + weights;
        self.jobs.push(Job { task, macs: sum(after) - sum(before), bytes });
        Ok(())
    }

    /// The kernel that follows a product: it reads the output again for sums, and the end of the input for the tail.
    fn after(&mut self, output: Option<&View<'_>>, tail: Option<&View<'_>>) {
        let bytes = [output, tail].into_iter().flatten().map(View::bytes).sum();
        if bytes > 0 {
            self.jobs.push(Job { task: Task::Move(AFTER), macs: 0, bytes });
        }
    }
}

/// Row sums, and the tail for the next slice.
pub(crate) const AFTER: &str = "row sums and tail";

/// Ops that only move values.
macro_rules! moved {
    ($($op:ident $desc:ident),*) => {
        $(fn $op(&mut self, d: &$desc<'_>) -> Result<(), ComputeError> {
            self.keep(Task::Move(stringify!($op)), &[], |meter| meter.$op(d))
        })*
    };
}

impl Ops for Recorder {
    moved!(combine_sums CombineDesc, normalize NormalizeDesc, token_norm TokenNormDesc, activate ActivateDesc,
        add_gated AddGatedDesc, gather WindowsDesc, scatter WindowsDesc, shuffle ShuffleDesc);

    fn name(&self) -> &'static str {
        "recorder"
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn arena(&self) -> &Arena {
        self.meter.arena()
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        self.meter.weight_bytes(spec)
    }

    fn load(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        self.meter.load(weight)
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        self.meter.prefetch(weight)
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<(), ComputeError> {
        self.meter.upload(from, to)
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<(), ComputeError> {
        self.meter.download(from, to)
    }

    fn wait(&mut self) -> Result<(), ComputeError> {
        Ok(())
    }

    fn conv(&mut self, d: &ConvDesc<'_>) -> Result<(), ComputeError> {
        let used = LayerUse { prologue: d.prologue.is_some(), shortcut: d.shortcut.is_some() };
        let shortcut = d.shortcut.as_ref().map_or(0, |s| s.input.shape().c);
        let weights = [Some(d.weight), d.shortcut.as_ref().map(|s| s.weight)];
        let task = Task::Product { spec: d.weight.spec(), used, shortcut };
        self.keep(task, &weights, |meter| meter.conv(d))?;
        self.after(d.sums.as_ref().map(|_| &d.output), d.carry.as_ref());
        Ok(())
    }

    fn upsample(&mut self, d: &UpsampleDesc<'_>) -> Result<(), ComputeError> {
        let task = Task::Product { spec: d.weight.spec(), used: LayerUse::default(), shortcut: 0 };
        self.keep(task, &[Some(d.weight)], |meter| meter.upsample(d))?;
        self.after(d.sums.as_ref().map(|_| &d.output), d.carry.as_ref());
        Ok(())
    }

    fn linear(&mut self, d: &LinearDesc<'_>) -> Result<(), ComputeError> {
        let task = Task::Product { spec: d.weight.spec(), used: LayerUse::default(), shortcut: 0 };
        self.keep(task, &[Some(d.weight)], |meter| meter.linear(d))?;
        self.after(d.sums.as_ref().map(|_| &d.output), None);
        Ok(())
    }

    fn row_sums(&mut self, d: &RowSumsDesc<'_>) -> Result<(), ComputeError> {
        self.keep(Task::Move(AFTER), &[], |meter| meter.row_sums(d))
    }

    fn attention(&mut self, d: &AttentionDesc<'_>) -> Result<(), ComputeError> {
        let width = d.q.shape().c / d.heads.max(1);
        self.keep(Task::Attention(width), &[], |meter| meter.attention(d))
    }

    fn window_attention(&mut self, d: &WindowAttentionDesc<'_>) -> Result<(), ComputeError> {
        let width = d.q.shape().c / d.heads.max(1);
        self.keep(Task::WindowAttention(width), &[], |meter| meter.window_attention(d))
    }

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<(), ComputeError> {
        self.keep(Task::Move("copy"), &[], |meter| meter.copy(from, to))
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<(), ComputeError> {
        self.meter.fetch(from, at, to)
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<(), ComputeError> {
        self.meter.stow(from, to, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_takes_9_25_million_multiply_adds_per_pixel_and_frame() {
        let work = vae(Direction::Decode, DType::F16).unwrap();
        let products = work.jobs.iter().filter(|job| matches!(job.task, Task::Product { .. }));
        let macs: u64 = products.map(|job| job.macs).sum();
        let each = macs as f64 / work.megapixels / 1e6;
        assert!((each / 9.25e6 - 1.0).abs() < 0.01, "{each}");
    }

    #[test]
    fn the_upscaler_takes_38_7_thousand_multiply_adds_per_pixel_of_its_result() {
        let work = upscaler(DType::F16).unwrap();
        let macs: u64 = work.jobs.iter().map(|job| job.macs).sum();
        let each = macs as f64 / work.megapixels / 1e6;
        assert!((each / 38_700.0 - 1.0).abs() < 0.01, "{each}");
    }

    #[test]
    fn the_3b_transformer_has_every_linear_layer_of_a_block() {
        let work = transformer(&DitConfig::dit_3b(), DType::F16).unwrap();
        for (cin, cout) in [(132, 2560), (2560, 2560), (2560, 6912), (6912, 2560), (2560, 64)] {
            let spec = WeightSpec::Linear { cin, cout, dtype: DType::F16 };
            let task = Task::Product { spec, used: LayerUse::default(), shortcut: 0 };
            assert!(work.jobs.iter().any(|job| job.task == task), "{cin} to {cout}");
        }
    }
}
