//! What a download can fail with.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a file could not be downloaded. What was received stays on disk.
#[derive(Debug, Error)]
pub enum HubError {
    /// A name that cannot be part of a path and a URL.
    #[error("`{value}` cannot be used as a {what}")]
    Name {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// The endpoint is no URL.
    #[error("the endpoint `{value}` is not a URL like https://huggingface.co; correct HF_ENDPOINT")]
    Endpoint {
        /// What was given.
        value: String,
    },
    /// The token cannot be sent.
    #[error("the token contains characters that cannot be sent; correct HF_TOKEN")]
    Token,
    /// The proxy cannot be used.
    #[error("the proxy cannot be used: {reason}; set HTTPS_PROXY to a URL like http://host:3128")]
    Proxy {
        /// Why.
        reason: &'static str,
    },
    /// The file of certificates has none.
    #[error("{} has no certificates in PEM; correct or unset SSL_CERT_FILE", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
    },
    /// No secure connection.
    #[error(
        "no secure connection to {host}: {reason}; check the clock, or set SSL_CERT_FILE to the certificates of your \
         network"
    )]
    Insecure {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// It is not in the cache, and nothing else may be asked.
    #[error("{file} of {repo} is not in the cache, and HF_HUB_OFFLINE is set; unset it to download")]
    Offline {
        /// The file.
        file: String,
        /// Its repository.
        repo: String,
    },
    /// 401 or 403.
    #[error(
        "{host} refuses {file} of {repo} (HTTP {status}{}); {}",
        said(said_by),
        if *token { "check that HF_TOKEN is valid and may read this repository" }
        else { "if the repository needs an account, set HF_TOKEN to a token of yours" }
    )]
    Refused {
        /// Who.
        host: String,
        /// The file.
        file: String,
        /// Its repository.
        repo: String,
        /// The status.
        status: u16,
        /// What the server said.
        said_by: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// 404 or 410.
    #[error(
        "{host} has no {file} in {repo} (HTTP {status}{}); it may have moved: look at {host}/{repo} and download it by hand",
        said(said_by)
    )]
    Missing {
        /// Who.
        host: String,
        /// The file.
        file: String,
        /// Its repository.
        repo: String,
        /// The status.
        status: u16,
        /// What the server said.
        said_by: String,
    },
    /// Another status that no retry mends.
    #[error("{host} answers with HTTP {status}{}; try again later", said(said_by))]
    Status {
        /// Who.
        host: String,
        /// The status.
        status: u16,
        /// What the server said.
        said_by: String,
    },
    /// The server wants a longer wait than we make people wait.
    #[error("{host} is busy (HTTP {status}) and asks to wait {seconds} s; run the command again then")]
    Busy {
        /// Who.
        host: String,
        /// The status.
        status: u16,
        /// How long.
        seconds: u64,
    },
    /// Nothing more came, however often it was tried.
    #[error(
        "cannot download from {host}: {reason} ({tries} attempts); check the network and run the command again, \
         which continues where it stopped"
    )]
    Network {
        /// Who.
        host: String,
        /// What failed last.
        reason: String,
        /// Attempts in a row that brought nothing.
        tries: u32,
    },
    /// Too many redirects.
    #[error("{host} redirects more than {most} times; check HF_ENDPOINT and the proxy")]
    Redirects {
        /// Who was asked first.
        host: String,
        /// Redirects that are followed.
        most: usize,
    },
    /// A redirect to something that cannot be asked.
    #[error("{host} redirects to an address that cannot be used; check HF_ENDPOINT and the proxy")]
    Redirect {
        /// Who.
        host: String,
    },
    /// A response that is not one of a hub.
    #[error("{host} does not answer as a Hugging Face hub: {what}; check HF_ENDPOINT and the proxy")]
    NotAHub {
        /// Who.
        host: String,
        /// What is missing or wrong.
        what: &'static str,
    },
    /// The hub has another file now.
    #[error(
        "{file} of {repo} is no longer the file that this version knows: its {what} is {found}, expected {expected}; \
         nothing was downloaded: use a newer version of this program, or download a file by hand"
    )]
    Changed {
        /// The file.
        file: String,
        /// Its repository.
        repo: String,
        /// `size` or `SHA-256`.
        what: &'static str,
        /// What the hub says.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A response of the wrong size: a login page, say.
    #[error(
        "{host} sends {found} bytes instead of {expected}: it may be a login page; open {host} in a browser, or check \
         the proxy"
    )]
    Size {
        /// Who.
        host: String,
        /// Bytes it announced.
        found: u64,
        /// Bytes that are missing.
        expected: u64,
    },
    /// The file has another hash.
    #[error(
        "the download has the SHA-256 {found}, expected {expected}; it was kept as {} and is not used: run the \
         command again to download it from its start",
        kept.display()
    )]
    Mismatch {
        /// Where it is now.
        kept: PathBuf,
        /// Its hash.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A file of the cache has another hash than its name says.
    #[error(
        "{} is damaged: its SHA-256 is {found}, expected {expected}; delete it and run the command again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// There is too little room for the download.
    #[error(
        "not enough space for the download in {}: it needs {}, {} are free; free some, or set \
         HF_HUB_CACHE to a folder on another disk",
        folder.display(),
        size(*needed),
        size(*free)
    )]
    NoSpace {
        /// Where.
        folder: PathBuf,
        /// Bytes it takes.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// The disk is full now.
    #[error(
        "the disk is full: {} has {}; free some space and run the command again, which continues there",
        path.display(),
        size(*bytes)
    )]
    Full {
        /// The part that was received.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A file or folder of the cache cannot be written.
    #[error("cannot write {}; set HF_HUB_CACHE to a folder that can be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the cache cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process holds the lock for too long.
    #[error(
        "another process has been downloading this file for more than {seconds} s; wait for it or end it, then run \
         the command again (its lock is {})",
        path.display()
    )]
    Locked {
        /// The lock.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// Somebody asked to stop.
    #[error("interrupted; the next run continues the download")]
    Cancelled,
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Bytes with a unit.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A failure to write: the disk may be full, or the file not ours to write.
pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> HubError {
    move |source| HubError::Write { path: path.to_owned(), source }
}

pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> HubError {
    move |source| HubError::Read { path: path.to_owned(), source }
}
