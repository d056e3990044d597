//! The name of an output that was not named.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use remaster_media::{OutputKind, is_still};

use crate::error::Error;
use crate::media::is_pipe;

/// What is added to the name of the input.
pub const SUFFIX: &str = "_upscaled";

/// The default output: beside the input.
pub fn beside(input: &Path) -> Result<PathBuf, Error> {
    let Some(stem) = input.file_stem().filter(|_| !is_pipe(input)) else {
        return Err(Error::NoOutput);
    };
    // A folder's name may have a dot; what comes behind it is no ending.
    let mut name = if input.is_dir() { input.file_name().unwrap_or(stem) } else { stem }.to_owned();
    name.push(SUFFIX);
    if input.is_dir() {
        return Ok(input.with_file_name(name));
    }
    let ending = |ending: &OsStr| {
        let mut name = name.clone();
        name.push(".");
        name.push(ending);
        input.with_file_name(name)
    };
    let writable = input.extension().map(ending).filter(|path| {
        matches!(OutputKind::of(path), Some(OutputKind::Video(_) | OutputKind::Picture | OutputKind::Y4m))
    });
    // Matroska holds whatever the input has.
    let other = if is_still(input) { "png" } else { "mkv" };
    Ok(writable.unwrap_or_else(|| ending(other.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_beside_the_input() {
        for (input, expected) in [
            ("dir/film.mkv", "dir/film_upscaled.mkv"),
            ("film.part1.mp4", "film.part1_upscaled.mp4"),
            ("film.vob", "film_upscaled.mkv"),
            ("film.avi", "film_upscaled.mkv"),
            ("film", "film_upscaled.mkv"),
            ("photo.JPG", "photo_upscaled.JPG"),
        ] {
            assert_eq!(beside(Path::new(input)).unwrap(), Path::new(expected), "{input}");
        }
        assert!(beside(Path::new("-")).is_err());
        let folder = tempfile::tempdir().unwrap();
        let pictures = folder.path().join("my.pictures");
        std::fs::create_dir(&pictures).unwrap();
        assert_eq!(beside(&pictures).unwrap(), folder.path().join("my.pictures_upscaled"));
    }
}
