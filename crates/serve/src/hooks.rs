//! Tells the addresses that jobs name what happens to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::job::Status;
use crate::jobs::Change;
use crate::time;
use crate::webhooks::{ATTEMPT, deliver, schedule, signed};

/// Deliveries at the same time.
const AT_ONCE: usize = 8;

/// Tells until the server stops. What a server that was killed had not told is told first.
pub(crate) async fn run(app: Arc<App>, mut changes: Receiver<Change>) {
    let (turns, mut known) = (Arc::new(Semaphore::new(AT_ONCE)), HashMap::new());
    for job in app.jobs.all() {
        changed(&app, &turns, &mut known, &job.id);
    }
    loop {
        match changes.recv().await {
            Ok(Change::State(id)) => changed(&app, &turns, &mut known, &id),
            Ok(Change::Removed(id)) => drop(known.remove(&id)),
            Ok(Change::Line { .. }) => {}
            Err(RecvError::Lagged(_)) => {
                for job in app.jobs.all() {
                    changed(&app, &turns, &mut known, &job.id);
                }
            }
            Err(RecvError::Closed) => return,
        }
    }
}

fn changed(app: &Arc<App>, turns: &Arc<Semaphore>, known: &mut HashMap<String, Status>, id: &str) {
    let Some(job) = app.jobs.get(id) else { return };
    let Some(webhook) = &job.webhook else { return };
    let before = known.insert(id.to_owned(), job.status);
    if before == Some(job.status) || webhook.over {
        return;
    }
    let events: &[&str] = match job.status {
        Status::Starting => &[],
        Status::Processing => &["start"],
        Status::Succeeded => &["output", "completed"],
        Status::Failed | Status::Canceled => &["completed"],
    };
    // One message for a client that wants both: they say the same.
    let Some(event) = events.iter().rev().find(|event| webhook.wants(event)) else {
        if job.status.is_over() {
            settle(app, id);
        }
        return;
    };
    let (app, turns, id, last) = (Arc::clone(app), Arc::clone(turns), id.to_owned(), *event != "start");
    let url = webhook.url.clone();
    tokio::spawn(async move {
        tell(&app, &turns, &id, &url, last).await;
        if last {
            settle(&app, &id);
        }
    });
}

/// The end was told, or could not be.
fn settle(app: &App, id: &str) {
    tokio::task::block_in_place(|| {
        app.jobs.update(id, |job| {
            if let Some(webhook) = &mut job.webhook {
                webhook.over = job.status.is_over();
            }
        });
    });
}

/// Tells what a job is like now, again and again if need be. The same event has the same number, also when the next server
/// tells it, so that a client knows it again.
async fn tell(app: &Arc<App>, turns: &Semaphore, id: &str, url: &str, last: bool) {
    let Some(job) = app.jobs.get(id) else { return };
    let Some(body) = app.jobs.shown(id, &job.base).map(|shown| shown.to_string()) else { return };
    let (word, moment) = if last { ("completed", job.completed) } else { ("start", job.started) };
    let message = format!("{id}-{word}-{}", moment.unwrap_or_default());
    let gone = Arc::new(AtomicBool::new(false));
    let mut attempt = 1;
    loop {
        let Ok(turn) = turns.acquire().await else { return };
        // A start that could not be told for minutes would come behind the end.
        if !last && app.jobs.get(id).is_none_or(|job| job.status.is_over()) {
            return;
        }
        let headers = signed(&app.secret, &message, time::now() / 1000, body.as_bytes());
        let (hosts, url, body, gone) =
            (app.settings.hosts.clone(), url.to_owned(), body.clone(), Arc::clone(&gone));
        let work = move || {
            deliver(&url, &headers, body.as_bytes(), &hosts, ATTEMPT, &|| gone.load(Ordering::SeqCst))
        };
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        match (done, schedule(attempt)) {
            (Ok(Err(error)), Some(pause)) if error.is_passing() => tokio::time::sleep(pause).await,
            _ => return,
        }
        attempt += 1;
    }
}
