//! The thread that writes records. No lock is held while it waits for the disk.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::queue::AfterSave;
use super::saves::{Saved, Saves};
use crate::job::Job;

/// How long records are written after the server was told to stop.
pub(super) const CLOSING: Duration = Duration::from_secs(10);

impl Inner {
    /// Writes records until the server has stopped.
    pub(super) fn write(&self) {
        while let Some((job, is_new)) = self.next_record() {
            let written = match is_new {
                true => self.records.create(&job),
                false => self.records.save(&job),
            };
            self.written(&job, &written.map_err(Arc::new));
        }
        // Whoever still waits hears that nothing is written any more.
        self.lock().saves = Saves::default();
    }

    /// Waits for a record to write. `None` when there is none any more.
    fn next_record(&self) -> Option<(Job, bool)> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.closed.is_some_and(|closed| now.saturating_duration_since(closed) > CLOSING) {
                return None;
            }
            if let Some(id) = state.saves.begin(now) {
                match state.queue.record(&id) {
                    Some(job) => return Some((job, state.queue.is_new(&id))),
                    None => state.saves.end(&Ok(()), now),
                }
                continue;
            }
            if state.closed.is_some() {
                return None;
            }
            state = match state.saves.idle(now) {
                Some(pause) => {
                    self.unsaved.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.unsaved.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A record was written, or could not be.
    fn written(&self, job: &Job, written: &Saved) {
        let mut state = self.lock();
        match state.queue.saved(job, written.is_ok()) {
            AfterSave::Removed => {
                drop(state);
                let removed = self.remove_files(&job.id).map_err(Arc::new);
                self.lock().saves.refuse(&removed);
                return;
            }
            AfterSave::Refused => {
                state.saves.refuse(written);
                return;
            }
            AfterSave::Nothing => {
                state.saves.end(written, Instant::now());
                let has_messages = state.queue.messages(&job.id).is_some();
                drop(state);
                if has_messages {
                    self.tell(&job.id);
                }
                return;
            }
            AfterSave::SaveAgain => {
                state.saves.end(written, Instant::now());
                drop(state.saves.want(&job.id));
                return;
            }
            AfterSave::Shown => state.saves.end(written, Instant::now()),
        }
        if state.queue.get(&job.id).is_ok_and(|job| job.status.is_over()) {
            state.feed.shorten(&job.id);
        }
        drop(state);
        self.changed.notify_all();
        self.tell(&job.id);
    }
}
