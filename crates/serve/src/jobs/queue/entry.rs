//! A job in memory, and what clients and webhooks see of it.

use std::path::Path;

use serde_json::{Value, json};

use super::action::stopped;
use super::waiting::Place;
use crate::job::{Job, Live, Message, Status, Stop, Viewer};
use crate::jobs::End;
use crate::time::{self, written};

/// A job in memory.
pub(super) struct Entry {
    pub(super) job: Job,
    pub(super) live: Live,
    /// When the run began, which is not when the job did.
    pub(super) begun: Option<u64>,
    /// The end of the run, until it is saved: what a client was told survives a power cut.
    pub(super) ended: Option<Ended>,
    /// True until the first record is saved. Clients do not see the job before.
    pub(super) is_new: bool,
}

/// The end of a run.
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) at: u64,
    pub(super) device: usize,
}

impl Entry {
    pub(super) fn new(job: Job, is_new: bool) -> Self {
        Entry { job, live: Live::default(), begun: None, ended: None, is_new }
    }

    /// The place of a job that waits.
    pub(super) fn place(&self) -> Option<Place> {
        let Job { rank, created, id, paused, status, .. } = &self.job;
        let waits = *status == Status::Starting && !self.is_new;
        waits.then(|| Place { rank: *rank, created: *created, id: id.clone(), paused: *paused })
    }

    /// The job with the end of its run, or as it is if that has not ended.
    pub(super) fn after(&self, view: &View<'_>) -> Job {
        let Some(Ended { end, at, .. }) = &self.ended else { return self.job.clone() };
        let mut after = Entry { live: self.live.clone(), ..Entry::new(self.job.clone(), false) };
        let job = &mut after.job;
        if let Some(begun) = self.begun {
            let took = at.saturating_sub(begun) as f64 / 1e3;
            job.seconds = Some(job.seconds.unwrap_or(0.0) + took);
        }
        match (end, job.stop) {
            (End::Done { frames, memory }, _) => {
                (job.status, job.frames, job.memory) = (Status::Succeeded, frames.or(job.frames), *memory);
                job.completed = Some(*at);
            }
            (End::Failed { error, kind }, None | Some(Stop::Pause)) => {
                (job.status, job.error, job.error_kind) =
                    (Status::Failed, Some(error.clone()), Some(kind.clone()));
                job.completed = Some(*at);
            }
            (End::Failed { .. } | End::Stopped, _) => stopped(job, *at),
        }
        job.saved = self.live.saved.or(job.saved);
        job.stop = None;
        end_message(&mut after, view, *at);
        after.job
    }
}

/// What is shown of every job.
pub(super) struct View<'a> {
    /// How long a job that is over is kept, in milliseconds.
    pub(super) keep: u64,
    /// The folder of all jobs.
    pub(super) folder: &'a Path,
}

impl View<'_> {
    /// When a job is removed.
    pub(super) fn expires(&self, job: &Job) -> Option<u64> {
        job.completed.filter(|_| job.status.is_over()).map(|time| time.saturating_add(self.keep))
    }

    pub(super) fn shown(&self, entry: &Entry, position: Option<usize>, viewer: &Viewer) -> Value {
        let Entry { job, live, .. } = entry;
        let has_live = job.status == Status::Processing || !live.logs.is_empty();
        let live = has_live.then_some(live);
        let mut shown = job.shown(live, viewer, position, self.folder, self.expires(job));
        // Clients look at the answer of a cancellation. The run ends when its work is saved.
        if job.status == Status::Processing && job.stop == Some(Stop::Cancel) {
            shown["status"] = json!(Status::Canceled);
            shown["completed_at"] = json!(written(time::now()));
        }
        shown
    }

    /// The job as its webhook gets it.
    fn body(&self, entry: &Entry) -> String {
        let viewer = Viewer { base: entry.job.base.clone(), is_local: false };
        self.shown(entry, None, &viewer).to_string()
    }
}

/// Queues the message of a start.
pub(super) fn start_message(entry: &mut Entry, view: &View<'_>) {
    let body = view.body(entry);
    let (id, started) = (&entry.job.id, entry.job.started.unwrap_or_default());
    let message = Message { id: format!("{id}-start-{started}"), is_end: false, body };
    if let Some(webhook) = entry.job.webhook.as_mut().filter(|webhook| webhook.wants("start")) {
        webhook.drop_starts();
        webhook.pending.push(message);
    }
}

/// Queues the message of an end, if the job is over.
pub(super) fn end_message(entry: &mut Entry, view: &View<'_>, at: u64) {
    if !entry.job.status.is_over() || entry.job.webhook.is_none() {
        return;
    }
    let body = view.body(entry);
    let (id, succeeded) = (&entry.job.id, entry.job.status == Status::Succeeded);
    let Some(webhook) = &mut entry.job.webhook else { return };
    webhook.drop_starts();
    webhook.ends += 1;
    // One message for a client that wants both events: they say the same.
    let is_wanted = webhook.wants("completed") || succeeded && webhook.wants("output");
    if is_wanted {
        let id = match webhook.ends {
            1 => format!("{id}-completed-{at}"),
            ends => format!("{id}-completed-{at}-{ends}"),
        };
        webhook.pending.push(Message { id, is_end: true, body });
    }
    webhook.over = webhook.pending.is_empty();
}
