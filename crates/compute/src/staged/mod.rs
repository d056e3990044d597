//! Ops on a device that cannot hold everything.
//!
//! `Staged` looks like one backend to the network. Tensors too large for the device live in a store, host
//! memory or a file, and an op on them runs stripe by stripe: its rows go to the device, the device's own
//! op makes some rows of the result, and they go back. Rows are absolute and every reduction has a fixed
//! order, so the cut changes no bit. What lies on the device already is used where it lies.

mod ops;
mod placement;
mod streaming;
mod stripes;
mod tokens;

pub use placement::{Placement, Rule, Tier};

use std::ops::Range;

use crate::arena::{Arena, Buffer};
use crate::dtype::DType;
use crate::error::{ComputeError, Result};
use crate::ops::Ops;
use crate::store::{Extent, TensorStore};
use crate::tensor::{Band, Shape, Tensor, View};
use crate::weight::Weight;
use streaming::Streaming;

/// A device and the stores beside it.
pub struct Staged {
    device: Box<dyn Ops + Send>,
    host: Box<dyn TensorStore>,
    file: Box<dyn TensorStore>,
    placement: Placement,
    streaming: Streaming,
    largest: u64,
}

/// Rows of an operand as the device sees them: where they lie, or a copy.
enum Local<'a> {
    There(View<'a>),
    Copy(Tensor),
}

impl Local<'_> {
    fn view(&self) -> View<'_> {
        match self {
            Local::There(view) => view.clone(),
            Local::Copy(tensor) => tensor.view(),
        }
    }
}

/// Rows that an op writes: on the device, and where they live.
struct Target<'a> {
    local: Local<'a>,
    home: View<'a>,
}

impl Target<'_> {
    fn view(&self) -> View<'_> {
        self.local.view()
    }
}

impl Staged {
    /// Puts stores beside a device.
    pub fn new(
        device: Box<dyn Ops + Send>,
        host: Box<dyn TensorStore>,
        file: Box<dyn TensorStore>,
        placement: Placement,
    ) -> Self {
        let streaming = Streaming::new(placement.read_ahead);
        Staged { device, host, file, placement, streaming, largest: 0 }
    }

    /// The book of host memory.
    pub fn host_arena(&self) -> &Arena {
        self.host.arena()
    }

    /// The book of the file.
    pub fn file_arena(&self) -> &Arena {
        self.file.arena()
    }

    /// Bytes of the largest tensor asked for so far.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    fn is_here(&self, buffer: &Buffer) -> bool {
        buffer.is_from(self.device.arena())
    }

    /// Whether all operands lie on the device.
    fn all_here(&self, views: &[Option<&View<'_>>]) -> bool {
        views.iter().flatten().all(|v| self.is_here(v.tensor().buffer()))
    }

    /// Stripes of an op: one if nothing has to move.
    fn stripes(&self, views: &[Option<&View<'_>>]) -> usize {
        if self.all_here(views) { 1 } else { self.placement.stripes }
    }

    /// The device, and the store that a buffer is from.
    fn split(&mut self, buffer: &Buffer) -> Result<(&mut dyn Ops, &mut dyn TensorStore)> {
        let store: &mut dyn TensorStore = if buffer.is_from(self.host.arena()) {
            self.host.as_mut()
        } else if buffer.is_from(self.file.arena()) {
            self.file.as_mut()
        } else {
            return Err(ComputeError::Foreign { op: "transfer", what: "tensor" });
        };
        Ok((self.device.as_mut(), store))
    }

    /// Room on the device for the rows of `view`.
    fn room<'a>(&mut self, view: &View<'a>) -> Result<Local<'a>> {
        if self.is_here(view.tensor().buffer()) {
            return Ok(Local::There(view.clone()));
        }
        self.beside(view)
    }

    /// Room on the device for the rows of `view` beside those that are there.
    fn beside<'a>(&mut self, view: &View<'a>) -> Result<Local<'a>> {
        let band = Band { first: view.row_range().start, height: view.height() };
        Ok(Local::Copy(self.device.alloc_band(view.shape(), view.dtype(), band)?))
    }

    /// Rows of an operand for the device to read.
    fn bring<'a>(&mut self, view: &View<'a>, rows: Range<usize>) -> Result<Local<'a>> {
        let view = view.clone().rows(rows);
        let local = self.room(&view)?;
        if let Local::Copy(copy) = &local {
            let (device, store) = self.split(view.tensor().buffer())?;
            device.fetch(store, extent(&view), copy.view())?;
        }
        Ok(local)
    }

    /// Rows for the device to write; with `filled` what they hold comes along.
    fn target<'a>(&mut self, view: &View<'a>, rows: Range<usize>, filled: bool) -> Result<Target<'a>> {
        let home = view.clone().rows(rows.clone());
        let local = if filled { self.bring(view, rows)? } else { self.room(&home)? };
        Ok(Target { local, home })
    }

    /// Rows for the device to write beside those that are there.
    fn apart<'a>(&mut self, view: &View<'a>, rows: Range<usize>) -> Result<Target<'a>> {
        let home = view.clone().rows(rows);
        Ok(Target { local: self.beside(&home)?, home })
    }

    /// As `bring`, but always a copy: the rows may be written while it is read.
    fn snapshot<'a>(&mut self, view: &View<'a>, rows: Range<usize>) -> Result<Local<'a>> {
        if !self.is_here(view.tensor().buffer()) {
            return self.bring(view, rows);
        }
        let Target { local, home } = self.apart(view, rows)?;
        self.device.copy(home, local.view())?;
        Ok(local)
    }

    /// Room for the new tail of a stripe, beside the old one, of which the next stripe still reads rows. What
    /// the stripe before `left` can settle now: this one has read what it needs.
    fn new_tail<'a>(
        &mut self,
        carry: Option<&View<'a>>,
        rows: &Range<usize>,
        left: &mut Option<Target<'a>>,
    ) -> Result<Option<Target<'a>>> {
        if let Some(left) = left.take() {
            self.settle(left)?;
        }
        carry.filter(|_| !rows.is_empty()).map(|v| self.apart(v, rows.clone())).transpose()
    }

    /// Gives written rows back to where they live.
    fn settle(&mut self, target: Target<'_>) -> Result<()> {
        let Local::Copy(copy) = target.local else { return Ok(()) };
        if self.is_here(target.home.tensor().buffer()) {
            return self.device.copy(copy.view(), target.home);
        }
        let (device, store) = self.split(target.home.tensor().buffer())?;
        device.stow(copy.view(), store, extent(&target.home))
    }

    /// Tells the store of `view` which rows will be read soon.
    fn hint(&mut self, view: Option<&View<'_>>, rows: &Range<usize>) {
        let Some(view) = view.filter(|v| !self.is_here(v.tensor().buffer())) else { return };
        let view = view.clone().rows(rows.clone());
        let Extent { start, frame, row } = extent(&view);
        let (frames, bytes) = (view.shape().t as u64, row * view.shape().h);
        if let Ok((_, store)) = self.split(view.tensor().buffer()) {
            (0..frames).for_each(|t| store.will_read(start + t * frame, row, bytes));
        }
    }

    /// Runs `op` with its weights loaded.
    fn with_weights(
        &mut self,
        weights: &[Option<&Weight>],
        op: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if !self.placement.stream_weights {
            return op(self);
        }
        let loaded = self.streaming.begin(self.device.as_mut(), weights);
        let result = loaded.and_then(|()| op(self));
        self.streaming.end(self.device.as_mut(), weights);
        result
    }

    fn place(&mut self, shape: Shape, dtype: DType, band: Band, rule: Rule) -> Result<Tensor> {
        let bytes = shape.bytes(dtype);
        self.largest = self.largest.max(bytes);
        let arena = match rule.tier(bytes) {
            Tier::Device => return self.device.alloc_band(shape, dtype, band),
            Tier::Host => self.host.arena(),
            Tier::File => self.file.arena(),
        };
        Tensor::new(arena.alloc(bytes)?, dtype, shape, band)
    }
}

/// Where the rows of a view lie in its store.
fn extent(view: &View<'_>) -> Extent {
    let (whole, band) = (view.tensor().shape(), view.tensor().band());
    let row = whole.w * whole.c * view.dtype().bytes();
    let skipped = view.first_frame() * whole.h + (view.row_range().start - band.first);
    Extent {
        start: view.tensor().buffer().offset() + (skipped * row) as u64,
        frame: (whole.h * row) as u64,
        row,
    }
}
