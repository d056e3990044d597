//! Frames on their way: the two traits, and what both sides know about a clip.

use std::sync::{Arc, Mutex, PoisonError};

use remaster_picture::{Frame, Layout};
use serde::Serialize;

use crate::colour::Colour;
use crate::error::MediaError;
use crate::hdr::Hdr;
use crate::nut::TimeBase;

/// What frames of a clip have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Format {
    /// Columns of a frame as it is shown.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How samples were stored: depth, chroma and alpha are kept where the output can.
    #[serde(skip)]
    pub layout: Layout,
    /// What the numbers mean.
    pub colour: Colour,
    /// Static metadata of HDR10.
    pub hdr: Option<Hdr>,
    /// Shape of a pixel, width by height.
    pub sample_aspect: [u32; 2],
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Frames per second on average, if known.
    pub rate: Option<TimeBase>,
    /// About how many frames to expect. Only the end of the clip tells for sure.
    pub frames: Option<usize>,
}

impl Format {
    /// Frames of square pixels at an even rate, with a tick of the clock for each.
    pub fn even([width, height]: [usize; 2], layout: Layout, colour: Colour, rate: TimeBase) -> Self {
        let time_base = TimeBase { num: rate.den, den: rate.num };
        let (hdr, sample_aspect, rate, frames) = (None, [1, 1], Some(rate), None);
        Format { width, height, layout, colour, hdr, sample_aspect, time_base, rate, frames }
    }

    /// 3, or 4 with alpha.
    pub fn channels(&self) -> usize {
        if self.layout.alpha { 4 } else { 3 }
    }
}

/// Warnings to print after the last frame. The source adds to them, and its opener reads them.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<Mutex<Vec<String>>>);

impl Late {
    pub(crate) fn add(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// What was added since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Gives frames in order.
pub trait FrameSource: Send {
    /// What the frames are.
    fn format(&self) -> &Format;

    /// The next frame goes into `frame`; its timestamp is returned, or `None` at the end.
    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError>;

    /// Frames that were read before the first one that was given.
    fn lead(&self) -> usize {
        0
    }
}

impl FrameSource for Box<dyn FrameSource> {
    fn format(&self) -> &Format {
        self.as_ref().format()
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        self.as_mut().next(frame)
    }

    fn lead(&self) -> usize {
        self.as_ref().lead()
    }
}

/// Takes frames in order. One that is dropped before `finish` leaves nothing behind.
pub trait FrameSink: Send {
    /// The next frame, to be shown at `pts`.
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError>;

    /// All frames were written: completes the file, checks it and puts it into its place.
    fn finish(self: Box<Self>) -> Result<(), MediaError>;
}

/// Takes frames of a segment. What it hands to its encoder can be saved, and handed over again later, to the same bytes.
pub trait SampleSink: FrameSink {
    /// Bytes of the samples of a frame.
    fn frame_bytes(&self) -> usize;

    /// Samples of the last frame that was written, as the encoder got them; empty before the first.
    fn samples(&self) -> &[u8];

    /// The next frame as samples, to be shown at `pts`. Another number of bytes than that of a frame is an error.
    fn write_samples(&mut self, samples: &[u8], pts: i64) -> Result<(), MediaError>;
}
