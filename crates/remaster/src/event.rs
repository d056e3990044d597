//! What a run tells while it works.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use remaster_engine::Event as EngineEvent;
use remaster_media::{Late, TimeBase};
use remaster_plan::bytes;
use serde::{Deserialize, Serialize};

use crate::control::{Control, lock};
use crate::numbers::{clock, grouped};
use crate::outcome::{Estimate, FilmOutcome, FilmPlan};
use crate::plan::Total;

/// What a run tells while it works. Phases may take turns; `phase` names one that was declared before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message to print.
    Message(String),
    /// A message for verbose mode.
    Detail(String),
    /// Something that may not be what was wanted.
    Warning(String),
    /// A film of a batch begins.
    Film {
        /// Its number, from 1.
        number: usize,
        /// Films of the batch.
        of: usize,
        /// What is read.
        input: PathBuf,
        /// It is there already.
        skipped: bool,
    },
    /// A film is about to be restored.
    Prepared(Box<FilmPlan>),
    /// How long the film will take, and what that rests on.
    Estimated(Estimate),
    /// From here on the run can be paused.
    Pausable,
    /// A film of a batch is restored.
    Restored(Box<FilmOutcome>),
    /// A film of a batch has ended, well or not.
    Ended,
    /// What is counted from here on, and what the run is about. A run tells it once, a batch for each film.
    Started {
        /// What is counted: frames, MiB.
        unit: &'static str,
        /// What the run is about.
        about: About,
    },
    /// Memory that is planned, and what a frame of a phase takes against a frame of the others, in multiply-adds.
    Planned {
        /// Bytes.
        memory: u64,
        /// By phase.
        work: Vec<(&'static str, f64)>,
    },
    /// Declares a phase, or corrects its total.
    Phase {
        /// Its name.
        phase: &'static str,
        /// Frames, if their number is known.
        total: Option<usize>,
        /// The number may be wrong.
        estimated: bool,
    },
    /// Frames that a slice of a phase is expected to have.
    Slice {
        /// Which.
        phase: &'static str,
        /// Expected.
        frames: usize,
    },
    /// A phase begins or goes on.
    Entered {
        /// Which.
        phase: &'static str,
    },
    /// Share of the slice at work that is done, in any unit.
    Working {
        /// Which.
        phase: &'static str,
        /// Done.
        done: u64,
        /// All of it.
        of: u64,
    },
    /// Frames that were done.
    Advanced {
        /// Which.
        phase: &'static str,
        /// How many.
        frames: usize,
        /// How long it took.
        busy: Duration,
        /// Another process did them: pauses are not part of the time.
        elsewhere: bool,
    },
    /// At least this many frames of a phase are done; what this run did not make was there before.
    Reached {
        /// Which.
        phase: &'static str,
        /// Frames.
        frames: usize,
    },
    /// Work that a stop would not lose.
    Saved(Saved),
}

/// Work that a stop would not lose. Saved values of all phases together count as so many frames, by their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Saved {
    /// Frames.
    pub frames: usize,
    /// Frames of all the work.
    pub of: usize,
    /// How long the saved frames are shown, if that is known.
    pub seconds: Option<f64>,
    /// How long all of them are shown.
    pub of_seconds: Option<f64>,
}

/// In words: `saved up to 0:31 of 1:02`.
impl Display for Saved {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match (self.seconds, self.of_seconds) {
            (Some(seconds), Some(of)) => write!(f, "saved up to {} of {}", clock(seconds), clock(of)),
            _ => write!(f, "saved up to frame {} of {}", grouped(self.frames), grouped(self.of)),
        }
    }
}

/// What a run is about, in words.
#[derive(Clone, Debug, Default, Serialize)]
pub struct About {
    /// Kernels and number format.
    pub device: String,
    /// The network.
    pub model: String,
    /// What is read.
    pub input: String,
    /// What is written.
    pub output: String,
}

/// The phases of a restoration, in the order of the networks.
pub(crate) const PHASES: [&str; 3] = ["encode", "restore", "decode"];

/// True for notes to print in verbose mode only.
pub fn is_detail(note: &str) -> bool {
    note.starts_with("untagged")
}

/// Frames of a phase and the time they took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) frames: usize,
    pub(crate) busy: Duration,
}

/// Sends events of a run to its frontend, and adds up what its phases took.
pub(crate) struct Reporter<'a> {
    emit: RefCell<&'a mut dyn FnMut(Event)>,
    took: RefCell<BTreeMap<&'static str, Took>>,
    /// What the engine warned of: each network may say the same.
    warned: RefCell<Vec<String>>,
    /// Phases of a restoration that this one has.
    phases: Cell<&'static [&'static str]>,
    started: Instant,
    ledger: RefCell<Ledger>,
    /// Work that is saved, for other threads.
    saved: Arc<Mutex<Saved>>,
}

/// What is done and what is saved, by phase.
#[derive(Default)]
struct Ledger {
    done: BTreeMap<&'static str, usize>,
    saved: BTreeMap<&'static str, usize>,
    /// Work of a frame.
    weights: Vec<(&'static str, f64)>,
    /// Frames of all the work, and how many of them are shown in a second.
    of: usize,
    rate: Option<f64>,
}

impl Ledger {
    /// Frames that all phases together have saved.
    fn frames(&self, phases: &[&'static str]) -> usize {
        let of = |phase: &str| self.weights.iter().find(|(name, _)| *name == phase).map_or(1.0, |(_, w)| *w);
        let sum =
            |frames: &dyn Fn(&str) -> f64| phases.iter().map(|phase| of(phase) * frames(phase)).sum::<f64>();
        let saved = sum(&|phase| self.saved.get(phase).copied().unwrap_or(0) as f64);
        let all = sum(&|_| 1.0);
        if all > 0.0 { (saved / all + 1e-6) as usize } else { 0 }
    }
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(emit: &'a mut dyn FnMut(Event)) -> Self {
        Reporter {
            emit: RefCell::new(emit),
            took: RefCell::default(),
            warned: RefCell::default(),
            phases: Cell::new(&PHASES),
            started: Instant::now(),
            ledger: RefCell::default(),
            saved: Arc::default(),
        }
    }

    /// The phases of a restoration that this one has.
    pub(crate) fn phases(&self) -> &'static [&'static str] {
        self.phases.get()
    }

    /// Work on a film of so many frames begins, of which so many are shown in a second.
    pub(crate) fn film(&self, frames: usize, rate: Option<TimeBase>) {
        *lock(&self.saved) = Saved::default();
        let mut ledger = self.ledger.borrow_mut();
        ledger.done.clear();
        ledger.saved.clear();
        ledger.of = frames;
        ledger.rate = rate.filter(|rate| rate.num > 0 && rate.den > 0).map(|r| r.num as f64 / r.den as f64);
    }

    /// So many frames of a phase are saved.
    pub(crate) fn save(&self, phase: &'static str, frames: usize) {
        let before = self.ledger.borrow_mut().saved.insert(phase, frames);
        if before == Some(frames) {
            return;
        }
        let saved = {
            let ledger = self.ledger.borrow();
            let frames = ledger.frames(self.phases.get());
            let seconds = |frames: usize| ledger.rate.map(|rate| frames as f64 / rate);
            Saved { frames, of: ledger.of, seconds: seconds(frames), of_seconds: seconds(ledger.of) }
        };
        let before = std::mem::replace(&mut *lock(&self.saved), saved);
        if before != saved {
            self.emit(Event::Saved(saved));
        }
    }

    /// All that was told of these phases so far is saved.
    pub(crate) fn save_so_far(&self, phases: &[&'static str]) {
        let done = self.ledger.borrow().done.clone();
        phases.iter().for_each(|phase| self.save(phase, done.get(phase).copied().unwrap_or(0)));
    }

    /// Asks for the work that is saved, also from other threads; `None` if nothing is.
    pub(crate) fn saved(&self) -> impl Fn() -> Option<Saved> + Clone + Send + 'static {
        let saved = Arc::clone(&self.saved);
        move || Some(*lock(&saved)).filter(|saved| saved.frames > 0)
    }

    /// Of the phases of a restoration this one has only these.
    pub(crate) fn only(&self, phases: &'static [&'static str]) {
        self.phases.set(phases);
    }

    pub(crate) fn emit(&self, event: Event) {
        let (Event::Phase { phase, .. } | Event::Reached { phase, .. }) = &event else {
            return (self.emit.borrow_mut())(event);
        };
        if PHASES.contains(phase) && !self.phases.get().contains(phase) {
            return;
        }
        (self.emit.borrow_mut())(event);
    }

    pub(crate) fn say(&self, line: impl Display) {
        self.emit(Event::Message(line.to_string()));
    }

    pub(crate) fn detail(&self, line: impl Display) {
        self.emit(Event::Detail(line.to_string()));
    }

    pub(crate) fn warn(&self, line: impl Display) {
        self.emit(Event::Warning(line.to_string()));
    }

    /// What was guessed or dropped; small things are details.
    pub(crate) fn notes(&self, notes: &[String]) {
        for note in notes {
            match is_detail(note) {
                true => self.detail(format_args!("note: {note}")),
                false => self.say(format_args!("note: {note}")),
            }
        }
    }

    pub(crate) fn started(&self, unit: &'static str, about: About) {
        self.emit(Event::Started { unit, about });
    }

    pub(crate) fn plan(&self, memory: u64, work: &[(&'static str, f64)]) {
        self.ledger.borrow_mut().weights = work.to_vec();
        self.emit(Event::Planned { memory, work: work.to_vec() });
    }

    /// Declares a phase whose total is known, or known to be unknown.
    pub(crate) fn phase(&self, phase: &'static str, total: Option<usize>) {
        self.phase_about(phase, total, true);
    }

    /// Declares a phase whose total may be wrong unless the frames were counted.
    pub(crate) fn phase_about(&self, phase: &'static str, total: Option<usize>, counted: bool) {
        self.emit(Event::Phase { phase, total, estimated: total.is_some() && !counted });
    }

    pub(crate) fn slice(&self, phase: &'static str, frames: usize) {
        self.emit(Event::Slice { phase, frames });
    }

    pub(crate) fn enter(&self, phase: &'static str) {
        self.emit(Event::Entered { phase });
    }

    pub(crate) fn working(&self, phase: &'static str, done: u64, of: u64) {
        self.emit(Event::Working { phase, done, of });
    }

    pub(crate) fn advance(&self, phase: &'static str, frames: usize, busy: Duration) {
        self.count(phase, frames, busy, false);
    }

    /// As [`Reporter::advance`], for work of another process.
    pub(crate) fn advance_elsewhere(&self, phase: &'static str, frames: usize, busy: Duration) {
        self.count(phase, frames, busy, true);
    }

    fn count(&self, phase: &'static str, frames: usize, busy: Duration, elsewhere: bool) {
        let mut took = self.took.borrow_mut();
        let took = took.entry(phase).or_default();
        took.frames += frames;
        took.busy += busy;
        *self.ledger.borrow_mut().done.entry(phase).or_default() += frames;
        self.emit(Event::Advanced { phase, frames, busy, elsewhere });
    }

    pub(crate) fn reach(&self, phase: &'static str, frames: usize) {
        {
            let mut ledger = self.ledger.borrow_mut();
            let done = ledger.done.entry(phase).or_default();
            *done = frames.max(*done);
        }
        self.emit(Event::Reached { phase, frames });
    }

    /// At least this many frames of all phases are done, and none of it would be lost.
    pub(crate) fn reach_all(&self, frames: usize) {
        for phase in PHASES {
            self.reach(phase, frames);
            self.save(phase, frames);
        }
    }

    /// What a phase took so far.
    pub(crate) fn took(&self, phase: &str) -> Took {
        self.took.borrow().get(phase).copied().unwrap_or_default()
    }

    /// Time since the run began, without pauses.
    pub(crate) fn worked(&self, control: &Control) -> Duration {
        self.started.elapsed().saturating_sub(control.paused_time())
    }

    /// Tells what the input was like, once all of it was read.
    pub(crate) fn late(&self, late: &Late, notes: &mut Vec<String>) {
        for note in late.take() {
            self.warn(&note);
            notes.push(note);
        }
    }

    /// Tells of children that took more than was reserved for them.
    pub(crate) fn children(&self, took: u64, total: &Total) {
        let reserved = total.children();
        if took > reserved {
            self.warn(format_args!(
                "ffmpeg took {}, but only {} of --ram were reserved for it",
                bytes(took),
                bytes(reserved)
            ));
        }
    }

    /// What the networks of a restoration say.
    pub(crate) fn networks(&self, event: &EngineEvent<'_>) {
        let phase = |network| match network {
            "encode" => PHASES[0],
            "decode" => PHASES[2],
            _ => PHASES[1],
        };
        match event {
            EngineEvent::SliceStarted { network, .. } => self.enter(phase(network)),
            // From here on the number is no guess.
            EngineEvent::Counted(frames) => {
                PHASES.into_iter().for_each(|phase| self.phase(phase, Some(*frames)));
            }
            _ => {}
        }
        self.in_phases(event, phase);
    }

    /// What the engine says.
    pub(crate) fn engine(&self, event: &EngineEvent<'_>) {
        self.in_phases(event, |network| network);
    }

    fn in_phases(&self, event: &EngineEvent<'_>, phase: impl Fn(&'static str) -> &'static str) {
        match event {
            EngineEvent::SliceStarted { network, .. } => self.working(phase(network), 0, 1),
            EngineEvent::Working { network, done, of } => self.working(phase(network), *done, *of),
            EngineEvent::SliceDone { network, frames, busy, .. } => {
                self.enter(phase(network));
                self.advance(phase(network), *frames, *busy);
            }
            EngineEvent::Finishing => self.enter("finish"),
            EngineEvent::Warning(text) => {
                let mut warned = self.warned.borrow_mut();
                if !warned.iter().any(|said| said == text) {
                    warned.push((*text).to_owned());
                    self.warn(text);
                }
            }
            EngineEvent::Planned(_)
            | EngineEvent::Loaded
            | EngineEvent::Counted(_)
            | EngineEvent::TileDone { .. }
            | EngineEvent::Done(_) => {}
        }
    }
}
