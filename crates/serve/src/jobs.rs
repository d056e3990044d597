//! The jobs of a server, as routes and devices share them.
//!
//! What they are lives in memory, under a lock that no file operation holds; a thread writes records. A new job is seen and
//! answered when its record is on the disk, and so is the end of a run. Everything else that clients ask for holds at once:
//! its record follows, and on a disk that is full it is written when there is room.

mod feed;
mod queue;
mod records;
mod saves;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use remaster_disk::Folder;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, broadcast};

use self::feed::{Feed, Line};
pub(crate) use self::queue::Action;
use self::queue::{Limits, Queue};
use self::records::{Loaded, Records};
use self::saves::Saves;
pub(crate) use self::saves::Saving;
use crate::id;
use crate::job::{Job, Message, Status, Viewer};
use crate::problem::Problem;
use crate::time;

/// Changes that a slow client may miss before it has to ask for all.
const CHANGES: usize = 1024;

/// The user of a device that makes a preview.
const PREVIEW: &str = "preview";

/// Something that clients watch.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A job is in another state.
    State(String),
    /// A job has reported a line of progress.
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

/// Jobs whose files are removed at the same time.
const REMOVALS: usize = 4;

/// The error of a removal whose files stay, because of a bad disk or, on Windows, a program that has them open.
const LEFT_FILES: &str = "the job is removed, but not its files, which is tried again every ten minutes";

/// How long a server that stops waits for its last records. A disk that hangs must not keep it.
const LAST_RECORDS: Duration = Duration::from_secs(15);
const _: () = assert!(LAST_RECORDS.as_secs() > writer::CLOSING.as_secs());

/// How a run ended.
#[derive(Clone, Debug)]
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
    /// On request, or because the server stops.
    Stopped,
}

/// A place in the list of jobs: when the last job of a page was made, and its id. It stays valid when that job is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64, pub(crate) String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (created, id) = text.split_once('-').ok_or(())?;
        let is_number = !created.is_empty() && created.bytes().all(|byte| byte.is_ascii_digit());
        let created = created.parse().ok().filter(|_| is_number && id::is_id(id)).ok_or(())?;
        Ok(Cursor(created, id.to_owned()))
    }
}

/// Sums over all jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Jobs by their status, in the order of [`Status::ALL`].
    pub(crate) by_status: [usize; Status::ALL.len()],
    pub(crate) paused: usize,
    pub(crate) frames: u64,
    pub(crate) seconds: f64,
    /// The most memory that a job used of what was planned for it.
    pub(crate) memory_share: f64,
    pub(crate) devices_busy: usize,
}

/// What is in memory.
struct State {
    queue: Queue,
    feed: Feed,
    saves: Saves,
    /// Runs end, and their jobs wait for the next server.
    stopping: bool,
    /// Since when no record is written any more.
    closed: Option<Instant>,
    /// Jobs that were removed and whose files could not be.
    leftovers: BTreeSet<String>,
}

struct Inner {
    records: Records,
    state: Mutex<State>,
    /// A device may have something to do.
    changed: Condvar,
    /// A record has to be written.
    unsaved: Condvar,
    changes: broadcast::Sender<Change>,
}

/// All jobs.
pub(crate) struct Jobs {
    inner: Arc<Inner>,
    writer: Mutex<Option<Writer>>,
    /// Turns of removals, which go on when their clients are gone.
    removals: Arc<Semaphore>,
}

/// The thread that writes records.
struct Writer {
    thread: JoinHandle<()>,
    /// Disconnected when the thread has ended.
    running: Receiver<()>,
}

/// A device that makes a preview. It is free again when this is dropped.
pub(crate) struct Borrowed {
    inner: Arc<Inner>,
    /// Its number.
    pub(crate) slot: usize,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.inner.lock().queue.release(self.slot);
        self.inner.changed.notify_all();
    }
}

impl Jobs {
    /// Reads the jobs that are there. What ran when the server ended waits again, at its place.
    pub(crate) fn open(
        folder: Folder,
        devices: usize,
        waiting: usize,
        keep: Duration,
    ) -> std::io::Result<Self> {
        let records = Records::new(folder);
        let (keep, folder) = (keep.as_millis() as u64, records.path().to_owned());
        let mut queue = Queue::new(Limits { devices, waiting, keep, folder });
        let mut saves = Saves::default();
        for loaded in records.load()? {
            match loaded {
                Loaded::Job(job) => {
                    let id = job.id.clone();
                    if queue.load(*job, time::now()) {
                        drop(saves.want(&id));
                    }
                }
                Loaded::Unreadable(job) => queue.load_unreadable(job),
            }
        }
        let (changes, _) = broadcast::channel(CHANGES);
        let (feed, leftovers) = (Feed::default(), BTreeSet::new());
        let state = State { queue, feed, saves, stopping: false, closed: None, leftovers };
        let (changed, unsaved) = (Condvar::new(), Condvar::new());
        let inner = Arc::new(Inner { records, state: Mutex::new(state), changed, unsaved, changes });
        let (alive, running) = std::sync::mpsc::channel();
        let writer = Arc::clone(&inner);
        let write = move || {
            let _alive = alive;
            writer.write();
        };
        let thread = std::thread::Builder::new().name("records".into()).spawn(write)?;
        let writer = Writer { thread, running };
        Ok(Jobs { inner, writer: Mutex::new(Some(writer)), removals: Arc::new(Semaphore::new(REMOVALS)) })
    }

    /// Changes from now on.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// The folder of a job.
    pub(crate) fn folder(&self, id: &str) -> std::io::Result<Folder> {
        self.inner.records.open(id)
    }

    /// The path of a job's folder, for the process that works on it.
    pub(crate) fn path(&self, id: &str) -> PathBuf {
        self.inner.records.path_of(id)
    }

    /// The job that was made with this key, if what was asked for has the same hash.
    pub(crate) fn with_key(&self, key: &str, asked: &str) -> Result<Option<String>, Problem> {
        self.inner.lock().queue.with_key(key, asked)
    }

    /// Takes a new job, and returns its id when its record is on the disk. One with the same key is the same job; the second
    /// value is true if it is new. A client that goes away meanwhile leaves the job in the queue.
    pub(crate) async fn add(&self, job: Job) -> Result<(String, bool), Problem> {
        let (id, is_new, saving) = {
            let mut state = self.inner.lock();
            let (id, is_new, is_saved) = state.queue.push(job)?;
            if is_saved {
                return Ok((id, is_new));
            }
            let saving = self.inner.save(&mut state, &id);
            (id, is_new, saving)
        };
        match saving.done().await {
            Some(Ok(())) => Ok((id, is_new)),
            Some(Err(error)) => Err(Problem::system("the job cannot be kept", &error)),
            None => Err(Problem::busy("interrupted", "the server stops; send this again when it is back")),
        }
    }

    /// Waits for a job for a device, and takes it. `None` when the server stops.
    pub(crate) fn take(&self, slot: usize) -> Option<Job> {
        let mut state = self.inner.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(job) = state.queue.start_next(slot, time::now()) {
                // Until it is saved, the job waits again after a kill, which does no harm.
                drop(self.inner.save(&mut state, &job.id));
                drop(state);
                self.inner.tell(&job.id);
                return Some(job);
            }
            state = self.inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that a run has ended. Clients see a result, and the device is free, when that is saved.
    pub(crate) fn ended(&self, id: &str, slot: usize, end: End) {
        let mut state = self.inner.lock();
        let has_result = matches!(end, End::Done { .. });
        let goes_on = matches!(end, End::Stopped) && state.stopping;
        state.queue.finish(id, slot, end, time::now());
        let job = state.queue.get(id).ok();
        let is_asked = job.is_some_and(|job| job.stop.is_some());
        let was_saved = job.and_then(|job| job.saved);
        // Clients know already that it is canceled or paused. A webhook hears of it once, so that is saved first.
        let is_known = is_asked && !has_result && job.is_some_and(|job| job.webhook.is_none());
        // The record of a job that stops with the server says already that it is to go on, but not how much of it is saved.
        let is_as_saved = state.queue.record(id).is_none_or(|job| job.saved == was_saved);
        let is_saved = goes_on && !is_asked && is_as_saved;
        if !is_saved {
            drop(self.inner.save(&mut state, id));
        }
        if is_saved || is_known {
            state.queue.settle(id);
            if state.queue.get(id).is_ok_and(|job| job.status.is_over()) {
                state.feed.shorten(id);
            }
            drop(state);
            self.inner.changed.notify_all();
            self.inner.tell(id);
        }
    }

    /// True if a running job is to stop.
    pub(crate) fn should_stop(&self, id: &str) -> bool {
        let state = self.inner.lock();
        state.stopping || state.queue.get(id).map_or(true, |job| job.stop.is_some())
    }

    /// Does what a client asks for. It holds at once; the save can be waited for.
    pub(crate) fn request(&self, id: &str, action: Action) -> Result<Option<Saving>, Problem> {
        let mut state = self.inner.lock();
        let is_changed = state.queue.request(id, action, time::now())?;
        if state.queue.get(id).is_ok_and(|job| job.status.is_over()) {
            state.feed.shorten(id);
        }
        let saving = is_changed.then(|| self.inner.save(&mut state, id));
        drop(state);
        self.inner.changed.notify_all();
        self.inner.tell(id);
        Ok(saving)
    }

    /// Moves a job to another position in the queue. Usually that is one save.
    pub(crate) fn place(&self, id: &str, position: usize) -> Result<Vec<Saving>, Problem> {
        let mut state = self.inner.lock();
        let moved = state.queue.place(id, position)?;
        let saving = moved.changed.iter().map(|id| self.inner.save(&mut state, id)).collect();
        drop(state);
        self.inner.changed.notify_all();
        moved.shifted.iter().for_each(|id| self.inner.tell(id));
        Ok(saving)
    }

    /// Removes a job that is over, with its files.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), Problem> {
        // It is never closed.
        let turn = Arc::clone(&self.removals).acquire_owned().await.ok();
        match self.forget(id)? {
            // Its files go when the save that is under way has ended. A slow disk is not waited for.
            Some(saving) => saving.settle().await,
            None => {
                let inner = Arc::clone(&self.inner);
                let owned = id.to_owned();
                let work = move || {
                    let _turn = turn;
                    inner.remove_files(&owned)
                };
                let removed = tokio::task::spawn_blocking(work).await;
                let removed = removed.map_err(std::io::Error::other).flatten();
                removed.map_err(|error| Problem::system(LEFT_FILES, &error))?;
            }
        }
        Ok(())
    }

    /// Takes a job out of the queue. `Some` if its files go with a save that is under way.
    fn forget(&self, id: &str) -> Result<Option<Saving>, Problem> {
        let mut state = self.inner.lock();
        state.queue.remove(id)?;
        state.feed.remove(id);
        let saving = state.saves.forget(id);
        drop(state);
        let _ = self.inner.changes.send(Change::Removed(id.to_owned()));
        Ok(saving)
    }

    /// Removes jobs that were kept for long enough, and files that could not be removed before.
    pub(crate) fn expire(&self) {
        let (expired, leftovers) = {
            let state = self.inner.lock();
            (state.queue.expired(time::now()), state.leftovers.clone())
        };
        for id in expired {
            if matches!(self.forget(&id), Ok(None)) {
                let _ = self.inner.remove_files(&id);
            }
        }
        for id in leftovers {
            let _ = self.inner.remove_files(&id);
        }
    }

    /// A job.
    pub(crate) fn get(&self, id: &str) -> Result<Job, Problem> {
        self.inner.lock().queue.get(id).cloned()
    }

    /// True if a job is over or gone.
    pub(crate) fn is_over(&self, id: &str) -> bool {
        self.inner.lock().queue.get(id).map_or(true, |job| job.status.is_over())
    }

    /// The job as a client sees it.
    pub(crate) fn shown(&self, id: &str, viewer: &Viewer) -> Option<Value> {
        self.inner.lock().queue.shown(id, viewer)
    }

    /// Jobs, the newest first: at most `limit` of them behind the cursor.
    pub(crate) fn list(
        &self,
        after: Option<&Cursor>,
        limit: usize,
        viewer: &Viewer,
    ) -> (Vec<Value>, Option<Cursor>) {
        let state = self.inner.lock();
        let (ids, next) = state.queue.list(after, limit);
        (ids.into_iter().filter_map(|id| state.queue.shown(id, viewer)).collect(), next)
    }

    /// Sums over all jobs.
    pub(crate) fn figures(&self) -> Figures {
        self.inner.lock().queue.figures()
    }

    /// True if a job that is not over needs an upload.
    pub(crate) fn uses(&self, upload: &str) -> bool {
        self.inner.lock().queue.uses(upload)
    }

    /// True if any job was made of an upload.
    pub(crate) fn knows(&self, upload: &str) -> bool {
        self.inner.lock().queue.knows(upload)
    }

    /// What each device does.
    pub(crate) fn slots(&self) -> Vec<Option<String>> {
        self.inner.lock().queue.devices().to_vec()
    }

    /// Takes a device that is free and that no job waits for.
    pub(crate) fn borrow(&self) -> Option<Borrowed> {
        let slot = self.inner.lock().queue.borrow(PREVIEW)?;
        Some(Borrowed { inner: Arc::clone(&self.inner), slot })
    }

    /// A line of the progress of a job.
    pub(crate) fn line(&self, id: &str, text: &str) {
        let parsed = serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let text: Arc<str> = text.into();
        let (number, is_new) = {
            let mut state = self.inner.lock();
            let Some(live) = state.queue.live(id) else { return };
            let is_new = feed::note(live, &parsed);
            (state.feed.push(id, Arc::clone(&text)), is_new)
        };
        let _ = self.inner.changes.send(Change::Line { id: id.to_owned(), number, text });
        if is_new {
            self.inner.tell(id);
        }
    }

    /// The lines of a job behind this one.
    pub(crate) fn lines(&self, id: &str, behind: u64) -> Vec<Line> {
        self.inner.lock().feed.behind(id, behind)
    }

    /// How many lines a job has reported.
    pub(crate) fn line_count(&self, id: &str) -> u64 {
        self.inner.lock().feed.count(id)
    }

    /// Messages of a job behind the first `seen` bytes of them, as far as they are kept, and how many bytes there were.
    pub(crate) fn logs(&self, id: &str, seen: usize) -> (String, usize) {
        match self.inner.lock().queue.live(id) {
            Some(live) => feed::logs(live, seen),
            None => (String::new(), seen),
        }
    }

    /// Notes the moment of the newest picture of a job.
    pub(crate) fn pictured(&self, id: &str, at: u64) {
        let is_new = match self.inner.lock().queue.live(id) {
            Some(live) => live.newest.replace(at) != Some(at),
            None => false,
        };
        if is_new {
            self.inner.tell(id);
        }
    }

    /// Jobs with messages for their webhook.
    pub(crate) fn with_messages(&self) -> Vec<String> {
        self.inner.lock().queue.with_messages()
    }

    /// The address of a job's webhook and the messages for it, the oldest first, if there are any. `None` while its record is being
    /// saved, so that no webhook hears of what a kill undoes; [`Change::State`] follows. On a full disk they are delivered
    /// without a record.
    pub(crate) fn messages(&self, id: &str) -> Option<(String, Vec<Message>)> {
        let state = self.inner.lock();
        state.queue.messages(id).filter(|_| !state.saves.is_untried(id))
    }

    /// True if a message has still to be delivered.
    pub(crate) fn is_pending(&self, id: &str, message: &str) -> bool {
        self.inner.lock().queue.is_pending(id, message)
    }

    /// Notes that a message was delivered, or given up.
    pub(crate) fn delivered(&self, id: &str, message: &str) {
        let mut state = self.inner.lock();
        if state.queue.delivered(id, message) {
            drop(self.inner.save(&mut state, id));
        }
    }

    /// Ends all runs. Jobs stay as they are.
    pub(crate) fn stop(&self) {
        self.inner.lock().stopping = true;
        self.inner.changed.notify_all();
    }

    /// Writes the records that have to be written, also those that could not be before. Changes that come later are lost.
    pub(crate) fn close(&self) {
        let mut state = self.inner.lock();
        if state.closed.is_none() {
            state.closed = Some(Instant::now());
            state.saves.hurry();
        }
        drop(state);
        self.inner.unsaved.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Writer { thread, running }) = writer else { return };
        if running.recv_timeout(LAST_RECORDS) == Err(RecvTimeoutError::Disconnected) {
            drop(thread.join());
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the writer for a save.
    fn save(&self, state: &mut State, id: &str) -> Saving {
        self.unsaved.notify_one();
        state.saves.want(id)
    }

    /// Removes the files of a job that is gone. What cannot be removed is tried again by [`Jobs::expire`].
    fn remove_files(&self, id: &str) -> std::io::Result<()> {
        let removed = self.records.remove(id);
        let leftovers = &mut self.lock().leftovers;
        match &removed {
            Ok(()) => drop(leftovers.remove(id)),
            Err(_) => drop(leftovers.insert(id.to_owned())),
        }
        removed
    }

    fn tell(&self, id: &str) {
        // Without clients nobody hears it.
        let _ = self.changes.send(Change::State(id.to_owned()));
    }
}

#[cfg(test)]
mod tests;
