//! What clients ask of jobs: to stop, to wait, to go on, to move and to go.

use remaster_disk::if_there;

use super::{Change, Jobs, RECORD, waiting};
use crate::job::{Status, Wish};
use crate::problem::Problem;
use crate::time;

impl Jobs {
    /// Cancels a job. One that is over stays as it is.
    pub(crate) fn cancel(&self, id: &str) -> Result<(), Problem> {
        self.change(id, |entry| {
            match entry.job.status {
                Status::Starting => {
                    (entry.job.status, entry.job.completed) = (Status::Canceled, Some(time::now()));
                }
                Status::Processing => entry.job.wish = Some(Wish::Cancel),
                _ => {}
            }
            Ok(())
        })
    }

    /// Pauses a job: its device is free for others, and what was made stays.
    pub(crate) fn pause(&self, id: &str) -> Result<(), Problem> {
        self.change(id, |entry| match entry.job.status {
            Status::Starting => {
                entry.job.paused = true;
                Ok(())
            }
            Status::Processing if entry.job.wish != Some(Wish::Cancel) => {
                entry.job.wish = Some(Wish::Pause);
                Ok(())
            }
            _ => Err(Problem::conflict("this job is over and cannot be paused")),
        })
    }

    /// Lets a paused job go on.
    pub(crate) fn resume(&self, id: &str) -> Result<(), Problem> {
        self.change(id, |entry| {
            if entry.job.status == Status::Processing && entry.job.wish == Some(Wish::Pause) {
                return Err(Problem::conflict("this job is being paused; resume it in a moment"));
            }
            match entry.job.status.is_over() {
                true => Err(Problem::conflict("this job is over; retry it instead")),
                false => {
                    entry.job.paused = false;
                    Ok(())
                }
            }
        })
    }

    /// Lets a job that failed or was canceled wait again. What it made is used.
    pub(crate) fn retry(&self, id: &str) -> Result<(), Problem> {
        self.change(id, |entry| match entry.job.status {
            Status::Failed | Status::Canceled => {
                let job = &mut entry.job;
                (job.status, job.paused, job.completed) = (Status::Starting, false, None);
                (job.error, job.error_kind) = (None, None);
                if let Some(webhook) = &mut job.webhook {
                    webhook.over = false;
                }
                Ok(())
            }
            Status::Processing if entry.job.wish == Some(Wish::Cancel) => {
                Err(Problem::conflict("this job is being canceled; retry it in a moment"))
            }
            _ => Err(Problem::conflict("only a job that failed or was canceled can be retried")),
        })
    }

    /// Moves a job to another place in the queue.
    pub(crate) fn place(&self, id: &str, position: usize) -> Result<(), Problem> {
        let inner = self.lock();
        let mut waiting = waiting(&inner.jobs);
        let Some(from) = waiting.iter().position(|other| other == id) else {
            return match inner.jobs.contains_key(id) {
                true => Err(Problem::conflict("only a job that waits can be moved")),
                false => Err(Problem::missing("prediction")),
            };
        };
        waiting.remove(from);
        let at = position.min(waiting.len());
        let rank = |at: usize| waiting.get(at).and_then(|id| inner.jobs.get(id)).map(|entry| entry.job.rank);
        // Between its neighbours, so that one record says it. After fifty moves to the same place there is no number
        // between them, and all get new ones.
        let rank = match (at.checked_sub(1).and_then(rank), rank(at)) {
            (Some(before), Some(behind)) => f64::midpoint(before, behind),
            (None, Some(behind)) => behind - 1.0,
            (Some(before), None) => before + 1.0,
            (None, None) => return Ok(()),
        };
        let is_taken =
            waiting.iter().any(|id| inner.jobs.get(id).is_some_and(|entry| entry.job.rank == rank));
        drop(inner);
        if is_taken {
            for (number, id) in waiting.iter().enumerate() {
                self.change(id, |entry| {
                    entry.job.rank = number as f64;
                    Ok(())
                })?;
            }
            return self.place(id, position);
        }
        self.change(id, |entry| {
            entry.job.rank = rank;
            Ok(())
        })?;
        // Places of all others changed, too.
        waiting.iter().for_each(|id| self.tell(id));
        Ok(())
    }

    /// Removes a job that is over, with its result.
    pub(crate) fn remove(&self, id: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        match inner.jobs.get(id).map(|entry| entry.job.status) {
            None => return Err(Problem::missing("prediction")),
            Some(status) if !status.is_over() => {
                return Err(Problem::conflict("this job is not over; cancel it first"));
            }
            Some(_) => inner.jobs.remove(id),
        };
        drop(inner);
        // Its record first: what is left of it after a crash is no job, and goes at the next start.
        let _ = self.folder.folder(id).and_then(|folder| folder.remove(RECORD));
        let gone = if_there(self.folder.remove_tree(id));
        let _ = self.changes.send(Change::Removed(id.to_owned()));
        gone.map(drop).map_err(|error| Problem::system("the result cannot be removed", &error))
    }
}
