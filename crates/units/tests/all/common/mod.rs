//! A film of three shots, a store in memory, and workers that write what they would restore as text.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use remaster_media::{FrameSink, MediaError, SampleSink, SegmentKind, Stop, Y4mReader};
use remaster_picture::Frame;
use remaster_plan::{LookBack, Windows};
use remaster_restore::{Checkpoint, Cuts, Pool};
use remaster_scenes::Shots;
use remaster_store::testkit::Memory;
use remaster_store::{Commit, Journal, Key, Limits, Store};
use remaster_units::{
    Checkpoints, FilmPlan, First, Input, Model, NewPiece, Outcome, Progress, Request, Restoring, ResultClass,
    Settings, UnitsError, Watch, Work, assemble, read_all, survey, work,
};

/// How a worker that makes frames one by one saves them.
pub(crate) struct Saves {
    /// How often.
    pub(crate) every: Duration,
    /// Bytes that checkpoints may take.
    pub(crate) room: u64,
    /// Which frames share a correction of colour.
    pub(crate) pool: Pool,
}

impl Default for Saves {
    fn default() -> Self {
        Saves { every: Duration::ZERO, room: 1 << 20, pool: POOL }
    }
}

/// How a worker ends that does not complete its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Dies,
    IsStopped,
    IsCancelled,
}

/// What a worker makes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Restore,
    Leave,
}

const POOL: Pool = Pool::Frame;
const SHOTS: [u64; 3] = [0, 40, 67];
const FRAMES: usize = 97;
const LATENTS: &str = "encoded-0-4";

fn windows() -> Windows {
    Windows::new(5).unwrap()
}

fn limits() -> Limits {
    Limits { wait: Duration::from_millis(1), longest_wait: Duration::from_millis(2), ..Limits::default() }
}

/// Everything that a planner, workers and an assembler have.
pub(crate) struct Desk {
    memory: Memory,
    pub(crate) journal: Journal,
    pub(crate) plan: FilmPlan,
    /// Damage that workers told of.
    pub(crate) damaged: Cell<usize>,
    /// How far workers saved their frames.
    pub(crate) progress: Arc<Progress>,
    /// What the frames of this film become.
    restored: f32,
    scratch: tempfile::TempDir,
}

/// A request with all defaults.
fn request() -> Request {
    let plain = serde_json::json!({
        "seed": 42, "softness": 0.0, "window": 45, "input_noise": 0.0, "latent_noise": 0.0, "strength": 1.0, "color": "lab",
        "color_pool": "frame", "dither": false, "resolution": null, "edges": "mirror-black", "keep_sar": false, "tiles": null,
        "reading": {
            "start": null, "end": null, "filters": null, "rate": null, "deinterlace": "auto", "keep_hdr": false,
            "keep_damaged": false, "exr": false,
        },
        "writing": {"video": null, "crf": null, "pixel_format": null, "lossless": false, "silent": false},
    });
    serde_json::from_value(plain).unwrap()
}

/// A plan for a film of so many frames in the shots above, as far as it has them.
fn plan(film: &Path, frames: usize, unit_frames: usize, piece_frames: usize) -> Result<FilmPlan, UnitsError> {
    let mut raw = b"YUV4MPEG2 W2 H2 F25:1 Cmono\n".to_vec();
    (0..frames).for_each(|i| raw.extend([b"FRAME\n".as_slice(), &[i as u8; 4]].concat()));
    let source = Y4mReader::new(Cursor::new(raw), film.to_owned(), 1 << 20, Stop::never()).unwrap();
    let starts = if frames == FRAMES { SHOTS.to_vec() } else { vec![0] };
    let cuts = Cuts::At(Shots::new(starts, Some(frames as u64)).unwrap());
    let found = survey(Box::new(source), &cuts, &mut |_| ControlFlow::Continue(()))?;
    let [program, backend, dtype, ffmpeg, encoder] =
        ["test", "test", "f32", "none", "text"].map(str::to_owned);
    let (tiling, sha256) = (None, Some(read_all(film, &mut |_| ControlFlow::Continue(()))?));
    let settings = Settings {
        input: Input { sha256, ..Input::of(film)? },
        output: "film.mkv".into(),
        request: request(),
        models: vec![Model { role: "vae".into(), name: "nano".into(), sha256: None }],
        numerics: ResultClass { program, backend, dtype, tiling, ffmpeg, encoder, sample: None, threads: 1 },
        mix: false,
        segments: SegmentKind::Final,
        unit_frames,
        shots: None,
    };
    let back = LookBack { encode: 8, decode: 2 };
    FilmPlan::new(settings, &found, piece_frames, &windows(), POOL, back)
}

impl Desk {
    /// Nothing is done yet.
    pub(crate) fn new() -> Self {
        Desk::on(Memory::new().unwrap(), 7.0)
    }

    fn on(memory: Memory, restored: f32) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let film = scratch.path().join("film");
        std::fs::write(&film, format!("the film that becomes {restored}")).unwrap();
        let plan = plan(&film, FRAMES, 40, 20).unwrap();
        let units = plan.units.len() as u32;
        let journal = Journal::make(memory.store(limits()), units, &plan.to_json().unwrap()).unwrap();
        let desk = Desk {
            memory,
            journal,
            plan,
            damaged: Cell::default(),
            progress: Arc::default(),
            restored,
            scratch,
        };
        assert_eq!((0..3).map(|unit| desk.pieces(unit)).collect::<Vec<_>>(), [2, 2, 2]);
        desk
    }

    /// What planning says of a film of one shot.
    pub(crate) fn planned(frames: usize, unit: usize, piece: usize) -> Result<FilmPlan, UnitsError> {
        let scratch = tempfile::tempdir().unwrap();
        let film = scratch.path().join("film");
        std::fs::write(&film, "film").unwrap();
        plan(&film, frames, unit, piece)
    }

    /// The first unit is done, the second has a piece, and the third has latents.
    pub(crate) fn half_done() -> Self {
        let desk = Desk::new();
        desk.restored(0);
        assert!(desk.dies_after(1, Way::Restore, 1).is_err());
        assert!(desk.dies_after(2, Way::Restore, 0).is_err());
        desk
    }

    /// The plan is lost, and another film is planned in the same place.
    pub(crate) fn with_other_film(&self) -> Self {
        let store = self.store();
        store.delete(&Key::new("plan.json").unwrap()).unwrap();
        Desk::on(self.memory.clone(), 8.0)
    }

    pub(crate) fn store(&self) -> Store {
        self.memory.store(limits())
    }

    /// What is in the store beside the plan, the same kinds of objects in the same order every time.
    pub(crate) fn objects(&self) -> Vec<String> {
        let listed = self.store().list("units").unwrap();
        let mut keys: Vec<String> = listed.map(|listed| listed.unwrap().key.to_string()).collect();
        let kind = |key: &String| {
            let parts: Vec<&str> = key.split('/').collect();
            [parts[1], parts[2], parts[parts.len() - 1]].join("/")
        };
        keys.sort_by_key(kind);
        keys
    }

    /// Flips a bit, cuts, removes or empties an object.
    pub(crate) fn harm(&self, key: &str, how: usize) {
        let (store, key) = (self.store(), Key::new(key).unwrap());
        let mut bytes = store.get(&key, 1 << 20).unwrap();
        let middle = bytes.len() / 2;
        match how {
            0 => bytes[middle] ^= 1,
            1 => bytes.truncate(middle),
            2 => return store.delete(&key).unwrap(),
            _ => bytes.clear(),
        }
        store.put(&key, bytes).unwrap();
    }

    pub(crate) fn frames(&self, unit: u32) -> usize {
        self.plan.unit(unit).unwrap().unit.frames().len()
    }

    fn pieces(&self, unit: u32) -> usize {
        self.plan.unit(unit).unwrap().unit.pieces(self.plan.piece_frames, &windows(), POOL).len()
    }

    /// Frames of a piece.
    pub(crate) fn piece(&self, unit: u32, piece: usize) -> usize {
        self.plan.unit(unit).unwrap().unit.pieces(self.plan.piece_frames, &windows(), POOL)[piece].len()
    }

    fn value(&self, way: Way) -> f32 {
        if way == Way::Restore { self.restored } else { 0.5 }
    }

    pub(crate) fn loaded(&self, unit: u32, name: &str) -> Option<Vec<u8>> {
        self.journal.kept(unit, name, 1000).unwrap()
    }

    /// A worker that stops after so many pieces.
    fn work(&self, unit: u32, way: Way, stops: Option<usize>) -> Result<Outcome, UnitsError> {
        let input = self.scratch.path().join("film");
        let setup = Work {
            journal: &self.journal,
            plan: &self.plan,
            windows: windows(),
            pool: POOL,
            folder: self.scratch.path(),
            every: Duration::ZERO,
            most_kept: 1000,
            checkpoints: None,
            progress: Arc::default(),
            stop: Arc::new(|| false),
            watch: Watch::new(&input, &self.plan.settings.input, First::Samples, Arc::new(|| false)),
            worker: "test".into(),
            producer: None,
            left: way == Way::Leave,
        };
        let new = new_piece();
        let planned = self.plan.unit(unit)?.unit.clone();
        let pieces = planned.pieces(self.plan.piece_frames, &windows(), POOL);
        let end = match stops {
            Some(0) => planned.frames().start,
            Some(n) => pieces[n - 1].end,
            None => planned.frames().end,
        };
        let restore = &mut |Restoring { from, mut sink, kept, .. }: Restoring<'_>| {
            let mut value = self.value(way);
            if way == Way::Restore {
                match kept.load(LATENTS).unwrap() {
                    Some(latents) => value = latents[0],
                    None => kept.keep(LATENTS, &[&[value]]).unwrap(),
                }
            }
            for number in from..end {
                sink.write(&Frame { data: vec![value; 12], ..Frame::new(2, 2, 3) }, number as i64)?;
            }
            match stops {
                Some(_) => Err(UnitsError::Plan { reason: "the worker died".into() }),
                None => Ok(sink.finish()?),
            }
        };
        let mut damaged = Vec::new();
        let ended = work(&setup, unit, new, restore, &mut damaged);
        self.damaged.set(self.damaged.get() + damaged.len());
        ended
    }

    /// A worker that makes frames one by one and saves them, up to a frame of the film. Returns how it ended, and the frames
    /// that it was asked for.
    pub(crate) fn saves(
        &self,
        unit: u32,
        saves: &Saves,
        end: Option<(usize, End)>,
    ) -> (Result<Outcome, UnitsError>, Vec<usize>) {
        let input = self.scratch.path().join("film");
        let flags = [End::IsStopped, End::IsCancelled].map(|kind| (kind, Arc::new(AtomicBool::default())));
        let flag = |kind: End| {
            let flag = flags.iter().find(|(flag, _)| *flag == kind).map(|(_, flag)| Arc::clone(flag));
            Arc::new(move || flag.as_ref().is_some_and(|flag| flag.load(SeqCst)))
        };
        let setup = Work {
            journal: &self.journal,
            plan: &self.plan,
            windows: windows(),
            pool: saves.pool,
            folder: self.scratch.path(),
            every: Duration::ZERO,
            most_kept: 1000,
            checkpoints: Some(Checkpoints {
                every: saves.every,
                room: saves.room,
                is_cancelled: flag(End::IsCancelled),
            }),
            progress: Arc::clone(&self.progress),
            stop: flag(End::IsStopped),
            watch: Watch::new(&input, &self.plan.settings.input, First::Samples, Arc::new(|| false)),
            worker: "test".into(),
            producer: None,
            left: false,
        };
        let mut asked = Vec::new();
        let restore = &mut |Restoring { from, mut sink, unit, .. }: Restoring<'_>| {
            for number in from..unit.frames().end {
                if let Some((_, kind)) = end.filter(|(end, _)| *end == number) {
                    flags
                        .iter()
                        .filter(|(flag, _)| *flag == kind)
                        .for_each(|(_, flag)| flag.store(true, SeqCst));
                    if kind != End::IsStopped {
                        return Err(UnitsError::Plan { reason: "the worker died".into() });
                    }
                }
                asked.push(number);
                sink.write(&Frame { data: vec![number as f32; 12], ..Frame::new(2, 2, 3) }, number as i64)?;
            }
            Ok(sink.finish()?)
        };
        let mut damaged = Vec::new();
        let ended = work(&setup, unit, new_piece(), restore, &mut damaged);
        self.damaged.set(self.damaged.get() + damaged.len());
        (ended, asked)
    }

    /// The film if frames are made one by one.
    pub(crate) fn numbered() -> String {
        (0..FRAMES).map(|number| line(number as i64, number as f32)).collect()
    }

    /// Names of checkpoints of a unit.
    pub(crate) fn checkpoints(&self, unit: u32) -> Vec<String> {
        let mut names = self.journal.kept_names(unit).unwrap();
        names.sort();
        names
    }

    pub(crate) fn dies_after(&self, unit: u32, way: Way, pieces: usize) -> Result<Outcome, UnitsError> {
        self.work(unit, way, Some(pieces))
    }

    pub(crate) fn restored(&self, unit: u32) -> Outcome {
        self.work(unit, Way::Restore, None).unwrap()
    }

    pub(crate) fn left(&self, unit: u32) -> Outcome {
        self.work(unit, Way::Leave, None).unwrap()
    }

    pub(crate) fn all_restored(&self) {
        for unit in 0..3 {
            self.restored(unit);
        }
    }

    /// The film as text, and what it was made of.
    pub(crate) fn film(&self) -> Result<(String, Vec<Commit>), UnitsError> {
        let mut text = String::new();
        let join = &mut |segments: &mut remaster_units::Segments<'_>| {
            for path in segments {
                text += &std::fs::read_to_string(path?).unwrap();
            }
            Ok(())
        };
        let commits = assemble(&self.journal, &self.plan, (&windows(), POOL), self.scratch.path(), join)?;
        Ok((text, commits))
    }

    /// The film if all units are done so.
    pub(crate) fn expected(&self, way: Way) -> String {
        (0..FRAMES).map(|number| line(number as i64, self.value(way))).collect()
    }
}

/// Pieces are files of text, in place of those of workers that died.
fn new_piece() -> NewPiece {
    Box::new(|path: &Path| Ok(Box::new(Text { file: File::create(path).unwrap(), samples: Vec::new() }) as _))
}

fn line(pts: i64, value: f32) -> String {
    format!("{pts}:{value}\n")
}

/// A piece as text: a line for each frame.
struct Text {
    file: File,
    /// The value of the last frame.
    samples: Vec<u8>,
}

impl FrameSink for Text {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        let samples = frame.data[0].to_le_bytes();
        self.write_samples(&samples, pts)?;
        self.samples = samples.to_vec();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}

impl SampleSink for Text {
    fn frame_bytes(&self) -> usize {
        4
    }

    fn samples(&self) -> &[u8] {
        &self.samples
    }

    fn write_samples(&mut self, samples: &[u8], pts: i64) -> Result<(), MediaError> {
        let value = f32::from_le_bytes(samples.try_into().unwrap());
        self.file.write_all(line(pts, value).as_bytes()).unwrap();
        Ok(())
    }
}
