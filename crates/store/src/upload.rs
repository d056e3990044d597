//! From a local file into the store.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use object_store::{MultipartUpload, PutMultipartOptions, PutOptions, PutPayload};
use sha2::{Digest, Sha256};

use crate::core::may_pass;
use crate::failure::Failure;
use crate::io::Pending;
use crate::{Content, Key, Store, StoreError};

/// Parts that are on their way while the next one is read.
const IN_FLIGHT: usize = 4;

/// Copies a file. A failed part costs the whole upload, because only a whole one is known to be sound; the parts
/// themselves are tried again by the store's client.
pub(crate) fn put_file(store: &Store, key: &Key, path: &Path) -> Result<Content, StoreError> {
    let core = store.core();
    let mut tries = 1;
    loop {
        match Source::open(path).and_then(|source| once(store, key, source)) {
            Ok(content) => return Ok(content),
            Err(failure) if tries < core.limits.tries && may_pass(&failure) => {
                std::thread::sleep(core.limits.pause(tries));
                tries += 1;
            }
            Err(failure) => return Err(core.say("write", key.as_str(), failure, tries)),
        }
    }
}

fn once(store: &Store, key: &Key, mut source: Source<'_>) -> Result<Content, Failure> {
    let part = store.core().limits.part_of(source.bytes);
    if source.bytes > part as u64 {
        return in_parts(store, key, source, part);
    }
    let bytes = source.next(part)?;
    let content = source.finish()?;
    let (core, key) = (Arc::clone(store.core()), key.clone());
    let put = async move {
        let path = core.path(&key);
        core.limited(core.objects.put_opts(&path, PutPayload::from(bytes), PutOptions::default())).await
    };
    wait(store, store.begin(put))??;
    Ok(content)
}

fn in_parts(store: &Store, key: &Key, mut source: Source<'_>, part: usize) -> Result<Content, Failure> {
    let core = Arc::clone(store.core());
    let path = core.path(key);
    let start = async move {
        core.limited(core.objects.put_multipart_opts(&path, PutMultipartOptions::default())).await
    };
    let mut upload = wait(store, store.begin(start))??;
    match send(store, upload.as_mut(), &mut source, part).and_then(|()| source.finish()) {
        Ok(content) => {
            let core = Arc::clone(store.core());
            let complete = async move {
                let done = core.limited(upload.complete()).await;
                if done.is_err() {
                    // Parts that nobody will use cost money. If this fails, too, the first error says more.
                    let _ = core.limited(upload.abort()).await;
                }
                done
            };
            wait(store, store.begin(complete))??;
            Ok(content)
        }
        Err(failure) => {
            let core = Arc::clone(store.core());
            let _ = wait(store, store.begin(async move { core.limited(upload.abort()).await }));
            Err(failure)
        }
    }
}

/// Reads and hashes here while earlier parts are on their way.
fn send(
    store: &Store,
    upload: &mut dyn MultipartUpload,
    source: &mut Source<'_>,
    part: usize,
) -> Result<(), Failure> {
    let mut flying: VecDeque<Pending<Result<(), Failure>>> = VecDeque::new();
    loop {
        let bytes = source.next(part)?;
        if bytes.is_empty() {
            break;
        }
        if flying.len() == IN_FLIGHT
            && let Some(first) = flying.pop_front()
        {
            wait(store, first)??;
        }
        let sent = upload.put_part(PutPayload::from(bytes));
        let core = Arc::clone(store.core());
        flying.push_back(store.begin(async move { core.limited(sent).await }));
    }
    flying.into_iter().try_for_each(|part| wait(store, part)?)
}

fn wait<T>(store: &Store, pending: Pending<T>) -> Result<T, Failure> {
    store.wait(pending).map_err(Failure::Said)
}

/// A local file that is hashed as it is read.
struct Source<'a> {
    path: &'a Path,
    file: File,
    /// Its size when it was opened.
    bytes: u64,
    read: u64,
    hasher: Sha256,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let failed = |source| Failure::Said(StoreError::Read { path: path.to_owned(), source });
        let file = remaster_disk::read(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        Ok(Source { path, file, bytes: about.len(), read: 0, hasher: Sha256::new() })
    }

    /// The next bytes, fewer than `most` at the end only.
    fn next(&mut self, most: usize) -> Result<Vec<u8>, Failure> {
        let left = usize::try_from(self.bytes - self.read).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(most.min(left));
        let mut limited = (&mut self.file).take(most.min(left) as u64);
        limited
            .read_to_end(&mut bytes)
            .map_err(|source| Failure::Said(StoreError::Read { path: self.path.to_owned(), source }))?;
        self.read += bytes.len() as u64;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// What was read, if that was all and the file did not grow.
    fn finish(&mut self) -> Result<Content, Failure> {
        let now = self.file.metadata().map(|about| about.len());
        if self.read != self.bytes || !now.is_ok_and(|now| now == self.bytes) {
            return Err(Failure::Said(StoreError::Changed { path: self.path.to_owned() }));
        }
        Ok(Content { bytes: self.bytes, sha256: self.hasher.clone().into() })
    }
}
