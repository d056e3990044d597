//! Frames of the film by number, for one unit.

use std::ops::Range;
use std::path::Path;

use remaster_media::{Format, FrameSource, MediaError, Probe, TimeBase};
use remaster_picture::Frame;

use crate::error::Error;
use crate::media::{Lazy, Source};

/// The film from some frame on.
pub(super) struct FrameOpener<'a> {
    pub(super) source: &'a Source,
    pub(super) path: &'a Path,
    pub(super) probe: Option<&'a Probe>,
    /// Of the times of its frames.
    pub(super) clock: TimeBase,
    /// Number of the first frame that is read, and when it is shown if that is known.
    pub(super) first: usize,
    pub(super) anchor: Option<i64>,
}

impl FrameOpener<'_> {
    /// Opens frames by number.
    pub(super) fn open(
        &self,
        frames: Range<usize>,
        tools: &mut Lazy,
    ) -> Result<Box<dyn FrameSource>, MediaError> {
        let failed = |error: Error| match error {
            Error::Media(error) => error,
            Error::Interrupted => MediaError::Cancelled,
            error => MediaError::Broken { what: "the input", reason: error.to_string() },
        };
        let (mut source, first) = match self.anchor {
            Some(anchor) => {
                let at = (self.clock, anchor);
                (self.source.open_at(self.path, self.probe, at, tools).map_err(failed)?, self.first)
            }
            // It fitted when it was opened first; what is free now says nothing.
            None => (self.source.open(self.path, u64::MAX, tools).map_err(failed)?.source, 0),
        };
        let mut frame = Frame::new(0, 0, 3);
        for _ in first..frames.start {
            if source.next(&mut frame)?.is_none() {
                return Err(MediaError::Broken {
                    what: "the input",
                    reason: "it has fewer frames than planned".into(),
                });
            }
        }
        Ok(Box::new(Counted { source, left: frames.len() }))
    }
}

/// So many frames of a source.
struct Counted {
    source: Box<dyn FrameSource>,
    left: usize,
}

impl FrameSource for Counted {
    fn format(&self) -> &Format {
        self.source.format()
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.source.next(frame)
    }
}
