//! From the store into a local file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use futures_util::StreamExt;
use object_store::{GetOptions, GetResult, GetResultPayload};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::{Content, Hash, Key, Store, StoreError};

/// Bytes that are read from a folder at a time.
const BLOCK: usize = 1 << 20;

/// Copies an object. It is written beside its place and gets its name when its hash is the right one.
pub(crate) fn fetch(store: &Store, key: &Key, to: &Path, expected: &Content) -> Result<(), StoreError> {
    let mut failed = None;
    let written = remaster_disk::write_whole(to, |file| {
        tries(store, key, to, file, expected).map_err(|error| {
            failed = Some(error);
            io::ErrorKind::Other.into()
        })
    });
    match (failed, written) {
        (Some(error), _) => Err(error),
        (None, Err(source)) => Err(StoreError::Write { path: to.to_owned(), source }),
        (None, Ok(())) => Ok(()),
    }
}

fn tries(store: &Store, key: &Key, to: &Path, file: &mut File, expected: &Content) -> Result<(), StoreError> {
    store.core().repeated("read", key, || {
        let mut target = Target { path: to, file, bytes: 0, most: expected.bytes, hasher: Sha256::new() };
        target.restart()?;
        once(store, key, &mut target, expected.bytes)?;
        target.check(store, key, expected)
    })
}

fn once(store: &Store, key: &Key, target: &mut Target<'_>, expected: u64) -> Result<(), Failure> {
    let path = store.core().path(key);
    let result: GetResult = store.run(|core| async move {
        core.limited(core.objects.get_opts(&path, GetOptions::default())).await
    })??;
    let found = result.meta.size;
    if found != expected {
        let (place, key) = (store.place(), key.to_string());
        return Err(StoreError::Size { place, key, found, expected }.into());
    }
    match result.payload {
        GetResultPayload::File(file, _) => from_file(file, target)?,
        GetResultPayload::Stream(mut stream) => loop {
            let (rest, chunk) = store.run(|core| async move {
                let chunk = core.limited(async { Ok::<_, Failure>(stream.next().await) }).await;
                (stream, chunk)
            })?;
            stream = rest;
            match chunk? {
                Some(chunk) => target.take(&chunk?)?,
                None => break,
            }
        },
    }
    if target.bytes == expected { Ok(()) } else { Err(Failure::Short) }
}

/// The store is a folder: its file is copied here, in large blocks, instead of through the other thread.
fn from_file(mut file: File, target: &mut Target<'_>) -> Result<(), Failure> {
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) => target.take(&block[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                return Err(object_store::Error::Generic { store: "folder", source: Box::new(e) }.into());
            }
        }
    }
}

/// The local file that is being written.
struct Target<'a> {
    path: &'a Path,
    file: &'a mut File,
    bytes: u64,
    /// More is never written: an endless answer must not fill the disk.
    most: u64,
    hasher: Sha256,
}

impl Target<'_> {
    fn restart(&mut self) -> Result<(), Failure> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(|e| self.failed(e))
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.most {
            return Err(Failure::Short);
        }
        self.hasher.update(bytes);
        remaster_disk::write_all(self.path, self.file, bytes).map_err(|e| self.failed(e))
    }

    fn failed(&self, source: io::Error) -> Failure {
        StoreError::Write { path: self.path.to_owned(), source }.into()
    }

    fn check(self, store: &Store, key: &Key, expected: &Content) -> Result<(), Failure> {
        let found = Hash::from(self.hasher);
        if found == expected.sha256 {
            return Ok(());
        }
        let (place, key) = (store.place(), key.to_string());
        Err(StoreError::Hash { place, key, found, expected: expected.sha256 }.into())
    }
}
