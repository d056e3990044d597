//! Where results go. A name that cannot be written is refused before the work that would be lost.

use std::path::Path;

use remaster_media::{Format, MediaError, OutputKind, place};
use remaster_metrics::Image;
use remaster_picture::{Frame, StillInfo, png};
use remaster_plan::bytes;

use crate::error::Error;
use crate::machine::host::Machine;
use crate::media::{has_ending, is_pipe};

/// Refuses an output of the wrong ending, one that cannot be made, and one that is an input.
pub fn check_file(path: &Path, ending: &str, inputs: &[&Path], replace: bool) -> Result<(), Error> {
    if !has_ending(path, ending) {
        return Err(Error::Ending { path: path.to_owned(), allowed: format!(".{ending}") });
    }
    check_place(path, inputs, replace)?;
    check_replaceable(path)
}

/// The same for frames, whose name says what they become.
pub(crate) fn check_frames(path: &Path, inputs: &[&Path], replace: bool) -> Result<(), Error> {
    check_frames_place(path, inputs, replace)?;
    check_replaceable(path)
}

/// The same, without asking whether a file there could be replaced: a film that is done may be open in a player.
pub(crate) fn check_frames_place(path: &Path, inputs: &[&Path], replace: bool) -> Result<(), Error> {
    match kind(path)? {
        OutputKind::Pipe => Ok(()),
        kind => check_place(path, inputs, replace && kind != OutputKind::Folder),
    }
}

/// Refuses an output if a file that is there is read-only or open in another program.
pub(crate) fn check_replaceable(path: &Path) -> Result<(), Error> {
    if is_pipe(path) { Ok(()) } else { Ok(place::check_replaceable(path)?) }
}

/// What frames become under this name.
pub(crate) fn kind(path: &Path) -> Result<OutputKind, Error> {
    OutputKind::of(path).ok_or_else(|| {
        let allowed = format!("{}, or name a folder", OutputKind::endings());
        Error::Ending { path: path.to_owned(), allowed }
    })
}

fn check_place(path: &Path, inputs: &[&Path], replace: bool) -> Result<(), Error> {
    for input in inputs.iter().filter(|i| !is_pipe(i)) {
        // A folder of pictures: each of them is an input.
        let inside = input.is_dir() && path.is_file() && remaster_disk::same_file(input, place::parent(path));
        if inside || remaster_disk::same_file(input, path) {
            return Err(Error::SameFile { path: path.to_owned() });
        }
    }
    Ok(place::check(path, replace)?)
}

/// A drawn picture as a PNG.
pub(crate) fn write_image(path: &Path, image: &Image, replace: bool) -> Result<(), Error> {
    let mut frame = Frame::new(image.width, image.height, 3);
    frame.data.iter_mut().zip(&image.data).for_each(|(to, from)| *to = f32::from(*from) / 255.0);
    let failed = |source| MediaError::Picture { path: path.to_owned(), source };
    let bytes = png::encode(&frame, &StillInfo::srgb(8)).map_err(failed)?;
    Ok(place::write(path, &bytes, replace)?)
}

/// How sure it is what an output takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// To the byte, if the number of frames is right.
    Exact,
    /// Compressed without loss: about half.
    Lossless,
    /// Compressed: a small part.
    Lossy,
}

/// Less than this is nearly nothing.
const NEARLY_NOTHING: u64 = 16 << 20;

/// Refuses an output of known size that does not fit on its disk; a note where only a guess says so.
pub(crate) fn check_room(
    path: &Path,
    raw: u64,
    size: Size,
    machine: &Machine,
) -> Result<Option<String>, Error> {
    let folder = place::parent(path);
    let Some(free) = machine.free_space(folder) else { return Ok(None) };
    // Frame counts of containers are off by a few in a hundred.
    if size == Size::Exact && raw / 10 * 9 > free {
        let reason =
            format!("it needs {}, but only {} are free in {}", bytes(raw), bytes(free), folder.display());
        return Err(MediaError::Place { path: path.to_owned(), reason }.into());
    }
    let least = match size {
        Size::Exact => raw,
        Size::Lossless => raw / 2,
        // At 8 bits and 24 frames of 1080p a second, the default settings take a hundredth or more.
        Size::Lossy => (raw / 200).max(NEARLY_NOTHING),
    };
    let short = free < least;
    Ok(short.then(|| format!("only {} free in {}", bytes(free), folder.display())))
}

/// Bytes of all frames as they are, as far as their number is known.
pub(crate) fn raw_bytes(format: &Format) -> u64 {
    let frame = format.layout.bytes(format.width, format.height).unwrap_or(0) as u64;
    frame.saturating_mul(format.frames.unwrap_or(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_too_large_is_refused() {
        let (path, free) = (Path::new("out.y4m"), 1 << 30);
        let machine = Machine { free_space: Some(free), ..Machine::this() };
        let check = |raw, size| check_room(path, raw, size, &machine);
        assert!(check(free * 2, Size::Exact).is_err());
        assert!(check(free * 4, Size::Lossless).unwrap().is_some());
        assert!(check(free * 4, Size::Lossy).unwrap().is_none());
        assert!(check(1000, Size::Exact).unwrap().is_none());
    }
}
