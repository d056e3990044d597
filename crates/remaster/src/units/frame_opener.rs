//! Frames of the film by number, for one unit.

use std::ops::Range;
use std::path::Path;

use remaster_media::{FrameSource, MediaError, Probe, TimeBase};

use super::cursors::Cursors;
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
    /// Decoders of earlier units.
    pub(super) cursors: Cursors,
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
        let open = || match self.anchor {
            Some(anchor) => {
                let at = (self.clock, anchor);
                Ok((self.source.open_at(self.path, self.probe, at, tools).map_err(failed)?, self.first))
            }
            // It fitted when it was opened first; what is free now says nothing.
            None => Ok((self.source.open(self.path, u64::MAX, tools).map_err(failed)?.source, 0)),
        };
        self.cursors.open(frames.start, frames.len(), open)
    }
}
