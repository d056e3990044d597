//! Server-sent events: what happens, as it happens.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Id, Shared};
use crate::job::{Status, Viewer};
use crate::jobs::Change;
use crate::problem::Problem;
use crate::watched::Client;

/// How often a silent stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);

/// A stream of events for a client.
struct Told {
    app: Shared,
    viewer: Viewer,
    changes: Receiver<Change>,
    ready: VecDeque<Event>,
    over: bool,
    /// What a client has of the messages of a job, for the stream of Replicate.
    logs: usize,
    client: Client,
}

type Events = Sse<
    axum::response::sse::KeepAliveStream<
        std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>,
    >,
>;

impl Told {
    fn new(app: Shared, client: Client, viewer: Viewer) -> Self {
        let changes = app.jobs.watch();
        Told { app, viewer, changes, ready: VecDeque::new(), over: false, logs: 0, client }
    }

    /// Sends what `tell` makes of each change, until it is over or the client closes its side: nothing else says that nobody
    /// listens. A client that misses changes is sent away, so that it asks for all and begins anew.
    fn sent(self, keep: KeepAlive, tell: impl Fn(&mut Told, Change) + Send + 'static) -> Events {
        let events = stream::unfold((self, tell), |(mut told, tell)| async move {
            loop {
                if let Some(event) = told.ready.pop_front() {
                    return Some((Ok(event), (told, tell)));
                }
                if told.over {
                    return None;
                }
                let next = tokio::select! {
                    next = told.changes.recv() => next,
                    _ = told.client.half_closed() => return None,
                };
                match next {
                    Ok(change) => tell(&mut told, change),
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                }
            }
        });
        let events: std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>> =
            Box::pin(events);
        Sse::new(events).keep_alive(keep.interval(ALIVE))
    }

    fn state(&mut self, id: &str) {
        if let Some(shown) = self.app.jobs.shown(id, &self.viewer) {
            self.ready.push_back(Event::default().event("state").data(shown.to_string()));
        }
    }

    fn is_over(&self, id: &str) -> bool {
        self.app.jobs.is_over(id)
    }

    /// What the stream of Replicate says: messages, the result, and the end.
    fn stream(&mut self, id: &str) {
        let Some(shown) = self.app.jobs.shown(id, &self.viewer) else {
            self.over = true;
            return;
        };
        let number = self.logs.to_string();
        let (new, logged) = self.app.jobs.logs(id, self.logs);
        if !new.is_empty() {
            self.ready.push_back(Event::default().event("logs").id(&number).data(new.trim_end()));
            self.logs = logged;
        }
        if !self.is_over(id) {
            return;
        }
        if let Some(output) = shown.get("output").and_then(Value::as_str) {
            self.ready.push_back(Event::default().event("output").id("output").data(output));
        }
        let reason = match shown.get("status").and_then(Value::as_str) {
            Some(word) if word == Status::Canceled.word() => json!({"reason": "canceled"}),
            Some(word) if word == Status::Failed.word() => {
                let error = shown.get("error").and_then(Value::as_str).unwrap_or("failed");
                self.ready.push_back(
                    Event::default().event("error").id("error").data(error.replace(['\n', '\r'], " ")),
                );
                json!({"reason": "error"})
            }
            _ => json!({}),
        };
        self.ready.push_back(Event::default().event("done").id("done").data(reason.to_string()));
        self.over = true;
    }
}

pub(super) async fn of_all(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    viewer: Viewer,
) -> Events {
    // An event and no comment, so that the page hears that the connection lives.
    let keep = KeepAlive::new().event(Event::default().event("alive").data("{}"));
    Told::new(app, client, viewer).sent(keep, |told, change| match change {
        Change::State(id) => told.state(&id),
        Change::Removed(id) => {
            told.ready.push_back(Event::default().event("removed").data(json!({"id": id}).to_string()));
        }
        Change::Line { .. } => {}
    })
}

pub(super) async fn of_job(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    viewer: Viewer,
    headers: HeaderMap,
    Id(id): Id,
) -> Result<Events, Problem> {
    app.jobs.get(&id)?;
    let behind =
        headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    // Lines are counted anew by each server.
    let behind = if behind > app.jobs.line_count(&id) { 0 } else { behind };
    let mut told = Told::new(app, client, viewer);
    let mut last = behind;
    for (number, text) in told.app.jobs.lines(&id, behind) {
        told.ready.push_back(Event::default().id(number.to_string()).data(&*text));
        last = number;
    }
    told.state(&id);
    told.over = told.is_over(&id);
    Ok(told.sent(KeepAlive::new(), move |told, change| match change {
        Change::State(of) if of == id => {
            told.state(&id);
            told.over = told.is_over(&id);
        }
        Change::Line { id: of, number, text } if of == id && number > last => {
            told.ready.push_back(Event::default().id(number.to_string()).data(&*text));
        }
        Change::Removed(of) if of == id => told.over = true,
        _ => {}
    }))
}

pub(super) async fn stream(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    viewer: Viewer,
    Id(id): Id,
) -> Result<Events, Problem> {
    app.jobs.get(&id)?;
    let mut told = Told::new(app, client, viewer);
    told.stream(&id);
    Ok(told.sent(KeepAlive::new(), move |told, change| match change {
        Change::State(of) if of == id => told.stream(&id),
        Change::Removed(of) if of == id => told.over = true,
        _ => {}
    }))
}
