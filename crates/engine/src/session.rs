//! One clip through one network, by plan.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use remaster_compute::staged::Staged;
use remaster_compute::{Backend, CancelToken, ComputeError, DType, HostStore, NullStore, Ops, TensorStore};
use remaster_model::{Network, State, load};
use remaster_plan::{Peaks, Plan, Tile, VERSION};

use crate::error::EngineError;
use crate::io::{Event, Events, Sink, Source, Summary};
use crate::live::{Ahead, Live, Slice};
use crate::measure::{FILE, HOST};
use crate::placement::{overhead, placement};
use crate::recovery::Recovery;
use crate::room::{Tails, reserve, tails};
use crate::slice_loop::SliceLoop;
use crate::spill::SpillFile;
use crate::state_file::{self, Belongs};

/// What a plan does not say: where to run it.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// What computes.
    pub backend: Backend,
    /// Storage of weights and activations; must be the plan's.
    pub dtype: DType,
    /// Folder for the spill file and saved states; without one a plan that needs disk is refused.
    pub spill: Option<PathBuf>,
    /// Stops the run.
    pub cancel: CancelToken,
    /// What to do when the device fails; `None` for nothing: the run ends with its error.
    pub recovery: Option<Recovery>,
    /// How the device is opened.
    pub open: Open,
}

/// Opens a backend with an arena of so many bytes. Tests have one that makes devices which fail.
#[derive(Clone)]
pub struct Open(Arc<Opener>);

type Opener = dyn Fn(&Backend, u64, CancelToken) -> Result<Box<dyn Ops + Send>, ComputeError> + Send + Sync;

impl Open {
    /// In a way of one's own.
    pub fn with(
        open: impl Fn(&Backend, u64, CancelToken) -> Result<Box<dyn Ops + Send>, ComputeError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Open(Arc::new(open))
    }
}

impl Default for Open {
    fn default() -> Self {
        Open::with(|backend, cap, cancel| backend.open(cap, cancel))
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Open")
    }
}

/// Values of a network's weights.
fn values(network: &dyn Network) -> u64 {
    let mut values = 0;
    network.weights(&mut |weight| values += weight.spec().main_len() as u64);
    values
}

/// A clip under way.
pub struct Session<'a> {
    plan: Plan,
    /// What the device was opened for.
    opened: Peaks,
    network: &'a dyn Network,
    slice_loop: SliceLoop,
    ops: Staged,
    /// Bytes on the device beside the arena.
    fixed: u64,
    tails: Vec<Tails>,
    states: Vec<State>,
    /// Input frames that went through.
    seen: usize,
    slice: usize,
    /// The end of an open-ended clip.
    ahead: Ahead,
    /// The source of an open-ended clip came to its end.
    over: bool,
}

impl<'a> Session<'a> {
    /// Opens the device with an arena of the planned size and loads the weights.
    pub fn start(plan: &Plan, network: &'a dyn Network, settings: &RunSettings) -> Result<Self, EngineError> {
        let file: Box<dyn TensorStore> = match plan.peaks.disk {
            0 => Box::new(NullStore::new(FILE, 0)),
            bytes => match &settings.spill {
                Some(folder) => Box::new(SpillFile::create(folder, bytes)?),
                None => return Err(EngineError::NoSpill { bytes }),
            },
        };
        Self::start_with(plan, network, settings, file)
    }

    /// As `start`, with a store for what the plan puts into the spill file.
    pub fn start_with(
        plan: &Plan,
        network: &'a dyn Network,
        settings: &RunSettings,
        file: Box<dyn TensorStore>,
    ) -> Result<Self, EngineError> {
        let planned = format!("version {VERSION}, {}, {}", settings.dtype, settings.backend.numerics());
        let given = format!("version {}, {}, {}", plan.version, plan.job.dtype, plan.job.numerics);
        if planned != given {
            return Err(EngineError::Mismatch { planned: given, given: planned });
        }
        let slice_loop = SliceLoop::new(&plan.job, &plan.how, settings.dtype);
        let beside = plan.peaks.host.saturating_sub(overhead(&slice_loop, plan.peaks.disk));
        let host: Box<dyn TensorStore> = match beside {
            0 => Box::new(NullStore::new(HOST, 0)),
            n => Box::new(HostStore::new(n)?),
        };
        let fixed = settings.backend.sizing().fixed_bytes();
        let arena = plan.peaks.device.saturating_sub(fixed);
        let backend = settings.backend.for_network(network.name(), values(network), settings.dtype);
        let device = (settings.open.0)(&backend, arena, settings.cancel.clone())?;
        let ops = Staged::new(device, host, file, placement(&plan.how));
        let tails = tails(network, &slice_loop, plan.job.start)?;
        let mut session = Session {
            plan: plan.clone(),
            opened: plan.peaks,
            network,
            slice_loop,
            ops,
            fixed,
            tails,
            states: Vec::new(),
            seen: 0,
            slice: 0,
            ahead: Ahead::default(),
            over: false,
        };
        session.reserve(plan.job.start)?;
        load(&mut session.ops, network)?;
        Ok(session)
    }

    fn reserve(&mut self, seen: usize) -> Result<(), EngineError> {
        self.states = reserve(&mut self.ops, &self.tails, self.slice_loop.dtype, seen)?;
        Ok(())
    }

    /// Result frames made so far.
    fn written(&self) -> usize {
        self.slice_loop.network.made(0, self.seen)
    }

    /// Whether the whole clip went through.
    pub fn is_done(&self) -> bool {
        self.over || (!self.slice_loop.open_ended && self.seen >= self.slice_loop.input.t)
    }

    /// Input frames that the next slice takes; 0 at the end.
    pub fn wants(&self) -> usize {
        if self.is_done() || !self.ahead.is_empty() {
            0
        } else {
            self.slice_loop.next(self.seen).map_or(0, |(frames, _)| frames)
        }
    }

    /// Input frames that went through.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Bytes of the state that is carried from slice to slice.
    pub fn state_bytes(&self) -> u64 {
        self.states.iter().map(State::bytes).sum()
    }

    /// Takes the next slice through the network.
    pub fn advance(
        &mut self,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<(), EngineError> {
        if self.seen < self.plan.job.start {
            let reason =
                format!("the plan starts at frame {}, but nothing was restored", self.plan.job.start);
            return Err(EngineError::State { reason });
        }
        let Some((frames, left)) = self.slice_loop.next(self.seen).filter(|_| !self.over) else {
            return Ok(());
        };
        let (name, of) = (self.network.name(), self.slice + left);
        events(Event::SliceStarted { network: name, slice: self.slice, of, done: self.seen, frames });
        let started = Instant::now();
        let before = self.pictured();
        let (work, seen, written) = ([0, self.work(frames)], self.seen, self.written());
        let (slice_loop, network, ahead) = (&self.slice_loop, self.network, &mut self.ahead);
        let slice = Slice::default();
        let mut live = Live { slice_loop, network, source, sink, ahead, events, work, seen, written, slice };
        let last = left == 1 && !self.slice_loop.open_ended;
        let (ops, states, tiles) = (&mut self.ops, &mut self.states, slice_loop.tiles.iter().enumerate());
        let (frames, last) = slice_loop.slice(ops, network, states, frames, last, &mut live, tiles)?;
        let busy = started.elapsed().saturating_sub(live.slice.waited);
        self.seen += frames;
        self.over = last;
        events(Event::SliceDone {
            network: name,
            slice: self.slice,
            frames: self.pictured() - before,
            written: self.written(),
            busy,
            device_peak: self.device_peak(),
        });
        self.slice += 1;
        Ok(())
    }

    /// Frames of the picture that went in or came out.
    pub(crate) fn pictured(&self) -> usize {
        self.seen.max(self.written())
    }

    /// About how many multiply-adds a slice of so many input frames takes.
    fn work(&self, frames: usize) -> u64 {
        let work = self.plan.work;
        let all = u128::from(work.macs.saturating_add(work.attention_macs));
        let left = self.slice_loop.input.t.saturating_sub(self.plan.job.start).max(1);
        u64::try_from(all * frames as u128 / left as u128).unwrap_or(u64::MAX)
    }

    fn device_peak(&self) -> u64 {
        self.ops.arena().peak() + self.fixed
    }

    /// Waits for checks of the results that are under way: they may find that the device computes wrong numbers.
    pub(crate) fn finish_checks(&mut self) -> Result<(), EngineError> {
        Ok(self.ops.finish_checks()?)
    }

    /// What was used so far.
    pub fn summary(&self) -> Summary {
        Summary {
            frames: self.written(),
            device_peak: self.device_peak(),
            host_peak: self.ops.host_arena().peak(),
            disk_peak: self.ops.file_arena().peak(),
        }
    }

    fn belongs(&self) -> Belongs {
        let job = &self.plan.job;
        let tile = |t: &Tile| [t.rows.start, t.rows.end, t.columns.start, t.columns.end];
        let mut tiles: Vec<[usize; 4]> = self.slice_loop.tiles.iter().map(|t| tile(&t)).collect();
        if let Some(bands) = &self.slice_loop.bands {
            tiles.push([bands.level, bands.count, bands.halo.map_or(0, |n| n + 1), bands.reduce]);
        }
        Belongs {
            network: job.network.clone(),
            dtype: job.dtype.clone(),
            numerics: job.numerics.clone(),
            cells: [job.cells.rows, job.cells.columns],
            tiles,
        }
    }

    /// Back to the start of the clip, or of another one of the same size.
    pub fn rewind(&mut self) -> Result<(), EngineError> {
        self.states.clear();
        (self.seen, self.slice, self.over, self.ahead) = (0, 0, false, Ahead::default());
        self.reserve(0)
    }

    /// Whether a clip of `plan` can go through as the device was opened: the same network, way and frame, from its
    /// start, within the same memory.
    pub fn takes(&self, plan: &Plan) -> bool {
        let (now, then) = (&self.plan, plan);
        let same = now.job.network == then.job.network
            && (now.job.cells.rows, now.job.cells.columns) == (then.job.cells.rows, then.job.cells.columns)
            && now.job.numerics == then.job.numerics
            && now.job.dtype == then.job.dtype
            && now.how == then.how;
        same && then.peaks.is_within(&self.opened) && now.job.start == 0 && then.job.start == 0
    }

    /// Back to the start, for a clip of a plan that [`Session::takes`] approves.
    pub fn again(&mut self, plan: &Plan) -> Result<(), EngineError> {
        if !self.takes(plan) {
            let (planned, given) = (plan.how.describe(), self.plan.how.describe());
            return Err(EngineError::Mismatch { planned, given });
        }
        if plan.job != self.plan.job {
            self.slice_loop = SliceLoop::new(&plan.job, &plan.how, self.slice_loop.dtype);
            self.tails = tails(self.network, &self.slice_loop, 0)?;
            self.plan = plan.clone();
        }
        self.rewind()
    }

    /// Writes what the next slice needs of those before.
    pub fn save(&mut self, to: &mut (dyn Write + Send)) -> Result<(), EngineError> {
        let belongs = self.belongs();
        state_file::save(&mut self.ops, &belongs, &self.states, to)
    }

    /// Goes on where `save` left off, also under another plan, which must be made for that start: its
    /// `job.start` is the `seen` of then. The source must stand at that frame.
    pub fn restore(&mut self, from: &mut (dyn Read + Send)) -> Result<(), EngineError> {
        let belongs = self.belongs();
        let seen = state_file::restore(&mut self.ops, &belongs, &self.states, from)?;
        if seen != self.plan.job.start {
            return Err(EngineError::Mismatch {
                planned: format!("a run from frame {}", self.plan.job.start),
                given: format!("a state of {seen} frames"),
            });
        }
        self.seen = seen;
        Ok(())
    }
}
