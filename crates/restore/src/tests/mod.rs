//! The whole way of a film with small networks.

mod goldens;
mod invariance;
mod jumps;
mod kept;
mod latents;
mod recover;
mod unit;
mod unit_resume;

pub(crate) use invariance::recipe;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use remaster_media::{Colour, Format, FrameSink, FrameSource, MediaError, Said, TimeBase};
use remaster_picture::{Frame, Layout};
use remaster_testkit::hostile::Counting;

/// Counts what a hostile file makes its reader hold.
#[global_allocator]
static COUNTING: Counting = Counting;

/// The system's folder for temporary files.
pub(crate) fn folder() -> PathBuf {
    tempfile::NamedTempFile::new().unwrap().path().parent().unwrap().to_owned()
}

/// Frames from memory.
struct Frames {
    frames: Arc<Vec<Frame>>,
    next: usize,
    format: Format,
}

pub(crate) fn source(frames: &Arc<Vec<Frame>>) -> Box<dyn FrameSource> {
    let (width, height) = (frames[0].width, frames[0].height);
    let layout = Layout::from_name("rgb24").unwrap();
    let format = Format {
        width,
        height,
        layout,
        colour: Colour::new(Said::default(), &layout, [width, height]),
        hdr: None,
        sample_aspect: [1, 1],
        time_base: TimeBase { num: 1, den: 25 },
        rate: None,
        frames: Some(frames.len()),
    };
    Box::new(Frames { frames: Arc::clone(frames), next: 0, format })
}

impl FrameSource for Frames {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(next) = self.frames.get(self.next) else { return Ok(None) };
        *frame = next.clone();
        self.next += 1;
        Ok(Some(self.next as i64 - 1))
    }
}

/// Frames into memory.
#[derive(Clone, Default)]
pub(crate) struct Kept(pub(crate) Arc<Mutex<Vec<Frame>>>);

impl FrameSink for Kept {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        let mut kept = self.0.lock().unwrap();
        assert_eq!(pts, kept.len() as i64);
        kept.push(frame.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}
