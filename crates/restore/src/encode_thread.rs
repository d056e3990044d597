//! Results of the engine as frames of a clip: finished and encoded in a thread of its own.

use std::sync::mpsc::Receiver;

use remaster_compute::HostTensor;
use remaster_engine::{Sink, SinkError};
use remaster_media::{FrameSink, MediaError};
use remaster_picture::Frame;

use crate::decode_thread::Beside;
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::worker::Worker;

/// The engine's end of the encoding thread. It gets slices, and `None` when the clip is over.
pub(crate) type EncodeThread = Worker<Option<HostTensor>, PipelineError>;

/// What frames have beside their colours, in order; ends where the clip does.
pub(crate) type Asides = Box<dyn Iterator<Item = Result<Beside, PipelineError>> + Send>;

/// Starts to encode. Frames for which nothing comes beside are those that fill up the end of a clip.
pub(crate) fn start(
    mut sink: Box<dyn FrameSink>,
    geometry: Geometry,
    clamp: bool,
    mut beside: Asides,
) -> EncodeThread {
    Worker::start(PipelineError::Thread, move |slices: Receiver<Option<HostTensor>>| {
        let mut frame = Frame::new(0, 0, 3);
        let mut written = 0;
        for slice in slices {
            let Some(slice) = slice else {
                sink.finish()?;
                return Ok(written);
            };
            let length = (slice.data.len() / slice.shape.t.max(1)).max(1);
            for data in slice.data.chunks_exact(length) {
                let Some(beside) = beside.next() else { break };
                let Beside { pts, alpha } = beside?;
                geometry.restore(data, alpha.as_deref(), clamp, &mut frame);
                sink.write(&frame, pts)?;
                written += 1;
            }
        }
        // Dropped before its end: the sink leaves nothing behind.
        Err(MediaError::Cancelled.into())
    })
}

impl Sink for EncodeThread {
    fn write(&mut self, _first: usize, frames: HostTensor) -> Result<(), SinkError> {
        self.send(Some(frames)).map_err(|error| SinkError(Box::new(error)))
    }
}
