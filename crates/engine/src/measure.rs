//! What a plan takes: the network run on the meter, through the same loop as the real run.

use remaster_compute::meter::{Counts, Meter};
use remaster_compute::staged::Staged;
use remaster_compute::{NullStore, Ops, Sizing, Tensor};
use remaster_model::{Network, load};
use remaster_plan::{Budget, Candidate, Cost, Job, MAX_PIXELS, Peaks, Tile, WorkTotal};

use crate::error::EngineError;
use crate::placement::{overhead, placement};
use crate::room::{reserve, tails};
use crate::slice_loop::{SliceLoop, Traffic};

/// Nothing in, nothing out.
pub(crate) struct Nothing;

impl Traffic for Nothing {
    fn begin(&mut self, frames: usize, last: bool) -> Result<(usize, bool), EngineError> {
        Ok((frames, last))
    }
    fn worked(&mut self, _: u64) {}
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

/// Names of the stores in errors.
pub(crate) const HOST: &str = "host";
pub(crate) const FILE: &str = "spill file";

/// What arenas of a meter hand out when it finds out how much is needed.
pub(crate) const ENDLESS: Peaks = Peaks { device: u64::MAX / 2, host: u64::MAX / 2, disk: u64::MAX / 2 };

/// Not less than what arenas of a run within `budget` can hand out.
pub(crate) fn caps_within(budget: &Budget, slice_loop: &SliceLoop) -> Peaks {
    let beside = slice_loop.traffic_bytes();
    let (device, host, disk) = match *budget {
        Budget::Shared { ram, disk } => (ram.saturating_sub(beside), ENDLESS.host, disk),
        Budget::Apart { vram, ram, disk } => (vram, ram.saturating_sub(beside), disk),
    };
    Peaks { device, host, disk: disk.min(ENDLESS.disk) }
}

/// Runs `how` on a meter that stands for a device of `sizing`. Tails stay where they are, so all steady
/// slices are alike: of a long clip the first, one steady slice and the last are run. An error as soon as one of the
/// arenas would pass its cap.
pub(crate) fn measure(
    network: &dyn Network,
    slice_loop: &SliceLoop,
    sizing: &dyn Fn() -> Box<dyn Sizing>,
    job: &Job,
    how: &Candidate,
    caps: Peaks,
) -> Result<Cost, EngineError> {
    how.check(job)?;
    let fixed = sizing().fixed_bytes();
    let mut cost: Option<Cost> = None;
    for runs in slice_loop.meter_runs(job.start)? {
        let stores = (Box::new(NullStore::new(HOST, caps.host)), Box::new(NullStore::new(FILE, caps.disk)));
        let meter = Meter::new(sizing(), caps.device.min(ENDLESS.device).saturating_sub(fixed));
        let mut ops = Staged::new(Box::new(meter), stores.0, stores.1, placement(how));
        let work = dry_run(&mut ops, network, slice_loop, &runs, job.start)?;
        let disk = ops.file_arena().peak();
        let peaks = Peaks {
            device: ops.arena().peak().saturating_add(fixed),
            host: ops.host_arena().peak().saturating_add(overhead(slice_loop, disk)),
            disk,
        };
        // The first is the clip itself.
        let known = cost.get_or_insert(Cost { peaks, work, largest: ops.largest() });
        known.peaks = known.peaks.most(&peaks);
    }
    Ok(cost.unwrap_or_default())
}

/// Tiles that are all run on the meter. Of more, one of each size is.
const TILES: usize = 64;

fn dry_run(
    ops: &mut Staged,
    network: &dyn Network,
    slice_loop: &SliceLoop,
    runs: &[(usize, usize)],
    seen: usize,
) -> Result<WorkTotal, EngineError> {
    let mut states = reserve(ops, &tails(network, slice_loop, seen)?, slice_loop.dtype, seen)?;
    load(ops, network)?;
    // One of each size: its number and state, and how often it comes. The states of the others only take room.
    let kinds: Vec<(usize, usize)> = match slice_loop.bands.is_none() && !is_small(slice_loop) {
        true => slice_loop.tiles.kinds().collect(),
        false => (0..slice_loop.tiles.len()).map(|i| (i, 1)).collect(),
    };
    let mut work = WorkTotal::default();
    for (i, (length, slices)) in runs.iter().enumerate() {
        let last = i + 1 == runs.len();
        for (tile, times) in &kinds {
            let before = ops.counts();
            let one = std::iter::once((*tile, slice_loop.tiles.get(*tile)));
            // The one tile of a frame in bands has all states.
            let state = if slice_loop.bands.is_some() { 0..states.len() } else { *tile..*tile + 1 };
            let state = states.get_mut(state).unwrap_or_default();
            slice_loop.slice(ops, network, state, *length, last, &mut Nothing, one)?;
            add(&mut work, &before, &ops.counts(), (*slices as u64).saturating_mul(*times as u64));
        }
    }
    Ok(work)
}

/// Whether all tiles of a frame are run on the meter: few, and not so large that counts would overflow.
fn is_small(slice_loop: &SliceLoop) -> bool {
    let (count, pixels) = (slice_loop.tiles.len(), slice_loop.tile_pixels());
    count <= TILES && (count == 1 || count * pixels <= MAX_PIXELS)
}

fn add(work: &mut WorkTotal, before: &Counts, after: &Counts, times: u64) {
    let more = |sum: &mut u64, before: u64, after: u64| {
        *sum = sum.saturating_add(times.saturating_mul(after.saturating_sub(before)));
    };
    let macs = |c: &Counts| c.conv_macs.saturating_add(c.linear_macs);
    more(&mut work.macs, macs(before), macs(after));
    more(&mut work.attention_macs, before.attention_macs, after.attention_macs);
    more(&mut work.transferred, before.bytes_transferred, after.bytes_transferred);
}
