//! ffmpeg for the length of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use remaster_media::{MediaError, Script, Tools, Vspipe};

use super::{Programs, Source};
use crate::control::Control;
use crate::error::Error;
use crate::machine::host::Machine;

/// Looks for ffmpeg when it is needed: images and pipes work without it.
pub(crate) struct Lazy {
    programs: Programs,
    pub(super) machine: Machine,
    pub(super) control: Control,
    found: Option<Tools>,
    vspipe: Option<Vspipe>,
    /// What scripts said of their clips. Each is asked once: starting it takes up to a second, or minutes if it looks through
    /// a film first.
    scripts: Vec<(PathBuf, Script)>,
    /// Files that were opened, with their sizes then.
    inputs: Vec<(PathBuf, u64)>,
    /// Of each child.
    pub(super) threads: Option<usize>,
}

impl Lazy {
    pub(crate) fn new(source: &Source, machine: &Machine, control: &Control) -> Self {
        Lazy {
            programs: source.programs.clone(),
            machine: machine.clone(),
            control: control.clone(),
            found: None,
            vspipe: None,
            scripts: Vec::new(),
            inputs: Vec::new(),
            threads: None,
        }
    }

    pub(super) fn remember(&mut self, path: &Path) {
        self.inputs.extend(size(path).map(|bytes| (path.to_owned(), bytes)));
    }

    /// Files that were opened.
    pub(crate) fn inputs(&self) -> Inputs {
        Inputs(self.inputs.clone())
    }

    /// What the run obeys.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// With so many threads for each child.
    pub(crate) fn with_threads(self, threads: usize) -> Self {
        Lazy { threads: Some(threads), ..self }
    }

    /// The programs in use, in words; empty if none was needed.
    pub(crate) fn details(&self) -> Vec<String> {
        let used = |(program, version): (&Path, &str)| format!("{} {version}", program.display());
        let vspipe = self.vspipe.iter().map(|vspipe| used(vspipe.version()));
        let Some(tools) = &self.found else { return vspipe.collect() };
        tools.versions().map(used).into_iter().chain(tools.note()).chain(vspipe).collect()
    }

    /// The most memory that all children together held so far.
    pub(crate) fn children_peak(&self) -> u64 {
        let scripts = self.vspipe.as_ref().map_or(0, Vspipe::children_peak);
        self.found.as_ref().map_or(0, Tools::children_peak).saturating_add(scripts)
    }

    pub(crate) fn get(&mut self) -> Result<&Tools, Error> {
        if self.found.is_none() {
            self.found = Some(self.programs.find(&self.control)?);
        }
        self.found.as_ref().ok_or(Error::Interrupted)
    }

    /// How long ffmpeg takes to start; nothing where it was not needed so far.
    pub(crate) fn start(&self) -> Duration {
        self.found.as_ref().map(Tools::start).unwrap_or_default()
    }

    /// The script at `path`, whose clip is known. The caller has seen that it may run.
    pub(super) fn script(&mut self, path: &Path) -> Result<Script, Error> {
        if let Some((_, known)) = self.scripts.iter().find(|(known, _)| known == path) {
            return Ok(known.clone());
        }
        let vspipe = match &self.vspipe {
            Some(vspipe) => vspipe.clone(),
            None => self.vspipe.insert(self.programs.find_vspipe(&self.control)?).clone(),
        };
        let script = Script::open(&vspipe, path)?;
        self.scripts.push((path.to_owned(), script.clone()));
        Ok(script)
    }
}

/// Files that were read, with their sizes before.
pub(crate) struct Inputs(Vec<(PathBuf, u64)>);

impl Inputs {
    /// Audio and subtitles are copied from the input while frames are encoded. If the input shrinks meanwhile, they end
    /// early, and ffmpeg reports no error. A file that is gone was open all the time and had its bytes.
    pub(crate) fn check(&self) -> Result<(), MediaError> {
        let shorter = |(path, before): &&(PathBuf, u64)| size(path).is_some_and(|now| now < *before);
        match self.0.iter().find(shorter) {
            Some((path, _)) => Err(MediaError::Shrunk { path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// Bytes of a file.
pub(crate) fn size(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(|m| m.is_file()).map(|m| m.len())
}
