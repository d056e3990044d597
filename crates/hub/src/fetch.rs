//! The transfer: from where an earlier one stopped, until every byte is there and the hash is right.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use remaster_disk::hex;
use sha2::{Digest, Sha256};
use ureq::Body;
use ureq::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};

use crate::address::{Origin, host};
use crate::cache::{Cache, hash_start, open_own};
use crate::caller::Caller;
use crate::client::{Client, is_coded, number, silent};
use crate::error::{self, HubError};
use crate::remote::Remote;
use crate::settings::Event;
use crate::tries::{Fault, Tries};

/// An attempt that brings less does not count as one that got further: a server could go on forever byte by byte.
const STEP_FORWARD: u64 = 64 << 10;

/// A transfer that brings less within the stall limit has stalled.
const DRIP: u64 = 1 << 10;

/// Bytes read at once.
const PIECE: usize = 256 << 10;

/// Downloads what is missing of the file, checks it and gives it its name.
pub(crate) fn fetch(
    client: &Client,
    remote: &Remote,
    cache: &Cache,
    caller: &mut Caller<'_>,
) -> Result<(), HubError> {
    let mut transfer = Transfer::open(client, remote, cache.partial(remote), caller)?;
    let mut tries = Tries::new(client.limits());
    let mut furthest = transfer.done;
    while transfer.done < remote.bytes {
        caller.going_on()?;
        if let Err(fault) = transfer.attempt(caller) {
            if transfer.done >= furthest.saturating_add(STEP_FORWARD) {
                tries.progress();
            }
            furthest = furthest.max(transfer.done);
            tries.again(fault, caller)?;
        }
    }
    remaster_disk::sync(&transfer.path, &transfer.file).map_err(error::write(&transfer.path))?;
    let found = hex(&transfer.hash.finalize());
    drop(transfer.file);
    if found == remote.sha256 { cache.accept(remote) } else { Err(cache.reject(remote, found)) }
}

struct Transfer<'a> {
    client: &'a Client,
    remote: &'a Remote,
    path: PathBuf,
    file: File,
    /// Bytes in the file, and their hash.
    done: u64,
    hash: Sha256,
    /// What this host calls its content: a part of something else must not follow.
    version: Option<(Origin, HeaderValue)>,
    /// The server sends parts.
    ranges: bool,
}

impl<'a> Transfer<'a> {
    fn open(
        client: &'a Client,
        remote: &'a Remote,
        path: PathBuf,
        caller: &mut Caller<'_>,
    ) -> Result<Self, HubError> {
        let mut file = open_own(&path).map_err(error::write(&path))?;
        let mut done = file.metadata().map_err(error::read(&path))?.len();
        if done > remote.bytes {
            // Not a part of this file.
            file.set_len(0).map_err(error::write(&path))?;
            done = 0;
        }
        let hash = hash_start(&mut file, done, &path, caller)?;
        Ok(Transfer { client, remote, path, file, done, hash, version: None, ranges: true })
    }

    /// One request and what it brings. An end before all bytes are there is a fault.
    fn attempt(&mut self, caller: &mut Caller<'_>) -> Result<(), Fault> {
        if !self.ranges && self.done > 0 {
            self.start_again("the server cannot continue a download", caller)?;
        }
        let address = self.client.address(&self.remote.repo, &self.remote.file)?;
        let (uri, response) = self.client.get(&address, |uri| self.headers(uri))?;
        let passing =
            |reason: &str| Fault::Passing { host: host(&uri), reason: reason.to_owned(), after: None };
        match response.status() {
            StatusCode::PARTIAL_CONTENT if self.done > 0 => {
                if !self.continues(response.headers()) {
                    self.ranges = false;
                    return Err(passing("the server sent another part than was asked for"));
                }
            }
            StatusCode::OK if self.done > 0 => {
                self.start_again("the server sends the whole file", caller)?;
            }
            StatusCode::OK => {}
            StatusCode::RANGE_NOT_SATISFIABLE if self.done > 0 => {
                self.ranges = false;
                return Err(passing("the server does not have the rest of the file"));
            }
            _ => {
                return Err(self.client.refusal(&uri, &response, &self.remote.repo, &self.remote.file));
            }
        }
        self.admit(&uri, &response)?;
        self.note_version(&uri, response.headers());
        self.receive(&uri, response, caller)
    }

    fn headers(&self, uri: &Uri) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.done > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.done))
        {
            headers.insert(header::RANGE, range);
            // Only a host's own word: the hub's name for the content is not that of the host of the bytes.
            if let Some((origin, version)) = &self.version
                && Origin::of(uri).as_ref() == Some(origin)
            {
                headers.insert(header::IF_RANGE, version.clone());
            }
        }
        headers
    }

    /// Whether the part begins where the file ends, and is of a file of the right size.
    fn continues(&self, headers: &HeaderMap) -> bool {
        let range = headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let Some((part, all)) = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/')) else {
            return false;
        };
        let starts = part.split_once('-').and_then(|(start, _)| start.trim().parse().ok());
        starts == Some(self.done) && (all == "*" || all.parse() == Ok(self.remote.bytes))
    }

    /// Refuses what cannot be the file: compressed, or of another size.
    fn admit(&self, uri: &Uri, response: &Response<Body>) -> Result<(), HubError> {
        if is_coded(response.headers()) {
            return Err(HubError::NotAHub { host: host(uri), what: "it sends the file compressed" });
        }
        let expected = self.remote.bytes - self.done;
        match number(response.headers(), header::CONTENT_LENGTH.as_str()) {
            Some(found) if found != expected => Err(HubError::Size { host: host(uri), found, expected }),
            _ => Ok(()),
        }
    }

    fn note_version(&mut self, uri: &Uri, headers: &HeaderMap) {
        let strong = headers.get(header::ETAG).filter(|etag| etag.as_bytes().starts_with(b"\""));
        self.version = Origin::of(uri).zip(strong.cloned());
    }

    fn start_again(&mut self, reason: &str, caller: &mut Caller<'_>) -> Result<(), HubError> {
        caller.tell(Event::Again { reason });
        self.file.set_len(0).map_err(error::write(&self.path))?;
        (self.done, self.hash) = (0, Sha256::new());
        Ok(())
    }

    fn receive(
        &mut self,
        uri: &Uri,
        mut response: Response<Body>,
        caller: &mut Caller<'_>,
    ) -> Result<(), Fault> {
        let passing = |reason: String| Fault::Passing { host: host(uri), reason, after: None };
        self.file.seek(SeekFrom::Start(self.done)).map_err(error::write(&self.path))?;
        let mut body = response.body_mut().as_reader();
        let mut piece = vec![0; PIECE];
        let mut drip = Drip::new(self.client.limits().stall);
        caller.tell(Event::Received { done: self.done, of: self.remote.bytes });
        while self.done < self.remote.bytes {
            caller.going_on()?;
            // What a server sends beyond the end is not read.
            let left = self.remote.bytes - self.done;
            let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            let read = match body.read(&mut piece[..most]) {
                Ok(0) => return Err(passing("the connection ended early".to_owned())),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(passing(match ureq::Error::from(error) {
                        ureq::Error::Timeout(_) => silent(self.client.limits().stall),
                        error => format!("the connection broke: {error}"),
                    }));
                }
            };
            self.write(&piece[..read])?;
            caller.tell(Event::Received { done: self.done, of: self.remote.bytes });
            if drip.is_stalled(read as u64) {
                return Err(passing(silent(self.client.limits().stall)));
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        remaster_disk::write_all(&self.path, &mut self.file, bytes).map_err(|source| {
            match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    HubError::Full { path: self.path.clone(), bytes: self.done }
                }
                _ => HubError::Write { path: self.path.clone(), source },
            }
        })?;
        self.hash.update(bytes);
        self.done += bytes.len() as u64;
        Ok(())
    }
}

/// Bytes within a stretch of time. A server that sends one now and then never lets a read time out.
struct Drip {
    limit: Duration,
    since: Instant,
    bytes: u64,
}

impl Drip {
    fn new(limit: Duration) -> Self {
        Drip { limit, since: Instant::now(), bytes: 0 }
    }

    fn is_stalled(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        if self.since.elapsed() < self.limit {
            return false;
        }
        let stalled = self.bytes < DRIP;
        (self.since, self.bytes) = (Instant::now(), 0);
        stalled
    }
}
