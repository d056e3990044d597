//! Room for the state of a clip.

use remaster_compute::meter::Meter;
use remaster_compute::staged::{Placement, Staged};
use remaster_compute::{DType, NullStore, OpWork, Ops, Shape, Sizing, WeightSpec};
use remaster_model::{Network, State, load};
use remaster_plan::Tile;

use crate::error::EngineError;
use crate::measure::{FILE, HOST, Nothing};
use crate::slice_loop::SliceLoop;

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

/// The tails that a slice leaves, per state. Only the network knows them, so it runs on a meter.
pub(crate) fn tails(
    network: &dyn Network,
    slice_loop: &SliceLoop,
    start: usize,
) -> Result<Vec<Tails>, EngineError> {
    if slice_loop.lengths(start)?.count() <= 1 && start == 0 {
        return Ok(vec![Tails::new(); slice_loop.states()]);
    }
    if slice_loop.bands.is_some() {
        return tails_of(network, slice_loop, &[0], slice_loop.states());
    }
    // Tiles of one size have the same tails.
    let kinds: Vec<usize> = slice_loop.tiles.kinds().map(|(i, _)| i).collect();
    let known = tails_of(network, slice_loop, &kinds, kinds.len())?;
    let size = |t: &Tile| (t.rows.len(), t.columns.len());
    let of = |tile: Tile| {
        let kind = kinds.iter().position(|i| size(&slice_loop.tiles.get(*i)) == size(&tile)).unwrap_or(0);
        known.get(kind).cloned().unwrap_or_default()
    };
    Ok(slice_loop.tiles.iter().map(of).collect())
}

/// The tails of some tiles, by number.
fn tails_of(
    network: &dyn Network,
    slice_loop: &SliceLoop,
    tiles: &[usize],
    states: usize,
) -> Result<Vec<Tails>, EngineError> {
    let books = |name| Box::new(NullStore::new(name, 0));
    let meter = Box::new(Meter::endless(Box::new(NoSizing)));
    let mut meter = Staged::new(meter, books(HOST), books(FILE), Placement::DEVICE);
    let mut left = vec![State::new(); states];
    let tiles = tiles.iter().map(|i| (*i, slice_loop.tiles.get(*i)));
    load(&mut meter, network)?;
    slice_loop.slice(&mut meter, network, &mut left, 1, false, &mut Nothing, tiles)?;
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
