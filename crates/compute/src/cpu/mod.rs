//! The CPU backend: threads over independent blocks of rows.
//!
//! Every value is reduced in an order that depends on its layer alone: blocks lie at fixed absolute rows,
//! a block is computed whole even if only a part of it is wanted, and threads never share a sum. Slices,
//! stripes and thread counts therefore change no bit.

mod attention;
pub(crate) mod conv;
mod kernels;
mod limits;
mod linear;
mod matmul;
mod moves;
mod norm;
mod path;
mod pool;
mod scratch;
mod simd;
mod tokens;
mod weights;

pub use limits::Limits;
pub use matmul::folds_fused;
pub use path::CpuPath;

use crate::arena::Arena;
use crate::cancel::CancelToken;
use crate::error::{ComputeError, Result};
use crate::host::HostMemory;
use crate::loader::{Ahead, Coming, Loader};
use crate::ops::{OpWork, Ops, Sizing, checked_ops};
use crate::store::{Extent, TensorStore};
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightSpec};
use pool::Pool;
use scratch::{Layout, Scratch};
use weights::{Room, weight_parts};

/// How the backend is set up.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Worker threads; the result does not depend on it, the scratch memory does.
    pub threads: usize,
    /// Kernels to use.
    pub path: CpuPath,
    /// Bytes of the arena.
    pub cap: u64,
    /// Stops long ops.
    pub cancel: CancelToken,
}

/// Computes with threads on the CPU. Ops run inside the call; a cancelled op leaves its output undefined
/// and `wait` says so.
pub struct Cpu {
    /// Weights on their way, then the threads that bring them: both end before the memory.
    ahead: Ahead<Coming<Room>>,
    loader: Loader,
    host: HostMemory,
    pool: Pool,
    path: CpuPath,
    /// See `Ops::first_spoiled`.
    spoiled: Option<String>,
}

/// Sizes of this backend.
#[derive(Clone, Copy, Debug)]
pub struct CpuSizing {
    /// Worker threads, each with scratch of its own.
    pub threads: usize,
    /// Kernels to use.
    pub path: CpuPath,
}

impl Sizing for CpuSizing {
    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        weights::bytes(spec, self.path)
    }

    fn load_scratch_bytes(&self, spec: &WeightSpec) -> u64 {
        conv::pack::scratch_bytes(spec, self.threads)
    }

    fn scratch_bytes(&self, work: &OpWork) -> u64 {
        let threads = self.threads.max(1);
        match work {
            OpWork::Conv(work) => conv::Plan::conv(work, self.path, threads).bytes(threads),
            OpWork::Upsample(work) => conv::Plan::upsample(work, self.path, threads).bytes(threads),
            OpWork::Linear(work) => {
                let output = Shape::new(work.t, work.rows.len(), work.w, work.cout);
                let sums = norm::row_sums_layout(output).0.per_thread(threads);
                linear::scratch_bytes(work, self.path, threads).max(if work.sums { sums } else { 0 })
            }
            OpWork::Attention(work) => attention::scratch_bytes(work.width, work.dtype, self.path, threads),
            OpWork::WindowAttention(work) => {
                attention::scratch_bytes(work.width, work.dtype, self.path, threads)
            }
            OpWork::Rows(shape) => tokens::rows_layout(*shape).0.per_thread(threads),
            OpWork::RowSums(shape) => norm::row_sums_layout(*shape).0.per_thread(threads),
            OpWork::Normalize(shape) => norm::normalize_layout(*shape).0.bytes() as u64,
            OpWork::Copy(shape) => moves::copy_layout(*shape).0.per_thread(threads),
        }
    }
}

impl Cpu {
    /// Reserves the arena and starts the threads.
    pub fn new(options: CpuOptions) -> Result<Self> {
        Ok(Cpu {
            ahead: Ahead::default(),
            loader: Loader::new(options.cancel.clone()),
            host: HostMemory::new(options.cap)?,
            pool: Pool::new(options.threads, options.cancel)?,
            path: options.path,
            spoiled: None,
        })
    }

    /// Scratch of an op whose threads share none.
    fn scratch(&self, op: &'static str, private: &Layout) -> Result<Scratch> {
        Scratch::new(&self.host, op, &Layout::default(), private, self.pool.threads())
    }
}

impl Ops for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn arena(&self) -> &Arena {
        self.host.arena()
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        weights::bytes(spec, self.path)
    }

    fn load(&mut self, weight: &Weight) -> Result<()> {
        if weight.is_resident(self.arena()) {
            return Ok(());
        }
        let room = match self.ahead.take(weight) {
            Some(coming) => coming.wait()?,
            None => {
                let mut room = Room::new(&self.host, &weight.spec(), self.path, self.pool.threads())?;
                room.fill(&self.pool, self.path, weight)?;
                room
            }
        };
        weight.keep(room.buffer, self.host.arena());
        Ok(())
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<()> {
        if weight.is_resident(self.arena()) || self.ahead.contains(weight) {
            return Ok(());
        }
        let mut room = Room::new(&self.host, &weight.spec(), self.path, self.pool.threads())?;
        let path = self.path;
        let coming = self.loader.start(weight, move |weight, stop| {
            room.fill(&Pool::new(1, stop.clone())?, path, weight)?;
            Ok(room)
        })?;
        self.ahead.push(weight, coming);
        Ok(())
    }

    fn evict(&mut self, weight: &Weight) {
        self.ahead.take(weight);
        weight.forget(self.host.arena());
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()> {
        self.host.write_all("upload", &to, from)
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()> {
        self.wait()?;
        self.download_now(&from, to)?;
        self.wait()
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<()> {
        self.host.fetch(from, at, &to)
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()> {
        self.wait()?;
        self.host.stow(&from, to, at)
    }

    fn wait(&mut self) -> Result<()> {
        if self.pool.cancel().is_cancelled() { Err(ComputeError::Cancelled) } else { Ok(()) }
    }

    fn first_spoiled(&mut self) -> Result<Option<String>> {
        Ok(self.spoiled.take())
    }

    checked_ops!();
}
