//! A file is there whole or not at all: it is made beside its place and renamed.

use std::path::Path;

use tempfile::TempPath;

use crate::error::MediaError;

/// A new empty file in the folder of `path`, with its ending: encoders choose the format by it.
pub fn beside(path: &Path, overwrite: bool) -> Result<TempPath, MediaError> {
    let failed = |source| MediaError::Io { doing: format!("write {}", path.display()), source };
    if !overwrite && path.exists() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    let file = tempfile::Builder::new()
        .prefix(&format!(".{stem}."))
        .suffix(&format!(".part{ending}"))
        .tempfile_in(folder)
        .map_err(failed)?;
    Ok(file.into_temp_path())
}

/// Removes what is left of a file that was on its way to `path` when the process had to end.
pub fn remove_parts(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = format!(".{}.", path.file_stem().unwrap_or_default().to_string_lossy());
    let ending = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && name.ends_with(&format!(".part{ending}")) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Renames a finished file to its place.
pub fn put(file: TempPath, path: &Path, overwrite: bool) -> Result<(), MediaError> {
    let failed = |source| MediaError::Io { doing: format!("write {}", path.display()), source };
    // Files made under a secret name are private; the result is an ordinary file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    }
    let done = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    done.map_err(|e| failed(e.error))
}
