//! What an encoder makes of frames that everybody can compute: two machines whose bytes are equal here encode alike.

use std::io::Read;

use remaster_picture::Frame;

use crate::child::Tools;
use crate::clip::FrameSink;
use crate::encode::Encoder;
use crate::error::MediaError;
use crate::place::Scratch;
use crate::target::{Film, WriteOptions};

/// Frames of a trial: one that all others refer to, and some that move.
const FRAMES: usize = 5;

/// The bytes of a segment of `film` with a few frames that are always the same. They show what ffmpeg does not say of itself:
/// the versions of the libraries that encode.
pub fn trial(tools: &Tools, film: &Film<'_>) -> Result<Vec<u8>, MediaError> {
    let failed = |source| MediaError::Io { doing: "make a temporary folder".into(), source };
    let folder = Scratch::new(None).map_err(failed)?;
    let path = folder.path().join("trial");
    let options = WriteOptions { overwrite: false, ..film.options.clone() };
    let mut encoder = Box::new(Encoder::segment(tools, &path, &Film { options: &options, ..*film })?);
    let mut frame = Frame::new(film.format.width, film.format.height, film.format.channels());
    for number in 0..FRAMES {
        paint(&mut frame, number);
        encoder.write(&frame, number as i64 * 1000)?;
    }
    encoder.finish()?;
    let mut bytes = Vec::new();
    let read = remaster_disk::read_named(&path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|source| MediaError::Open { path, source })
}

/// Diagonals that move over a coarse pattern, in numbers that every machine computes alike.
fn paint(frame: &mut Frame, number: usize) {
    let (width, channels) = (frame.width.max(1), frame.channels.max(1));
    for (i, value) in frame.data.iter_mut().enumerate() {
        let (x, y, channel) = (i / channels % width, i / channels / width, i % channels);
        let stripes = (x + y + 3 * number + 11 * channel) % 64;
        let pattern = ((x * 7) ^ (y * 13)) % 32;
        *value = (stripes * 3 + pattern) as f32 / 256.0;
    }
}
