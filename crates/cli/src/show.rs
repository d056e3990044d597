//! What a run tells, as lines and a bar.

use remaster::{Error, Event, FilmOutcome, Job, Machine, Prepare, prepare};

use crate::args::ProgressMode;
use crate::commands::film;
use crate::interrupt::Interrupt;
use crate::keys::{self, Keys};
use crate::output::Output;
use crate::progress::{Pause, Progress, Summary};

/// The display of a command.
pub(crate) struct Show<'a> {
    out: &'a Output,
    mode: ProgressMode,
    interrupt: &'a Interrupt,
    progress: Option<Progress>,
    /// No phase was told yet.
    fresh: bool,
    /// The keys that pause a run, while one can be paused.
    keys: Option<Keys>,
}

impl<'a> Show<'a> {
    pub(crate) fn new(mode: ProgressMode, out: &'a Output, interrupt: &'a Interrupt) -> Self {
        Show { out, mode, interrupt, progress: None, fresh: false, keys: None }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Message(line) => self.out.say(line),
            Event::Detail(line) => self.out.detail(line),
            Event::Warning(line) => self.out.warn(line),
            Event::Film { number, of, input, skipped } => {
                let end = if skipped { ": skipped, already restored" } else { "" };
                self.out.say(format_args!("film {number} of {of}: {}{end}", input.display()));
            }
            Event::Started { unit, about } => {
                // What is told again before the first phase is only better known.
                if !self.fresh {
                    self.progress = Some(Progress::counting(unit, self.mode, self.out));
                }
                self.fresh = true;
                self.progress().about(about);
            }
            Event::Prepared(plan) => film::announce(&plan, self.out),
            Event::Estimated(time) => self.out.say(format_args!("this takes {time}")),
            Event::Pausable => {
                let (pause, screen) = (self.progress().pause(), self.out.screen());
                self.keys = keys::listen(self.interrupt, pause, screen);
            }
            Event::Restored(outcome) => self.restored(&outcome),
            Event::Ended => (self.progress, self.keys, self.fresh) = (None, None, false),
            event => {
                self.fresh = false;
                self.progress().event(event);
            }
        }
    }

    /// Prepares and runs a job, and shows what it tells.
    pub(crate) fn run<T>(&mut self, request: impl Prepare<Job = Job<T>>) -> Result<T, Error> {
        let (control, events) = (self.interrupt.control(), &mut |event| self.event(event));
        prepare(request, &Machine::this(), control, events)?.run(events)
    }

    /// One film of several. The document is of all of them.
    fn restored(&mut self, outcome: &FilmOutcome) {
        let summary = self.finish();
        let one = self.out.of_one();
        film::conclude(outcome, &summary, self.mode, &one);
    }

    /// The display that is there, or a new one.
    fn progress(&mut self) -> &mut Progress {
        self.progress.get_or_insert_with(|| Progress::counting("frames", self.mode, self.out))
    }

    /// Stops and starts the clock of the display.
    pub(crate) fn pause(&mut self) -> Pause {
        self.progress().pause()
    }

    /// Takes the bar away and says what it all took.
    pub(crate) fn finish(&mut self) -> Summary {
        (self.keys, self.fresh) = (None, false);
        let new = || Progress::counting("frames", self.mode, self.out);
        self.progress.take().unwrap_or_else(new).finish()
    }
}
