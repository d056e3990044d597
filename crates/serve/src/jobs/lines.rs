//! What running jobs say: lines of progress, messages and pictures.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Change, Jobs, LINES};

/// Bytes of messages that are kept of a job.
const MOST_LOGS: usize = 16 << 10;

impl Jobs {
    /// A line of the progress of a job.
    pub(crate) fn line(&self, id: &str, text: &str) {
        let mut inner = self.lock();
        let Some(entry) = inner.jobs.get_mut(id) else { return };
        entry.told += 1;
        let (number, text): (u64, Arc<str>) = (entry.told, text.into());
        entry.lines.push_back((number, Arc::clone(&text)));
        if entry.lines.len() > LINES {
            entry.lines.pop_front();
        }
        let parsed = serde_json::from_str::<Map<String, Value>>(&text).unwrap_or_default();
        let mut visible = false;
        match parsed.get("event").and_then(Value::as_str) {
            Some("progress") => {
                entry.live.progress = Some(progress(&parsed));
                visible = true;
            }
            Some("message" | "warning" | "error") => {
                if let Some(said) = parsed.get("text").and_then(Value::as_str) {
                    entry.live.logged += said.len() + 1;
                    let logs = &mut entry.live.logs;
                    logs.push_str(said);
                    logs.push('\n');
                    while logs.len() > MOST_LOGS {
                        let line = logs.find('\n').map_or(logs.len(), |at| at + 1);
                        logs.drain(..line);
                    }
                }
            }
            _ => {}
        }
        drop(inner);
        let _ = self.changes.send(Change::Line { id: id.to_owned(), number, text });
        if visible {
            self.tell(id);
        }
    }

    /// The lines of a job behind this one.
    pub(crate) fn lines(&self, id: &str, behind: u64) -> Vec<(u64, Arc<str>)> {
        let inner = self.lock();
        let lines = inner.jobs.get(id).map(|entry| &entry.lines);
        lines.into_iter().flatten().filter(|(number, _)| *number > behind).cloned().collect()
    }

    /// How many lines a job has told.
    pub(crate) fn told(&self, id: &str) -> u64 {
        self.lock().jobs.get(id).map_or(0, |entry| entry.told)
    }

    /// Messages of a job behind the first `seen` bytes of them, as far as they are kept, and how many bytes there were.
    pub(crate) fn logs(&self, id: &str, seen: usize) -> (String, usize) {
        let inner = self.lock();
        let Some(live) = inner.jobs.get(id).map(|entry| &entry.live) else { return (String::new(), seen) };
        let new = live.logged.saturating_sub(seen).min(live.logs.len());
        (live.logs.get(live.logs.len() - new..).unwrap_or(&live.logs).to_owned(), live.logged)
    }

    /// The newest picture of a job is of this moment.
    pub(crate) fn pictured(&self, id: &str, at: u64) {
        let mut inner = self.lock();
        let Some(entry) = inner.jobs.get_mut(id) else { return };
        let news = entry.live.newest != Some(at);
        entry.live.newest = Some(at);
        drop(inner);
        if news {
            self.tell(id);
        }
    }
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
    ];
    let of = |(from, to): (&str, &str)| (to.to_owned(), line.get(from).cloned().unwrap_or(json!(null)));
    names.into_iter().map(of).collect()
}
