//! Until a device has shown that it computes a network right, some of its results are computed again by the naive loops: now
//! and then a few pixels and channels of a product, from the inputs that lie on the device.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::Gpu;
use super::choice::layer_name;
use super::device::{Fault, GpuDevice, lock};
use super::tune::tolerance;
use super::watch::{ENOUGH, MonitorRef, NetworkId, Watch, is_time, looked};
use crate::dtype::{DType, decode};
use crate::error::{Result, SourceError};
use crate::host_tensor::Difference;
use crate::ops::{ConvDesc, ConvWork, LinearDesc, LinearWork, Ops, Padding, Prologue, Shortcut};
use crate::reference::Reference;
use crate::tensor::{Shape, View};
use crate::weight::{Weight, WeightPart, WeightSource, WeightSpec};

/// Pixels and channels that are computed again.
const PIXELS: usize = 2;
const CHANNELS: usize = 8;
/// Bytes of the naive loops' arena: channels of the widest layers, and a few pixels.
const ROOM: u64 = 16 << 20;
/// Times the tolerance of small numbers: real sums cancel more, and what a broken driver does is not small.
const MARGIN: f64 = 8.0;

/// How long the end of a session waits for a look that is under way. It takes milliseconds, unless the disk with the weights
/// is slow.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a session that is given up, whose results nobody uses.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);

/// The first look at a session is at one of so many products, so that it is not always the same layer. The smallest network
/// has 18.
const FIRST_PRODUCTS: usize = 16;

/// The watch on one session of a device.
pub(super) struct Recheck {
    watch: Watch,
    /// Products that are passed over before the first look.
    skip: usize,
    turn: u64,
    shared: Arc<Shared>,
}

/// What a look in another thread needs.
struct Shared {
    monitor: Option<MonitorRef>,
    network: Option<NetworkId>,
    fault: Arc<OnceLock<Fault>>,
    /// A look is under way.
    busy: Mutex<bool>,
    idle: Condvar,
    /// Nothing of this network was looked at, in any run.
    is_new: AtomicBool,
    /// The network was looked at often enough.
    is_over: AtomicBool,
    checked: AtomicU64,
}

/// A look that is under way, until it is dropped.
struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        *lock(&self.0.busy) = false;
        self.0.idle.notify_all();
    }
}

/// What a look found.
enum Finding {
    Right,
    Wrong(String),
    /// It could not be decided.
    Unknown,
}

/// A few output channels of a weight, from `first` on.
struct SomeChannels {
    weight: Weight,
    first: usize,
    count: usize,
}

impl WeightSource for SomeChannels {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let (cin, cout) = self.weight.spec().product().map_or((1, 1), |(cin, cout, _)| (cin, cout));
        let taps = self.weight.spec().main_len() / (cin * cout).max(1);
        let read = |part, start: usize, out: &mut [f32]| {
            self.weight.read(part, start, out).map_err(|e| SourceError(e.to_string()))
        };
        match part {
            WeightPart::Main => read(part, self.first * cin * taps + start, out),
            // Slopes lie behind the bias of all channels.
            WeightPart::Bias => out.iter_mut().zip(start..).try_for_each(|(value, i)| {
                let row = if i < self.count { i } else { cout + i - self.count };
                read(part, self.first + row, std::slice::from_mut(value))
            }),
        }
    }
}

/// The same layer with other output channels.
fn with_outputs(spec: WeightSpec, count: usize) -> WeightSpec {
    match spec {
        WeightSpec::Conv { cin, kernel, stride, dtype, slopes, .. } => {
            WeightSpec::Conv { cin, cout: count, kernel, stride, dtype, slopes }
        }
        WeightSpec::Linear { cin, dtype, .. } => WeightSpec::Linear { cin, cout: count, dtype },
        other => other,
    }
}

/// Pixels of a product's operands.
struct Crop {
    /// What the product is of.
    weight: Weight,
    /// Its output channels that are computed again.
    first: usize,
    count: usize,
    input: (Shape, Vec<f32>),
    norm: Option<(Weight, Vec<f32>, bool)>,
    shortcut: Option<(Weight, Vec<f32>)>,
    dtype: DType,
    /// What the device made of them.
    made: Vec<f32>,
}

impl Crop {
    /// Some channels of a weight, as a weight.
    fn part(&self, weight: &Weight) -> Weight {
        let count = self.count;
        let spec = with_outputs(weight.spec(), count);
        let some = SomeChannels { weight: weight.clone(), first: self.first, count };
        Weight::new(weight.name(), spec, Arc::new(some))
    }

    /// What the device should have made.
    fn twin(&self) -> Result<Vec<f32>> {
        let mut ops = Reference::new(ROOM)?;
        let weight = self.part(&self.weight);
        ops.load(&weight)?;
        let (shape, values) = &self.input;
        let x = ops.alloc(*shape, self.dtype)?;
        ops.upload(values, x.view())?;
        let channels = self.count;
        let WeightSpec::Conv { kernel: [kt, ..], stride: [st, ..], .. } = self.weight.spec() else {
            let y = ops.alloc(Shape { c: channels, ..*shape }, self.dtype)?;
            let (input, output) = (x.view(), y.view());
            ops.linear(&LinearDesc { input, weight: &weight, accumulate: false, sums: None, output })?;
            return ops.values(y.view());
        };
        // The first frame is repeated in front; the last output frame sees the real ones alone.
        let frames = (kt - 1) / st + 1;
        let y = ops.alloc(Shape::new(frames, 1, PIXELS, channels), self.dtype)?;
        let mut desc = ConvDesc::new(x.view(), &weight, Padding::default(), y.view());
        let stats = match &self.norm {
            Some((_, stats, _)) => {
                let tensor = ops.alloc(Shape::new(kt, 1, 1, stats.len() / kt), DType::F32)?;
                ops.upload(stats, tensor.view())?;
                Some(tensor)
            }
            None => None,
        };
        if let (Some((affine, _, silu)), Some(stats)) = (&self.norm, &stats) {
            ops.load(affine)?;
            desc.prologue = Some(Prologue { stats: stats.view(), affine, silu: *silu });
        }
        let short = match &self.shortcut {
            Some((weight, values)) => {
                let weight = self.part(weight);
                ops.load(&weight)?;
                let cin = values.len() / PIXELS;
                let tensor = ops.alloc(Shape::new(frames, 1, PIXELS, cin), self.dtype)?;
                ops.upload(&values.repeat(frames), tensor.view())?;
                Some((weight, tensor))
            }
            None => None,
        };
        if let Some((weight, tensor)) = &short {
            desc.shortcut = Some(Shortcut { input: tensor.view(), weight });
        }
        ops.conv(&desc)?;
        let all = ops.values(y.view())?;
        if let Some((affine, ..)) = &self.norm {
            ops.evict(affine);
        }
        Ok(all[all.len() - PIXELS * channels..].to_vec())
    }

    /// Compares the device's result.
    fn judge(&self) -> Result<Finding> {
        let twin = self.twin()?;
        // Numbers that are not finite are noticed elsewhere.
        if !twin.iter().all(|v| v.is_finite()) {
            return Ok(Finding::Unknown);
        }
        let largest = twin.iter().fold(1.0f64, |most, v| most.max(f64::from(v.abs())));
        let found = Difference::between(&self.made, &twin).max_abs;
        let bound = MARGIN * tolerance(self.dtype) * largest;
        Ok(match found > bound {
            false => Finding::Right,
            true => Finding::Wrong(format!(
                "{} of {} is off by {found:.1e}",
                layer_name(&self.weight.spec()),
                self.weight.name()
            )),
        })
    }
}

impl Shared {
    /// Looks at a crop that took so long to get.
    fn look(&self, crop: &Crop, cost: Duration) {
        let started = Instant::now();
        let finding = crop.judge();
        looked(cost + started.elapsed());
        match finding {
            Ok(Finding::Right) => {
                self.checked.fetch_add(1, Ordering::Relaxed);
                let (Some(MonitorRef(monitor)), Some(network)) = (self.monitor, self.network) else { return };
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(wrong) = monitor.add_verified(network) {
                    let _ = self.fault.set(Fault::Wrong(wrong));
                }
                self.is_new.store(false, Ordering::Relaxed);
                self.is_over.store(monitor.verified(network) >= ENOUGH, Ordering::Relaxed);
            }
            Ok(Finding::Wrong(reason)) => {
                // Remembered first: the process may end as soon as the run hears of it.
                self.monitor.iter().for_each(|monitor| monitor.0.found_wrong(&reason));
                let _ = self.fault.set(Fault::Wrong(reason));
            }
            // A weight that cannot be read fails where it is needed.
            Ok(Finding::Unknown) | Err(_) => {}
        }
    }
}

impl Recheck {
    /// The watch on a session, unless none is needed. A device with a monitor is watched while it computes a network.
    pub(super) fn new(device: &GpuDevice, is_timed: bool, fault: Arc<OnceLock<Fault>>) -> Option<Self> {
        let (monitor, network, watch) = (device.monitor, device.network, device.watch);
        let verified = match (monitor, network) {
            (Some(MonitorRef(monitor)), Some(network)) => Some(monitor.verified(network)),
            (Some(_), None) => return None,
            (None, _) => None,
        };
        let is_watched = match watch {
            Watch::Never => false,
            Watch::Seldom => is_timed,
            Watch::Always => true,
        };
        let is_over = verified.is_some_and(|verified| verified >= ENOUGH);
        // A test looks at everything.
        if !is_watched || is_over && watch == Watch::Seldom {
            return None;
        }
        // Other places and layers in each session.
        let turn = RandomState::new().hash_one(network);
        let shared = Shared {
            monitor,
            network,
            fault,
            busy: Mutex::default(),
            idle: Condvar::new(),
            is_new: AtomicBool::new(verified == Some(0)),
            is_over: AtomicBool::new(is_over),
            checked: AtomicU64::new(0),
        };
        let skip = (turn >> 40) as usize % FIRST_PRODUCTS;
        Some(Recheck { watch, skip, turn, shared: Arc::new(shared) })
    }

    /// Products that were found right so far.
    pub(super) fn checked(&self) -> u64 {
        self.shared.checked.load(Ordering::Relaxed)
    }

    /// Whether to look at the next product.
    fn is_due(&mut self) -> bool {
        let shared = &self.shared;
        if self.watch == Watch::Always {
            return true;
        }
        if shared.is_over.load(Ordering::Relaxed) {
            return false;
        }
        // The first look at a network does not wait for its time: its sessions may be short.
        let is_time = shared.is_new.load(Ordering::Relaxed) || is_time();
        if !is_time || *lock(&shared.busy) {
            return false;
        }
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    /// Waits for a look that is under way, but not for long.
    pub(super) fn wait(&self) {
        self.wait_for(PATIENCE);
    }

    fn wait_for(&self, patience: Duration) {
        let busy = lock(&self.shared.busy);
        drop(self.shared.idle.wait_timeout_while(busy, patience, |busy| *busy));
    }

    /// Any number of a range, another one each time.
    fn any(&mut self, range: Range<usize>) -> Option<usize> {
        self.turn = self.turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let len = range.end.checked_sub(range.start).filter(|n| *n > 0)?;
        Some(range.start + (self.turn >> 33) as usize % len)
    }

    /// Looks at a crop that took so long to get: at once, or in a thread of its own, one at a time.
    fn look(&self, crop: Crop, cost: Duration) {
        if self.watch == Watch::Always {
            return self.shared.look(&crop, cost);
        }
        *lock(&self.shared.busy) = true;
        let busy = Busy(Arc::clone(&self.shared));
        let work = move || busy.0.look(&crop, cost);
        // Without a thread, the look is given up.
        if std::thread::Builder::new().name("recheck".into()).spawn(work).is_err() {
            looked(cost);
        }
    }
}

impl Drop for Recheck {
    /// What is found late is still remembered for the device.
    fn drop(&mut self) {
        self.wait_for(SHORT_PATIENCE);
    }
}

/// Coordinates such that the taps of a few neighbours lie inside of `size`.
fn inside(
    range: &Range<usize>,
    size: usize,
    taps: usize,
    step: usize,
    pad: usize,
    count: usize,
) -> Range<usize> {
    let first = range.start.max(pad.div_ceil(step));
    let reach = taps + (count - 1) * step;
    let last = (size + pad).checked_sub(reach).map_or(0, |n| n / step + 1);
    first..last.min((range.end + 1).saturating_sub(count))
}

impl Gpu {
    /// The watch, if the product that was just enqueued is to be looked at.
    fn due(&mut self, accumulates: bool) -> Option<&mut Recheck> {
        self.recheck.as_mut().filter(|_| !accumulates).and_then(|recheck| recheck.is_due().then_some(recheck))
    }

    /// Values of neighbouring pixels.
    fn crop(&mut self, view: &View<'_>, frame: usize, row: usize, columns: Range<usize>) -> Result<Vec<f32>> {
        let offset = self.address("recheck", "tensor", view.tensor().buffer())?;
        let (whole, size) = (view.tensor().shape(), view.dtype().bytes());
        let line = (view.first_frame() + frame) * whole.h + row - view.tensor().band().first;
        let at = offset + ((line * whole.w + columns.start) * whole.c * size) as u64;
        let mut bytes = Vec::new();
        self.read_runs(&[(at, (columns.len() * whole.c * size) as u64)], &mut bytes)?;
        let mut values = vec![0.0; columns.len() * whole.c];
        decode(view.dtype(), &bytes, &mut values);
        Ok(values)
    }

    /// Some neighbouring channels out of those of pixels.
    fn some(values: &[f32], all: usize, first: usize, count: usize) -> Vec<f32> {
        values.chunks_exact(all).flat_map(|pixel| &pixel[first..first + count]).copied().collect()
    }

    pub(super) fn recheck_conv(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        let Some(recheck) = self.due(d.accumulate) else {
            return Ok(());
        };
        let ([kt, ky, kx], [st, sy, sx]) = (work.kernel, work.stride);
        let count = work.cout.min(CHANNELS);
        let rows = inside(&work.rows, work.h_in, ky, sy, work.padding.top, 1);
        let columns = inside(&(0..work.w_out), work.w_in, kx, sx, work.padding.left, PIXELS);
        // The tail in front of the slice may be another by now.
        let frames = if work.continued { work.prefix.div_ceil(st) } else { 0 }..work.t_out;
        let place = (
            recheck.any(frames),
            recheck.any(rows),
            recheck.any(columns),
            recheck.any(0..work.cout + 1 - count),
        );
        let (Some(t), Some(y), Some(x), Some(first)) = place else { return Ok(()) };
        self.wait()?;
        let started = Instant::now();
        let frame = |i: usize| (t * st + i).saturating_sub(work.prefix);
        let left = x * sx - work.padding.left;
        let wide = (PIXELS - 1) * sx + kx;
        let mut input = Vec::new();
        for i in 0..kt {
            for row in 0..ky {
                input.extend(self.crop(
                    &d.input,
                    frame(i),
                    y * sy - work.padding.top + row,
                    left..left + wide,
                )?);
            }
        }
        let norm = match &d.prologue {
            Some(p) => {
                let mut stats = Vec::new();
                for i in 0..kt {
                    stats.extend(self.crop(&p.stats, frame(i), p.stats.row_range().start, 0..1)?);
                }
                Some((p.affine.clone(), stats, p.silu))
            }
            None => None,
        };
        let shortcut = match &d.shortcut {
            Some(s) => Some((s.weight.clone(), self.crop(&s.input, t, y, x..x + PIXELS)?)),
            None => None,
        };
        let made = self.crop(&d.output, t, y, x..x + PIXELS)?;
        let crop = Crop {
            weight: d.weight.clone(),
            first,
            count,
            input: (Shape::new(kt, ky, wide, work.cin), input),
            norm,
            shortcut,
            dtype: work.dtype,
            made: Self::some(&made, work.cout, first, count),
        };
        self.look_again(crop, started)
    }

    pub(super) fn recheck_linear(&mut self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        let Some(recheck) = self.due(d.accumulate) else {
            return Ok(());
        };
        let (cin, cout) = (work.cin, work.cout);
        let count = cout.min(CHANNELS);
        let place = (
            recheck.any(0..work.t),
            recheck.any(work.rows.clone()),
            recheck.any(0..work.w),
            recheck.any(0..cout + 1 - count),
        );
        let (Some(t), Some(y), Some(x), Some(first)) = place else { return Ok(()) };
        self.wait()?;
        let started = Instant::now();
        let input = self.crop(&d.input, t, y, x..x + 1)?;
        let made = self.crop(&d.output, t, y, x..x + 1)?;
        let crop = Crop {
            weight: d.weight.clone(),
            first,
            count,
            input: (Shape::new(1, 1, 1, cin), input),
            norm: None,
            shortcut: None,
            dtype: work.dtype,
            made: Self::some(&made, cout, first, count),
        };
        self.look_again(crop, started)
    }

    fn look_again(&mut self, crop: Crop, started: Instant) -> Result<()> {
        if let Some(recheck) = &self.recheck {
            recheck.look(crop, started.elapsed());
        }
        self.stream.check()
    }
}
