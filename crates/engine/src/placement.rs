//! A plan's placement in the terms of the op set, and what a run takes beside it.

use remaster_compute::staged::{Placement, Rule};
use remaster_plan::{Candidate, Mode, Tiers};

use crate::slice_loop::SliceLoop;
use crate::spill::QUEUE;

/// The placement of a plan in the terms of the op set.
pub(crate) fn placement(how: &Candidate) -> Placement {
    let rule = |r: Tiers| Rule { device: r.device.unwrap_or(u64::MAX), host: r.host.unwrap_or(u64::MAX) };
    let stripes = if let Mode::Exact { stripes } = how.mode { stripes } else { 1 };
    Placement {
        activations: rule(how.activations),
        state: rule(how.state),
        stream_weights: how.stream_weights,
        read_ahead: how.stream_weights && how.read_ahead,
        stripes,
        group: if how.group == 0 { usize::MAX } else { how.group },
    }
}

/// Bytes of host memory that a run takes beside its stores.
pub(crate) fn overhead(slice_loop: &SliceLoop, disk: u64) -> u64 {
    slice_loop.traffic_bytes().saturating_add(if disk > 0 { QUEUE } else { 0 })
}
