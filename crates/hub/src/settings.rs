//! What the caller decides, and what it is told.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::HubError;

/// Tells whether to stop; asked from any thread.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Where files come from and where they go.
#[derive(Clone)]
pub struct HubSettings {
    /// The cache: the folder with `models--owner--name` folders.
    pub cache: PathBuf,
    /// The hub, `https://huggingface.co` or a mirror of it.
    pub endpoint: String,
    /// Sent to the endpoint, and to no other host.
    pub token: Option<String>,
    /// Use the cache alone.
    pub offline: bool,
    /// An HTTP proxy, as a URL.
    pub proxy: Option<String>,
    /// Hosts for which the proxy is not used, separated by commas.
    pub no_proxy: Option<String>,
    /// A file of certificates in PEM to trust, instead of Mozilla's list: that of a company, say.
    pub certificates: Option<PathBuf>,
    /// How long to wait, and how often to try.
    pub limits: Limits,
}

/// No wait is longer than these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a name to be resolved, a connection to be made, and a response to begin.
    pub connect: Duration,
    /// A transfer that brings less than a kibibyte in this time has stalled.
    pub stall: Duration,
    /// For another process that downloads the same file.
    pub lock: Duration,
    /// Attempts after the first that bring nothing new.
    pub retries: u32,
    /// Before the first of them; doubled each time.
    pub backoff: Duration,
    /// Longest wait between attempts, also if the server asks for more.
    pub longest_wait: Duration,
}

impl HubSettings {
    /// The public hub, without a token.
    pub fn new(cache: impl AsRef<Path>) -> Self {
        HubSettings {
            cache: cache.as_ref().to_owned(),
            endpoint: "https://huggingface.co".to_owned(),
            token: None,
            offline: false,
            proxy: None,
            no_proxy: None,
            certificates: None,
            limits: Limits::default(),
        }
    }
}

/// The token stays out of logs, and so does a password of the proxy.
impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubSettings")
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("offline", &self.offline)
            .field("proxy", &self.proxy.as_ref().map(|_| "..."))
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(20),
            stall: Duration::from_secs(30),
            // 16 GB at 40 Mbit/s; a process that is stuck lets go of its lock when it ends.
            lock: Duration::from_secs(3600),
            retries: 5,
            // 0.5 + 1 + 2 + 4 + 8 s: a router restarts in more, a switch of networks in less.
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

/// A file to download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The repository, `owner/name`.
    pub repo: &'a str,
    /// Its path there.
    pub file: &'a str,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: &'a str,
    /// Its size, if that is known.
    pub bytes: Option<u64>,
}

impl Wanted<'_> {
    /// Names become paths and parts of a URL, so they hold nothing that has a meaning there.
    pub(crate) fn check(&self) -> Result<(), HubError> {
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let wrong = |what, value: &str| Err(HubError::Name { what, value: value.to_owned() });
        if self.repo.split('/').count() != 2 || !self.repo.split('/').all(plain) {
            return wrong("repository", self.repo);
        }
        if !self.file.split('/').all(plain) {
            return wrong("file name", self.file);
        }
        if !is_sha256(self.sha256) {
            return wrong("SHA-256", self.sha256);
        }
        Ok(())
    }
}

pub(crate) fn is_sha256(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes on disk are hashed.
    Checking {
        /// Bytes so far.
        done: u64,
        /// Of so many.
        of: u64,
    },
    /// Bytes were received. Less than before if a server makes us start again.
    Received {
        /// Bytes on disk, those of earlier runs included.
        done: u64,
        /// Of so many.
        of: u64,
    },
    /// Another process downloads the same file.
    Waiting {
        /// For at most so long.
        most: Duration,
    },
    /// An attempt failed; the next one follows.
    Retrying {
        /// Why.
        reason: &'a str,
        /// After this wait.
        after: Duration,
    },
    /// The server cannot continue what is on disk: the file is received from its start.
    Again {
        /// Why.
        reason: &'a str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "20678548f420d98d26f11442d3528f8b8c94e57ee046ef93dbb7633da8612ca1";

    #[test]
    fn names_that_mean_something_to_a_path_or_a_url_are_refused() {
        let good = Wanted { repo: "a-b/c_d", file: "e/f.gguf", sha256: HASH, bytes: None };
        good.check().unwrap();
        for repo in ["a", "a/b/c", "../b", "a/..", "a/b?c", "a/b#", "a/", "/b", "a/b c", "a%2f/b"] {
            assert!(Wanted { repo, ..good }.check().is_err(), "{repo}");
        }
        for file in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a\\b", "a?b", ".x", "a%00"] {
            assert!(Wanted { file, ..good }.check().is_err(), "{file}");
        }
        for sha256 in ["", "20678548", &HASH.to_uppercase(), &format!("{}g", &HASH[1..])] {
            assert!(Wanted { sha256, ..good }.check().is_err(), "{sha256}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let (token, proxy) = (Some("hf_secret".into()), Some("http://me:word@proxy".into()));
        let settings = HubSettings { token, proxy, ..HubSettings::new("/c") };
        let text = format!("{settings:?}");
        assert!(!text.contains("secret") && !text.contains("word@"), "{text}");
    }
}
