//! Which jobs there are, which is next, and what can be asked of them. No files and no locks.

mod action;
mod entry;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::path::PathBuf;

use serde_json::Value;

pub(crate) use self::action::Action;
use self::action::stopped;
use self::entry::{Ended, Entry, View, end_message, start_message};
use self::waiting::Waiting;
use super::{Cursor, End, Figures};
use crate::job::{Job, Live, Message, Status, Unreadable, Viewer};
use crate::problem::Problem;

/// What has to be done when a save has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterSave {
    /// Clients see something new.
    Shown,
    Nothing,
    /// The job changed while the end of its run was being saved.
    SaveAgain,
    /// The job was removed meanwhile.
    Removed,
    /// The job was new and cannot be saved.
    Refused,
}

/// The places that a move changed.
pub(super) struct Moved {
    /// Jobs with another record.
    pub(super) changed: Vec<String>,
    /// Jobs with another position.
    pub(super) shifted: Vec<String>,
}

/// All jobs of a server.
pub(super) struct Queue {
    entries: HashMap<String, Box<Entry>>,
    unreadable: HashMap<String, Unreadable>,
    /// What clients see, the newest first.
    newest: BTreeSet<(Reverse<u64>, String)>,
    /// Jobs that wait, paused ones too, in their order.
    waiting: Waiting,
    /// Jobs by the key of their client.
    keys: HashMap<String, String>,
    /// Jobs by their upload.
    uploads: BTreeSet<(String, String)>,
    /// Jobs with messages for their webhook.
    messages: BTreeSet<String>,
    /// The user of each device.
    devices: Vec<Option<String>>,
    /// Jobs whose first record is not saved yet.
    new: usize,
    last_rank: f64,
    limits: Limits,
}

/// What a queue is made with.
pub(super) struct Limits {
    pub(super) devices: usize,
    /// Jobs that may wait.
    pub(super) waiting: usize,
    /// How long a job that is over is kept, in milliseconds.
    pub(super) keep: u64,
    /// The folder of all jobs.
    pub(super) folder: PathBuf,
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Self {
        Queue {
            entries: HashMap::new(),
            unreadable: HashMap::new(),
            newest: BTreeSet::new(),
            waiting: Waiting::default(),
            keys: HashMap::new(),
            uploads: BTreeSet::new(),
            messages: BTreeSet::new(),
            devices: vec![None; limits.devices],
            new: 0,
            last_rank: 0.0,
            limits,
        }
    }

    /// Takes a job of an earlier server. One that ran waits again, at its place. True if its record has to be saved.
    pub(super) fn load(&mut self, job: Job, now: u64) -> bool {
        let before = job.clone();
        let id = job.id.clone();
        self.insert(job, false);
        self.edit(&id, |entry, view| {
            if entry.job.status == Status::Processing {
                stopped(&mut entry.job, now);
                end_message(entry, view, now);
            }
            let Some(webhook) = &mut entry.job.webhook else { return };
            webhook.drop_starts();
            // A record of a program that kept no messages.
            if entry.job.status.is_over() && !webhook.over && webhook.pending.is_empty() {
                let at = entry.job.completed.unwrap_or_default();
                end_message(entry, view, at);
            }
        });
        self.entries.get(&id).is_some_and(|entry| entry.job != before)
    }

    /// Takes a job whose record cannot be read.
    pub(super) fn load_unreadable(&mut self, job: Unreadable) {
        self.newest.insert((Reverse(job.created), job.id.clone()));
        for upload in &job.ids {
            self.uploads.insert((upload.clone(), job.id.clone()));
        }
        self.unreadable.insert(job.id.clone(), job);
    }

    /// Takes a new job, which is seen when it is saved. A job with the same key is the same job. Returns the id, whether the
    /// job is new, and whether it is saved already.
    pub(super) fn push(&mut self, mut job: Job) -> Result<(String, bool, bool), Problem> {
        if let Some(key) = &job.key
            && let Some(id) = self.keyed(key, job.asked.as_deref().unwrap_or_default())?
        {
            let is_saved = self.entries.get(&id).is_some_and(|entry| !entry.is_new);
            return Ok((id, false, is_saved));
        }
        let waiting = self.waiting.len() + self.new;
        if waiting >= self.limits.waiting {
            let detail =
                format!("{waiting} jobs wait already, which is all that --jobs allows; try again later");
            return Err(Problem::busy("queue-full", detail));
        }
        job.rank = self.last_rank + 1.0;
        let id = job.id.clone();
        self.insert(job, true);
        Ok((id, true, false))
    }

    fn insert(&mut self, job: Job, is_new: bool) {
        let id = job.id.clone();
        self.last_rank = self.last_rank.max(job.rank);
        if let Some(key) = &job.key {
            self.keys.insert(key.clone(), id.clone());
        }
        if let Some(upload) = job.media.upload() {
            self.uploads.insert((upload.to_owned(), id.clone()));
        }
        self.new += usize::from(is_new);
        let created = job.created;
        let entry = Entry::new(job, is_new);
        if let Some(place) = entry.place() {
            self.waiting.put(place);
        }
        self.entries.insert(id.clone(), Box::new(entry));
        if !is_new {
            self.newest.insert((Reverse(created), id));
        }
    }

    /// The saved job that was made with a key, if what was asked for has the same hash.
    pub(super) fn with_key(&self, key: &str, asked: &str) -> Result<Option<String>, Problem> {
        let id = self.keyed(key, asked)?;
        Ok(id.filter(|id| self.entries.get(id).is_some_and(|entry| !entry.is_new)))
    }

    fn keyed(&self, key: &str, asked: &str) -> Result<Option<String>, Problem> {
        match self.keys.get(key).and_then(|id| self.entries.get(id)) {
            None => Ok(None),
            Some(entry) if entry.job.asked.as_deref() == Some(asked) => Ok(Some(entry.job.id.clone())),
            Some(_) => Err(Problem::conflict("this Idempotency-Key was used for another job; use a new one")),
        }
    }

    /// Gives the next job to a device that is free.
    pub(super) fn start_next(&mut self, device: usize, now: u64) -> Option<Job> {
        self.devices.get(device).filter(|user| user.is_none())?;
        let id = self.waiting.next()?.to_owned();
        self.devices[device] = Some(id.clone());
        self.edit(&id, |entry, view| {
            let job = &mut entry.job;
            job.status = Status::Processing;
            job.started.get_or_insert(now);
            job.stop = None;
            (entry.begun, entry.live) = (Some(now), Live { logged: entry.live.logged, ..Live::default() });
            start_message(entry, view);
            entry.job.clone()
        })
    }

    /// Notes that a run has ended. It is shown once [`Queue::saved`] says so.
    pub(super) fn finish(&mut self, id: &str, device: usize, end: End, at: u64) {
        match self.entries.get_mut(id) {
            Some(entry) => entry.ended = Some(Ended { end, at, device }),
            None => self.release(device),
        }
    }

    /// Shows the end of a run: what the record says now, or what it is left to say to the next server.
    pub(super) fn settle(&mut self, id: &str) {
        let Some(job) = self.record(id) else { return };
        let ended = self.edit(id, |entry, _| {
            entry.job = job;
            entry.begun = None;
            entry.ended.take()
        });
        if let Some(ended) = ended.flatten() {
            self.release(ended.device);
        }
    }

    /// The job as its record is to be.
    pub(super) fn record(&self, id: &str) -> Option<Job> {
        Some(self.entries.get(id)?.after(&self.view()))
    }

    /// True if the record of a job is to be made, and not replaced.
    pub(super) fn is_new(&self, id: &str) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.is_new)
    }

    /// Notes that a record was saved, or could not be.
    pub(super) fn saved(&mut self, record: &Job, is_saved: bool) -> AfterSave {
        let id = &record.id;
        let Some(entry) = self.entries.get_mut(id) else { return AfterSave::Removed };
        if entry.is_new && !is_saved {
            self.forget(id);
            return AfterSave::Refused;
        }
        if entry.is_new {
            self.new -= 1;
            self.newest.insert((Reverse(record.created), id.clone()));
            self.edit(id, |entry, _| entry.is_new = false);
            return AfterSave::Shown;
        }
        if entry.ended.is_none() {
            return AfterSave::Nothing;
        }
        if is_saved && self.record(id).as_ref() != Some(record) {
            return AfterSave::SaveAgain;
        }
        // On a full disk the end is shown without a record: the device and the clients do not wait for room.
        self.settle(id);
        AfterSave::Shown
    }

    /// Does what a client asks for. True if the job changed.
    pub(super) fn request(&mut self, id: &str, action: Action, now: u64) -> Result<bool, Problem> {
        let before = self.get(id)?.clone();
        self.edit(id, |entry, view| action.apply(entry, view, now)).unwrap_or(Ok(()))?;
        Ok(self.get(id)? != &before)
    }

    /// Moves a job to another position in the queue.
    pub(super) fn place(&mut self, id: &str, position: usize) -> Result<Moved, Problem> {
        self.get(id)?;
        let from =
            self.position(id).ok_or_else(|| Problem::conflict("only a job that waits can be moved"))?;
        let to = position.min(self.waiting.len() - 1);
        let ranks = self.waiting.ranks(from, to);
        match ranks.as_slice() {
            [(_, rank)] => {
                self.last_rank = self.last_rank.max(*rank);
                self.edit(id, |entry, _| entry.job.rank = *rank);
            }
            all => self.renumber(all),
        }
        let between = &self.waiting.places()[from.min(to)..=from.max(to)];
        let shifted = between.iter().map(|place| place.id.clone()).collect();
        Ok(Moved { changed: ranks.into_iter().map(|(id, _)| id).collect(), shifted })
    }

    /// Gives all jobs that wait new ranks.
    fn renumber(&mut self, ranks: &[(String, f64)]) {
        for (id, rank) in ranks {
            self.last_rank = self.last_rank.max(*rank);
            if let Some(entry) = self.entries.get_mut(id) {
                entry.job.rank = *rank;
            }
        }
        let place = |(id, _): &(String, f64)| self.entries.get(id)?.place();
        self.waiting = Waiting::of(ranks.iter().filter_map(place));
    }

    /// Removes a job that is over.
    pub(super) fn remove(&mut self, id: &str) -> Result<(), Problem> {
        if let Some(job) = self.unreadable.remove(id) {
            self.newest.remove(&(Reverse(job.created), job.id));
            for upload in job.ids {
                self.uploads.remove(&(upload, id.to_owned()));
            }
            return Ok(());
        }
        if !self.get(id)?.status.is_over() {
            return Err(Problem::conflict("this job is not over; cancel it first"));
        }
        self.forget(id);
        Ok(())
    }

    fn forget(&mut self, id: &str) {
        let Some(entry) = self.entries.remove(id) else { return };
        if let Some(place) = entry.place() {
            self.waiting.take(&place);
        }
        let job = entry.job;
        self.new -= usize::from(entry.is_new);
        self.messages.remove(id);
        if let Some(key) = &job.key {
            self.keys.remove(key);
        }
        if let Some(upload) = job.media.upload() {
            self.uploads.remove(&(upload.to_owned(), id.to_owned()));
        }
        self.newest.remove(&(Reverse(job.created), job.id));
    }

    /// Jobs that were kept for long enough.
    pub(super) fn expired(&self, now: u64) -> Vec<String> {
        let view = self.view();
        let is_expired = |job: &Job| view.expires(job).is_some_and(|time| time <= now);
        let jobs = self.entries.values().map(|entry| &entry.job);
        jobs.filter(|job| is_expired(job)).map(|job| job.id.clone()).collect()
    }

    /// A job that clients see.
    pub(super) fn get(&self, id: &str) -> Result<&Job, Problem> {
        self.entry(id).map(|entry| &entry.job)
    }

    fn entry(&self, id: &str) -> Result<&Entry, Problem> {
        if let Some(job) = self.unreadable.get(id) {
            return Err(Problem::conflict(&job.reason));
        }
        let entry = self.entries.get(id).filter(|entry| !entry.is_new);
        entry.map(|entry| &**entry).ok_or_else(|| Problem::missing("prediction"))
    }

    /// What a running job reports.
    pub(super) fn live(&mut self, id: &str) -> Option<&mut Live> {
        self.entries.get_mut(id).map(|entry| &mut entry.live)
    }

    /// The job as a client sees it.
    pub(super) fn shown(&self, id: &str, viewer: &Viewer) -> Option<Value> {
        if let Some(job) = self.unreadable.get(id) {
            return Some(job.shown(viewer));
        }
        let entry = self.entry(id).ok()?;
        Some(self.view().shown(entry, self.position(id), viewer))
    }

    /// Jobs, the newest first: at most `limit` of them behind a place in the list, and the place of the last one if more
    /// follow.
    pub(super) fn list(&self, after: Option<&Cursor>, limit: usize) -> (Vec<&str>, Option<Cursor>) {
        let start = match after {
            Some(Cursor(created, id)) => Bound::Excluded((Reverse(*created), id.clone())),
            None => Bound::Unbounded,
        };
        let mut rest = self.newest.range((start, Bound::Unbounded));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let last = page.last().filter(|_| rest.next().is_some());
        let next = last.map(|(Reverse(created), id)| Cursor(*created, id.clone()));
        (page.into_iter().map(|(_, id)| id.as_str()).collect(), next)
    }

    /// True if a job that is not over needs an upload.
    pub(super) fn uses(&self, upload: &str) -> bool {
        let is_open = |id: &str| self.entries.get(id).is_none_or(|entry| !entry.job.status.is_over());
        self.jobs_of(upload).any(is_open)
    }

    /// True if any job was made of an upload.
    pub(super) fn knows(&self, upload: &str) -> bool {
        self.jobs_of(upload).next().is_some()
    }

    fn jobs_of<'a>(&'a self, upload: &'a str) -> impl Iterator<Item = &'a str> {
        let from = (upload.to_owned(), String::new());
        self.uploads.range(from..).take_while(move |(other, _)| other == upload).map(|(_, id)| id.as_str())
    }

    /// What each device does.
    pub(super) fn devices(&self) -> &[Option<String>] {
        &self.devices
    }

    /// Takes a device that is free and that no job waits for.
    pub(super) fn borrow(&mut self, user: &str) -> Option<usize> {
        if self.waiting.next().is_some() {
            return None;
        }
        let device = self.devices.iter().position(Option::is_none)?;
        self.devices[device] = Some(user.to_owned());
        Some(device)
    }

    /// Frees a device.
    pub(super) fn release(&mut self, device: usize) {
        if let Some(user) = self.devices.get_mut(device) {
            *user = None;
        }
    }

    /// Sums over all jobs.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let failed = Status::ALL.iter().position(|status| *status == Status::Failed).unwrap_or_default();
        figures.by_status[failed] = self.unreadable.len();
        for Entry { job, .. } in self.entries.values().map(|entry| &**entry) {
            let at = Status::ALL.iter().position(|status| *status == job.status).unwrap_or_default();
            figures.by_status[at] += 1;
            figures.paused += usize::from(job.paused && job.status == Status::Starting);
            figures.frames += job.frames.unwrap_or(0);
            figures.seconds += job.seconds.unwrap_or(0.0);
            if let Some([used, planned]) = job.memory {
                figures.memory_share = figures.memory_share.max(used as f64 / planned.max(1) as f64);
            }
        }
        figures.devices_busy = self.devices.iter().flatten().count();
        figures
    }

    /// Jobs with messages for their webhook.
    pub(super) fn with_messages(&self) -> Vec<String> {
        self.messages.iter().cloned().collect()
    }

    /// The address of a job's webhook, and the messages for it.
    pub(super) fn messages(&self, id: &str) -> Option<(String, Vec<Message>)> {
        let webhook = self.entries.get(id)?.job.webhook.as_ref()?;
        (!webhook.pending.is_empty()).then(|| (webhook.url.clone(), webhook.pending.clone()))
    }

    /// True if a message has still to be delivered.
    pub(super) fn is_pending(&self, id: &str, message: &str) -> bool {
        let webhook = self.entries.get(id).and_then(|entry| entry.job.webhook.as_ref());
        webhook.is_some_and(|webhook| webhook.pending.iter().any(|pending| pending.id == message))
    }

    /// Notes that a message was delivered, or given up. True if the job changed.
    pub(super) fn delivered(&mut self, id: &str, message: &str) -> bool {
        let done = self.edit(id, |entry, _| {
            let is_over = entry.job.status.is_over();
            let Some(webhook) = &mut entry.job.webhook else { return false };
            let before = webhook.pending.len();
            webhook.pending.retain(|pending| pending.id != message);
            webhook.over = is_over && webhook.pending.is_empty();
            webhook.pending.len() < before
        });
        done.unwrap_or(false)
    }

    /// The position of a job that waits.
    fn position(&self, id: &str) -> Option<usize> {
        let place = self.entries.get(id)?.place()?;
        self.waiting.position(&place)
    }

    /// Changes a job, and what is known by its place and its messages.
    fn edit<T>(&mut self, id: &str, edit: impl FnOnce(&mut Entry, &View<'_>) -> T) -> Option<T> {
        let view = View { keep: self.limits.keep, folder: &self.limits.folder };
        let entry = self.entries.get_mut(id)?;
        let before = entry.place();
        let done = edit(entry, &view);
        let after = entry.place();
        let has_messages = entry.job.webhook.as_ref().is_some_and(|webhook| !webhook.pending.is_empty());
        match has_messages {
            true => drop(self.messages.insert(id.to_owned())),
            false => drop(self.messages.remove(id)),
        }
        if before != after {
            before.iter().for_each(|place| self.waiting.take(place));
            after.into_iter().for_each(|place| self.waiting.put(place));
        }
        Some(done)
    }

    fn view(&self) -> View<'_> {
        View { keep: self.limits.keep, folder: &self.limits.folder }
    }
}

#[cfg(test)]
mod tests;
