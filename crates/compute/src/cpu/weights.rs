//! Weights in the layout of the kernels. Norms are f32, scale and then shift; for the others see `conv::pack`.
#![expect(unsafe_code, reason = "prepared weights live in the arena and are read in place")]

use super::conv::pack::{self, Packing};
use super::path::CpuPath;
use super::pool::Pool;
use crate::arena::Buffer;
use crate::error::Result;
use crate::host::{HostMemory, Pinned};
use crate::weight::{Weight, WeightPart, WeightSpec};

pub(super) fn bytes(spec: &WeightSpec, path: CpuPath) -> u64 {
    match Packing::new(spec, path) {
        Some(packing) => packing.bytes(),
        None => 4 * (spec.main_len() + spec.bias_len()) as u64,
    }
}

/// Scale and shift of a loaded norm, for as long as both the memory and the weight are borrowed.
pub(super) fn weight_parts<'a>(host: &'a HostMemory, weight: &'a Weight) -> Result<(&'a [f32], &'a [f32])> {
    let buffer = weight.buffer(host.arena())?;
    let base = host.address("weight", "weight", &buffer)?.cast::<f32>();
    let (main, bias) = (weight.spec().main_len(), weight.spec().bias_len());
    // SAFETY: `load` made the buffer for this spec and filled it; it is not written again while loaded.
    // The slices borrow the memory, so it is not freed, and no backend that owns it can be borrowed mutably
    // to evict the weight; they borrow the weight, so its last handle is not dropped under them.
    let all = unsafe { std::slice::from_raw_parts(base, main + bias) };
    Ok(all.split_at(main))
}

/// Where a weight is laid out: its place in the arena, and scratch until that is done.
pub(super) struct Room {
    pub(super) buffer: Buffer,
    main: *mut u8,
    /// Its place and its address.
    scratch: Option<(Buffer, *mut f32)>,
    _memory: Pinned,
}

// SAFETY: addresses of pieces that nothing else refers to; the memory behind them is pinned.
unsafe impl Send for Room {}

impl Room {
    pub(super) fn new(host: &HostMemory, spec: &WeightSpec, path: CpuPath, threads: usize) -> Result<Self> {
        let buffer = host.arena().alloc(bytes(spec, path))?;
        let main = host.address("load", "weight", &buffer)?;
        let scratch = match pack::scratch_bytes(spec, threads) {
            0 => None,
            bytes => {
                let buffer = host.arena().alloc(bytes)?;
                let start = host.address("load", "scratch", &buffer)?.cast();
                Some((buffer, start))
            }
        };
        Ok(Room { buffer, main, scratch, _memory: host.pin() })
    }

    /// Reads a weight and lays it out. `pool` has no more threads than the room was made for.
    pub(super) fn fill(&mut self, pool: &Pool, path: CpuPath, weight: &Weight) -> Result<()> {
        let spec = weight.spec();
        if let Some(packing) = Packing::new(&spec, path) {
            let scratch: &mut [f32] = match &mut self.scratch {
                // SAFETY: a piece of exactly this size that nothing else refers to; bytes of any value are numbers.
                Some((b, start)) => unsafe { std::slice::from_raw_parts_mut(*start, b.bytes() as usize / 4) },
                None => &mut [],
            };
            return pack::fill(self.main, scratch, pool, weight, packing);
        }
        let base = self.main.cast::<f32>();
        // SAFETY: a piece of exactly this many values that nothing else refers to.
        let all = unsafe { std::slice::from_raw_parts_mut(base, spec.main_len() + spec.bias_len()) };
        let (main, bias) = all.split_at_mut(spec.main_len());
        weight.read(WeightPart::Main, 0, main)?;
        weight.read(WeightPart::Bias, 0, bias)
    }
}
