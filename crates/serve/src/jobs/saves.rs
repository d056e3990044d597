//! Which records have to be written, in which order, and who waits for that. No files and no locks: a thread of
//! [`Jobs`](super::Jobs) writes.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Pause between two tries to write a record, on a disk that is full or gone.
const RETRY: Duration = Duration::from_secs(2);

/// How long a client waits for the record of a change. A healthy disk takes milliseconds; the change holds in memory
/// at once, so a slow disk delays no answer beyond this.
const PATIENCE: Duration = Duration::from_millis(250);

/// How a save ended. Errors go to everyone who waits.
pub(super) type Saved = Result<(), Arc<io::Error>>;

/// A save that is under way.
pub(crate) struct Saving(oneshot::Receiver<Saved>);

impl Saving {
    /// Waits until the record is on the disk or cannot be written. `None` if it is not written any more: the job was
    /// removed, or the server stops.
    pub(super) async fn done(self) -> Option<Saved> {
        self.0.await.ok()
    }

    /// Waits for the record, but not for a slow disk.
    pub(crate) async fn settle(self) {
        let _ = tokio::time::timeout(PATIENCE, self.0).await;
    }
}

/// Records that have to be written.
#[derive(Default)]
pub(super) struct Saves {
    /// To be written now, the first first.
    fresh: VecDeque<String>,
    /// To be written again at `retry`.
    failed: VecDeque<String>,
    retry: Option<Instant>,
    /// Who waits for a job of either list.
    waiters: HashMap<String, Vec<oneshot::Sender<Saved>>>,
    /// The job whose record is being written, and who waits for it.
    writing: Option<(String, Vec<oneshot::Sender<Saved>>)>,
}

impl Saves {
    /// Asks for a save of a job as it is now.
    pub(super) fn want(&mut self, id: &str) -> Saving {
        let (sender, receiver) = oneshot::channel();
        if let Some(at) = self.failed.iter().position(|other| other == id) {
            // Somebody waits for it again, so it does not wait for its turn.
            self.failed.remove(at);
            self.fresh.push_back(id.to_owned());
        } else if !self.waiters.contains_key(id) {
            self.fresh.push_back(id.to_owned());
        }
        let waiters = self.waiters.entry(id.to_owned()).or_default();
        // Of a job that changes while the disk is full, nobody waits for the earlier changes any more.
        waiters.retain(|waiter| !waiter.is_closed());
        waiters.push(sender);
        Saving(receiver)
    }

    /// The next job to write.
    pub(super) fn begin(&mut self, now: Instant) -> Option<String> {
        let is_time = self.retry.is_none_or(|retry| retry <= now);
        let again = || if is_time { self.failed.pop_front() } else { None };
        let id = self.fresh.pop_front().or_else(again)?;
        let waiters = self.waiters.remove(&id).unwrap_or_default();
        self.writing = Some((id.clone(), waiters));
        Some(id)
    }

    /// Lets what failed be written at once, a last time.
    pub(super) fn hurry(&mut self) {
        self.fresh.extend(self.failed.drain(..));
        self.retry = None;
    }

    /// Whether a record has to be written that was not tried yet, or is being written.
    pub(super) fn is_untried(&self, id: &str) -> bool {
        let is_writing = self.writing.as_ref().is_some_and(|(writing, _)| writing == id);
        is_writing || self.fresh.iter().any(|fresh| fresh == id)
    }

    /// How long there is nothing to write; `None` if that is for as long as nothing changes.
    pub(super) fn idle(&self, now: Instant) -> Option<Duration> {
        let retry = self.retry.filter(|_| !self.failed.is_empty())?;
        Some(retry.saturating_duration_since(now))
    }

    /// The job that was begun is written, or cannot be and is tried again.
    pub(super) fn end(&mut self, saved: &Saved, now: Instant) {
        let Some((id, waiters)) = self.writing.take() else { return };
        match saved {
            Ok(()) => self.retry = None,
            Err(_) => {
                self.retry = Some(now + RETRY);
                // A change that came meanwhile is written anyway.
                if !self.waiters.contains_key(&id) {
                    self.waiters.insert(id.clone(), Vec::new());
                    self.failed.push_back(id);
                }
            }
        }
        answer(waiters, saved);
    }

    /// The job that was begun cannot be written and is given up.
    pub(super) fn refuse(&mut self, saved: &Saved) {
        let Some((id, waiters)) = self.writing.take() else { return };
        answer(waiters, saved);
        answer(self.take(&id), saved);
    }

    /// Drops a job. `Some` if its record is being written: a save that ends later, with the files.
    pub(super) fn forget(&mut self, id: &str) -> Option<Saving> {
        drop(self.take(id));
        let (_, waiters) = self.writing.as_mut().filter(|(writing, _)| writing == id)?;
        let (sender, receiver) = oneshot::channel();
        waiters.push(sender);
        Some(Saving(receiver))
    }

    fn take(&mut self, id: &str) -> Vec<oneshot::Sender<Saved>> {
        self.fresh.retain(|other| other != id);
        self.failed.retain(|other| other != id);
        self.waiters.remove(id).unwrap_or_default()
    }
}

fn answer(waiters: Vec<oneshot::Sender<Saved>>, saved: &Saved) {
    for waiter in waiters {
        // A client that went away hears nothing.
        let _ = waiter.send(saved.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Saved {
        Err(Arc::new(io::ErrorKind::StorageFull.into()))
    }

    #[test]
    fn changes_of_a_job_share_a_save_and_those_during_a_save_get_the_next() {
        let (mut saves, now) = (Saves::default(), Instant::now());
        let [mut one, mut two] = [0, 1].map(|_| saves.want("a").0);
        assert_eq!(saves.begin(now).as_deref(), Some("a"));
        let mut three = saves.want("a").0;
        saves.end(&Ok(()), now);
        assert!(one.try_recv().is_ok() && two.try_recv().is_ok() && three.try_recv().is_err());
        assert_eq!(saves.begin(now).as_deref(), Some("a"));
        saves.end(&Ok(()), now);
        assert!(three.try_recv().is_ok_and(|saved| saved.is_ok()));
        assert_eq!((saves.begin(now), saves.idle(now)), (None, None));
        assert!(!saves.is_untried("a"));
    }

    #[test]
    fn what_failed_is_tried_one_at_a_time_and_all_of_it_once_the_disk_takes_one() {
        let (mut saves, now) = (Saves::default(), Instant::now());
        for id in ["a", "b", "c"] {
            drop(saves.want(id));
        }
        for _ in 0..3 {
            saves.begin(now).unwrap();
            saves.end(&full(), now);
        }
        assert_eq!((saves.begin(now), saves.idle(now)), (None, Some(RETRY)));
        let later = now + RETRY;
        assert_eq!(saves.begin(later).as_deref(), Some("a"));
        saves.end(&full(), later);
        assert_eq!(saves.begin(later), None);
        let later = later + RETRY;
        // One that cannot be written for another reason does not keep the others from their turn.
        for id in ["b", "c", "a"] {
            assert_eq!(saves.begin(later).as_deref(), Some(id));
            saves.end(&Ok(()), later);
        }
        assert_eq!((saves.begin(later), saves.idle(later)), (None, None));
    }

    #[test]
    fn a_change_of_a_job_that_failed_is_written_at_once() {
        let (mut saves, now) = (Saves::default(), Instant::now());
        drop(saves.want("a"));
        saves.begin(now).unwrap();
        saves.end(&full(), now);
        let mut again = saves.want("a").0;
        assert_eq!(saves.begin(now).as_deref(), Some("a"));
        saves.end(&full(), now);
        assert!(again.try_recv().is_ok_and(|saved| saved.is_err()));
        // A thousand changes on a full disk are one entry.
        for _ in 0..1000 {
            drop(saves.want("a"));
        }
        assert_eq!((saves.fresh.len(), saves.failed.len(), saves.waiters["a"].len()), (1, 0, 1));
        assert!(saves.is_untried("a"));
        saves.begin(now).unwrap();
        assert!(saves.is_untried("a"));
        saves.end(&full(), now);
        assert!(!saves.is_untried("a"));
    }

    #[test]
    fn a_job_that_goes_is_not_written_and_its_files_wait_for_a_write_that_is_under_way() {
        let (mut saves, now) = (Saves::default(), Instant::now());
        let mut waits = saves.want("a").0;
        assert!(saves.forget("a").is_none() && waits.try_recv().is_err());
        assert_eq!(saves.begin(now), None);
        drop(saves.want("b"));
        saves.begin(now).unwrap();
        let mut gone = saves.forget("b").unwrap().0;
        assert!(gone.try_recv().is_err());
        saves.refuse(&Ok(()));
        assert!(gone.try_recv().is_ok());
    }
}
