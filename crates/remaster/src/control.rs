//! Cancels, pauses and stops a run from outside.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use remaster_compute::CancelToken;
use remaster_media::{Stop, place};

use crate::error::Error;

/// Poll interval of a paused run.
const POLL: Duration = Duration::from_millis(50);

type Cleanup = Box<dyn Fn() + Send>;
type Note = Box<dyn Fn() -> String + Send>;
type StopWhen = Box<dyn Fn() -> bool + Send + Sync>;

/// A handle to a run. Clones control the same run; signals, keys and buttons of the frontend call it.
#[derive(Clone, Default)]
pub struct Control(Arc<Shared>);

struct Shared {
    cancel: CancelToken,
    /// Stops the child processes of the run, and knows them.
    children: Stop,
    paused: AtomicBool,
    pauses: Mutex<Pauses>,
    stop: AtomicBool,
    stop_when: Mutex<Option<StopWhen>>,
    cleanups: Mutex<Vec<(u64, Cleanup)>>,
    note: Mutex<Option<Note>>,
}

impl Default for Shared {
    fn default() -> Self {
        let cancel = CancelToken::default();
        let asked = cancel.clone();
        Shared {
            cancel,
            children: Stop::when(move || asked.is_cancelled()),
            paused: AtomicBool::default(),
            pauses: Mutex::default(),
            stop: AtomicBool::default(),
            stop_when: Mutex::default(),
            cleanups: Mutex::default(),
            note: Mutex::default(),
        }
    }
}

/// Time in which the run waits.
#[derive(Default)]
struct Pauses {
    since: Option<Instant>,
    total: Duration,
}

impl Pauses {
    fn set(&mut self, paused: bool) {
        match (paused, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.since = None;
                self.total += since.elapsed();
            }
            _ => {}
        }
    }
}

/// Guard of a cleanup: [`Control::abort`] runs it until this is dropped.
#[must_use = "dropping it calls the cleanup off"]
pub struct Pending {
    id: u64,
    control: Control,
}

impl Control {
    /// Ends the run as soon as possible. Unfinished work that was saved stays.
    pub fn cancel(&self) {
        self.0.cancel.cancel();
    }

    /// True once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Fails once the run was cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Whether a loop over a file goes on.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Cancellation token for networks and child processes.
    pub fn token(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// Pauses or resumes the run; only resumable runs can pause.
    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, SeqCst);
        lock(&self.0.pauses).set(paused);
    }

    /// True while the run waits.
    pub fn is_paused(&self) -> bool {
        self.0.paused.load(SeqCst)
    }

    /// True once the run has waited.
    pub(crate) fn was_paused(&self) -> bool {
        !self.paused_time().is_zero()
    }

    /// How long the run has waited so far.
    pub(crate) fn paused_time(&self) -> Duration {
        let pauses = lock(&self.0.pauses);
        pauses.total + pauses.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Stops as soon as the work is saved, so that nothing is lost: at the next checkpoint, or behind the current segment.
    pub fn stop(&self) {
        self.0.stop.store(true, SeqCst);
    }

    /// As [`Control::stop`], at this time.
    pub fn stop_at(&self, time: Instant) {
        let is_over = move || Instant::now() >= time;
        *lock(&self.0.stop_when) = Some(Box::new(is_over));
    }

    /// Forgets pauses of an earlier run.
    pub(crate) fn begin(&self) {
        self.0.paused.store(false, SeqCst);
        *lock(&self.0.pauses) = Pauses::default();
    }

    /// True if the run ends at some time.
    pub(crate) fn has_stop_time(&self) -> bool {
        lock(&self.0.stop_when).is_some()
    }

    /// True once the run should stop as soon as the work is saved.
    pub fn should_stop(&self) -> bool {
        self.0.stop.load(SeqCst) || lock(&self.0.stop_when).as_ref().is_some_and(|is_over| is_over())
    }

    /// Ends the children of this run and removes the half files of every run of this process, for a process that exits at once
    /// because the run did not end in time. The process can make no file from then on: each later run in it, whatever its
    /// control, ends as if it was stopped ([`Class::Stopped`](crate::Class::Stopped)). Who goes on calls [`Control::cancel`] and waits for the run to end. Returns
    /// what a user should know, such as where unfinished work is.
    pub fn abort(&self) -> Vec<String> {
        self.0.children.kill_all();
        let list = lock(&self.0.cleanups);
        list.iter().for_each(|(_, cleanup)| cleanup());
        // After the children have ended: they write there.
        let finished = place::abandon();
        std::mem::forget(list);
        let mut notes: Vec<String> = lock(&self.0.note).iter().map(|note| note()).collect();
        notes.extend(finished.iter().map(|path| format!("the finished file is {}", path.display())));
        notes
    }

    /// What [`Control::abort`] says from now on; `None` if there is nothing to say.
    pub(crate) fn note_on_abort(&self, note: Option<Note>) {
        *lock(&self.0.note) = note;
    }

    /// Waits while the run is paused, and no longer than it may.
    pub(crate) fn wait(&self) {
        while self.is_paused() && !self.is_cancelled() && !self.should_stop() {
            std::thread::sleep(POLL);
        }
    }

    /// What stops the child processes of the run: cancelling asks them to end, [`Control::abort`] ends them.
    pub(crate) fn child_stop(&self) -> Stop {
        self.0.children.clone()
    }

    /// Registers a cleanup for [`Control::abort`]; dropping the guard removes it.
    pub fn on_abort(&self, cleanup: impl Fn() + Send + 'static) -> Pending {
        let mut list = lock(&self.0.cleanups);
        let id = list.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        list.push((id, Box::new(cleanup)));
        Pending { id, control: self.clone() }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.control.0.cleanups).retain(|(id, _)| *id != self.id);
    }
}

pub(crate) fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_needs_no_cleanup() {
        let control = Control::default();
        let first = control.on_abort(|| {});
        let second = control.on_abort(|| {});
        drop(first);
        let third = control.on_abort(|| {});
        assert_eq!(lock(&control.0.cleanups).len(), 2);
        drop((second, third));
        assert!(lock(&control.0.cleanups).is_empty());
    }

    #[test]
    fn a_run_waits_while_it_is_paused_and_no_longer_than_it_may() {
        let control = Control::default();
        assert!(!control.was_paused() && !control.should_stop() && !control.has_stop_time());
        control.pause(true);
        assert!(control.is_paused() && control.was_paused());
        control.stop_at(Instant::now());
        control.wait();
        assert!(control.should_stop());
        control.pause(false);
        assert!(!control.is_paused() && control.was_paused());
    }
}
