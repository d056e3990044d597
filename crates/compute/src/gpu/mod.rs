//! The GPU backend: WGSL kernels through wgpu, on any card whose driver speaks Vulkan, DX12 or Metal.
//!
//! The arena lies in as few buffers as the device's limits allow. Each operand of a kernel has a binding
//! of its own, or several if it is larger than the largest binding.
//! Values are stored in 32 or 16 bits and computed in f32. Each output value is summed by one thread in an
//! order fixed by its layer, so slices and stripes change no bit.

mod bindings;
mod cache;
mod choice;
mod device;
mod driver;
mod examined;
mod half;
mod kernels;
mod listing;
mod ops;
mod pack;
mod params;
mod recheck;
mod stream;
mod tune;
mod watch;

pub use choice::{Choices, Variant, all_variants, layer_name, variants};
pub use device::{Api, GpuDevice, GpuInfo, GpuLimits, MatrixUnits, devices, devices_of, preferred};
pub use driver::GpuMemory;
pub use examined::{Unlisted, examine_drivers, unlisted};
pub use listing::{KernelText, LayerUse, other_texts, product_text};
pub use stream::GpuCounts;
pub use tune::{
    AttentionLayer, KernelFault, ProductLayer, Timing, Tuned, tune, tune_attention, with_variant,
};
pub use watch::{ENOUGH, Monitor, MonitorRef, NetworkId, Watch};

use std::collections::HashMap;
use std::sync::Arc;

use crate::arena::{Arena, Buffer};
use crate::cancel::CancelToken;
use crate::dtype::{DType, decode, encode};
use crate::error::{ComputeError, Result, ensure, mismatch};
use crate::loader::{Ahead, Coming, Loader};
use crate::ops::{OpWork, Ops, Sizing, checked_ops};
use crate::store::{Extent, TensorStore};
use crate::tensor::View;
use crate::weight::{Weight, WeightSpec};
use bindings::{Operand, Ranges};
use choice::attention_name;
use device::Fault;
use kernels::{Attend, Heads, Product, attention_values, window_values};
use pack::Order;
use params::At;
use recheck::Recheck;
use stream::Stream;

/// Version of the kernels, part of the class of results. Changes when a kernel adds in another order.
const KERNELS: &str = "direct-1";

/// Class of results of a device, which follows from the kernels chosen for it.
pub(crate) fn numerics(device: &GpuDevice) -> String {
    format!("gpu {:016x} {KERNELS}{}", device.fingerprint, device.choices.class())
}

/// Computes on a GPU.
pub struct Gpu {
    arena: Arena,
    stream: Stream,
    choices: Choices,
    /// Weights being prefetched: their place in the arena and their bytes; then the threads that read them.
    ahead: Ahead<(Buffer, Coming<Vec<u8>>)>,
    loader: Loader,
    /// Kernels of the layers met so far.
    products: HashMap<WeightSpec, Product>,
    /// Normalisations met so far. Kernels know them by their position in this list, counted from 1.
    norms: Vec<String>,
    /// For a device that is not trusted yet.
    recheck: Option<Recheck>,
}

/// Sizes of this backend: padded weights, and scratch for convolutions whose input is normalised by a pass of its own.
#[derive(Clone, Copy, Debug)]
pub struct GpuSizing {
    /// Chosen kernels, which decide whose weights are kept transformed and whose input is normalised by a pass.
    pub choices: Choices,
}

impl Sizing for GpuSizing {
    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        // Rows and columns take the same bytes, and are chosen with the device at hand.
        pack::bytes(spec, self.choices.order(spec, None))
    }

    fn scratch_bytes(&self, work: &OpWork) -> u64 {
        match work {
            OpWork::Conv(work) if work.prologue && self.choices.passes(&work.spec()) => ops::pass_bytes(work),
            _ => 0,
        }
    }

    fn fixed_bytes(&self) -> u64 {
        stream::BESIDE
    }
}

impl Gpu {
    /// Opens a device with an arena of `cap` bytes.
    pub fn new(device: GpuDevice, cap: u64, cancel: CancelToken) -> Result<Self> {
        let stream = Stream::new(device, cap, cancel.clone())?;
        let recheck = Recheck::new(&device, stream.is_timed(), Arc::clone(&stream.opened.fault));
        Ok(Gpu {
            ahead: Ahead::default(),
            loader: Loader::new(cancel),
            stream,
            arena: Arena::new("gpu", cap),
            choices: device.choices,
            products: HashMap::new(),
            norms: Vec::new(),
            recheck,
        })
    }

    /// Work done so far.
    pub fn gpu_counts(&self) -> GpuCounts {
        self.stream.counts()
    }

    /// Products that the naive loops computed again and found right.
    pub fn rechecked(&self) -> u64 {
        self.recheck.as_ref().map_or(0, Recheck::checked)
    }

    /// Bytes of device memory taken from the driver, if known.
    pub fn reserved_bytes(&self) -> Option<u64> {
        self.stream.reserved()
    }

    /// Memory of the device as its driver counts it now, if the driver reports it.
    pub fn memory(&self) -> Option<GpuMemory> {
        self.stream.memory()
    }

    /// The kernel chosen for a layer.
    fn product(&mut self, op: &'static str, spec: &WeightSpec) -> Result<Product> {
        if let Some(product) = self.products.get(spec) {
            return Ok(*product);
        }
        let Some(variant) = self.choices.find(spec, self.stream.units()) else {
            return Err(mismatch(op, "weight", layer_name(spec), "one that is multiplied"));
        };
        self.products.insert(*spec, variant.product);
        Ok(variant.product)
    }

    /// How heads of this width attend, in a frame or in a window.
    fn attend(&self, windowed: bool, width: usize, dtype: DType) -> Attend {
        let name = attention_name(windowed, width, dtype);
        let units =
            self.stream.units().filter(|_| dtype == DType::F16 && self.choices.attends_on_units(&name));
        match units.and_then(|u| Heads::new(width, u)) {
            Some(heads) => Attend::Matrix(heads),
            None if windowed => Attend::Threads { values: window_values(width) },
            None => Attend::Threads { values: attention_values(width) },
        }
    }

    /// How a layer's weights are kept.
    fn order(&self, spec: &WeightSpec) -> Order {
        self.choices.order(spec, self.stream.units())
    }

    fn address(&self, op: &'static str, what: &'static str, buffer: &Buffer) -> Result<u64> {
        if !buffer.is_from(&self.arena) {
            return Err(ComputeError::Foreign { op, what });
        }
        Ok(buffer.offset())
    }

    /// Makes a view an operand, from its first value to its last, and returns where its values lie. Kernels index values
    /// with 32 bits.
    fn bind(
        &self,
        op: &'static str,
        ranges: &mut Ranges,
        operand: Operand,
        what: &'static str,
        view: &View<'_>,
    ) -> Result<At> {
        let offset = self.address(op, what, view.tensor().buffer())?;
        let (whole, part, size) = (view.tensor().shape(), view.shape(), view.dtype().bytes() as u64);
        let row = whole.w * whole.c;
        let above = view.row_range().start - view.tensor().band().first;
        let first = (view.first_frame() * whole.h + above) * row;
        let values = (part.t.saturating_sub(1) * whole.h + part.h) * row;
        let most = u32::MAX as usize - (1 << 16);
        ensure(values <= most, op, what, format!("{values} values"), format!("at most {most}"))?;
        let start = offset + first as u64 * size;
        ranges.set(operand, start / 16 * 16..start + values as u64 * size);
        ranges.partial |= part.t > 1 && part.h < whole.h;
        Ok(At { skip: (start % 16 / size) as usize, frame: whole.h * row })
    }

    /// The bytes of a view, one run `(offset, bytes)` per frame.
    fn runs(&self, op: &'static str, view: &View<'_>) -> Result<Vec<(u64, u64)>> {
        let offset = self.address(op, "tensor", view.tensor().buffer())?;
        let whole = view.tensor().shape();
        let size = view.dtype().bytes();
        let row = (whole.w * whole.c * size) as u64;
        let above = (view.row_range().start - view.tensor().band().first) as u64;
        let bytes = view.shape().h as u64 * row;
        let frames = view.first_frame()..view.first_frame() + view.shape().t;
        let run = |t: usize| (offset + (t * whole.h) as u64 * row + above * row, bytes);
        Ok(frames.map(run).filter(|_| bytes > 0).collect())
    }

    /// Reads runs that may start or end inside a word.
    fn read_runs(&mut self, runs: &[(u64, u64)], out: &mut Vec<u8>) -> Result<()> {
        let widened = runs.iter().map(|(at, n)| (at / 4 * 4, (at + n).next_multiple_of(4) - at / 4 * 4));
        let total: u64 = runs.iter().map(|r| r.1).sum();
        out.clear();
        out.reserve(total as usize);
        if runs.iter().all(|(at, n)| at % 4 == 0 && n % 4 == 0) {
            return self.stream.read(widened, &mut |piece| out.extend_from_slice(piece));
        }
        for (run, wide) in runs.iter().zip(widened) {
            let start = out.len();
            self.stream.read(std::iter::once(wide), &mut |piece| out.extend_from_slice(piece))?;
            let skip = (run.0 - wide.0) as usize;
            out.drain(start..start + skip);
            out.truncate(start + run.1 as usize);
        }
        Ok(())
    }

    /// Writes a run that may start or end inside a word, and keeps the rest of that word.
    fn write_run(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at + bytes.len() as u64;
        let (first, last) = (at / 4 * 4, end.next_multiple_of(4));
        if first == at && last == end {
            return self.stream.write(at, bytes);
        }
        let mut whole = vec![0; (last - first) as usize];
        let edges = [(first, 4), (last - 4, 4)];
        let mut old = Vec::new();
        self.stream.read(edges.into_iter(), &mut |piece| old.extend_from_slice(piece))?;
        let n = whole.len();
        whole[..4].copy_from_slice(&old[..4]);
        whole[n - 4..].copy_from_slice(&old[4..]);
        let skip = (at - first) as usize;
        whole[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.stream.write(first, &whole)
    }
}

/// Bytes converted at a time between the host and the device.
const PIECE: usize = 4 << 20;

impl Ops for Gpu {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        GpuSizing { choices: self.choices }.weight_bytes(spec)
    }

    /// Lays the weight out in host memory, sends it, and frees that memory at once.
    fn load(&mut self, weight: &Weight) -> Result<()> {
        if weight.is_resident(&self.arena) {
            return Ok(());
        }
        let (buffer, bytes) = match self.ahead.take(weight) {
            Some((buffer, coming)) => (buffer, coming.wait()?),
            None => {
                let buffer = self.arena.alloc(self.weight_bytes(&weight.spec()))?;
                (buffer, pack::pack(weight, self.order(&weight.spec()))?)
            }
        };
        self.stream.write(buffer.offset(), &bytes)?;
        weight.keep(buffer, &self.arena);
        Ok(())
    }

    /// Lays the weight out in host memory while the device works. `load` sends it, in stream order.
    fn prefetch(&mut self, weight: &Weight) -> Result<()> {
        if weight.is_resident(&self.arena) || self.ahead.contains(weight) {
            return Ok(());
        }
        let buffer = self.arena.alloc(self.weight_bytes(&weight.spec()))?;
        let order = self.order(&weight.spec());
        let coming = self.loader.start(weight, move |weight, _| pack::pack(weight, order))?;
        self.ahead.push(weight, (buffer, coming));
        Ok(())
    }

    fn evict(&mut self, weight: &Weight) {
        self.ahead.take(weight);
        weight.forget(&self.arena);
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()> {
        ensure(from.len() == to.shape().len(), "upload", "values", from.len(), to.shape().len())?;
        let dtype = to.dtype();
        let mut bytes = vec![0; PIECE.min(from.len() * dtype.bytes())];
        let mut left = from;
        for (mut at, run) in self.runs("upload", &to)? {
            let (values, rest) = left.split_at(run as usize / dtype.bytes());
            for piece in values.chunks(PIECE / dtype.bytes()) {
                let bytes = &mut bytes[..piece.len() * dtype.bytes()];
                encode(dtype, piece, bytes);
                self.write_run(at, bytes)?;
                at += bytes.len() as u64;
            }
            left = rest;
        }
        Ok(())
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()> {
        ensure(to.len() == from.shape().len(), "download", "values", to.len(), from.shape().len())?;
        self.wait()?;
        let (runs, dtype) = (self.runs("download", &from)?, from.dtype());
        let aligned = runs.iter().all(|(at, n)| at % 4 == 0 && n % 4 == 0);
        if aligned {
            let mut rest = to;
            return self.stream.read(runs.into_iter(), &mut |piece| {
                let n = (piece.len() / dtype.bytes()).min(rest.len());
                let (now, later) = std::mem::take(&mut rest).split_at_mut(n);
                decode(dtype, &piece[..n * dtype.bytes()], now);
                rest = later;
            });
        }
        let mut bytes = Vec::new();
        self.read_runs(&runs, &mut bytes)?;
        decode(dtype, &bytes, to);
        Ok(())
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<()> {
        // The device works on the recorded batch while the store is read.
        self.stream.submit()?;
        let rows = to.shape().h;
        let bytes = to.shape().w * to.shape().c * to.dtype().bytes();
        ensure(at.row == bytes, "fetch", "bytes of a row", at.row, bytes)?;
        let some = (PIECE / bytes.max(1)).clamp(1, rows.max(1));
        let mut piece = vec![0; some * bytes];
        for (t, (run, _)) in self.runs("fetch", &to)?.into_iter().enumerate() {
            for first in (0..rows).step_by(some) {
                let skip = (first * bytes) as u64;
                let piece = &mut piece[..some.min(rows - first) * bytes];
                from.read(at.start + t as u64 * at.frame + skip, at.row, piece)?;
                self.write_run(run + skip, piece)?;
            }
        }
        Ok(())
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()> {
        self.wait()?;
        let bytes = from.shape().w * from.shape().c * from.dtype().bytes();
        ensure(at.row == bytes, "stow", "bytes of a row", at.row, bytes)?;
        let mut frame = Vec::new();
        for (t, run) in self.runs("stow", &from)?.into_iter().enumerate() {
            self.read_runs(&[run], &mut frame)?;
            to.write(at.start + t as u64 * at.frame, at.row, &frame)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.wait()?;
        self.stream.check()
    }

    fn finish_checks(&mut self) -> Result<()> {
        self.recheck.iter().for_each(Recheck::wait);
        // All results are there: a device that was lost since takes none of them back.
        match self.stream.opened.fault.get() {
            Some(Fault::Wrong(_)) => self.stream.check(),
            _ => Ok(()),
        }
    }

    fn first_spoiled(&mut self) -> Result<Option<String>> {
        let number = self.stream.take_note()? as usize;
        Ok(number.checked_sub(1).and_then(|i| self.norms.get(i).cloned()))
    }

    checked_ops!();
}
