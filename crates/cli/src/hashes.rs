//! Hashes of model files, kept in the user's cache: a file of 7 GB takes ten seconds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::UNIX_EPOCH;

use remaster_compute::CancelToken;
use remaster_weights::sha256_in_pieces;
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::error::CliError;

/// Files that are remembered at most.
const MOST: usize = 200;

#[derive(Default, Serialize, Deserialize)]
struct Known {
    /// By path, size and time of the last change.
    files: BTreeMap<String, String>,
}

/// SHA-256 of a file. One that was hashed before and has the same size and time is not read again.
pub(crate) fn sha256(path: &Path, cancel: &CancelToken) -> Result<String, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let about = path.metadata().map_err(failed)?;
    let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let whole = std::path::absolute(path).map_err(failed)?;
    let key = modified.map(|time| format!("{}|{}|{}", whole.display(), about.len(), time.as_nanos()));
    let file = cache::folder().map(|folder| folder.join("hashes.json"));
    let text = file.as_ref().and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    let mut known: Known = serde_json::from_slice(&text).unwrap_or_default();
    let is_hash = |text: &&String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(hash) = key.as_ref().and_then(|key| known.files.get(key)).filter(is_hash) {
        return Ok(hash.clone());
    }
    let mut go_on = |_| match cancel.is_cancelled() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let hash = sha256_in_pieces(path, &mut go_on).map_err(failed)?.ok_or(CliError::Interrupted)?;
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
