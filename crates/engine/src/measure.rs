//! What a plan takes: the network run on the meter, through the same loop as the real run.

use std::collections::HashMap;

use remaster_compute::meter::{Counts, Meter};
use remaster_compute::staged::{Placement, Rule as Place, Staged};
use remaster_compute::{
    ComputeError, DType, NullStore, Ops, Shape, Sizing, Tensor, WeightSpec, Work as OpWork,
};
use remaster_model::vae::{Half, State, load, unload};
use remaster_plan::slices::Lengths;
use remaster_plan::{
    Budget, Candidate, Cost, Job, MAX_PIXELS, Measured, Memory, Mode, Peaks, Plan, Rule, SPACE, Tile, Wish,
    Work, choose, choose_both,
};

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
    course.traffic_bytes().saturating_add(if disk > 0 { QUEUE } else { 0 })
}

/// The most that arenas of a meter hand out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    device: u64,
    host: u64,
    disk: u64,
}

impl Caps {
    /// For finding out how much is needed.
    const ENDLESS: Caps = Caps { device: u64::MAX / 2, host: u64::MAX / 2, disk: u64::MAX / 2 };

    /// Of a plan.
    pub(crate) fn of(peaks: &Peaks, course: &Course) -> Self {
        let host = peaks.host.saturating_sub(overhead(course, peaks.disk));
        Caps { device: peaks.device, host, disk: peaks.disk }
    }

    /// Not less than what a run within `budget` can hand out.
    fn within(budget: &Budget, course: &Course) -> Self {
        let beside = course.traffic_bytes();
        let most = Caps::ENDLESS;
        match *budget {
            Budget::Shared { ram, disk } => {
                Caps { device: ram.saturating_sub(beside), host: most.host, disk: disk.min(most.disk) }
            }
            Budget::Apart { vram, ram, disk } => {
                Caps { device: vram, host: ram.saturating_sub(beside), disk: disk.min(most.disk) }
            }
        }
    }
}

/// Runs `how` on a meter that stands for a device of `sizing`. Tails stay where they are, so all steady
/// slices are alike: of a long clip the first, one steady slice and the last are run. An error as soon as one of the
/// arenas would pass its cap.
pub(crate) fn measure(
    half: &dyn Half,
    course: &Course,
    sizing: Box<dyn Sizing>,
    job: &Job,
    how: &Candidate,
    caps: Caps,
) -> Result<Cost, EngineError> {
    how.check(job)?;
    let stores = (Box::new(NullStore::new(HOST, caps.host)), Box::new(NullStore::new(FILE, caps.disk)));
    let fixed = sizing.fixed_bytes();
    let device = Box::new(Meter::new(sizing, caps.device.min(Caps::ENDLESS.device).saturating_sub(fixed)));
    let mut ops = Staged::new(device, stores.0, stores.1, placement(how));
    let lengths = course.lengths(job.start)?;
    let result = dry_run(&mut ops, half, course, &lengths, job.start);
    unload(half);
    let work = result?;
    let disk = ops.file_arena().peak();
    let peaks = Peaks {
        device: ops.arena().peak().saturating_add(fixed),
        host: ops.host_arena().peak().saturating_add(overhead(course, disk)),
        disk,
    };
    Ok(Cost { peaks, work, largest: ops.largest() })
}

/// Names of the stores in errors.
const HOST: &str = "host";
const FILE: &str = "spill file";

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
    if course.lengths(start)?.count() <= 1 && start == 0 {
        return Ok(vec![Tails::new(); course.states()]);
    }
    if course.bands.is_some() {
        let all: Vec<usize> = vec![0];
        return tails_of(half, course, &all, course.states());
    }
    // Tiles of one size have the same tails.
    let kinds: Vec<usize> = course.tiles.kinds().map(|(i, _)| i).collect();
    let known = tails_of(half, course, &kinds, kinds.len())?;
    let size = |t: &Tile| (t.rows.len(), t.columns.len());
    let of = |tile: Tile| {
        let kind = kinds.iter().position(|i| size(&course.tiles.get(*i)) == size(&tile)).unwrap_or(0);
        known.get(kind).cloned().unwrap_or_default()
    };
    Ok(course.tiles.iter().map(of).collect())
}

/// The tails of some tiles, by number.
fn tails_of(
    half: &dyn Half,
    course: &Course,
    tiles: &[usize],
    states: usize,
) -> Result<Vec<Tails>, EngineError> {
    let books = |name| Box::new(NullStore::new(name, 0));
    let meter = Box::new(Meter::endless(Box::new(NoSizing)));
    let mut meter = Staged::new(meter, books(HOST), books(FILE), Placement::DEVICE);
    let mut left = vec![State::new(); states];
    let tiles = tiles.iter().map(|i| (*i, course.tiles.get(*i)));
    let result = load(&mut meter, half).map_err(EngineError::from);
    let result = result
        .and_then(|()| course.tiles_of_slice(&mut meter, half, &mut left, 1, false, &mut Nothing, tiles));
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

/// Tiles that are all run on the meter. Of more, one of each size is.
const TILES: usize = 64;

fn dry_run(
    ops: &mut Staged,
    half: &dyn Half,
    course: &Course,
    lengths: &Lengths,
    seen: usize,
) -> Result<Work, EngineError> {
    let mut states = reserve(ops, &tails(half, course, seen)?, course.dtype, seen)?;
    load(ops, half)?;
    let runs: Vec<(usize, usize)> = lengths.runs().collect();
    // One of each size: its number and state, and how often it comes. The states of the others only take room.
    let kinds: Vec<(usize, usize)> = match course.bands.is_none() && !is_small(course) {
        true => course.tiles.kinds().collect(),
        false => (0..course.tiles.len()).map(|i| (i, 1)).collect(),
    };
    let mut work = Work::default();
    for (i, (length, slices)) in runs.iter().enumerate() {
        let last = i + 1 == runs.len();
        if course.bands.is_some() {
            let before = ops.counts();
            course.slice(ops, half, &mut states, *length, last, &mut Nothing)?;
            add(&mut work, &before, &ops.counts(), *slices as u64);
            continue;
        }
        for (tile, times) in &kinds {
            let before = ops.counts();
            let one = std::iter::once((*tile, course.tiles.get(*tile)));
            let state = states.get_mut(*tile..*tile + 1).unwrap_or_default();
            course.tiles_of_slice(ops, half, state, *length, last, &mut Nothing, one)?;
            add(&mut work, &before, &ops.counts(), (*slices as u64).saturating_mul(*times as u64));
        }
    }
    Ok(work)
}

/// Whether all tiles of a frame are run on the meter: few, and not so large that counts would overflow.
fn is_small(course: &Course) -> bool {
    let tile = course.tiles.get(0);
    let pixels = tile.rows.len() * tile.columns.len() * SPACE * SPACE;
    course.tiles.len() <= TILES && (course.tiles.len() == 1 || course.tiles.len() * pixels <= MAX_PIXELS)
}

fn add(work: &mut Work, before: &Counts, after: &Counts, times: u64) {
    let more = |sum: &mut u64, before: u64, after: u64| {
        *sum = sum.saturating_add(times.saturating_mul(after.saturating_sub(before)));
    };
    let macs = |c: &Counts| c.conv_macs.saturating_add(c.linear_macs);
    more(&mut work.macs, macs(before), macs(after));
    more(&mut work.attention_macs, before.attention_macs, after.attention_macs);
    more(&mut work.transferred, before.bytes_transferred, after.bytes_transferred);
}

/// Makes plans for one job and remembers what it measured: the same job under another budget is then cheap.
pub struct Planner<'a> {
    half: &'a dyn Half,
    channels: [usize; 2],
    dtype: DType,
    sizing: Box<dyn Fn() -> Box<dyn Sizing> + 'a>,
    job: Job,
    measured: HashMap<Candidate, Cost>,
    /// Budgets that a way did not fit, and what it lacked.
    refused: HashMap<Candidate, Vec<(Budget, Memory)>>,
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
        let (measured, refused) = (HashMap::new(), HashMap::new());
        Planner { half, channels, dtype, sizing: Box::new(sizing), job, measured, refused }
    }

    /// What a way takes.
    pub fn cost(&mut self, how: &Candidate) -> Result<Cost, EngineError> {
        if let Some(cost) = self.measured.get(how) {
            return Ok(*cost);
        }
        how.check(&self.job)?;
        let course = Course::new(&self.job, how, self.dtype, self.channels);
        let cost = measure(self.half, &course, (self.sizing)(), &self.job, how, Caps::ENDLESS)?;
        self.measured.insert(*how, cost);
        Ok(cost)
    }

    /// What a way takes, or which memory is too small for it: the meter stops there.
    fn within(&mut self, how: &Candidate, budget: &Budget) -> Result<Measured, EngineError> {
        if let Some(cost) = self.measured.get(how) {
            return Ok(Measured::Takes(*cost));
        }
        let known = self.refused.get(how).into_iter().flatten();
        if let Some((_, memory)) = known.into_iter().find(|(refused, _)| is_within(budget, refused)) {
            return Ok(Measured::Lacks(*memory));
        }
        how.check(&self.job)?;
        let course = Course::new(&self.job, how, self.dtype, self.channels);
        let caps = Caps::within(budget, &course);
        match measure(self.half, &course, (self.sizing)(), &self.job, how, caps) {
            Ok(cost) => {
                self.measured.insert(*how, cost);
                Ok(Measured::Takes(cost))
            }
            Err(EngineError::Compute(ComputeError::OutOfMemory { arena, .. })) => {
                let memory = match arena {
                    FILE => Memory::Disk,
                    HOST => Memory::Host,
                    _ if budget.is_apart() => Memory::Device,
                    _ => Memory::Host,
                };
                self.refused.entry(*how).or_default().push((*budget, memory));
                Ok(Measured::Lacks(memory))
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, how: &Candidate, budget: Option<&Budget>) -> Result<Measured, EngineError> {
        match budget {
            Some(budget) => self.within(how, budget),
            None => self.cost(how).map(Measured::Takes),
        }
    }

    /// The best plan within a budget.
    pub fn plan(&mut self, budget: &Budget, wish: &Wish) -> Result<Plan, EngineError> {
        choose(self.job.clone(), budget, wish, &mut |how, budget| self.ask(how, budget))
    }

    /// The best plans for two halves that are there at the same time.
    pub fn both(
        first: &mut Planner<'_>,
        second: &mut Planner<'_>,
        budget: &Budget,
        wish: &Wish,
    ) -> Result<[Plan; 2], EngineError> {
        let jobs = [first.job.clone(), second.job.clone()];
        choose_both(&jobs, budget, wish, &mut |which, how, budget| match which {
            0 => first.ask(how, budget),
            _ => second.ask(how, budget),
        })
    }
}

/// Whether `budget` allows no more than `other`.
fn is_within(budget: &Budget, other: &Budget) -> bool {
    match (*budget, *other) {
        (Budget::Shared { ram, disk }, Budget::Shared { ram: r, disk: d }) => ram <= r && disk <= d,
        (Budget::Apart { vram, ram, disk }, Budget::Apart { vram: v, ram: r, disk: d }) => {
            vram <= v && ram <= r && disk <= d
        }
        _ => false,
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
