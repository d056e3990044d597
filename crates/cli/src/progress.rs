//! One honest progress display: what was done, how fast, how long it will still take, and memory against
//! the plan. Rates and times are measured, never assumed; before something was measured there is no ETA.
//!
//! ```text
//! let mut progress = Progress::counting("frames", args.progress.mode, out);
//! progress.about(About { .. });
//! progress.plan(planned_bytes, &[("encode", macs_per_frame), ("decode", macs_per_frame)]);
//! progress.phase("encode", Some(65));
//! progress.phase("decode", Some(65));
//! progress.enter("encode");
//! progress.working("encode", macs_done, macs_of_the_slice);
//! progress.advance("encode", 4, busy);          // and so on, in turns with "decode"
//! let summary = progress.finish();
//! ```

mod display;
mod summary;
mod tally;
mod view;

use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use remaster::{About, Event};
use serde_json::json;

use crate::args::ProgressMode;
use crate::output::{Output, Screen};

use display::{How, Pauses, Shared, State};
use summary::Label;
pub(crate) use summary::{Summary, Summed};
use tally::{Tally, Total};
use view::Style;

/// What was asked for, before the command itself is known.
pub(crate) fn mode_of(matches: &ArgMatches) -> ProgressMode {
    let (_, leaf) = crate::typed::leaf(matches);
    leaf.try_get_one("progress").ok().flatten().copied().unwrap_or_default()
}

/// The display. Dropped without [`Progress::finish`] it takes its bar away and says no more.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

impl Progress {
    /// Counts frames, or something else, like `MiB`.
    pub(crate) fn counting(unit: &'static str, mode: ProgressMode, out: &Output) -> Self {
        let env = |name| std::env::var(name).unwrap_or_default();
        let dumb = env("TERM") == "dumb";
        let how = match mode {
            ProgressMode::Json => How::Json,
            _ if out.is_quiet() => How::Nothing,
            ProgressMode::Auto if std::io::stderr().is_terminal() && !dumb => How::Bar,
            ProgressMode::Plain => How::Plain,
            ProgressMode::Auto | ProgressMode::None => How::Nothing,
        };
        let locale = [env("LC_ALL"), env("LC_CTYPE"), env("LANG")].into_iter().find(|v| !v.is_empty());
        let utf8 = locale.is_some_and(|l| l.to_ascii_uppercase().replace('-', "").contains("UTF8"));
        // Windows Terminal knows both; the old console may not.
        let modern = cfg!(unix) || !env("WT_SESSION").is_empty();
        let style = Style {
            columns: 80,
            colour: modern && env("NO_COLOR").is_empty(),
            blocks: utf8 || (cfg!(windows) && modern),
        };
        Self::with(unit, how, style, out.screen())
    }

    fn with(unit: &'static str, how: How, style: Style, screen: Screen) -> Self {
        if how == How::Json {
            screen.json_lines();
        }
        let state = State {
            tally: Tally::default(),
            about: Label::default(),
            unit,
            planned: None,
            memory: None,
            told: false,
            shown: None,
            over: false,
            pauses: Pauses::default(),
        };
        let shared = Arc::new(Shared {
            how,
            screen,
            style,
            started: Instant::now(),
            state: Mutex::new(state),
            over: Condvar::new(),
        });
        let ticker = {
            let shared = shared.clone();
            // Without the thread the bar only moves when something is done, which is no reason to fail.
            std::thread::Builder::new().name("progress".into()).spawn(move || shared.tick()).ok()
        };
        Progress { shared, ticker }
    }

    /// What the summary says the run was about.
    pub(crate) fn about(&mut self, about: About) {
        let About { device, model, input, output } = about;
        self.shared.lock().about = Label { device, model, input, output };
    }

    /// The most bytes that are planned, of whatever `memory` counts: all of the process if that
    /// is never called. A later plan replaces it. `work` is what a frame of a phase takes against a frame of
    /// the others, for instance its multiply-adds: it lets a phase that was not measured yet have an ETA.
    pub(crate) fn plan(&mut self, planned: u64, work: &[(&'static str, f64)]) {
        let mut state = self.shared.lock();
        state.planned = Some(planned);
        for (phase, per_frame) in work {
            state.tally.work(phase, *per_frame);
        }
        if self.shared.how == How::Json {
            self.shared.screen.event(&json!({ "event": "plan", "planned_bytes": planned }));
        }
    }

    /// Declares a phase, or corrects its total. Declare all of them before the work begins: the ETA counts
    /// those that are declared. `None`: nobody knows.
    pub(crate) fn phase(&mut self, name: &'static str, total_frames: Option<usize>) {
        self.declare(name, total_frames.map_or(Total::Unknown, Total::Exactly));
    }

    /// As [`Progress::phase`], for a total that may be wrong. It is shown with a `~`.
    pub(crate) fn phase_about(&mut self, name: &'static str, total_frames: usize) {
        self.declare(name, Total::About(total_frames));
    }

    fn declare(&mut self, name: &'static str, total: Total) {
        let mut state = self.shared.lock();
        state.tally.declare(name, total);
        if self.shared.how == How::Json {
            let estimated = matches!(total, Total::About(_));
            let total = total.frames();
            self.shared
                .screen
                .event(&json!({ "event": "phase", "phase": name, "total": total, "estimated": estimated }));
        }
    }

    /// A phase begins or goes on: it is shown, and memory counts as its own.
    pub(crate) fn enter(&mut self, phase: &'static str) {
        let mut state = self.shared.lock();
        state.look();
        state.tally.enter(phase);
        self.shared.show(&mut state);
    }

    /// Frames that were done and how long it took. Phases may take turns; times are per phase.
    pub(crate) fn advance(&mut self, phase: &'static str, frames: usize, seconds_busy: Duration) {
        let mut state = self.shared.lock();
        let busy = state.pauses.without(seconds_busy);
        self.count(&mut state, phase, frames, busy);
    }

    /// As [`Progress::advance`], for work that another process does, pauses excluded.
    pub(crate) fn advance_elsewhere(&mut self, phase: &'static str, frames: usize, busy: Duration) {
        let mut state = self.shared.lock();
        self.count(&mut state, phase, frames, busy);
    }

    fn count(&self, state: &mut State, phase: &'static str, frames: usize, busy: Duration) {
        state.look();
        state.tally.advance(state.pauses.clock(self.shared.started), phase, frames, busy);
        self.shared.show(state);
    }

    /// At least this many frames of a phase are done; what this run did not make was there before.
    pub(crate) fn reach(&mut self, phase: &'static str, frames: usize) {
        let mut state = self.shared.lock();
        state.tally.reach(phase, frames);
        self.shared.show(&mut state);
    }

    /// Time since the start without pauses.
    #[cfg(test)]
    pub(crate) fn elapsed(&self) -> Duration {
        self.shared.lock().pauses.clock(self.shared.started)
    }

    /// A handle that pauses and resumes the display.
    pub(crate) fn pause(&self) -> Pause {
        Pause(Arc::clone(&self.shared))
    }

    /// Bytes that a device holds now, and at most so far. Where nobody says, the process is looked at.
    #[cfg(test)]
    pub(crate) fn memory(&mut self, current: u64, peak: u64) {
        let mut state = self.shared.lock();
        if !state.told {
            // What was seen of the process is something else.
            (state.told, state.memory) = (true, None);
            state.tally.forget_peaks();
        }
        state.note(current, peak);
    }

    /// Frames that a slice of a phase is expected to have.
    pub(crate) fn slice(&mut self, phase: &'static str, frames: usize) {
        self.shared.lock().tally.slice(phase, frames);
    }

    /// How much of the slice at work is done, in any unit: multiply-adds, tiles.
    pub(crate) fn working(&mut self, phase: &'static str, done: u64, of: u64) {
        if of > 0 {
            let mut state = self.shared.lock();
            state.look();
            let now = state.pauses.clock(self.shared.started);
            state.tally.within(now, phase, done as f64 / of as f64);
            self.shared.show(&mut state);
        }
    }

    /// A line above the bar.
    #[cfg(test)]
    pub(crate) fn warn(&mut self, text: impl std::fmt::Display) {
        self.shared.screen.line("warning", text);
    }

    /// What a run tells of its phases.
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Planned { memory, work } => self.plan(memory, &work),
            Event::Phase { phase, total, estimated: false } => self.phase(phase, total),
            Event::Phase { phase, total, .. } => self.phase_about(phase, total.unwrap_or(0)),
            Event::Slice { phase, frames } => self.slice(phase, frames),
            Event::Entered { phase } => self.enter(phase),
            Event::Working { phase, done, of } => self.working(phase, done, of),
            Event::Advanced { phase, frames, busy, elsewhere: false } => self.advance(phase, frames, busy),
            Event::Advanced { phase, frames, busy, .. } => self.advance_elsewhere(phase, frames, busy),
            Event::Reached { phase, frames } => self.reach(phase, frames),
            _ => {}
        }
    }

    /// Takes the bar away and says what it all took.
    pub(crate) fn finish(self) -> Summary {
        let mut state = self.shared.lock();
        state.look();
        let summary = state.summary(state.pauses.clock(self.shared.started));
        state.over = true;
        if self.shared.how == How::Json {
            let mut value = json!(summary);
            value["event"] = json!("summary");
            self.shared.screen.event(&value);
        }
        drop(state);
        summary
    }
}

/// Stops and starts the clock of a [`Progress`] from another thread.
#[derive(Clone)]
pub(crate) struct Pause(Arc<Shared>);

impl Pause {
    /// Whether the run waits from now on.
    pub(crate) fn set(&self, paused: bool) {
        let mut state = self.0.lock();
        state.pauses.set(paused);
        // At once, however short ago the last one was: it is the answer to a key.
        state.shown = None;
        self.0.show(&mut state);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.over.notify_all();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
        if self.shared.how == How::Bar {
            self.shared.screen.clear();
        }
    }
}

#[cfg(test)]
mod tests;
