//! One honest progress display: what was done, how fast, how long it will still take, and memory against
//! the plan. Rates and times are measured, never assumed; before something was measured there is no ETA.
//!
//! ```text
//! let mut progress = Progress::counting("frames", args.progress.mode, out);
//! progress.about(About { .. });
//! progress.event(Event::Phase { .. });
//! progress.event(Event::Advanced { .. });       // and so on
//! let summary = progress.finish();
//! ```

mod display;
mod summary;
mod tally;
mod view;

use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use clap::ArgMatches;
use remaster::machine::{resident, resident_now};
use remaster::{About, Event};
use serde_json::json;

use crate::args::ProgressMode;
use crate::output::{Output, Screen};

use display::{How, Pauses, Shared, State};
pub(crate) use summary::{Summary, Summed};
use tally::Tally;
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
            memory: out.is_verbose(),
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
            about: About::default(),
            unit,
            planned: None,
            saved: None,
            memory: None,
            meter: || resident_now().zip(resident()),
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
        let ticking = shared.clone();
        // Without the thread the bar only moves when something is done, which is no reason to fail.
        let ticker = std::thread::Builder::new().name("progress".into()).spawn(move || ticking.tick()).ok();
        Progress { shared, ticker }
    }

    /// What the summary says the run was about.
    pub(crate) fn about(&mut self, about: About) {
        self.shared.lock().about = about;
    }

    /// What a run tells of its phases. They may take turns, and are declared before the work begins: the ETA counts those
    /// that are declared.
    pub(crate) fn event(&mut self, event: Event) {
        let shared = &*self.shared;
        let state = &mut *shared.lock();
        let now = state.pauses.clock(shared.started);
        match event {
            Event::Planned { memory, work } => {
                state.planned = Some(memory);
                work.iter().for_each(|(phase, per_frame)| state.tally.work(phase, *per_frame));
                shared.tell(&json!({ "event": "plan", "planned_bytes": memory }));
            }
            Event::Phase { phase, total, estimated } => {
                let total = total.or(estimated.then_some(0));
                state.tally.declare(phase, total, estimated);
                shared.tell(
                    &json!({ "event": "phase", "phase": phase, "total": total, "estimated": estimated }),
                );
            }
            Event::Slice { phase, frames } => state.tally.slice(phase, frames),
            Event::Entered { phase } => {
                state.look();
                state.tally.enter(phase);
                shared.show(state);
            }
            Event::Working { phase, done, of } if of > 0 => {
                state.look();
                state.tally.within(now, phase, done as f64 / of as f64);
                shared.show(state);
            }
            Event::Advanced { phase, frames, busy, elsewhere } => {
                // The times of another process are without pauses.
                let busy = if elsewhere { busy } else { state.pauses.without(busy) };
                state.look();
                state.tally.advance(now, phase, frames, busy);
                shared.show(state);
            }
            Event::Reached { phase, frames } => {
                state.tally.reach(phase, frames);
                shared.show(state);
            }
            Event::Saved(saved) => {
                state.saved = Some(saved);
                let mut value = json!(saved);
                value["event"] = json!("saved");
                shared.tell(&value);
            }
            _ => {}
        }
    }

    /// A handle that pauses and resumes the display.
    pub(crate) fn pause(&self) -> Pause {
        Pause(Arc::clone(&self.shared))
    }

    /// Takes the bar away and says what it all took.
    pub(crate) fn finish(self) -> Summary {
        let mut state = self.shared.lock();
        state.look();
        let summary = state.summary(state.pauses.clock(self.shared.started));
        state.over = true;
        let mut value = json!(summary);
        value["event"] = json!("summary");
        self.shared.tell(&value);
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
