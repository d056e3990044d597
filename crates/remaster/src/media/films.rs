//! Which files look like films.

use std::path::Path;

use remaster_picture::StillFormat;

use crate::error::Error;

/// Endings of films in a folder.
const FILMS: [&str; 22] = [
    "mkv", "mp4", "m4v", "mov", "webm", "avi", "mpg", "mpeg", "m2v", "vob", "ts", "m2ts", "mts", "wmv",
    "flv", "ogv", "3gp", "dv", "mxf", "nut", "y4m", "divx",
];

/// Refuses a folder with films and without images: a film is one file.
pub(crate) fn refuse_videos(folder: &Path) -> Result<(), Error> {
    let Ok(entries) = folder.read_dir() else { return Ok(()) };
    let mut films = false;
    for path in entries.flatten().map(|entry| entry.path()) {
        if StillFormat::of_ending(&path).is_some() {
            return Ok(());
        }
        films |= is_film(&path);
    }
    if films { Err(Error::Videos { path: folder.to_owned() }) } else { Ok(()) }
}

/// A file that looks like a film.
pub(crate) fn is_film(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
    FILMS.contains(&ending.as_str())
}
