//! What clients can ask of a job.

use super::entry::{Entry, View, end_message};
use crate::job::{Job, Status, Stop};
use crate::problem::Problem;

/// Ends that a webhook was not told of, at most. A job with so many cannot be retried.
const MAX_ENDS: usize = 8;

/// What a client can ask of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ends it. One that is over stays as it is.
    Cancel,
    /// Frees its device for others. What was made stays.
    Pause,
    /// Lets a paused job go on.
    Resume,
    /// Lets a job that failed or was cancelled wait again. What it made is used.
    Retry,
}

impl Action {
    /// Does it, or says why it cannot be done.
    pub(super) fn apply(self, entry: &mut Entry, view: &View<'_>, now: u64) -> Result<(), Problem> {
        match self {
            Action::Cancel => {
                cancel(entry, view, now);
                Ok(())
            }
            Action::Pause => pause(&mut entry.job),
            Action::Resume => resume(&mut entry.job),
            Action::Retry => retry(&mut entry.job),
        }
    }
}

/// Ends the run of a job that has no result: as a client asked for, or for the next server.
pub(super) fn stopped(job: &mut Job, now: u64) {
    match job.stop.take() {
        Some(Stop::Cancel) => (job.status, job.completed) = (Status::Canceled, Some(now)),
        Some(Stop::Pause) => (job.status, job.paused) = (Status::Starting, true),
        // It goes on when the server does.
        None => job.status = Status::Starting,
    }
}

fn cancel(entry: &mut Entry, view: &View<'_>, now: u64) {
    match entry.job.status {
        Status::Starting => {
            (entry.job.status, entry.job.completed) = (Status::Canceled, Some(now));
            end_message(entry, view, now);
        }
        Status::Processing => entry.job.stop = Some(Stop::Cancel),
        _ => {}
    }
}

fn pause(job: &mut Job) -> Result<(), Problem> {
    match job.status {
        Status::Starting => job.paused = true,
        Status::Processing if job.stop != Some(Stop::Cancel) => job.stop = Some(Stop::Pause),
        _ => return Err(Problem::conflict("this job is over and cannot be paused")),
    }
    Ok(())
}

fn resume(job: &mut Job) -> Result<(), Problem> {
    if job.status == Status::Processing && job.stop == Some(Stop::Pause) {
        return Err(Problem::conflict("this job is being paused; resume it in a moment"));
    }
    if job.status.is_over() {
        return Err(Problem::conflict("this job is over; retry it instead"));
    }
    job.paused = false;
    Ok(())
}

fn retry(job: &mut Job) -> Result<(), Problem> {
    match job.status {
        Status::Failed | Status::Canceled => {}
        Status::Processing if job.stop == Some(Stop::Cancel) => {
            return Err(Problem::conflict("this job is being cancelled; retry it in a moment"));
        }
        _ => return Err(Problem::conflict("only a job that failed or was cancelled can be retried")),
    }
    if let Some(webhook) = &mut job.webhook {
        if webhook.pending.len() >= MAX_ENDS {
            return Err(Problem::conflict(format!(
                "the webhook of this job was not told of its last {MAX_ENDS} ends yet; retry it in a few minutes"
            )));
        }
        webhook.over = false;
    }
    (job.status, job.paused, job.completed) = (Status::Starting, false, None);
    (job.error, job.error_kind) = (None, None);
    Ok(())
}
