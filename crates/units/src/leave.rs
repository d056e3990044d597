//! A unit that could not be restored: the frames of the input, resized.

use remaster_media::{FrameSink, FrameSource};
use remaster_picture::{Frame, resize};

use crate::error::UnitsError;

/// Writes frames of the input in the size of the film.
pub fn pass_through(
    mut source: Box<dyn FrameSource>,
    mut sink: Box<dyn FrameSink>,
    [width, height]: [usize; 2],
) -> Result<(), UnitsError> {
    let mut frame = Frame::new(0, 0, 3);
    while let Some(pts) = source.next(&mut frame)? {
        let mut shown = match [frame.width, frame.height] == [width, height] {
            true => frame.clone(),
            false => resize(&frame, width, height),
        };
        shown.data.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        sink.write(&shown, pts)?;
    }
    Ok(sink.finish()?)
}
