//! The user's cache folder: what may be deleted at any time and is then made anew.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use remaster_media::place;

use crate::error::CliError;

/// Ours in it, as the system's customs have it; `None` where there is none. Looked up once: a device keeps it.
pub(crate) fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = || set("HOME").map(|h| h.join(".cache"));
        let base = set("XDG_CACHE_HOME").or_else(|| set("LOCALAPPDATA")).or_else(home)?;
        Some(base.join("remaster"))
    };
    FOLDER.get_or_init(find).as_deref()
}

/// Replaces a file in it, whole or not at all.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), CliError> {
    if let Some(folder) = file.parent() {
        let failed = |source| CliError::Write { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    Ok(place::write(file, text.as_bytes(), true)?)
}
