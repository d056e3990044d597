//! What the engine's tests share: a network, clips and random ways to cut them.
#![allow(dead_code, reason = "each program uses a part of it")]

pub(crate) mod dit;
pub(crate) mod spoiled;

use remaster_compute::{Backend, DType, HostTensor, Shape};
use remaster_engine::{EngineError, MemoryClip, Sink, SinkError, Source, SourceError, Summary, Task};
use remaster_model::Build;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip, Mode, Plan, Tiers};
use remaster_testkit::Rng;
use remaster_weights::{FormulaParams, fill_uniform};

/// A task with a clip to run.
pub(crate) struct Bench {
    pub(crate) task: Task,
    pub(crate) clip: HostTensor,
}

impl Bench {
    pub(crate) fn new(
        config: &VaeConfig,
        direction: Direction,
        clip: Clip,
        backend: Backend,
        build: Build,
    ) -> Self {
        let network = direction.network(config, &mut FormulaParams, build);
        Self::of(Task::new(network, clip.cells(), backend, build.dtype))
    }

    /// The small network in f32.
    pub(crate) fn tiny(direction: Direction, clip: Clip, threads: usize) -> Self {
        let build = build(DType::F32, true);
        Self::new(&VaeConfig::tiny(), direction, clip, Backend::cpu_with(threads), build)
    }

    pub(crate) fn of(mut task: Task) -> Self {
        task.settings.spill = Some(std::env::temp_dir());
        let mut clip = HostTensor::zeros(task.input());
        fill_uniform("input/engine", 0, &mut clip.data);
        Bench { task, clip }
    }

    /// The clip as a source, and a sink for what comes out.
    pub(crate) fn ends(&self) -> (MemoryClip, MemoryClip) {
        (MemoryClip::source(self.clip.clone()), MemoryClip::sink())
    }

    pub(crate) fn plan(&self, how: Candidate) -> Plan {
        self.task.exactly(how).unwrap()
    }

    pub(crate) fn run(&self, plan: &Plan) -> Result<(HostTensor, Summary), EngineError> {
        let (mut source, mut sink) = self.ends();
        let summary = self.task.run(plan, &mut source, &mut sink, &mut |_| ())?;
        Ok((sink.clip, summary))
    }
}

pub(crate) const WHOLE: Candidate = Candidate::WHOLE;

/// To the bit, also for numbers that compare equal.
pub(crate) fn same(a: &HostTensor, b: &HostTensor) -> bool {
    a.shape == b.shape && a.data.iter().zip(&b.data).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// A clip of up to 21 x 160 x 192, mostly smaller, odd multiples of 8 included.
pub(crate) fn clip(rng: &mut Rng) -> Clip {
    let (h, w) = match rng.below(8) {
        0 => (20, 24),
        _ => (1 + rng.below(10), 1 + rng.below(10)),
    };
    Clip::new(1 + 4 * rng.below(6), 8 * h, 8 * w).unwrap()
}

/// Any way to cut that is allowed, sensible or not.
pub(crate) fn way(rng: &mut Rng) -> Candidate {
    let mut rule = || {
        let limit = |rng: &mut Rng| match rng.below(4) {
            0 => None,
            1 => Some(0),
            _ => Some(1u64 << (8 + rng.below(14))),
        };
        Tiers { device: limit(rng), host: limit(rng) }
    };
    let (activations, state) = (rule(), rule());
    let (mode, slice) = (Mode::Exact { stripes: 1 + rng.below(30) }, 4 * rng.below(4));
    let (stream_weights, read_ahead) = (rng.one_in(3), rng.one_in(2));
    Candidate { mode, slice, activations, state, stream_weights, read_ahead, group: 0 }
}

pub(crate) fn direction(rng: &mut Rng) -> Direction {
    if rng.one_in(2) { Direction::Encode } else { Direction::Decode }
}

pub(crate) fn build(dtype: DType, collapse: bool) -> Build {
    Build { dtype, collapse }
}

/// Fails in every way that is asked for.
pub(crate) struct Broken {
    pub(crate) inner: MemoryClip,
    pub(crate) after: usize,
}

impl Source for Broken {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        if self.after == 0 {
            return Err(SourceError("the file ends in the middle of a frame".into()));
        }
        self.after -= 1;
        self.inner.read(shape, out)
    }
}

impl Sink for Broken {
    fn write(&mut self, first: usize, frames: HostTensor) -> Result<(), SinkError> {
        if self.after == 0 {
            return Err(SinkError("no space left on device".into()));
        }
        self.after -= 1;
        self.inner.write(first, frames)
    }

    fn abort(&mut self) {
        Sink::abort(&mut self.inner);
    }
}
