//! What is known about a run, and when it is drawn.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use remaster::machine::cpu_name;
use remaster::{About, Saved};

use super::summary::{PhaseSummary, Summary};
use super::tally::{self, Tally};
use super::view::{Style, View};
use crate::output::Screen;

/// At most ten redraws of the bar in a second.
const BAR_PAUSE: Duration = Duration::from_millis(100);
/// Readers of JSON lines want fewer.
pub(super) const JSON_PAUSE: Duration = Duration::from_millis(500);
/// A plain line after this much of the whole, but not sooner than after `PLAIN_PAUSE`.
const PLAIN_STEP: f64 = 0.05;
const PLAIN_PAUSE: Duration = Duration::from_secs(2);
/// A plain line after this long whatever was done, to show that it is alive.
const PLAIN_SILENCE: Duration = Duration::from_secs(30);
/// How often memory is looked at, and the bar's clock moves, while nothing advances.
pub(super) const TICK: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Bar,
    Plain,
    Json,
    Nothing,
}

pub(super) struct Shared {
    pub(super) how: How,
    pub(super) screen: Screen,
    pub(super) style: Style,
    pub(super) started: Instant,
    pub(super) state: Mutex<State>,
    /// Wakes the ticker for its end.
    pub(super) over: Condvar,
}

pub(super) struct State {
    pub(super) tally: Tally,
    pub(super) about: About,
    pub(super) unit: &'static str,
    pub(super) planned: Option<u64>,
    /// Work that a stop would not lose.
    pub(super) saved: Option<Saved>,
    /// Bytes held now, and at most so far.
    pub(super) memory: Option<(u64, u64)>,
    /// Says what is held now, and at most so far.
    pub(super) meter: fn() -> Option<(u64, u64)>,
    /// When and at which share something was shown last.
    pub(super) shown: Option<(Instant, f64)>,
    pub(super) over: bool,
    pub(super) pauses: Pauses,
}

/// Time in which a person made the run wait. It counts for nothing.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// When the pause at this moment began.
    since: Option<Instant>,
    /// All pauses before it.
    total: Duration,
    /// What of them is still inside the time that the slice at work takes.
    inside: Duration,
}

impl Pauses {
    pub(super) fn set(&mut self, paused: bool) {
        match (paused, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.since = None;
                self.total += since.elapsed();
                self.inside += since.elapsed();
            }
            _ => {}
        }
    }

    /// The time of a slice without the pauses in it.
    pub(super) fn without(&mut self, busy: Duration) -> Duration {
        busy.saturating_sub(std::mem::take(&mut self.inside))
    }

    /// Time since `started`, pauses excluded.
    pub(super) fn clock(&self, started: Instant) -> Duration {
        let now = self.since.unwrap_or_else(Instant::now);
        now.saturating_duration_since(started).saturating_sub(self.total)
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for programs.
    pub(super) fn tell(&self, event: &serde_json::Value) {
        if self.how == How::Json {
            self.screen.event(event);
        }
    }

    /// Looks at memory and moves the clock while nothing advances.
    pub(super) fn tick(&self) {
        let mut state = self.lock();
        while !state.over {
            state.look();
            self.show(&mut state);
            let waited = self.over.wait_timeout(state, TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Shows the moment, if it is time for that.
    pub(super) fn show(&self, state: &mut State) {
        if state.over || self.how == How::Nothing {
            return;
        }
        let Some(view) = state.view(state.pauses.clock(self.started)) else { return };
        let share = view.share.unwrap_or(0.0);
        // Before the first line nothing was done; a run of less than its pause needs no line at all.
        let (since, before) = match state.shown {
            Some((at, share)) => (at.elapsed(), share),
            None => (self.started.elapsed(), 0.0),
        };
        let due = match self.how {
            How::Bar => since >= BAR_PAUSE || state.shown.is_none(),
            How::Json => since >= JSON_PAUSE || (share >= 1.0 && before < 1.0),
            How::Plain => {
                since >= PLAIN_SILENCE
                    || (since >= PLAIN_PAUSE && share - before >= PLAIN_STEP && share < 1.0)
            }
            How::Nothing => false,
        };
        if !due {
            return;
        }
        match self.how {
            How::Bar => {
                // Asked every time: people change the size of a window.
                let size = terminal_size::terminal_size_of(std::io::stderr());
                let columns = size.map_or(self.style.columns, |(w, _)| usize::from(w.0));
                let (text, taken) = view.bar(Style { columns, ..self.style });
                self.screen.bar(text, taken);
            }
            How::Plain => self.screen.line("message", view.line(self.style)),
            How::Json => self.screen.event(&view),
            How::Nothing => {}
        }
        state.shown = Some((Instant::now(), share));
    }
}

impl State {
    /// Looks at the memory.
    pub(super) fn look(&mut self) {
        if let Some((now, peak)) = (self.meter)() {
            self.note(now, peak);
        }
    }

    pub(super) fn note(&mut self, current: u64, peak: u64) {
        // A peak that has risen since the last look was reached by the phase at work, even if it is over.
        let risen = self.memory.is_none_or(|(_, before)| peak > before);
        self.tally.held(if risen { peak.max(current) } else { current });
        let before = self.memory.map_or(0, |(_, before)| before);
        self.memory = Some((current, peak.max(current).max(before)));
    }

    fn view(&self, now: Duration) -> Option<View> {
        let phase = self.tally.current()?;
        let eta = self.tally.eta(now);
        Some(View {
            event: "progress",
            phase: phase.name,
            unit: self.unit,
            done: phase.reached(),
            total: phase.total,
            estimated: phase.estimated,
            rate: phase.rate(),
            share: self.tally.share(),
            elapsed_seconds: now.as_secs_f64(),
            eta_seconds: eta.map(|eta| eta.left.as_secs_f64()),
            eta: eta.map(|eta| eta.trust),
            memory_bytes: self.memory.map(|(now, _)| now),
            peak_bytes: self.memory.map(|(_, peak)| peak),
            planned_bytes: self.planned,
            saved: self.saved.map(|saved| saved.frames),
            saved_seconds: self.saved.and_then(|saved| saved.seconds),
            paused: self.pauses.since.is_some(),
        })
    }

    pub(super) fn summary(&self, total: Duration) -> Summary {
        let seconds = total.as_secs_f64();
        let per = |n: f64, d: f64| if d > 0.0 { n / d } else { 0.0 };
        let phase = |p: &tally::Phase| PhaseSummary {
            phase: p.name,
            seconds: p.busy.as_secs_f64(),
            share: per(p.busy.as_secs_f64(), seconds),
            frames: p.done,
            fps: p.rate(),
            peak_bytes: (p.peak > 0).then_some(p.peak),
        };
        let frames = self.tally.phases().iter().map(|p| p.done).max().unwrap_or(0);
        Summary {
            version: env!("CARGO_PKG_VERSION"),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: cpu_name(),
            about: self.about.clone(),
            unit: self.unit,
            phases: self.tally.phases().iter().map(phase).collect(),
            total_seconds: seconds,
            frames,
            fps: (frames > 0 && seconds > 0.0).then(|| frames as f64 / seconds),
            planned_bytes: self.planned,
            peak_bytes: self.memory.map(|(_, peak)| peak),
        }
    }
}
