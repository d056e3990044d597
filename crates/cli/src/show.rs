//! What a run tells, as lines and a bar.

use remaster::{Event, FilmOutcome, FilmPlan};
use serde::Serialize;

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
    /// The keys that pause a run, while one can be paused.
    keys: Option<Keys>,
}

/// A result with what its run took.
#[derive(Serialize)]
pub(crate) struct Summed<'a, T> {
    #[serde(flatten)]
    pub(crate) outcome: &'a T,
    pub(crate) summary: &'a Summary,
}

impl<'a> Show<'a> {
    pub(crate) fn new(mode: ProgressMode, out: &'a Output, interrupt: &'a Interrupt) -> Self {
        Show { out, mode, interrupt, progress: None, keys: None }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Message(line) => self.out.say(line),
            Event::Detail(line) => self.out.detail(line),
            Event::Warning(line) => self.out.warn(line),
            Event::Film { number, of, input, skipped } => {
                let end = if skipped { ": skipped, already restored" } else { "" };
                // A film that failed leaves its display.
                (self.progress, self.keys) = (None, None);
                self.out.say(format_args!("film {number} of {of}: {}{end}", input.display()));
            }
            Event::Started { unit, about } => {
                let mut progress = Progress::counting(unit, self.mode, self.out);
                progress.about(about);
                self.progress = Some(progress);
            }
            Event::Prepared(plan) => self.prepared(&plan),
            Event::Restored(outcome) => self.restored(&outcome),
            event => self.progress().event(event),
        }
    }

    fn prepared(&mut self, plan: &FilmPlan) {
        film::announce(plan, self.out);
        if plan.resumable {
            let (pause, screen) = (self.progress().pause(), self.out.screen());
            self.keys = keys::listen(self.interrupt, pause, screen);
        }
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
        self.keys = None;
        self.progress();
        let progress = self.progress.take();
        progress.unwrap_or_else(|| Progress::counting("frames", self.mode, self.out)).finish()
    }
}
