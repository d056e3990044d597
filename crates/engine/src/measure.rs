//! What a plan takes: the network run on the meter, through the same loop as the real run.

use std::collections::HashMap;

use remaster_compute::meter::Meter;
use remaster_compute::staged::{Placement, Rule as Place, Staged};
use remaster_compute::{DType, NullStore, Ops, Shape, Sizing, Tensor, WeightSpec, Work as OpWork};
use remaster_model::vae::{Half, State, load, unload};
use remaster_plan::{Budget, Candidate, Cost, Job, Mode, Peaks, Plan, Rule, Tile, Wish, Work, choose};

use crate::course::{Course, Traffic};
use crate::error::EngineError;
use crate::spill::QUEUE;

/// Nothing in, nothing out.
struct Nothing;

impl Traffic for Nothing {
    fn begin(&mut self, frames: usize, last: bool) -> Result<(usize, bool), EngineError> {
        Ok((frames, last))
    }
    fn fill(&mut self, _: &mut dyn Ops, _: &Tile, _: &Tensor) -> Result<(), EngineError> {
        Ok(())
    }
    fn take(&mut self, _: &mut dyn Ops, _: usize, _: &Tile, _: Tensor) -> Result<(), EngineError> {
        Ok(())
    }
    fn end(&mut self, _: &mut dyn Ops) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The placement of a plan in the terms of the op set.
pub(crate) fn placement(how: &Candidate) -> Placement {
    let rule = |r: Rule| Place { device: r.device.unwrap_or(u64::MAX), host: r.host.unwrap_or(u64::MAX) };
    Placement {
        activations: rule(how.activations),
        state: rule(how.state),
        stream_weights: how.stream_weights,
        stripes: if let Mode::Exact { stripes } = how.mode { stripes } else { 1 },
    }
}

/// Bytes of host memory that a run takes beside its stores.
pub(crate) fn overhead(course: &Course, disk: u64) -> u64 {
    course.traffic_bytes() + if disk > 0 { QUEUE } else { 0 }
}

/// Runs `how` on a meter that stands for a device of `sizing`. Tails stay where they are, so all steady
/// slices are alike: of a long clip the first, one steady slice and the last are run. An error as soon as one of the memories would pass its limit.
pub(crate) fn measure(
    half: &dyn Half,
    channels: [usize; 2],
    dtype: DType,
    sizing: Box<dyn Sizing>,
    job: &Job,
    how: &Candidate,
    limits: &Peaks,
) -> Result<Cost, EngineError> {
    let course = Course::new(job, how, dtype, channels);
    let host = limits.host.saturating_sub(overhead(&course, limits.disk));
    let stores =
        (Box::new(NullStore::new("host", host)), Box::new(NullStore::new("spill file", limits.disk)));
    let fixed = sizing.fixed_bytes();
    let device = Box::new(Meter::new(sizing, limits.device.saturating_sub(fixed)));
    let mut ops = Staged::new(device, stores.0, stores.1, placement(how));
    let lengths = course.lengths(job.start)?;
    let result = dry_run(&mut ops, half, &course, &lengths, job.start);
    unload(half);
    let work = result?;
    let disk = ops.file_arena().peak();
    let peaks = Peaks {
        device: ops.arena().peak() + fixed,
        host: ops.host_arena().peak() + overhead(&course, disk),
        disk,
    };
    Ok(Cost { peaks, work, largest: ops.largest() })
}

/// For finding out how much is needed.
const ENDLESS: Peaks = Peaks { device: u64::MAX / 2, host: u64::MAX / 2, disk: u64::MAX / 2 };

/// Sizes that do not matter.
struct NoSizing;

impl Sizing for NoSizing {
    fn weight_bytes(&self, _: &WeightSpec) -> u64 {
        0
    }
    fn scratch_bytes(&self, _: &OpWork) -> u64 {
        0
    }
}

/// Names and shapes of the tails of one state.
pub(crate) type Tails = Vec<(String, Shape)>;

/// The tails that a slice leaves, per state. Only the network knows them, so it runs on a meter: no weight
/// may be loaded then.
pub(crate) fn tails(half: &dyn Half, course: &Course, start: usize) -> Result<Vec<Tails>, EngineError> {
    if course.lengths(start)?.len() <= 1 && start == 0 {
        return Ok(vec![Tails::new(); course.states()]);
    }
    let books = |name| Box::new(NullStore::new(name, 0));
    let meter = Box::new(Meter::endless(Box::new(NoSizing)));
    let mut meter = Staged::new(meter, books("host"), books("spill file"), Placement::DEVICE);
    let mut left = vec![State::new(); course.states()];
    let result = load(&mut meter, half).map_err(EngineError::from);
    let result = result.and_then(|()| course.slice(&mut meter, half, &mut left, 1, false, &mut Nothing));
    unload(half);
    result?;
    let list = |s: &State| s.tails().map(|(name, tail)| (name.to_owned(), tail.shape())).collect();
    Ok(left.iter().map(list).collect())
}

/// States with room for their tails. Made before anything else lives on the device, so that what comes and
/// goes does not lie in between.
pub(crate) fn reserve(
    ops: &mut dyn Ops,
    tails: &[Tails],
    dtype: DType,
    seen: usize,
) -> Result<Vec<State>, EngineError> {
    let mut states = Vec::new();
    for tails in tails {
        let mut room = Vec::new();
        for (name, shape) in tails {
            room.push((name.clone(), ops.alloc_kept(*shape, dtype)?));
        }
        states.push(State::with(room, seen));
    }
    Ok(states)
}

fn dry_run(
    ops: &mut Staged,
    half: &dyn Half,
    course: &Course,
    lengths: &[usize],
    seen: usize,
) -> Result<Work, EngineError> {
    let mut states = reserve(ops, &tails(half, course, seen)?, course.dtype, seen)?;
    load(ops, half)?;
    let n = lengths.len();
    let measured: Vec<(usize, u64)> = match n {
        0..=3 => lengths.iter().map(|l| (*l, 1)).collect(),
        _ => vec![(lengths[0], 1), (lengths[1], n as u64 - 2), (lengths[n - 1], 1)],
    };
    let mut work = Work::default();
    for (i, (length, times)) in measured.iter().enumerate() {
        let before = ops.counts();
        course.slice(ops, half, &mut states, *length, i + 1 == measured.len(), &mut Nothing)?;
        let after = ops.counts();
        work.macs += times * (after.conv_macs + after.linear_macs - before.conv_macs - before.linear_macs);
        work.attention_macs += times * (after.attention_macs - before.attention_macs);
        work.transferred += times * (after.bytes_transferred - before.bytes_transferred);
    }
    Ok(work)
}

/// Makes plans for one job and remembers what it measured: the same job under another budget is then cheap.
pub struct Planner<'a> {
    half: &'a dyn Half,
    channels: [usize; 2],
    dtype: DType,
    sizing: Box<dyn Fn() -> Box<dyn Sizing> + 'a>,
    job: Job,
    measured: HashMap<Candidate, Cost>,
}

impl<'a> Planner<'a> {
    /// For `job` on a device of `sizing`; `channels` are those that go into `half` and come out.
    pub fn new(
        half: &'a dyn Half,
        channels: [usize; 2],
        dtype: DType,
        sizing: impl Fn() -> Box<dyn Sizing> + 'a,
        job: Job,
    ) -> Self {
        Planner { half, channels, dtype, sizing: Box::new(sizing), job, measured: HashMap::new() }
    }

    /// What a way takes.
    pub fn cost(&mut self, how: &Candidate) -> Result<Cost, EngineError> {
        if let Some(cost) = self.measured.get(how) {
            return Ok(*cost);
        }
        let sizing = (self.sizing)();
        let cost = measure(self.half, self.channels, self.dtype, sizing, &self.job, how, &ENDLESS)?;
        self.measured.insert(*how, cost);
        Ok(cost)
    }

    /// The best plan within a budget.
    pub fn plan(&mut self, budget: &Budget, wish: &Wish) -> Result<Plan, EngineError> {
        choose(self.job.clone(), budget, wish, &mut |how| self.cost(how))
    }
}

/// What a device with memory of its own will take: dense weights, no scratch. Stands for graphics cards
/// until a backend for them says it more exactly.
struct DeviceSizing;

impl Sizing for DeviceSizing {
    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        let dense = |values: usize, dtype: DType, bias: usize| (values * dtype.bytes() + 4 * bias) as u64;
        match *spec {
            WeightSpec::Conv { dtype, .. } | WeightSpec::Linear { dtype, .. } => {
                dense(spec.main_len(), dtype, spec.bias_len())
            }
            // Folded: 112 matrices and 80 biases where time doubles, else 48 and 16.
            WeightSpec::Upsample { cin, cout, time, dtype } => {
                let (matrices, biases) = if time { (112, 80) } else { (48, 16) };
                dense(matrices * cin * cout, dtype, biases * cout)
            }
            WeightSpec::Norm { channels } => 8 * channels as u64,
        }
    }

    fn scratch_bytes(&self, _: &OpWork) -> u64 {
        0
    }
}

/// Sizes of a device with memory of its own.
pub fn device_sizing() -> Box<dyn Sizing> {
    Box::new(DeviceSizing)
}
