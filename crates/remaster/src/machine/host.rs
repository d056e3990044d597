//! The machine of a run, as one value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use remaster_compute::Backend;

use super::memory::{self, SystemMemory};

/// What a run knows of its machine. [`Machine::this`] is the real one; a test makes one up. It is not printed: variables hold
/// secrets.
#[derive(Clone)]
pub struct Machine {
    /// Environment variables: folders of models, caches, proxies and buckets.
    pub variables: BTreeMap<OsString, OsString>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Folder for temporary files.
    pub temporary: PathBuf,
    /// CPU cores.
    pub cores: usize,
    /// Host memory. It changes while a run works, so the system is asked each time if `None`.
    pub memory: Option<SystemMemory>,
    /// Free bytes of every disk. The system is asked each time if `None`.
    pub free_space: Option<u64>,
    /// Devices by name, `auto` included. Drivers are asked if `None`.
    pub devices: Option<BTreeMap<String, Backend>>,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Machine {
            variables: std::env::vars_os().collect(),
            home: std::env::home_dir(),
            temporary: tempfile::env::temp_dir(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory: None,
            free_space: None,
            devices: None,
        }
    }

    /// The same without its environment: no variable, no home.
    pub fn without_environment(self) -> Self {
        Machine { variables: BTreeMap::new(), home: None, ..self }
    }

    /// The same with this environment variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The path in a variable that is set and not empty.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        // Windows does not tell capitals apart.
        let same = |known: &OsStr| known == name || cfg!(windows) && known.eq_ignore_ascii_case(name);
        let found = self.variables.iter().find(|(known, value)| same(known) && !value.is_empty());
        found.map(|(_, value)| value.into())
    }

    /// The text in a variable, unless it is blank.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.path(name)?.into_os_string().into_string().ok().filter(|text| !text.trim().is_empty())
    }

    /// Memory that this process may have at most, and now.
    pub fn memory(&self) -> SystemMemory {
        self.memory.unwrap_or_else(memory::memory)
    }

    /// Free bytes on the disk of a folder, where the system says it.
    pub fn free_space(&self, folder: &Path) -> Option<u64> {
        self.free_space.or_else(|| remaster_disk::free_space(folder))
    }

    /// The device of this name.
    pub(crate) fn device(&self, name: &str) -> Result<Backend, String> {
        match &self.devices {
            None => name.parse(),
            Some(list) => list.get(name).copied().ok_or_else(|| format!("there is no device `{name}`")),
        }
    }

    /// Our folder for data of the user that lasts, by the conventions of the system.
    pub fn data(&self) -> Option<PathBuf> {
        let home = || self.path("HOME").map(|home| home.join(".local").join("share"));
        let base = self.path("XDG_DATA_HOME").or_else(|| self.path("LOCALAPPDATA")).or_else(home)?;
        Some(base.join("remaster"))
    }

    /// Our folder in the user's cache, by the conventions of the system.
    pub(crate) fn cache(&self) -> Option<PathBuf> {
        let set = |name: &str, below: &str| Some(self.path(name)?.join(below));
        // On Windows data is in the same folder.
        set("XDG_CACHE_HOME", "remaster")
            .or_else(|| set("LOCALAPPDATA", "remaster/cache"))
            .or_else(|| set("HOME", ".cache/remaster"))
    }
}
