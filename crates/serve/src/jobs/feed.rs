//! What running jobs report: lines of progress for live clients, and what is shown of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::job::Live;

/// Lines of a job that a client can ask for again, while it runs and when it is over.
const LINES: usize = 500;
pub(super) const LAST_LINES: usize = 20;

/// Bytes of messages that are kept of a job.
const MAX_LOGS: usize = 16 << 10;

/// A line and its number, from 1.
pub(crate) type Line = (u64, Arc<str>);

/// The last lines of each job.
#[derive(Default)]
pub(super) struct Feed {
    jobs: HashMap<String, Lines>,
}

#[derive(Default)]
struct Lines {
    last: VecDeque<Line>,
    count: u64,
}

impl Feed {
    /// Adds a line and returns its number.
    pub(super) fn push(&mut self, id: &str, text: Arc<str>) -> u64 {
        if !self.jobs.contains_key(id) {
            self.jobs.insert(id.to_owned(), Lines::default());
        }
        let Some(lines) = self.jobs.get_mut(id) else { return 0 };
        lines.count += 1;
        lines.last.push_back((lines.count, text));
        if lines.last.len() > LINES {
            lines.last.pop_front();
        }
        lines.count
    }

    /// The lines of a job behind this one.
    pub(super) fn behind(&self, id: &str, number: u64) -> Vec<Line> {
        let lines = self.jobs.get(id).map(|lines| &lines.last);
        lines.into_iter().flatten().filter(|(other, _)| *other > number).cloned().collect()
    }

    /// How many lines a job has reported.
    pub(super) fn count(&self, id: &str) -> u64 {
        self.jobs.get(id).map_or(0, |lines| lines.count)
    }

    /// Keeps a few lines of a job that is over.
    pub(super) fn shorten(&mut self, id: &str) {
        if let Some(Lines { last, .. }) = self.jobs.get_mut(id) {
            last.drain(..last.len().saturating_sub(LAST_LINES));
            last.shrink_to_fit();
        }
    }

    /// Drops all lines of a job.
    pub(super) fn remove(&mut self, id: &str) {
        self.jobs.remove(id);
    }
}

/// Notes a line of progress. True if clients see something new.
pub(super) fn note(live: &mut Live, line: &Map<String, Value>) -> bool {
    match line.get("event").and_then(Value::as_str) {
        Some("progress") => live.progress = Some(progress(line)),
        Some("saved") => live.saved = serde_json::from_value(Value::Object(line.clone())).ok().or(live.saved),
        Some("message" | "warning" | "error") => {
            if let Some(text) = line.get("text").and_then(Value::as_str) {
                log(live, text);
            }
            return false;
        }
        _ => return false,
    }
    true
}

fn log(live: &mut Live, text: &str) {
    live.logged += text.len() + 1;
    let logs = &mut live.logs;
    logs.push_str(text);
    logs.push('\n');
    while logs.len() > MAX_LOGS {
        let line = logs.find('\n').map_or(logs.len(), |at| at + 1);
        logs.drain(..line);
    }
}

/// Messages of a job behind the first `seen` bytes of them, as far as they are kept, and how many bytes there were.
pub(super) fn logs(live: &Live, seen: usize) -> (String, usize) {
    let new = live.logged.saturating_sub(seen).min(live.logs.len());
    (live.logs.get(live.logs.len() - new..).unwrap_or(&live.logs).to_owned(), live.logged)
}

/// What of a line of progress is shown.
fn progress(line: &Map<String, Value>) -> Map<String, Value> {
    let names = [
        ("phase", "phase"),
        ("unit", "unit"),
        ("done", "done"),
        ("total", "total"),
        ("estimated", "estimated"),
        ("share", "share"),
        ("eta_seconds", "eta_seconds"),
        ("rate", "frames_per_second"),
        ("elapsed_seconds", "elapsed_seconds"),
        ("memory_bytes", "memory_bytes"),
        ("peak_bytes", "peak_bytes"),
        ("planned_bytes", "planned_bytes"),
        ("saved", "saved"),
        ("saved_seconds", "saved_seconds"),
    ];
    let of = |(from, to): (&str, &str)| (to.to_owned(), line.get(from).cloned().unwrap_or(json!(null)));
    names.into_iter().map(of).collect()
}
