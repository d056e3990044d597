//! What one process can ask another to do, as data: nothing of it becomes an option of a command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::media::Source;
use crate::request::{Models, Request};
use crate::restore::{PlanRequest, StillRequest};

/// Work for `remaster work`, which reads it as one line of JSON on stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Task {
    /// Restores a film.
    Restore(Box<Request>),
    /// What that would take.
    Plan(Box<PlanRequest>),
    /// A frame as a picture, and restored.
    Still(Box<StillRequest>),
    /// What a video file contains.
    Probe {
        /// The file.
        input: PathBuf,
        /// How it is read.
        source: Box<Source>,
    },
    /// Files of the networks of a restoration.
    Networks(Box<Models>),
    /// Model files that are there.
    Models {
        /// The folder that is searched first.
        folder: Option<PathBuf>,
    },
    /// What can compute.
    Devices,
}

impl Task {
    /// Bytes of its JSON at most. A request of paths and numbers is a few hundred.
    pub const MOST_BYTES: u64 = 1 << 20;
}
