//! The queue: jobs that wait, run and are over. Each is a file that appears whole, so that a killed server knows them again.

mod lines;
mod wishes;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remaster_disk::{Folder, Kind, MOST_NAMES, if_there};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::id;
use crate::job::{Job, Live, Status, Wish};
use crate::problem::Problem;
use crate::time;

/// The file of a job in its folder.
const RECORD: &str = "job.json";

/// Bytes of a record at most.
const MOST_RECORD: u64 = 4 << 20;

/// Lines of a job that a client can ask for again, while it runs and when it is over.
const LINES: usize = 500;
const LAST_LINES: usize = 20;

/// Changes that a slow client may miss before it has to ask for all.
const CHANGES: usize = 1024;

/// Something that clients watch.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A job is in another state.
    State(String),
    /// A job has told a line of progress.
    Line {
        /// Which job.
        id: String,
        /// The number of the line.
        number: u64,
        /// The line.
        text: Arc<str>,
    },
    /// A job is gone.
    Removed(String),
}

/// How a run ended.
pub(crate) enum End {
    /// With a film.
    Done {
        frames: Option<u64>,
        memory: Option<[u64; 2]>,
    },
    Failed {
        error: String,
        kind: String,
    },
    /// As it was wished for, or because the server stops.
    Stopped,
}

struct Entry {
    job: Job,
    live: Live,
    /// When the run began, which is not when the job did.
    begun: Option<u64>,
    lines: VecDeque<(u64, Arc<str>)>,
    told: u64,
}

impl Entry {
    fn new(job: Job) -> Self {
        Entry { job, live: Live::default(), begun: None, lines: VecDeque::new(), told: 0 }
    }
}

#[derive(Default)]
struct Inner {
    jobs: BTreeMap<String, Entry>,
    /// What uses each device.
    slots: Vec<Option<String>>,
    stopping: bool,
}

/// All jobs.
pub(crate) struct Jobs {
    folder: Folder,
    inner: Mutex<Inner>,
    changed: Condvar,
    changes: broadcast::Sender<Change>,
    most: usize,
    keep: Duration,
}

/// A device that is used for something else than a job. It is free again when this is dropped.
pub(crate) struct Borrowed {
    jobs: Arc<Jobs>,
    /// Its number.
    pub(crate) slot: usize,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.jobs.free(self.slot);
    }
}

impl Jobs {
    /// Reads the jobs that are there. What ran when the server ended waits again, before all others.
    pub(crate) fn open(folder: Folder, devices: usize, most: usize, keep: Duration) -> std::io::Result<Self> {
        let mut jobs = BTreeMap::new();
        for (name, about) in folder.list(MOST_NAMES)? {
            let name = name.to_string_lossy().into_owned();
            if about.kind != Kind::Folder || !id::is_id(&name) {
                continue;
            }
            // What cannot be read, on a bad disk, costs its job and no other.
            let read = folder.folder(&name).and_then(|inside| if_there(inside.bytes(RECORD, MOST_RECORD)));
            let Ok(record) = read else { continue };
            let Some(record) = record else {
                // It was never told to the client that asked for it, or was being removed.
                let _ = folder.remove_tree(&name);
                continue;
            };
            // A record of another version is left alone, with its result.
            let job = serde_json::from_slice::<Job>(&record).ok().filter(|job| job.id == name);
            if let Some(mut job) = job {
                if job.status == Status::Processing {
                    stopped(&mut job);
                }
                jobs.insert(name, Entry::new(job));
            }
        }
        let inner = Inner { jobs, slots: vec![None; devices], stopping: false };
        let (changes, _) = broadcast::channel(CHANGES);
        Ok(Jobs { folder, inner: Mutex::new(inner), changed: Condvar::new(), changes, most, keep })
    }

    /// Changes from now on.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// The folder of a job.
    pub(crate) fn folder(&self, id: &str) -> std::io::Result<Folder> {
        self.folder.folder(id)
    }

    /// Where the folder of a job is, for the process that works on it.
    pub(crate) fn path(&self, id: &str) -> PathBuf {
        self.folder.path().join(id)
    }

    /// The job that was made with this key, if what was asked for has the same hash.
    pub(crate) fn with_key(&self, key: &str, asked: &str) -> Result<Option<String>, Problem> {
        keyed(&self.lock(), key, asked)
    }

    /// Takes a new job. One with the same key is the same job; the second value says whether it is new.
    pub(crate) fn add(&self, mut job: Job) -> Result<(String, bool), Problem> {
        let mut inner = self.lock();
        if let Some(key) = &job.key
            && let Some(id) = keyed(&inner, key, job.asked.as_deref().unwrap_or_default())?
        {
            return Ok((id, false));
        }
        let waiting = inner.jobs.values().filter(|entry| entry.job.status == Status::Starting).count();
        if waiting >= self.most {
            let detail =
                format!("{waiting} jobs wait already, which is all that --jobs allows; try again later");
            return Err(Problem::busy("queue-full", detail));
        }
        job.rank = inner.jobs.values().map(|entry| entry.job.rank).fold(0.0, f64::max) + 1.0;
        let folder = self.folder.new_folder(&job.id, true);
        folder.and_then(|folder| save(&folder, &job)).map_err(|error| {
            let _ = self.folder.remove_tree(&job.id);
            Problem::system("the job cannot be kept", &error)
        })?;
        let id = job.id.clone();
        inner.jobs.insert(id.clone(), Entry::new(job));
        drop(inner);
        self.changed.notify_all();
        self.tell(&id);
        Ok((id, true))
    }

    /// Waits for a job for a device, and takes it. `None` when the server stops.
    pub(crate) fn take(&self, slot: usize) -> Option<Job> {
        let mut inner = self.lock();
        loop {
            if inner.stopping {
                return None;
            }
            let is_free = inner.slots.get(slot).is_some_and(Option::is_none);
            if let Some(id) = next(&inner.jobs).filter(|_| is_free) {
                inner.slots[slot] = Some(id.clone());
                let entry = inner.jobs.get_mut(&id)?;
                entry.job.status = Status::Processing;
                entry.job.started.get_or_insert_with(time::now);
                entry.job.wish = None;
                (entry.begun, entry.live) =
                    (Some(time::now()), Live { logged: entry.live.logged, ..Live::default() });
                // If it cannot be kept it waits again after a restart, which does no harm.
                let _ = self.folder.folder(&id).and_then(|folder| save(&folder, &entry.job));
                let job = entry.job.clone();
                drop(inner);
                self.tell(&id);
                return Some(job);
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A run has ended.
    pub(crate) fn ended(&self, id: &str, slot: usize, end: End) {
        let mut inner = self.lock();
        let stopping = inner.stopping;
        if let Some(entry) = inner.jobs.get_mut(id) {
            let job = &mut entry.job;
            if let Some(begun) = entry.begun.take() {
                let took = time::now().saturating_sub(begun) as f64 / 1e3;
                job.seconds = Some(job.seconds.unwrap_or(0.0) + took);
            }
            match (end, job.wish) {
                (End::Done { frames, memory }, _) => {
                    (job.status, job.frames, job.memory) = (Status::Succeeded, frames.or(job.frames), memory);
                }
                (End::Failed { error, kind }, None | Some(Wish::Pause)) => {
                    (job.status, job.error, job.error_kind) = (Status::Failed, Some(error), Some(kind));
                }
                (End::Failed { .. } | End::Stopped, _) => stopped(job),
            }
            job.wish = None;
            if job.status.is_over() {
                job.completed = Some(time::now());
                entry.lines.drain(..entry.lines.len().saturating_sub(LAST_LINES));
                entry.lines.shrink_to_fit();
            }
            let job = entry.job.clone();
            // While the server stops, a job that it stopped stays as it was on the disk: it is the next to go on.
            if !stopping || job.status.is_over() || job.paused {
                let _ = self.folder.folder(id).and_then(|folder| save(&folder, &job));
            }
        }
        if let Some(slot) = inner.slots.get_mut(slot) {
            *slot = None;
        }
        drop(inner);
        self.changed.notify_all();
        self.tell(id);
    }

    /// True if a running job is to stop.
    pub(crate) fn should_stop(&self, id: &str) -> bool {
        let inner = self.lock();
        inner.stopping || inner.jobs.get(id).is_none_or(|entry| entry.job.wish.is_some())
    }

    /// Removes jobs that were over before this time.
    pub(crate) fn expire(&self) {
        let expired = |job: &Job| self.expires(job).is_some_and(|time| time <= time::now());
        let old: Vec<String> =
            self.lock().jobs.values().filter(|e| expired(&e.job)).map(|e| e.job.id.clone()).collect();
        for id in old {
            let _ = self.remove(&id);
        }
    }

    /// When a job is removed.
    fn expires(&self, job: &Job) -> Option<u64> {
        job.completed
            .filter(|_| job.status.is_over())
            .map(|time| time.saturating_add(self.keep.as_millis() as u64))
    }

    /// A job.
    pub(crate) fn get(&self, id: &str) -> Option<Job> {
        self.lock().jobs.get(id).map(|entry| entry.job.clone())
    }

    /// Changes a job and keeps it.
    pub(crate) fn update(&self, id: &str, change: impl FnOnce(&mut Job)) {
        let _ = self.change(id, |entry| {
            change(&mut entry.job);
            Ok(())
        });
    }

    /// A job, as clients see it.
    pub(crate) fn shown(&self, id: &str, base: &str) -> Option<Value> {
        let inner = self.lock();
        let entry = inner.jobs.get(id)?;
        Some(self.describe(&inner, entry, base))
    }

    fn describe(&self, inner: &Inner, entry: &Entry, base: &str) -> Value {
        let job = &entry.job;
        let position = waiting(&inner.jobs).iter().position(|id| *id == job.id);
        let live = matches!(job.status, Status::Processing) || !entry.live.logs.is_empty();
        let file = self.path(&job.id).join(job.result());
        let live = live.then_some(&entry.live);
        let mut shown = job.shown(live, base, position, &file.display().to_string(), self.expires(job));
        // Clients look at the answer of a cancellation. The run ends within a second.
        if job.status == Status::Processing && job.wish == Some(Wish::Cancel) {
            shown["status"] = json!(Status::Canceled);
            shown["completed_at"] = json!(time::written(time::now()));
        }
        shown
    }

    /// Jobs, the newest first: at most `most` of them behind the one that `cursor` names.
    pub(crate) fn list(&self, cursor: Option<&str>, most: usize, base: &str) -> (Vec<Value>, Option<String>) {
        let inner = self.lock();
        let mut entries: Vec<&Entry> = inner.jobs.values().collect();
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.job.created), entry.job.id.clone()));
        let behind = cursor.and_then(|id| entries.iter().position(|entry| entry.job.id == id));
        let first = behind.map_or(0, |at| at + 1);
        let page: Vec<&Entry> = entries.iter().skip(first).take(most).copied().collect();
        let more = entries.len() > first + page.len();
        let next = page.last().filter(|_| more).map(|entry| entry.job.id.clone());
        (page.into_iter().map(|entry| self.describe(&inner, entry, base)).collect(), next)
    }

    /// All jobs, for figures and clean-up.
    pub(crate) fn all(&self) -> Vec<Job> {
        self.lock().jobs.values().map(|entry| entry.job.clone()).collect()
    }

    /// What each device does.
    pub(crate) fn slots(&self) -> Vec<Option<String>> {
        self.lock().slots.clone()
    }

    /// Takes a device that is free and that no job waits for.
    pub(crate) fn borrow(self: &Arc<Self>) -> Option<Borrowed> {
        let mut inner = self.lock();
        let slot = inner.slots.iter().position(Option::is_none)?;
        inner.slots[slot] = Some("preview".into());
        Some(Borrowed { jobs: Arc::clone(self), slot })
    }

    fn free(&self, slot: usize) {
        if let Some(slot) = self.lock().slots.get_mut(slot) {
            *slot = None;
        }
        self.changed.notify_all();
    }

    /// Ends all runs. Jobs stay as they are.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Entry) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut inner = self.lock();
        let entry = inner.jobs.get_mut(id).ok_or_else(|| Problem::missing("prediction"))?;
        let before = entry.job.clone();
        change(entry)?;
        if entry.job != before {
            let saved = self.folder.folder(id).and_then(|folder| save(&folder, &entry.job));
            if let Err(error) = saved {
                entry.job = before;
                return Err(Problem::system("the change cannot be kept", &error));
            }
        }
        drop(inner);
        self.changed.notify_all();
        self.tell(id);
        Ok(())
    }

    fn tell(&self, id: &str) {
        // Without clients there is none to tell.
        let _ = self.changes.send(Change::State(id.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the record of a job.
fn save(folder: &Folder, job: &Job) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(job)?;
    folder.write_whole(RECORD, |file| file.write_all(&bytes))
}

/// What becomes of a job whose run ended without a result.
fn stopped(job: &mut Job) {
    match job.wish.take() {
        Some(Wish::Cancel) => (job.status, job.completed) = (Status::Canceled, Some(time::now())),
        Some(Wish::Pause) => (job.status, job.paused) = (Status::Starting, true),
        // It goes on when the server does.
        None => job.status = Status::Starting,
    }
}

/// The job that was made with a key.
fn keyed(inner: &Inner, key: &str, asked: &str) -> Result<Option<String>, Problem> {
    match inner.jobs.values().map(|entry| &entry.job).find(|job| job.key.as_deref() == Some(key)) {
        None => Ok(None),
        Some(job) if job.asked.as_deref() == Some(asked) => Ok(Some(job.id.clone())),
        Some(_) => Err(Problem::conflict("this Idempotency-Key was used for another job; use a new one")),
    }
}

/// Jobs that wait, paused ones too, in their order.
fn waiting(jobs: &BTreeMap<String, Entry>) -> Vec<String> {
    let mut waiting: Vec<&Job> =
        jobs.values().map(|entry| &entry.job).filter(|job| job.status == Status::Starting).collect();
    waiting.sort_by(|a, b| {
        a.rank.total_cmp(&b.rank).then(a.created.cmp(&b.created)).then_with(|| a.id.cmp(&b.id))
    });
    waiting.into_iter().map(|job| job.id.clone()).collect()
}

/// The job that is next.
fn next(jobs: &BTreeMap<String, Entry>) -> Option<String> {
    waiting(jobs).into_iter().find(|id| jobs.get(id).is_some_and(|entry| !entry.job.paused))
}

#[cfg(test)]
mod tests;
