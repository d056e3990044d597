//! Hashes of model files, kept in the user's cache: a file of 7 GB takes ten seconds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use remaster_compute::CancelToken;
use remaster_media::fingerprint;
use remaster_store::Hash;
use remaster_weights::sha256_in_pieces;
use serde::{Deserialize, Serialize};

use super::cache;
use crate::error::Error;

/// Files that are remembered at most.
const MOST: usize = 200;

#[derive(Default, Serialize, Deserialize)]
struct Known {
    /// By path and identity.
    files: BTreeMap<String, String>,
}

/// What tells whether a file was touched, and is the same as long as it was not.
pub(crate) fn identity(path: &Path) -> Result<Option<Hash>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    Ok(fingerprint::identity(path).map_err(failed)?.map(Hash::from))
}

/// SHA-256 of a file. One that was hashed before and was not touched since is not read again.
pub(crate) fn sha256(path: &Path, cancel: &CancelToken) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let identity = identity(path)?;
    let whole = std::path::absolute(path).map_err(failed)?;
    let key = identity.map(|identity| format!("{}|{identity}", whole.display()));
    let file = cache::folder().map(|folder| folder.join("hashes.json"));
    let text = file.as_ref().and_then(|file| cache::read(file)).unwrap_or_default();
    let mut known: Known = serde_json::from_str(&text).unwrap_or_default();
    let is_hash = |text: &&String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(hash) = key.as_ref().and_then(|key| known.files.get(key)).filter(is_hash) {
        return Ok(hash.clone());
    }
    let mut go_on = |_| match cancel.is_cancelled() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let hash = sha256_in_pieces(path, &mut go_on).map_err(failed)?.ok_or(Error::Interrupted)?;
    if let (Some(key), Some(file)) = (key, file) {
        if known.files.len() >= MOST {
            known.files.clear();
        }
        known.files.insert(key, hash.clone());
        // Without a cache it is hashed again next time.
        if let Ok(text) = serde_json::to_string(&known) {
            let _ = cache::write(&file, &text);
        }
    }
    Ok(hash)
}
