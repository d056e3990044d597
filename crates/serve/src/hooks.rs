//! Calls the webhooks of jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::app::App;
use crate::job::Message;
use crate::jobs::Change;
use crate::time;
use crate::webhooks::{ATTEMPT, deliver, schedule, signed};

/// Deliveries at the same time.
const AT_ONCE: usize = 8;

/// How often a pause between two attempts looks whether the message is still to be delivered.
const LOOK: Duration = Duration::from_secs(1);

/// Delivers messages until the server stops, those of a server that was killed first. Messages of one job go one after the
/// other: an end never comes before its start.
pub(crate) async fn run(app: Arc<App>, mut changes: Receiver<Change>) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    // Jobs whose messages are being delivered.
    let (mut busy, mut deliveries) = (HashSet::new(), JoinSet::new());
    let mut ready = app.jobs.with_messages();
    loop {
        for id in ready.drain(..) {
            if app.jobs.messages(&id).is_some() && busy.insert(id.clone()) {
                deliveries.spawn(deliver_all(Arc::clone(&app), Arc::clone(&turns), id));
            }
        }
        tokio::select! {
            change = changes.recv() => match change {
                Ok(Change::State(id)) => ready.push(id),
                Ok(Change::Line { .. } | Change::Removed(_)) => {}
                Err(RecvError::Lagged(_)) => ready = app.jobs.with_messages(),
                Err(RecvError::Closed) => return,
            },
            Some(done) = deliveries.join_next() => {
                if let Ok(id) = done {
                    busy.remove(&id);
                    // A message may have come after the last look.
                    ready.push(id);
                }
            }
        }
    }
}

async fn deliver_all(app: Arc<App>, turns: Arc<Semaphore>, id: String) -> String {
    while let Some((url, messages)) = app.jobs.messages(&id) {
        for message in messages {
            attempt(&app, &turns, &id, &url, &message).await;
            app.jobs.delivered(&id, &message.id);
        }
    }
    id
}

/// Delivers a message, with pauses between the attempts, or gives it up.
async fn attempt(app: &Arc<App>, turns: &Semaphore, id: &str, url: &str, message: &Message) {
    let mut attempt = 1;
    loop {
        let Ok(turn) = turns.acquire().await else { return };
        if is_dropped(app, id, message) {
            return;
        }
        let headers = signed(&app.secret, &message.id, time::now() / 1000, message.body.as_bytes());
        let (hosts, url, body) = (app.settings.hosts.clone(), url.to_owned(), message.body.clone());
        let work = move || deliver(&url, &headers, body.as_bytes(), &hosts, ATTEMPT, &|| false);
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        match (done, schedule(attempt)) {
            (Ok(Err(error)), Some(pause)) if error.is_passing() => {
                let until = Instant::now() + pause;
                // The end of the job does not wait for another attempt to tell its start.
                while Instant::now() < until && !is_dropped(app, id, message) {
                    tokio::time::sleep(pause.min(LOOK)).await;
                }
            }
            _ => return,
        }
        attempt += 1;
    }
}

/// True for a start whose job is over. An end is delivered even if its job was removed meanwhile.
fn is_dropped(app: &App, id: &str, message: &Message) -> bool {
    !message.is_end && !app.jobs.is_pending(id, &message.id)
}
