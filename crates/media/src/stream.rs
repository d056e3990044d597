//! What streams of uncompressed frames have in common: a line of text in front, frames of one size behind it, no clock.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use remaster_picture::{Layout, PictureError};

use crate::clip::Format;
use crate::error::MediaError;
use crate::probe::{MAX_AREA, MAX_SIDE};
use crate::span::Span;

/// Headers are some dozen bytes; comments in them may be longer.
const MAX_LINE: u64 = 4096;

/// A stream in messages.
#[derive(Clone, Copy)]
pub(crate) struct Named(pub(crate) &'static str);

impl Named {
    pub(crate) fn broken(self, reason: impl Into<String>) -> MediaError {
        MediaError::broken(self.0, reason)
    }

    fn failed(self, source: std::io::Error) -> MediaError {
        MediaError::reading(&format!("read {}", self.0), source)
    }

    /// One line of text; `None` at the end.
    pub(crate) fn line(self, input: &mut impl BufRead) -> Result<Option<String>, MediaError> {
        let mut bytes = Vec::new();
        Read::take(&mut *input, MAX_LINE).read_until(b'\n', &mut bytes).map_err(|e| self.failed(e))?;
        match bytes.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Some(_) => Err(self.broken("it ends in the middle of a header")),
        }
    }

    /// The next `length` bytes, or as many as there are. Grown as they come: a header that lies about its size costs
    /// nothing.
    pub(crate) fn fill(
        self,
        input: &mut impl BufRead,
        length: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), MediaError> {
        bytes.clear();
        let mut read = BufReader::with_capacity(1 << 16, Read::take(input, length as u64));
        read.read_to_end(bytes).map(drop).map_err(|e| self.failed(e))
    }
}

/// Refuses frames of a size that is not believed, and those that would take more than `most` bytes on their way.
pub(crate) fn check_size(
    path: &Path,
    [width, height]: [u64; 2],
    layout: &Layout,
    most: u64,
) -> Result<[usize; 2], MediaError> {
    let path = || path.to_owned();
    let sides = 1..=MAX_SIDE;
    if !sides.contains(&width) || !sides.contains(&height) || width * height > MAX_AREA {
        return Err(MediaError::TooLarge { path: path(), width, height, limit: MAX_SIDE, area: MAX_AREA });
    }
    let size = [width as usize, height as usize];
    let raw = layout.bytes(size[0], size[1]).unwrap_or(usize::MAX) as u64;
    let values = 4 * (3 + u64::from(layout.alpha));
    let needs = raw.saturating_add(values * width * height);
    if needs > most {
        let source = PictureError::OverBudget { width, height, needs, most };
        return Err(MediaError::Picture { path: path(), source });
    }
    Ok(size)
}

/// `25:1`; neither side is zero.
pub(crate) fn ratio(word: &str) -> Option<[u32; 2]> {
    let (num, den) = word.split_once(':')?;
    let (num, den) = (num.parse::<u32>().ok()?, den.parse::<u32>().ok()?);
    (num > 0 && den > 0).then_some([num, den])
}

/// Frames that are counted instead of timed.
pub(crate) trait Counted {
    /// What they are, where they come from, the part of them that is wanted, and how many were read.
    fn about(&self) -> (&Format, &Path, Span, i64);

    /// Reads the samples of the next frame, and counts it: whether there is one.
    fn read(&mut self) -> Result<bool, MediaError>;

    /// Reads up to the next frame of the part: when it is shown in it, or `None` at the end. What is before the part is
    /// read and thrown away; what is behind is not read.
    fn read_wanted(&mut self) -> Result<Option<i64>, MediaError> {
        let (format, _, span, _) = self.about();
        let ticks = span.counted(format.time_base);
        loop {
            let (.., pts) = self.about();
            if ticks.is_over(pts) {
                break;
            }
            if !self.read()? {
                let (format, path, span, frames) = self.about();
                let is_empty = !span.is_whole() && frames <= ticks.first.max(0);
                let length = format.time_base.seconds(frames);
                return if is_empty { Err(span.empty(path, Some(length))) } else { Ok(None) };
            }
            if pts >= ticks.first {
                return Ok(Some(ticks.shown(pts)));
            }
        }
        // A part that lies between two frames.
        let (_, path, span, frames) = self.about();
        let is_empty = ticks.first.max(0) >= frames;
        if is_empty { Err(span.empty(path, None)) } else { Ok(None) }
    }
}
