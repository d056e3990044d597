//! A job: what was asked for, and what became of it. The form of Replicate's predictions, and what ours has beside them.

use remaster::{Restoration, Target};
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
    /// It was canceled.
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

/// Whom to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) url: String,
    /// Of which events; all if empty.
    pub(crate) events: Vec<String>,
    /// The end was told, or could not be.
    pub(crate) over: bool,
}

impl Webhook {
    pub(crate) fn wants(&self, event: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|wanted| wanted == event)
    }
}

/// Why a running job is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wish {
    Cancel,
    Pause,
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
    #[serde(default)]
    pub(crate) wish: Option<Wish>,
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

    /// As clients see it. `base` is the address of the server as the client knows it, `position` its place in the queue.
    pub(crate) fn shown(
        &self,
        live: Option<&Live>,
        base: &str,
        position: Option<usize>,
        file: &str,
        expires: Option<u64>,
    ) -> Value {
        let url = format!("{base}/v1/predictions/{}", self.id);
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
            "picture": picture,
            "file": done.then_some(file),
            "output_name": self.output_name(),
            "error_kind": self.error_kind,
            "expires_at": expires.map(written),
        })
    }
}
