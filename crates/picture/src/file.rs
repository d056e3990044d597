//! Picture files: what is accepted before memory is asked for, and writing them whole.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::PictureError;

/// Most pixels of a file that is read: 16384 x 8192, four times 8K. As RGBA in f32 that is 2 GiB.
pub const MAX_PIXELS: u64 = 1 << 27;

/// Refuses sizes that are too large or that `bytes` of file cannot hold. `per_byte` is the most bytes of
/// picture that a byte of file can stand for.
pub(crate) fn check_size(
    size: [u64; 2],
    picture: u64,
    bytes: u64,
    per_byte: u64,
) -> Result<(), PictureError> {
    let [width, height] = size;
    if width.checked_mul(height).is_none_or(|pixels| pixels > MAX_PIXELS) {
        return Err(PictureError::TooLarge { width, height, max: MAX_PIXELS });
    }
    if picture / per_byte > bytes {
        return Err(PictureError::Implausible { width, height, bytes });
    }
    Ok(())
}

/// Refuses a picture that takes more than `most` bytes while it is read: its frame, and as much again for samples on
/// their way and for turning it. No format needs more; what a decoder holds beside it is below 64 MiB.
pub(crate) fn admit(size: [u64; 2], channels: u64, most: u64) -> Result<(), PictureError> {
    let [width, height] = size;
    let Some(pixels) = width.checked_mul(height).filter(|n| *n <= MAX_PIXELS) else {
        return Err(PictureError::TooLarge { width, height, max: MAX_PIXELS });
    };
    let needs = 2 * 4 * channels * pixels;
    if needs > most {
        return Err(PictureError::OverBudget { width, height, needs, most });
    }
    Ok(())
}

/// `bytes` as the file `path`, which appears whole or not at all: written beside it and renamed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PictureError> {
    let failed = |source| PictureError::Write { path: path.to_owned(), source };
    let beside = sibling(path).map_err(failed)?;
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        // What was wrong is already known; a leftover that cannot be removed adds nothing.
        let _ = std::fs::remove_file(&beside);
        failed(error)
    })
}

/// A name nobody else uses: two writers in one process get two.
fn sibling(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or_else(missing)?);
    name.push(format!(".{}.{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    Ok(path.with_file_name(name))
}

/// Says which file it was.
pub(crate) fn of_file(path: &Path) -> impl Fn(PictureError) -> PictureError {
    move |source| PictureError::File { path: path.to_owned(), source: Box::new(source) }
}
