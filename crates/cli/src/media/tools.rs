//! ffmpeg for the length of a command.

use std::path::{Path, PathBuf};

use remaster_compute::CancelToken;
use remaster_media::{Stop, Tools};

use super::args::{Programs, SourceArgs};
use super::target::Inputs;
use crate::error::CliError;
use crate::interrupt::{Interrupt, Pending};

/// Looks for ffmpeg when it is needed: images and pipes work without it.
pub(crate) struct Lazy<'a> {
    programs: &'a Programs,
    pub(super) cancel: &'a CancelToken,
    found: Option<Tools>,
    interrupt: &'a Interrupt,
    pending: Vec<Pending>,
    /// Files that were opened, with their sizes then.
    pub(super) inputs: Vec<(PathBuf, u64)>,
    /// Of each child.
    pub(super) threads: Option<usize>,
}

impl<'a> Lazy<'a> {
    pub(crate) fn new(args: &'a SourceArgs, cancel: &'a CancelToken, interrupt: &'a Interrupt) -> Self {
        let (pending, inputs) = (Vec::new(), Vec::new());
        Lazy { programs: &args.programs, cancel, found: None, interrupt, pending, inputs, threads: None }
    }

    pub(super) fn remember(&mut self, path: &Path) {
        self.inputs.extend(size(path).map(|bytes| (path.to_owned(), bytes)));
    }

    /// Files that were opened.
    pub(crate) fn inputs(&self) -> Inputs {
        Inputs(self.inputs.clone())
    }

    /// With so many threads for each child.
    pub(crate) fn with_threads(self, threads: usize) -> Self {
        Lazy { threads: Some(threads), ..self }
    }

    /// The programs in use, for people; empty if none was needed.
    pub(crate) fn details(&self) -> Vec<String> {
        let Some(tools) = &self.found else { return Vec::new() };
        let used = |(program, version): (&Path, &str)| format!("{} {version}", program.display());
        tools.versions().map(used).into_iter().chain(tools.note()).collect()
    }

    /// The most memory that all children together held so far.
    pub(crate) fn children_peak(&self) -> u64 {
        self.found.as_ref().map_or(0, Tools::children_peak)
    }

    pub(crate) fn get(&mut self) -> Result<&Tools, CliError> {
        if self.found.is_none() {
            let tools = self.programs.find(self.cancel)?;
            let children = tools.clone();
            self.pending.push(self.interrupt.pending(move || children.kill_all()));
            self.found = Some(tools);
        }
        self.found.as_ref().ok_or(CliError::Interrupted)
    }
}

/// Bytes of a file.
pub(super) fn size(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(|m| m.is_file()).map(|m| m.len())
}

pub(super) fn stop(cancel: &CancelToken) -> Stop {
    let cancel = cancel.clone();
    Stop::when(move || cancel.is_cancelled())
}
