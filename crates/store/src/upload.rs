//! From a local file into the store.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use object_store::{MultipartUpload, PutMultipartOptions, PutOptions, PutPayload};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::io::Pending;
use crate::{Content, Key, Store, StoreError};

/// Parts that are on their way while the next one is read.
const IN_FLIGHT: usize = 4;

/// Copies a file. A failed part costs the whole upload, because only a whole one is known to be sound; the parts
/// themselves are tried again by the store's client.
pub(crate) fn put_file(store: &Store, key: &Key, path: &Path) -> Result<Content, StoreError> {
    store.core().repeated("write", key, || once(store, key, Source::open(path)?))
}

fn once(store: &Store, key: &Key, mut source: Source<'_>) -> Result<Content, Failure> {
    let part = store.core().limits.part_of(source.bytes);
    if source.bytes > part as u64 {
        return in_parts(store, key, source, part);
    }
    let bytes = source.next(part)?;
    let content = source.finish()?;
    let path = store.core().path(key);
    store.run(|core| async move {
        core.limited(core.objects.put_opts(&path, PutPayload::from(bytes), PutOptions::default())).await
    })??;
    Ok(content)
}

fn in_parts(store: &Store, key: &Key, mut source: Source<'_>, part: usize) -> Result<Content, Failure> {
    let path = store.core().path(key);
    let mut upload = store.run(|core| async move {
        core.limited(core.objects.put_multipart_opts(&path, PutMultipartOptions::default())).await
    })??;
    let sent = send(store, upload.as_mut(), &mut source, part).and_then(|()| source.finish());
    store.run(|core| async move {
        let done = match sent {
            Ok(content) => core.limited(upload.complete()).await.map(|_| content),
            Err(failure) => Err(failure),
        };
        if done.is_err() {
            // Unused parts cost money. If this fails, too, the first error says more.
            let _ = core.limited(upload.abort()).await;
        }
        done
    })?
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
            store.wait(first)??;
        }
        let sent = upload.put_part(PutPayload::from(bytes));
        let core = Arc::clone(store.core());
        flying.push_back(store.begin(async move { core.limited(sent).await }));
    }
    flying.into_iter().try_for_each(|part| store.wait(part)?)
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
        let failed = |source| StoreError::Read { path: path.to_owned(), source };
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
            .map_err(|source| StoreError::Read { path: self.path.to_owned(), source })?;
        self.read += bytes.len() as u64;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// What was read, if that was all and the file did not grow.
    fn finish(&mut self) -> Result<Content, Failure> {
        let now = self.file.metadata().map(|about| about.len());
        if self.read != self.bytes || !now.is_ok_and(|now| now == self.bytes) {
            return Err(StoreError::Changed { path: self.path.to_owned() }.into());
        }
        Ok(Content { bytes: self.bytes, sha256: self.hasher.clone().into() })
    }
}
