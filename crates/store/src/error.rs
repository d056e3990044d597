//! What a store can fail with.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::Hash;

/// Why a store could not do what was asked. Messages name the place and the object, and hold no credentials.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The URL names no place.
    #[error("`{url}` names no place for the work: {reason}; give a folder, or a URL like s3://bucket/folder")]
    Url {
        /// What was given, without what may be a password.
        url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// This build has no such stores.
    #[error(
        "{url} needs a build with cloud stores; use a build with the feature `cloud` (cargo build --features cloud), \
         or a folder that all machines share"
    )]
    NoCloud {
        /// The place.
        url: String,
    },
    /// The folder is not there.
    #[error("there is no folder {}; check the name, or make the plan there first", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be used.
    #[error("cannot use the folder {}; check that it is a folder that you may write to", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The bucket cannot be used as it is set up.
    #[error("cannot use {place}: {reason}; check its name and the variables with its credentials")]
    Settings {
        /// The place.
        place: String,
        /// Why.
        reason: String,
    },
    /// The server has no TLS, which must be allowed.
    #[error("{place}: plain http needs {variable}=true; set it, or give an endpoint with https")]
    PlainHttp {
        /// The place.
        place: String,
        /// What allows it.
        variable: &'static str,
    },
    /// The bucket is not there.
    #[error("bucket \"{bucket}\" does not exist; check its name, or create it first")]
    NoBucket {
        /// Its name.
        bucket: String,
    },
    /// The thread that talks to the store cannot run.
    #[error("cannot start a thread for {place}; end other programs and try again")]
    Thread {
        /// The place.
        place: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread that talks to the store has ended.
    #[error("the thread that talks to {place} has ended; run the command again, and report this")]
    Gone {
        /// The place.
        place: String,
    },
    /// The name of an object is not allowed.
    #[error("`{key}` cannot name an object: {reason}; choose another name")]
    Key {
        /// The name.
        key: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// There is no such object.
    #[error("{key} is not in {place}; check the place, or run again what makes it")]
    Missing {
        /// The place.
        place: String,
        /// The object.
        key: String,
    },
    /// The store does not allow it.
    #[error(
        "{place} does not allow to {what} {key}: {reason}; check the credentials and what they may do there"
    )]
    Denied {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What was asked.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The disk or the quota is full.
    #[error(
        "no space is left in {place} to {what} {key}; make some and run the command again, which continues"
    )]
    Full {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What was asked.
        what: &'static str,
    },
    /// An object is larger than anything we write there.
    #[error(
        "{key} in {place} has more than {most} bytes and is not ours; remove it and run the command again"
    )]
    TooLarge {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// The most it may have.
        most: u64,
    },
    /// The store did not answer in time.
    #[error(
        "{place} did not {what} {key} within {seconds} s ({tries} tries); check the network or the disk and run the \
         command again, which continues"
    )]
    Slow {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What was asked.
        what: &'static str,
        /// How long was waited each time.
        seconds: u64,
        /// How often.
        tries: u32,
    },
    /// It failed, however often it was tried.
    #[error(
        "cannot {what} {key} in {place}: {reason} ({tries} tries); check the network or the disk and run the command \
         again, which continues"
    )]
    Failed {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What was asked.
        what: &'static str,
        /// What failed last.
        reason: String,
        /// How often.
        tries: u32,
    },
    /// The store cannot do this at all.
    #[error("{place} cannot {what} {key}: {reason}; use another store")]
    Unable {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What was asked.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// An object has another size than it was committed with.
    #[error(
        "{key} in {place} has {found} bytes, expected {expected}: it is damaged; remove it and do its unit again"
    )]
    Size {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What it has.
        found: u64,
        /// What it should have.
        expected: u64,
    },
    /// An object has another hash than it was committed with.
    #[error(
        "{key} in {place} has the SHA-256 {found}, expected {expected}: it is damaged; remove it and do its unit again"
    )]
    Hash {
        /// The place.
        place: String,
        /// The object.
        key: String,
        /// What it has.
        found: Hash,
        /// What it should have.
        expected: Hash,
    },
    /// A local file changed while it was copied into the store.
    #[error("{} changed while it was stored; run the command again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A local file cannot be read.
    #[error("cannot read {}; check that it is a file that you may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A local file cannot be written.
    #[error("cannot write {}; check the space and the permissions there", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store does not keep its promises.
    #[error(
        "{place} cannot be used: {what}, so two machines could both believe that their work counts; use a folder, or a \
         store with conditional writes (AWS S3, Google Cloud Storage, Azure, Cloudflare R2, SeaweedFS)"
    )]
    Liar {
        /// The place.
        place: String,
        /// What it did.
        what: &'static str,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without a change.
    pub fn may_pass(&self) -> bool {
        matches!(self, StoreError::Slow { .. } | StoreError::Failed { .. })
    }
}
