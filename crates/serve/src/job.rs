//! A job: what was asked for, and what became of it. The form of Replicate's predictions, and what ours has beside them.

use std::path::Path;

use remaster::{Restoration, Saved, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::time::written;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It waits.
    Starting,
    /// A device works on it.
    Processing,
    /// Its film is there.
    Succeeded,
    /// It went wrong.
    Failed,
    /// It was cancelled.
    Canceled,
}

impl Status {
    pub(crate) const ALL: [Status; 5] =
        [Status::Starting, Status::Processing, Status::Succeeded, Status::Failed, Status::Canceled];

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Processing => "processing",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Canceled => "canceled",
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Status::Succeeded | Status::Failed | Status::Canceled)
    }
}

/// Where the film of a job comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Media {
    /// An upload.
    File {
        /// Its id.
        id: String,
    },
    /// A file below an allowed folder.
    Path {
        /// The folder, as it was allowed.
        folder: std::path::PathBuf,
        /// Names from there on.
        names: Vec<String>,
    },
    /// A file on an allowed host, which is fetched when the job starts.
    Url {
        /// Its address.
        url: String,
    },
}

impl Media {
    /// The id of an upload.
    pub(crate) fn upload(&self) -> Option<&str> {
        match self {
            Media::File { id } => Some(id),
            Media::Path { .. } | Media::Url { .. } => None,
        }
    }
}

/// An address that is called when a job starts and ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) url: String,
    /// The events that it is called for; all if empty.
    pub(crate) events: Vec<String>,
    /// True once the newest end was delivered or given up.
    pub(crate) over: bool,
    /// How often the job ended.
    #[serde(default)]
    pub(crate) ends: u64,
    /// Messages that are to be delivered, the oldest first.
    #[serde(default)]
    pub(crate) pending: Vec<Message>,
}

impl Webhook {
    pub(crate) fn new(url: String, events: Vec<String>) -> Self {
        Webhook { url, events, over: false, ends: 0, pending: Vec::new() }
    }

    pub(crate) fn wants(&self, event: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|wanted| wanted == event)
    }

    /// Drops messages of a start. Behind the end they would mislead.
    pub(crate) fn drop_starts(&mut self) {
        self.pending.retain(|message| message.is_end);
    }
}

/// A message to a webhook: the job as it was at an event, whatever became of it since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// The same in each attempt, also of the next server, so that a receiver recognises a repetition.
    pub(crate) id: String,
    pub(crate) is_end: bool,
    pub(crate) body: String,
}

/// Why a running job is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stop {
    Cancel,
    Pause,
}

/// The client that an answer is for.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The address of the server as the client knows it.
    pub(crate) base: String,
    /// True if the client runs on this machine, where it can use paths.
    pub(crate) is_local: bool,
}

/// What a job was given and what became of it, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) model: String,
    /// As it was given.
    pub(crate) input: Map<String, Value>,
    pub(crate) media: Media,
    /// What the film is called.
    pub(crate) name: String,
    /// The ending of the result, which is one of a closed list.
    pub(crate) ending: String,
    pub(crate) how: Restoration,
    pub(crate) target: Target,
    pub(crate) status: Status,
    #[serde(default)]
    pub(crate) paused: bool,
    /// Saved, so that it survives a kill before the run has ended.
    #[serde(default, rename = "wish")]
    pub(crate) stop: Option<Stop>,
    /// Jobs with lower numbers go first.
    pub(crate) rank: f64,
    pub(crate) created: u64,
    #[serde(default)]
    pub(crate) started: Option<u64>,
    #[serde(default)]
    pub(crate) completed: Option<u64>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) error_kind: Option<String>,
    #[serde(default)]
    pub(crate) frames: Option<u64>,
    /// Seconds of work.
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
    /// Most bytes that were used, and those that were planned.
    #[serde(default)]
    pub(crate) memory: Option<[u64; 2]>,
    /// Work that the next run goes on from.
    #[serde(default)]
    pub(crate) saved: Option<Saved>,
    #[serde(default)]
    pub(crate) webhook: Option<Webhook>,
    /// The client's key, so that a request that is sent again makes no second job.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// The hash of what was asked for with that key.
    #[serde(default)]
    pub(crate) asked: Option<String>,
    /// The address of the server as the client knows it, for webhooks.
    #[serde(default)]
    pub(crate) base: String,
}

/// What is known of a job while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// The last line of its progress.
    pub(crate) progress: Option<Map<String, Value>>,
    /// Messages, the newest.
    pub(crate) logs: String,
    /// Bytes of all messages that there were.
    pub(crate) logged: usize,
    /// When its newest frame is shown, in milliseconds.
    pub(crate) newest: Option<u64>,
    /// Work that a stop would not lose.
    pub(crate) saved: Option<Saved>,
}

impl Job {
    /// The file of the result.
    pub(crate) fn result(&self) -> String {
        format!("result.{}", self.ending)
    }

    /// What a download is called.
    pub(crate) fn output_name(&self) -> String {
        let stem = self.name.rsplit_once('.').map_or(self.name.as_str(), |(stem, _)| stem);
        let stem = if stem.is_empty() { "film" } else { stem };
        format!("{stem}_restored.{}", self.ending)
    }

    /// The job as a client sees it. `position` is its place in the queue, `folder` the folder of all jobs.
    pub(crate) fn shown(
        &self,
        live: Option<&Live>,
        viewer: &Viewer,
        position: Option<usize>,
        folder: &Path,
        expires: Option<u64>,
    ) -> Value {
        let url = format!("{}/v1/predictions/{}", viewer.base, self.id);
        let file = || folder.join(&self.id).join(self.result()).display().to_string();
        let done = self.status == Status::Succeeded;
        let mut metrics = Map::new();
        if let Some(seconds) = self.seconds {
            metrics.insert("predict_time".into(), json!(seconds));
        }
        if let Some(frames) = self.frames {
            metrics.insert("frames".into(), json!(frames));
        }
        let picture = live
            .and_then(|live| live.newest)
            .map(|at| json!({"seconds": at as f64 / 1e3, "url": format!("{url}/picture?at={at}")}));
        json!({
            "id": self.id,
            "model": format!("remaster/{}", self.model),
            "version": env!("CARGO_PKG_VERSION"),
            "input": self.input,
            "output": done.then(|| format!("{url}/content")),
            "status": self.status,
            "created_at": written(self.created),
            "started_at": self.started.map(written),
            "completed_at": self.completed.map(written),
            "error": self.error,
            "logs": live.map_or("", |live| live.logs.as_str()),
            "metrics": metrics,
            "urls": {"get": url, "cancel": format!("{url}/cancel"), "stream": format!("{url}/stream")},
            "data_removed": false,
            "source": "api",
            "name": self.name,
            "paused": self.paused,
            "position": position,
            "progress": live.and_then(|live| live.progress.as_ref()),
            "saved": self.saved.filter(|_| self.status != Status::Succeeded),
            "picture": picture,
            "file": (done && viewer.is_local).then(file),
            "output_name": self.output_name(),
            "error_kind": self.error_kind,
            "expires_at": expires.map(written),
        })
    }
}

/// A job whose record cannot be read: a newer version wrote it, or the disk damaged it. Its files stay until it is removed.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) input: Map<String, Value>,
    pub(crate) created: u64,
    /// Why it cannot be read, and what can be done.
    pub(crate) reason: String,
    /// Words of the record that can be ids of uploads, which are kept for it.
    pub(crate) ids: Vec<String>,
}

impl Unreadable {
    /// A word for programs.
    pub(crate) const KIND: &str = "unreadable-job";

    /// The job as a client sees it: with the fields of any other, and failed.
    pub(crate) fn shown(&self, viewer: &Viewer) -> Value {
        let url = format!("{}/v1/predictions/{}", viewer.base, self.id);
        json!({
            "id": self.id,
            "model": format!("remaster/{}", self.model),
            "version": env!("CARGO_PKG_VERSION"),
            "input": self.input,
            "output": null,
            "status": Status::Failed,
            "created_at": written(self.created),
            "started_at": null,
            "completed_at": null,
            "error": self.reason,
            "logs": "",
            "metrics": {},
            "urls": {"get": url, "cancel": format!("{url}/cancel"), "stream": format!("{url}/stream")},
            "data_removed": false,
            "source": "api",
            "name": self.name,
            "paused": false,
            "position": null,
            "progress": null,
            "saved": null,
            "picture": null,
            "file": null,
            "output_name": self.name,
            "error_kind": Unreadable::KIND,
            "expires_at": null,
        })
    }
}
