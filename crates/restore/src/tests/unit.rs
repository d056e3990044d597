//! Units of a film, wherever they begin: the same bits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use remaster_colour::alpha::AlphaKind;
use remaster_engine::{Event, Open, Recovery};
use remaster_media::{FrameSink, MediaError};
use remaster_picture::Frame;
use remaster_plan::{Budget, LookBack, ShotRange};
use remaster_testkit::Faults;

use super::invariance::{FRAMES, Way, back, film, narrow, recipe, run, shots, whole};
use super::{Kept, Machines, folder, source, source_at};
use crate::cuts::Cuts;
use crate::error::RestoreError;
use crate::film::{Done, Recipe, Room};
use crate::finish::Pool;
use crate::unit::{Checkpoint, Unit, UnitShot, UnitWork, in_chunks, units_of};

/// Bytes of a latent of 4 x 6 cells.
pub(super) const LATENT: u64 = 4 * 4 * 6 * 16;

/// How many operations there are until one fails. Clones share it.
#[derive(Clone)]
pub(super) struct Fuse(Arc<AtomicUsize>);

impl Fuse {
    pub(super) fn new(operations: usize) -> Self {
        Fuse(Arc::new(AtomicUsize::new(operations)))
    }

    /// Whether this operation and all later ones fail.
    fn is_blown(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }

    pub(super) fn left(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Latents have no such values.
pub(super) fn is_damaged(values: &[f32]) -> bool {
    values.iter().any(|value| value.is_nan())
}

/// Kept latents in memory.
pub(crate) struct Memory {
    pub(crate) kept: BTreeMap<String, Vec<f32>>,
    /// What was loaded, in order.
    pub(crate) loads: Vec<String>,
    fuse: Fuse,
    /// Asked so often, it is time.
    pub(crate) pace: usize,
    asked: usize,
}

impl Memory {
    pub(super) fn new(kept: BTreeMap<String, Vec<f32>>, fuse: &Fuse, pace: usize) -> Self {
        Memory { kept, loads: Vec::new(), fuse: fuse.clone(), pace, asked: 0 }
    }
}

impl Default for Memory {
    /// Nothing is kept, it is never time, and nothing fails.
    fn default() -> Self {
        Memory::new(BTreeMap::new(), &Fuse::new(usize::MAX), usize::MAX)
    }
}

impl Checkpoint for Memory {
    fn is_due(&mut self) -> bool {
        self.asked += 1;
        self.asked.is_multiple_of(self.pace)
    }

    fn names(&mut self) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
        Ok(self.kept.keys().cloned().collect())
    }

    fn load(&mut self, name: &str) -> Result<Option<Vec<f32>>, Box<dyn Error + Send + Sync>> {
        self.loads.push(name.to_owned());
        Ok(self.kept.get(name).cloned())
    }

    fn keep(&mut self, name: &str, values: &[&[f32]]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.len() < 60 && name.chars().all(word), "{name}");
        let mut values = values.concat();
        if self.fuse.is_blown() {
            // Half of it was written.
            values.truncate(values.len() / 2);
            self.kept.entry(name.to_owned()).or_insert(values);
            return Err("killed".into());
        }
        let before = self.kept.insert(name.to_owned(), values.clone());
        let same = |old: Vec<f32>| is_damaged(&old) || old.len() != values.len() || old == values;
        assert!(before.is_none_or(same), "{name} changed");
        Ok(())
    }
}

/// Frames with their times, until the fuse blows.
struct Out(Kept, Fuse);

impl FrameSink for Out {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        if self.1.is_blown() {
            return Err(MediaError::Cancelled);
        }
        self.0.write(frame, pts)
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}

/// What a run did.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Frames that were written.
    pub(super) frames: Vec<Frame>,
    /// What was opened, in order.
    pub(super) opened: Vec<Range<usize>>,
    /// Networks that were loaded.
    pub(super) loaded: Vec<String>,
    /// Windows that were restored.
    pub(super) windows: usize,
    /// Frames that each phase told of.
    pub(super) told: [usize; 3],
    pub(super) warnings: usize,
}

/// A film on its way.
pub(super) struct Stage {
    pub(super) film: Vec<Frame>,
    pub(super) recipe: Recipe,
    pub(super) machines: Machines,
    pub(super) back: LookBack,
    pub(super) room: Room,
    /// Bytes of a chunk.
    pub(super) chunk: u64,
}

impl Stage {
    pub(super) fn new(film: Vec<Frame>, recipe: Recipe) -> Self {
        Self::with(film, recipe, narrow())
    }

    fn with(film: Vec<Frame>, recipe: Recipe, way: Way) -> Self {
        let machines = Machines::new(&recipe, &way);
        Stage { film, recipe, machines, back: back(&way), room: way.room, chunk: 3 * LATENT }
    }

    /// Restores a unit from a frame on.
    pub(super) fn run(
        &self,
        unit: &Unit,
        from: usize,
        checkpoint: Option<&mut Memory>,
        fuse: &Fuse,
    ) -> (Result<Done, RestoreError>, Trace) {
        let kept = Kept::default();
        let opened = Rc::new(RefCell::new(Vec::new()));
        let mut open = |range: Range<usize>| {
            opened.borrow_mut().push(range.clone());
            if fuse.is_blown() {
                return Err(MediaError::Cancelled);
            }
            let frames = Arc::new(self.film[range.clone()].to_vec());
            Ok(source_at(&frames, range.start))
        };
        let mut trace = Trace::default();
        let mut events = |event: Event<'_>| match event {
            Event::Planned(plan) => trace.loaded.push(plan.job.network.name.clone()),
            Event::Warning(_) => trace.warnings += 1,
            Event::SliceDone { network, frames, .. } => {
                trace.windows += usize::from(network == "dit");
                let phase = ["encode", "dit", "decode"].iter().position(|name| *name == network);
                trace.told[phase.unwrap()] += frames;
            }
            _ => {}
        };
        let sink = Box::new(Out(kept.clone(), fuse.clone()));
        let checkpoint = checkpoint.map(|memory| memory as &mut dyn Checkpoint);
        let work = UnitWork { unit, from, open: &mut open, sink, checkpoint };
        let networks = self.machines.networks();
        let done = in_chunks(work, &self.recipe, networks, self.back, &self.room, self.chunk, &mut events);
        trace.opened = opened.take();
        trace.frames = kept.frames_from(from);
        (done, trace)
    }

    /// Restores a unit that nothing stops.
    pub(super) fn all(&self, unit: &Unit, from: usize, checkpoint: Option<&mut Memory>) -> Trace {
        let (done, trace) = self.run(unit, from, checkpoint, &Fuse::new(usize::MAX));
        let done = done.unwrap();
        assert_eq!((done.frames, done.frames), (trace.frames.len(), unit.frames().end - from));
        trace
    }
}

/// A film of one shot, so long that ranges at its end do not see its start.
pub(super) fn long() -> Vec<Frame> {
    film().iter().cycle().take(5 * FRAMES).cloned().collect()
}

pub(super) fn unit_of(range: &ShotRange) -> Unit {
    let first = range.made.start;
    Unit { shots: vec![UnitShot { range: range.clone(), first, alpha: None }] }
}

#[test]
fn units_of_a_film_are_the_film() {
    let film = film();
    let lengths = [(40, None), (24, None), (33, None)];
    for (pool, most) in
        [(Pool::Window, 97), (Pool::Frame, 64), (Pool::Shot, 97), (Pool::Shot, 30), (Pool::Window, 30)]
    {
        let recipe = recipe(shots(), pool);
        let (expected, _) = run(&film, &recipe, &narrow());
        let windows = recipe.sampling.windows;
        let units = units_of(&lengths, most, &windows, pool);
        let stage = Stage::new(film.clone(), recipe);
        for unit in units {
            let frames = unit.frames();
            let trace = stage.all(&unit, frames.start, None);
            assert!(trace.frames == expected[frames.clone()], "{pool:?} {most}");
            // Every phase tells of every frame, once; every network is loaded once; the input is opened twice.
            assert_eq!(trace.told, [frames.len(); 3]);
            assert_eq!(trace.loaded, ["encode", "dit", "decode"]);
            assert_eq!(trace.opened, [unit.read(&windows, stage.back), frames.clone()]);
            // From every piece on.
            for piece in unit.pieces(20, &windows, pool).iter().skip(1) {
                let trace = stage.all(&unit, piece.start, None);
                assert!(trace.frames == expected[piece.start..frames.end], "{pool:?} {piece:?}");
                assert_eq!(trace.told, [frames.end - piece.start; 3]);
            }
        }
    }
}

#[test]
fn stretches_of_a_long_shot_are_the_shot() {
    let recipe = recipe(Cuts::None, Pool::Window);
    let windows = recipe.sampling.windows;
    let ranges = ShotRange::of(long().len(), 120, &windows);
    assert_eq!(ranges.len(), 5);
    for way in [whole(), narrow()] {
        let (expected, _) = run(&long(), &recipe, &way);
        let mut stage = Stage::with(long(), recipe.clone(), way);
        stage.room.folder = Some(folder());
        // One in the middle and the last one. The network that sees as far back as the public one is slow.
        let is_slow = stage.back.encode == 112;
        for range in &ranges[if is_slow { 4 } else { 3 }..] {
            let unit = unit_of(range);
            let (end, read) = (range.made.end, unit.read(&windows, stage.back));
            let length = if is_slow { 200 } else { 40 };
            for piece in unit.pieces(length, &windows, Pool::Window) {
                let trace = stage.all(&unit, piece.start, None);
                assert!(trace.frames == expected[piece.start..end], "{piece:?}");
                assert_eq!(trace.told, [end - piece.start; 3]);
                // Later pieces read less.
                assert!(trace.opened[0].start > 0 && trace.opened[0].end == read.end);
                assert_eq!(trace.opened[0] == read, piece.start == range.made.start);
            }
        }
        // Several ranges of a shot in one unit.
        if !is_slow {
            let shots = ranges[2..].iter().flat_map(|range| unit_of(range).shots).collect();
            let unit = Unit { shots };
            let trace = stage.all(&unit, unit.frames().start, None);
            assert!(trace.frames == expected[unit.frames()]);
        }
    }
}

#[test]
fn alpha_is_that_of_the_whole_shot() {
    let mut recipe = recipe(shots(), Pool::Frame);
    recipe.geometry = recipe.geometry.with_alpha(true);
    let with_alpha = |(i, frame): (usize, &Frame)| {
        let pixels = frame.data.chunks_exact(3).enumerate();
        // The second shot is soft; the first and the last are transparent or opaque.
        let alpha = |k: usize| if (40..64).contains(&i) { k % 40 / 40 } else { k / 5 % 2 } as f32;
        let soft = |k: usize| if (40..64).contains(&i) { (k % 40) as f32 / 40.0 } else { alpha(k) };
        let data = pixels.flat_map(|(k, c)| [c[0], c[1], c[2], soft(k)]).collect();
        Frame { channels: 4, data, ..frame.clone() }
    };
    let film: Vec<Frame> = film().iter().enumerate().map(with_alpha).collect();
    let (expected, _) = run(&film, &recipe, &narrow());
    let lengths = [(40, Some(AlphaKind::Binary)), (24, Some(AlphaKind::Soft)), (33, Some(AlphaKind::Binary))];
    let stage = Stage::new(film, recipe);
    for unit in units_of(&lengths, 64, &stage.recipe.sampling.windows, Pool::Frame) {
        let frames = unit.frames();
        let trace = stage.all(&unit, frames.start, None);
        assert!(trace.frames == expected[frames.clone()] && trace.frames[0].channels == 4, "{frames:?}");
    }
}

#[test]
fn a_lost_device_opens_the_same_frames_again() {
    let (film, recipe) = (film(), recipe(shots(), Pool::Window));
    let (expected, _) = run(&film, &recipe, &narrow());
    let mut stage = Stage::new(film, recipe);
    let units =
        units_of(&[(40, None), (24, None), (33, None)], 64, &stage.recipe.sampling.windows, Pool::Window);
    let plenty = Budget::Apart { vram: 1 << 40, ram: 1 << 40, disk: 1 << 40 };
    let faults = Faults::default();
    for task in &mut stage.machines.tasks {
        let faults = faults.clone();
        task.settings.open = Open::with(move |backend, cap, cancel| faults.open(backend, cap, cancel));
        task.settings.recovery = Some(Recovery { budget: plenty, pace: None });
    }
    stage.all(&units[0], 0, None);
    let calls = faults.calls();
    for part in 1..6 {
        let at = faults.calls() + calls * part / 6;
        faults.lose_at(vec![at]);
        let mut memory = Memory::new(BTreeMap::new(), &Fuse::new(usize::MAX), 1);
        let trace = stage.all(&units[0], 0, Some(&mut memory));
        assert!(trace.frames == expected[..64], "{part}");
        assert_eq!((trace.told, trace.warnings), ([64; 3], 1), "{part}");
        assert!(trace.opened[..trace.opened.len() - 1].iter().all(|range| *range == (0..64)));
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let (film, lengths) = (film(), [(40, None), (24, None), (33, None)]);
    let stage = Stage::new(film.clone(), recipe(shots(), Pool::Window));
    let windows = stage.recipe.sampling.windows;
    let unit = units_of(&lengths, 97, &windows, Pool::Window).remove(0);
    let fail = |stage: &Stage, unit: &Unit, from: usize| {
        let (done, trace) = stage.run(unit, from, None, &Fuse::new(usize::MAX));
        assert!(trace.frames.is_empty());
        (done.unwrap_err(), trace)
    };
    // Windows of the second shot start with its first latent and its third.
    for from in (41..64).filter(|from| *from != 45) {
        let (error, trace) = fail(&stage, &unit, from);
        let typed = matches!(error, RestoreError::Piece { frame, start: 40 } if frame == from);
        assert!(typed, "{from}: {error}");
        assert!(trace.opened.is_empty() && trace.loaded.is_empty());
    }
    let later = units_of(&lengths, 40, &windows, Pool::Window).remove(1);
    for from in [0, 39, 64, usize::MAX] {
        let (error, _) = fail(&stage, &later, from);
        assert!(matches!(error, RestoreError::Outside { first: 40, end: 64, .. }), "{error}");
    }
    // Pools of whole shots.
    let whole_shots = Stage::new(film.clone(), recipe(shots(), Pool::Shot));
    assert!(matches!(fail(&whole_shots, &unit, 45).0, RestoreError::Divided { frame: 45 }));
    let ranges = units_of(&lengths, 30, &windows, Pool::Window);
    let (error, _) = fail(&whole_shots, &ranges[1], ranges[1].frames().start);
    assert!(matches!(error, RestoreError::Divided { .. }), "{error}");
    // Units that are none.
    let gap = Unit { shots: vec![unit.shots[0].clone(), unit.shots[2].clone()] };
    assert!(matches!(fail(&stage, &gap, 0).0, RestoreError::Unit(_)));
    let mut odd = unit.clone();
    odd.shots.truncate(1);
    odd.shots[0].range.made.end = 20;
    assert!(matches!(fail(&stage, &odd, 0).0, RestoreError::Piece { frame: 20, start: 0 }));
    // No room for 11 + 7 + 9 latents.
    let mut small = Stage::new(film.clone(), recipe(shots(), Pool::Window));
    small.room.bytes = 27 * LATENT - 1;
    let (error, trace) = fail(&small, &unit, 0);
    assert!(matches!(error, RestoreError::UnitRoom { first: 0, end: 97, .. }), "{error}");
    assert!(trace.loaded.is_empty());
    small.room.bytes += 1;
    small.all(&unit, 0, None);
    assert_eq!(unit.latents(&windows, stage.back), 27);
}

#[test]
fn frames_that_are_missing_or_too_many_are_named() {
    let stage = Stage::new(film(), recipe(shots(), Pool::Window));
    let windows = stage.recipe.sampling.windows;
    let unit = units_of(&[(40, None), (24, None), (33, None)], 97, &windows, Pool::Window).remove(0);
    // Frames that an input gives instead of 97 the first time and the second time, and which of them is wrong.
    for (given, wrong) in [
        ([0, 97], 0),
        ([39, 97], 39),
        ([40, 97], 40),
        ([96, 97], 96),
        ([98, 97], 97),
        ([120, 97], 97),
        ([97, 96], 96),
    ] {
        let mut times = given.iter();
        let frames: Vec<Frame> = film().iter().cycle().take(130).cloned().collect();
        let mut open = |_: Range<usize>| {
            let count = *times.next().unwrap();
            let frames = Arc::new(frames[..count.max(1)].to_vec());
            let mut source = source(&frames);
            if count == 0 {
                source.next(&mut Frame::new(0, 0, 3))?;
            }
            Ok(source)
        };
        let sink = Box::new(Kept::default());
        let work = UnitWork { unit: &unit, from: 0, open: &mut open, sink, checkpoint: None };
        let networks = stage.machines.networks();
        let done = in_chunks(work, &stage.recipe, networks, stage.back, &stage.room, 1 << 20, &mut |_| ());
        let error = done.unwrap_err();
        assert!(matches!(error, RestoreError::Changed { frame } if frame == wrong), "{given:?}: {error:?}");
    }
}
