//! Downloads of Remaster: one file of a Hugging Face repository, into the cache that other tools share.
//!
//! The environment is not read: the caller passes [`HubSettings`]. A file counts
//! as downloaded only if its SHA-256 is the one that was asked for. What was received stays on disk, and the next pull
//! goes on from there.
//!
//! ```no_run
//! use std::sync::Arc;
//! use remaster_hub::{Hub, HubSettings, Lookup, Wanted};
//!
//! let hub = Hub::new(HubSettings::new("/home/me/.cache/huggingface/hub"), Arc::new(|| false))?;
//! let wanted = Wanted {
//!     repo: "numz/SeedVR2_comfyUI",
//!     file: "ema_vae_fp16.safetensors",
//!     sha256: "20678548f420d98d26f11442d3528f8b8c94e57ee046ef93dbb7633da8612ca1",
//!     bytes: Some(501_324_814),
//! };
//! let path = match hub.look(&wanted, &mut |_| {})? {
//!     Lookup::Here(path) => path,
//!     Lookup::There(remote) => hub.pull(&remote, &mut |_| {})?,
//! };
//! # Ok::<(), remaster_hub::HubError>(())
//! ```

mod address;
mod cache;
mod caller;
mod client;
mod error;
mod fetch;
mod lock;
mod proxy;
mod remote;
mod settings;
mod tries;
mod trust;
mod watch;

use std::path::PathBuf;

pub use error::HubError;
pub use remote::Remote;
pub use settings::{Event, HubSettings, Limits, Stop, Wanted};

use cache::Cache;
use caller::Caller;
use client::Client;
use lock::Lock;

/// Space that must stay free beside a download: links, folders, what the file system needs for itself.
const SPARE: u64 = 1 << 20;

/// A hub and the cache in front of it.
pub struct Hub {
    settings: HubSettings,
    cache: Cache,
    stop: Stop,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In the cache, with the right hash.
    Here(PathBuf),
    /// On the hub; a part of it may be in the cache.
    There(Remote),
}

impl Hub {
    /// Checks the settings. Everything ends with [`HubError::Cancelled`] soon after `stop` says so.
    pub fn new(settings: HubSettings, stop: Stop) -> Result<Self, HubError> {
        // A wrong endpoint, token or proxy is said before anything is looked for.
        Client::new(&settings)?;
        let cache = Cache { root: settings.cache.clone() };
        Ok(Hub { settings, cache, stop })
    }

    /// Where the file is. What is in the cache is hashed; if it is not there, the hub is asked for its size.
    pub fn look(&self, wanted: &Wanted<'_>, events: &mut dyn FnMut(Event<'_>)) -> Result<Lookup, HubError> {
        wanted.check()?;
        let mut caller = Caller { events, stop: &self.stop };
        if let Some(path) = self.cache.find(wanted, &mut caller)? {
            return Ok(Lookup::Here(path));
        }
        if self.settings.offline {
            return Err(HubError::Offline { file: wanted.file.to_owned(), repo: wanted.repo.to_owned() });
        }
        let client = Client::new(&self.settings)?;
        let remote = watch::during(&client, &self.stop, || remote::ask(&client, wanted, &mut caller))?;
        Ok(Lookup::There(remote))
    }

    /// Bytes that are still to be received.
    pub fn missing(&self, remote: &Remote) -> u64 {
        let there = std::fs::metadata(self.cache.partial(remote)).map_or(0, |about| about.len());
        remote.bytes().saturating_sub(there)
    }

    /// An error if there is no room for all of these files.
    pub fn room<'a>(&self, remotes: impl IntoIterator<Item = &'a Remote>) -> Result<(), HubError> {
        let missing: u64 = remotes.into_iter().map(|remote| self.missing(remote)).sum();
        let needed = missing.saturating_add(SPARE);
        match self.cache.free_space() {
            Some(free) if missing > 0 && needed > free => {
                Err(HubError::NoSpace { folder: self.cache.root.clone(), needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Downloads a file, or the rest of it, and says where it is. One process at a time does so; others wait for it
    /// as long as [`Limits::lock`] allows.
    pub fn pull(&self, remote: &Remote, events: &mut dyn FnMut(Event<'_>)) -> Result<PathBuf, HubError> {
        let client = Client::new(&self.settings)?;
        let mut caller = Caller { events, stop: &self.stop };
        watch::during(&client, &self.stop, || {
            self.cache.prepare(remote)?;
            let _lock = Lock::take(&self.cache.lock(remote), self.settings.limits.lock, &mut caller)?;
            // Whoever held the lock may have downloaded the same file.
            if !self.cache.is_sound(remote, &mut caller)? {
                self.room([remote])?;
                fetch::fetch(&client, remote, &self.cache, &mut caller)?;
            }
            self.cache.link(remote)
        })
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("settings", &self.settings).finish_non_exhaustive()
    }
}
