//! Hashes of model files, kept in the user's cache: a file of 7 GB takes ten seconds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use remaster_media::fingerprint;
use remaster_store::Hash;
use remaster_weights::sha256_in_pieces;
use serde::{Deserialize, Serialize};

use super::cache;
use super::host::Machine;
use crate::control::Control;
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
    Ok(fingerprint::identity(path).map_err(Error::reading(path))?.map(Hash::from))
}

/// SHA-256 of a file, read from its start to its end. `fresh` hears how many bytes were read since, and may end it.
pub(crate) fn hash_of(path: &Path, fresh: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<String, Error> {
    sha256_in_pieces(path, fresh).map_err(Error::reading(path))?.ok_or(Error::Interrupted)
}

/// SHA-256 of a file. One that was hashed before and was not touched since is not read again.
pub(crate) fn sha256(path: &Path, machine: &Machine, control: &Control) -> Result<String, Error> {
    let identity = identity(path)?;
    let whole = std::path::absolute(path).map_err(Error::reading(path))?;
    let key = identity.map(|identity| format!("{}|{identity}", whole.display()));
    let file = machine.cache().map(|folder| folder.join("hashes.json"));
    let mut known: Known = file.as_deref().map(cache::read).unwrap_or_default();
    let is_hash = |text: &&String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(hash) = key.as_ref().and_then(|key| known.files.get(key)).filter(is_hash) {
        return Ok(hash.clone());
    }
    let hash = hash_of(path, &mut |_| control.flow())?;
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_is_hashed_again_and_a_damaged_cache_is_none() {
        let desk = tempfile::tempdir().unwrap();
        let machine = Machine::this().without_environment().with("XDG_CACHE_HOME", desk.path());
        let (model, control) = (desk.path().join("model.safetensors"), Control::default());
        let hash = || sha256(&model, &machine, &control).unwrap();
        std::fs::write(&model, "first").unwrap();
        let first = hash();
        assert_eq!(hash(), first);
        let kept = desk.path().join("remaster/hashes.json");
        assert!(std::fs::read_to_string(&kept).unwrap().contains(&first));
        // The same size and time of change.
        let time = model.metadata().unwrap().modified().unwrap();
        let other = desk.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        std::fs::rename(&other, &model).unwrap();
        let second = hash();
        assert_ne!(second, first);
        for text in ["", "{", r#"{"files": {"x": 7}}"#] {
            std::fs::write(&kept, text).unwrap();
            assert_eq!(hash(), second);
        }
        control.cancel();
        assert_eq!(hash(), second);
        std::fs::remove_file(&kept).unwrap();
        assert!(matches!(sha256(&model, &machine, &control), Err(Error::Interrupted)));
    }
}
