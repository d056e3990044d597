//! One honest progress display: what was done, how fast, how long it will still take, and memory against
//! the plan. Rates and times are measured, never assumed; before something was measured there is no ETA.
//!
//! ```text
//! let mut progress = Progress::new(args.progress.mode, out.screen());
//! progress.about(About { .. });
//! progress.plan(planned_bytes, &[("encode", macs_per_frame), ("decode", macs_per_frame)]);
//! progress.phase("encode", Some(65));
//! progress.phase("decode", Some(65));
//! progress.enter("encode");
//! progress.advance("encode", 4, busy);          // and so on, in turns with "decode"
//! let summary = progress.finish();
//! ```

mod summary;
mod tally;
mod view;

use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use remaster_engine::Event;
use serde_json::json;

use crate::memory;
use crate::output::Screen;

pub(crate) use summary::{About, PhaseSummary, Summary};
use tally::{Tally, Total};
use view::{Style, View};

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// A line now and then.
    Plain,
    /// JSON lines, described in docs/json.md.
    Json,
    /// Nothing.
    None,
}

/// For commands that take long: `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ProgressArgs {
    /// How progress is shown on stderr: auto is a bar on a terminal and plain lines elsewhere; json is one
    /// object per line.
    #[arg(id = "progress", long, value_enum, default_value = "auto", value_name = "HOW")]
    pub(crate) mode: ProgressMode,
}

/// At most ten redraws of the bar in a second.
const BAR_PAUSE: Duration = Duration::from_millis(100);
/// Readers of JSON lines want fewer.
const JSON_PAUSE: Duration = Duration::from_millis(500);
/// A plain line after this much of the whole, but not sooner than after `PLAIN_PAUSE`.
const PLAIN_STEP: f64 = 0.05;
const PLAIN_PAUSE: Duration = Duration::from_secs(2);
/// A plain line after this long whatever was done, to show that it is alive.
const PLAIN_SILENCE: Duration = Duration::from_secs(30);
/// How often memory is looked at, and the bar's clock moves, while nothing advances.
const TICK: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Bar,
    Plain,
    Json,
    Nothing,
}

/// The display. Dropped without [`Progress::finish`] it takes its bar away and says no more.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    how: How,
    screen: Screen,
    style: Style,
    started: Instant,
    state: Mutex<State>,
    /// Wakes the ticker for its end.
    over: Condvar,
}

struct State {
    tally: Tally,
    about: About,
    unit: &'static str,
    planned: Option<u64>,
    /// Bytes held now, and at most so far.
    memory: Option<(u64, u64)>,
    /// Whoever runs a device says what it holds; the process itself is then not looked at.
    told: bool,
    /// When and at which share something was shown last.
    shown: Option<(Instant, f64)>,
    over: bool,
}

impl Progress {
    /// Counts frames.
    pub(crate) fn new(mode: ProgressMode, to: Screen) -> Self {
        Self::counting("frames", mode, to)
    }

    /// Counts something else, like `MiB`.
    pub(crate) fn counting(unit: &'static str, mode: ProgressMode, to: Screen) -> Self {
        let env = |name| std::env::var(name).unwrap_or_default();
        let dumb = env("TERM") == "dumb";
        let how = match mode {
            ProgressMode::Auto if std::io::stderr().is_terminal() && !dumb => How::Bar,
            ProgressMode::Auto | ProgressMode::Plain => How::Plain,
            ProgressMode::Json => How::Json,
            ProgressMode::None => How::Nothing,
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
        Self::with(unit, how, style, to)
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
            memory: None,
            told: false,
            shown: None,
            over: false,
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
        self.shared.lock().about = about;
    }

    /// The most bytes that are planned, of whatever [`Progress::memory`] counts: all of the process if that
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
    #[allow(dead_code, reason = "for containers that only guess their number of frames")]
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
        state.look();
        state.tally.advance(self.shared.started.elapsed(), phase, frames, seconds_busy);
        self.shared.show(&mut state);
    }

    /// Bytes that a device holds now, and at most so far. Where nobody says, the process is looked at.
    #[allow(dead_code, reason = "for devices with memory of their own")]
    pub(crate) fn memory(&mut self, current: u64, peak: u64) {
        let mut state = self.shared.lock();
        if !state.told {
            // What was seen of the process is something else.
            (state.told, state.memory) = (true, None);
            state.tally.forget_peaks();
        }
        state.note(current, peak);
    }

    /// Something a person should know, above the bar.
    pub(crate) fn warn(&mut self, text: impl std::fmt::Display) {
        self.shared.screen.line("warning", text);
    }

    /// What the engine says.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::SliceStarted { network, .. } => self.enter(network),
            Event::SliceDone { network, frames, busy, .. } => {
                self.enter(network);
                self.advance(network, *frames, *busy);
            }
            Event::Finishing => self.enter("finish"),
            Event::Warning(text) => self.warn(text),
            Event::Planned(_)
            | Event::Loaded
            | Event::Working { .. }
            | Event::TileDone { .. }
            | Event::Done(_) => {}
        }
    }

    /// Takes the bar away and says what it all took.
    pub(crate) fn finish(self) -> Summary {
        let mut state = self.shared.lock();
        state.look();
        let summary = state.summary(self.shared.started.elapsed());
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at memory and moves the clock while nothing advances.
    fn tick(&self) {
        let mut state = self.lock();
        while !state.over {
            state.look();
            self.show(&mut state);
            let waited = self.over.wait_timeout(state, TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Shows the moment, if it is time for that.
    fn show(&self, state: &mut State) {
        if state.over || self.how == How::Nothing {
            return;
        }
        let Some(view) = state.view(self.started.elapsed()) else { return };
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
            How::Plain => self.screen.line("message", view.line()),
            How::Json => self.screen.event(&view),
            How::Nothing => {}
        }
        state.shown = Some((Instant::now(), share));
    }
}

impl State {
    /// Looks at the memory of the process.
    fn look(&mut self) {
        if !self.told
            && let (Some(now), Some(peak)) = (memory::resident_now(), memory::resident())
        {
            self.note(now, peak);
        }
    }

    fn note(&mut self, current: u64, peak: u64) {
        // A peak that has risen since the last look was reached by the phase at work, even if it is over.
        let risen = self.memory.is_none_or(|(_, before)| peak > before);
        self.tally.held(if risen { peak.max(current) } else { current });
        let before = self.memory.map_or(0, |(_, before)| before);
        self.memory = Some((current, peak.max(current).max(before)));
    }

    fn view(&self, now: Duration) -> Option<View> {
        let phase = self.tally.current()?;
        let mut view = View {
            event: "progress",
            phase: phase.name,
            unit: self.unit,
            done: phase.done,
            total: phase.total.frames(),
            estimated: matches!(phase.total, Total::About(_)),
            rate: phase.rate(),
            share: self.tally.share(),
            elapsed_seconds: now.as_secs_f64(),
            eta_seconds: None,
            eta: None,
            memory_bytes: self.memory.map(|(now, _)| now),
            peak_bytes: self.memory.map(|(_, peak)| peak),
            planned_bytes: self.planned,
        };
        view.set_eta(self.tally.eta(now));
        Some(view)
    }

    fn summary(&self, total: Duration) -> Summary {
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
            cpu: memory::cpu_name(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::paper::Paper;

    fn on(paper: &Paper, how: How) -> Progress {
        let style = Style { columns: 80, colour: false, blocks: false };
        Progress::with("frames", how, style, Screen::new(paper.clone()))
    }

    #[test]
    fn ten_thousand_steps_do_not_flood_the_terminal() {
        for how in [How::Bar, How::Plain, How::Json, How::Nothing] {
            let paper = Paper::default();
            let mut progress = on(&paper, how);
            let started = Instant::now();
            progress.phase("encode", Some(10_000));
            for _ in 0..10_000 {
                progress.advance("encode", 1, Duration::from_micros(10));
            }
            let summary = progress.finish();
            let tenths = started.elapsed().as_millis() as usize / 100;
            let text = paper.text();
            match how {
                How::Bar => assert!(text.matches("encode").count() <= 2 + tenths, "{text}"),
                How::Plain => assert!(tenths >= 20 || text.is_empty(), "{text}"),
                How::Json => assert!(text.lines().count() <= 5 + tenths, "{text}"),
                How::Nothing => assert_eq!(text, ""),
            }
            assert_eq!((summary.frames, summary.phases[0].frames), (10_000, 10_000));
            assert!((summary.phases[0].seconds - 0.1).abs() < 1e-9);
        }
    }

    #[test]
    fn the_bar_lives_while_nothing_advances_and_is_gone_after_a_failure() {
        let paper = Paper::default();
        let mut progress = on(&paper, How::Bar);
        progress.phase("decode", Some(8));
        std::thread::sleep(Duration::from_millis(700));
        progress.warn("careful");
        drop(progress);
        let text = paper.text();
        assert!(text.matches("decode 0/8 frames").count() >= 2, "{text:?}");
        assert!(text.contains("warning: careful\n"), "{text:?}");
        assert_eq!(paper.shown(), ["warning: careful", ""]);
    }

    #[test]
    fn json_lines_are_objects_that_name_their_event() {
        let paper = Paper::default();
        let mut progress = on(&paper, How::Json);
        progress.plan(1 << 30, &[("encode", 1.0), ("decode", 2.0)]);
        progress.phase("encode", Some(4));
        progress.phase_about("decode", 4);
        progress.memory(5, 7);
        progress.advance("encode", 4, Duration::from_millis(20));
        std::thread::sleep(JSON_PAUSE + TICK);
        progress.advance("decode", 4, Duration::from_millis(40));
        progress.warn("careful");
        progress.finish();
        let lines: Vec<serde_json::Value> =
            paper.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let events: Vec<&str> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
        assert_eq!(events[..3], ["plan", "phase", "phase"]);
        assert_eq!(events[events.len() - 2..], ["warning", "summary"]);
        assert_eq!(lines[2]["estimated"], true);
        let middle = &lines[3];
        assert_eq!(
            (&middle["phase"], &middle["done"], &middle["total"]),
            (&json!("encode"), &json!(4), &json!(4))
        );
        assert_eq!((&middle["eta"], &middle["peak_bytes"]), (&json!("estimated"), &json!(7)));
        let summary = lines.last().unwrap();
        assert_eq!(summary["phases"][0]["peak_bytes"], 7);
        assert_eq!(summary["planned_bytes"], 1 << 30);
    }

    #[test]
    fn a_peak_between_two_looks_belongs_to_the_phase_at_work() {
        let mut progress = on(&Paper::default(), How::Nothing);
        progress.memory(1, 1);
        progress.phase("encode", None);
        progress.memory(10, 90);
        progress.enter("decode");
        progress.memory(20, 90);
        let summary = progress.finish();
        let peaks: Vec<_> = summary.phases.iter().map(|p| p.peak_bytes).collect();
        assert_eq!((peaks, summary.peak_bytes), (vec![Some(90), Some(20)], Some(90)));
    }
}
