//! Picture files: what is accepted before memory is asked for, and writing them whole.

use std::io::Write;
use std::path::Path;

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
    remaster_disk::write_whole(path, |file| file.write_all(bytes))
        .map_err(|source| PictureError::Write { path: path.to_owned(), source })
}

/// Says which file it was.
pub(crate) fn of_file(path: &Path) -> impl Fn(PictureError) -> PictureError {
    move |source| PictureError::File { path: path.to_owned(), source: Box::new(source) }
}
