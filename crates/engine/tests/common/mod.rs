//! What the engine's tests share: a network, clips and random ways to cut them.
#![allow(dead_code, reason = "each program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

pub(crate) mod dit;
pub(crate) mod spoiled;

use remaster_compute::{Backend, DType, HostTensor, Shape};
use remaster_engine::{EngineError, Event, Lane, MemoryClip, Road, Settings, Sink, Source, Summary, Task};
use remaster_model::vae::Direction;
use remaster_model::vae::VaeConfig;
use remaster_model::{Build, Network};
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
        let mut task = Task::new(
            direction.network(config, &mut FormulaParams, build),
            clip.cells(),
            backend,
            build.dtype,
        );
        task.settings.spill = Some(std::env::temp_dir());
        let mut clip = HostTensor::zeros(task.input());
        fill_uniform("input/engine", 0, &mut clip.data);
        Bench { task, clip }
    }

    pub(crate) fn plan(&self, how: Candidate) -> Plan {
        self.task.exactly(how).unwrap()
    }

    pub(crate) fn run(&self, plan: &Plan) -> Result<(HostTensor, Summary), EngineError> {
        let (mut source, mut sink) = (MemoryClip::source(self.clip.clone()), MemoryClip::sink());
        let summary = self.task.run(plan, &mut source, &mut sink, &mut |_| ())?;
        Ok((sink.clip, summary))
    }
}

pub(crate) const WHOLE: Candidate = Candidate::WHOLE;

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
    Candidate {
        mode: Mode::Exact { stripes: 1 + rng.below(30) },
        slice: 4 * rng.below(4),
        activations,
        state,
        stream_weights: rng.one_in(3),
        read_ahead: rng.one_in(2),
        group: 0,
    }
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
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, remaster_engine::SourceError> {
        if self.after == 0 {
            return Err(remaster_engine::SourceError("the file ends in the middle of a frame".into()));
        }
        self.after -= 1;
        self.inner.read(shape, out)
    }
}

impl Sink for Broken {
    fn write(&mut self, first: usize, frames: HostTensor) -> Result<(), remaster_engine::SinkError> {
        if self.after == 0 {
            return Err(remaster_engine::SinkError("no space left on device".into()));
        }
        self.after -= 1;
        self.inner.write(first, frames)
    }

    fn abort(&mut self) {
        Sink::abort(&mut self.inner);
    }
}

/// A clip through one network with settings of one's own.
pub(crate) fn run(
    plan: &Plan,
    network: &dyn Network,
    settings: &Settings,
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, EngineError> {
    let lane = Lane { network, settings, plan: plan.clone() };
    let road = Road { source, links: Vec::new(), sink };
    remaster_engine::run(vec![lane], road, events).map(|summaries| summaries[0])
}
