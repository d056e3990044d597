//! One clip through one half of the network, by plan.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use remaster_compute::staged::Staged;
use remaster_compute::{
    Backend, CancelToken, ComputeError, DType, HostStore, HostTensor, NullStore, Ops, Shape, Store, Tensor,
};
use remaster_model::vae::{Half, State, load, unload};
use remaster_plan::{Plan, TIME, Tile, VERSION};

use crate::blend::Canvas;
use crate::course::{Course, Traffic};
use crate::error::EngineError;
use crate::guard::{Guarded, Lane, Recovery};
use crate::io::{Event, Sink, Source, Summary};
use crate::measure::{Tails, overhead, placement, reserve, tails};
use crate::spill::SpillFile;
use crate::state_file::{self, Belongs};

/// What a plan does not say: where to run it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What computes.
    pub backend: Backend,
    /// Storage of weights and activations; must be the plan's.
    pub dtype: DType,
    /// Channels into the half and out of it.
    pub channels: [usize; 2],
    /// Folder for the spill file.
    pub spill: PathBuf,
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

type Opener = dyn Fn(&Backend, u64, CancelToken) -> Result<Box<dyn Ops>, ComputeError> + Send + Sync;

impl Open {
    /// In a way of one's own.
    pub fn with(
        open: impl Fn(&Backend, u64, CancelToken) -> Result<Box<dyn Ops>, ComputeError> + Send + Sync + 'static,
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

/// A clip under way.
pub struct Session<'a> {
    plan: Plan,
    half: &'a dyn Half,
    course: Course,
    ops: Staged,
    /// Bytes on the device beside the arena.
    fixed: u64,
    tails: Vec<Tails>,
    states: Vec<State>,
    /// Input frames that went through.
    seen: usize,
    slice: usize,
    /// The source of an open-ended clip came to its end.
    over: bool,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        unload(self.half);
    }
}

impl<'a> Session<'a> {
    /// Opens the device with an arena of the planned size and loads the weights.
    pub fn start(plan: &Plan, half: &'a dyn Half, settings: &Settings) -> Result<Self, EngineError> {
        let file: Box<dyn Store> = match plan.peaks.disk {
            0 => Box::new(NullStore::new("spill file", 0)),
            n => Box::new(SpillFile::create(&settings.spill, n)?),
        };
        Self::start_with(plan, half, settings, file)
    }

    /// As `start`, with a store for what the plan puts into the spill file.
    pub fn start_with(
        plan: &Plan,
        half: &'a dyn Half,
        settings: &Settings,
        file: Box<dyn Store>,
    ) -> Result<Self, EngineError> {
        let planned = format!("version {VERSION}, {}, {}", settings.dtype, settings.backend.numerics());
        let given = format!("version {}, {}, {}", plan.version, plan.job.dtype, plan.job.numerics);
        if planned != given {
            return Err(EngineError::Mismatch { planned: given, given: planned });
        }
        let course = Course::new(&plan.job, &plan.how, settings.dtype, settings.channels);
        let beside = plan.peaks.host.saturating_sub(overhead(&course, plan.peaks.disk));
        let host: Box<dyn Store> = match beside {
            0 => Box::new(NullStore::new("host", 0)),
            n => Box::new(HostStore::new(n)?),
        };
        let fixed = settings.backend.sizing().fixed_bytes();
        let arena = plan.peaks.device.saturating_sub(fixed);
        let device = (settings.open.0)(&settings.backend, arena, settings.cancel.clone())?;
        let ops = Staged::new(device, host, file, placement(&plan.how));
        let tails = tails(half, &course, plan.job.start)?;
        let mut session = Session {
            plan: plan.clone(),
            half,
            course,
            ops,
            fixed,
            tails,
            states: Vec::new(),
            seen: 0,
            slice: 0,
            over: false,
        };
        session.reserve(plan.job.start)?;
        load(&mut session.ops, half)?;
        Ok(session)
    }

    fn reserve(&mut self, seen: usize) -> Result<(), EngineError> {
        self.states = reserve(&mut self.ops, &self.tails, self.course.dtype, seen)?;
        Ok(())
    }

    /// Result frames made so far.
    fn written(&self) -> usize {
        self.course.made(0, self.seen)
    }

    /// Whether the whole clip went through.
    pub fn is_done(&self) -> bool {
        self.over || (!self.course.open_ended && self.seen >= self.course.input.t)
    }

    /// Input frames that the next slice takes; 0 at the end.
    pub fn wants(&self) -> usize {
        if self.is_done() { 0 } else { self.course.next(self.seen).map_or(0, |(frames, _)| frames) }
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
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), EngineError> {
        if self.seen < self.plan.job.start {
            let reason =
                format!("the plan starts at frame {}, but nothing was restored", self.plan.job.start);
            return Err(EngineError::State { reason });
        }
        let Some((frames, left)) = self.course.next(self.seen).filter(|_| !self.over) else { return Ok(()) };
        let of = self.slice + left;
        events(Event::SliceStarted { slice: self.slice, of, done: self.seen, frames });
        let mut live = Live {
            course: &self.course,
            half: self.half,
            source,
            sink,
            events,
            seen: self.seen,
            written: self.written(),
            made: 0,
            input: Vec::new(),
            part: Vec::new(),
            result: Made::Nothing,
        };
        let last = left == 1 && !self.course.open_ended;
        let (frames, last) =
            self.course.slice(&mut self.ops, self.half, &mut self.states, frames, last, &mut live)?;
        self.seen += frames;
        self.over = last;
        let device_peak = self.device_peak();
        events(Event::SliceDone { slice: self.slice, written: self.written(), device_peak });
        self.slice += 1;
        Ok(())
    }

    fn device_peak(&self) -> u64 {
        self.ops.arena().peak() + self.fixed
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
        let mut tiles: Vec<[usize; 4]> = self.course.tiles.iter().map(|t| tile(&t)).collect();
        if let Some(bands) = &self.course.bands {
            tiles.push([bands.stage, bands.count, bands.halo.map_or(0, |n| n + 1), bands.reduce]);
        }
        Belongs {
            half: job.direction.name().into(),
            dtype: job.dtype.clone(),
            collapse: job.collapse,
            numerics: job.numerics.clone(),
            frame: [job.clip.height(), job.clip.width()],
            tiles,
        }
    }

    /// Back to the start of the clip, or of another one of the same size.
    pub fn rewind(&mut self) -> Result<(), EngineError> {
        self.states.clear();
        (self.seen, self.slice, self.over) = (0, 0, false);
        self.reserve(0)
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

/// Frames of one slice between source, device and sink.
struct Live<'a, 'b> {
    course: &'a Course,
    half: &'a dyn Half,
    source: &'a mut dyn Source,
    sink: &'a mut dyn Sink,
    events: &'a mut (dyn FnMut(Event<'_>) + 'b),
    seen: usize,
    written: usize,
    made: usize,
    input: Vec<f32>,
    /// A tile of the input.
    part: Vec<f32>,
    result: Made,
}

/// The result of a slice.
enum Made {
    Nothing,
    /// Of a frame that is not cut.
    Whole(HostTensor),
    /// Tiles so far.
    Tiles(Canvas),
}

impl Traffic for Live<'_, '_> {
    fn begin(&mut self, frames: usize, last: bool) -> Result<(usize, bool), EngineError> {
        let shape = Shape { t: frames, ..self.course.input };
        self.input.resize(shape.len(), 0.0);
        let failed = |source| EngineError::Source { frame: self.seen, source };
        let got = self.source.read(shape, &mut self.input).map_err(failed)?;
        let over = got < frames;
        if over && !(self.course.open_ended && self.course.may_end(self.seen + got)) {
            return Err(EngineError::Short { got: self.seen + got, expected: self.course.input.t });
        }
        self.input.truncate(got * shape.len() / frames.max(1));
        self.made = self.course.made(self.seen, got);
        Ok((got, last || over))
    }

    fn fill(&mut self, ops: &mut dyn Ops, tile: &Tile, x: &Tensor) -> Result<(), EngineError> {
        let Shape { h, w, c, .. } = self.course.input;
        let shape = x.shape();
        if (shape.h, shape.w) == (h, w) {
            return Ok(ops.upload(&self.input, x.view())?);
        }
        let scale = self.course.scale[0];
        let (top, left) = (tile.rows.start * scale, tile.columns.start * scale);
        self.part.clear();
        for (t, y) in (0..shape.t).flat_map(|t| (0..shape.h).map(move |y| (t, y))) {
            let start = ((t * h + top + y) * w + left) * c;
            self.part.extend_from_slice(&self.input[start..start + shape.w * c]);
        }
        Ok(ops.upload(&self.part, x.view())?)
    }

    fn take(&mut self, ops: &mut dyn Ops, i: usize, tile: &Tile, y: Tensor) -> Result<(), EngineError> {
        let mut part = HostTensor::zeros(y.shape());
        ops.download(y.view(), &mut part.data)?;
        if part.shape.t != self.made {
            let (planned, given) = (format!("{} frames", self.made), format!("{}", part.shape));
            return Err(EngineError::Mismatch { planned, given });
        }
        if let Some(t) = first_bad_frame(&part.data, part.shape) {
            return Err(self.not_finite(ops, t));
        }
        let of = self.course.tiles.len();
        if of == 1 {
            self.result = Made::Whole(part);
            return Ok(());
        }
        if let Made::Nothing = self.result {
            let shape = Shape { t: self.made, ..self.course.output };
            self.result = Made::Tiles(Canvas::new(shape, self.course.scale[1], self.course.ramp));
        }
        if let Made::Tiles(canvas) = &mut self.result {
            canvas.add(tile, &part);
        }
        (self.events)(Event::TileDone { tile: i, of });
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Ops) -> Result<(), EngineError> {
        let frames = match std::mem::replace(&mut self.result, Made::Nothing) {
            Made::Whole(frames) => frames,
            Made::Tiles(canvas) => canvas.finish(),
            Made::Nothing => return Ok(()),
        };
        self.sink
            .write(self.written, frames)
            .map_err(|source| EngineError::Sink { frame: self.written, source })
    }
}

impl Live<'_, '_> {
    /// Who made frame `t` of the result NaN or infinite.
    fn not_finite(&self, ops: &mut dyn Ops, t: usize) -> EngineError {
        if let Some(t) = first_bad_frame(&self.input, self.course.input) {
            return EngineError::BadInput { frame: self.seen + t };
        }
        let layer = match ops.first_spoiled() {
            Ok(Some(layer)) => layer,
            // No normalisation saw it, so it came behind the last of them.
            Ok(None) => last_layer(self.half),
            Err(error) => return error.into(),
        };
        let made = self.written + t;
        let frame = if self.course.scale[1] == 1 { (made * TIME).saturating_sub(TIME - 1) } else { made };
        EngineError::NotFinite { frame, layer, dtype: self.course.dtype }
    }
}

/// The first frame with a value that is NaN or infinite. Asked of every result: with one test per frame it takes a
/// thousandth of the time that the network takes.
fn first_bad_frame(values: &[f32], shape: Shape) -> Option<usize> {
    let frame = shape.h * shape.w * shape.c;
    values.chunks(frame.max(1)).position(|f| f.iter().fold(false, |bad, v| bad | !v.is_finite()))
}

fn last_layer(half: &dyn Half) -> String {
    let mut last = String::new();
    half.weights(&mut |w| last = w.name().to_owned());
    last
}

/// The whole clip. After an error the sink was told to leave nothing behind.
pub fn run(
    plan: &Plan,
    half: &dyn Half,
    settings: &Settings,
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, EngineError> {
    events(Event::Planned(plan));
    let mut go = || -> Result<Summary, EngineError> {
        let mut run = Guarded::start(vec![Lane { half, settings, plan: plan.clone() }], events)?;
        events(Event::Loaded);
        while !run.is_done(0) {
            let step = run.advance(0, source, sink, events).and_then(|()| run.keep(events));
            if let Err(error) = step {
                run.recover(error, &mut |frame| source.back_to(frame), events)?;
            }
        }
        let summary = run.summary(0);
        sink.finish().map_err(|source| EngineError::Sink { frame: summary.frames, source })?;
        Ok(summary)
    };
    let result = go();
    match &result {
        Ok(summary) => events(Event::Done(summary)),
        Err(_) => sink.abort(),
    }
    result
}
