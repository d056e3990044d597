//! Results of the engine as frames of a clip: finished and encoded in a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use remaster_compute::HostTensor;
use remaster_engine::{Sink, SinkError};
use remaster_media::{FrameSink, MediaError};
use remaster_picture::Frame;

use crate::decode_thread::Beside;
use crate::error::PipelineError;
use crate::geometry::Geometry;

/// Slices that wait for the encoder. While it writes one the engine makes the next, which is handed over when it is
/// asked for: one more in between would only take memory.
pub(crate) const WAITING: usize = 0;

/// The engine's end of the encoding thread.
pub(crate) struct EncodeThread {
    slices: Option<SyncSender<HostTensor>>,
    thread: Option<JoinHandle<Result<usize, PipelineError>>>,
}

/// What the thread works with.
struct Work {
    sink: Box<dyn FrameSink>,
    geometry: Geometry,
    clamp: bool,
    beside: Asides,
}

/// What frames have beside their colours, in order; ends where the clip does.
pub(crate) type Asides = Box<dyn Iterator<Item = Result<Beside, PipelineError>> + Send>;

impl EncodeThread {
    /// Starts to encode. Frames for which nothing comes beside are those that fill up the end of a clip.
    pub(crate) fn start(sink: Box<dyn FrameSink>, geometry: Geometry, clamp: bool, beside: Asides) -> Self {
        let (slices, from) = sync_channel(WAITING);
        let work = Work { sink, geometry, clamp, beside };
        let thread = std::thread::spawn(move || work.run(&from));
        EncodeThread { slices: Some(slices), thread: Some(thread) }
    }

    /// Waits until everything is written and the file is in its place. Returns its frames.
    pub(crate) fn complete(mut self) -> Result<usize, PipelineError> {
        if let Some(slices) = self.slices.take() {
            // An empty slice says that the clip is over; a channel that closes, that it is not.
            let _ = slices.send(HostTensor::zeros(remaster_compute::Shape::new(0, 0, 0, 0)));
        }
        self.join()
    }

    fn join(&mut self) -> Result<usize, PipelineError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(PipelineError::Thread("encoding")),
        }
    }
}

impl Sink for EncodeThread {
    fn write(&mut self, _first: usize, frames: HostTensor) -> Result<(), SinkError> {
        let sent = self.slices.as_ref().is_some_and(|s| s.send(frames).is_ok());
        if sent {
            return Ok(());
        }
        self.slices = None;
        Err(SinkError(Box::new(self.join().err().unwrap_or(PipelineError::Thread("encoding")))))
    }
}

impl Drop for EncodeThread {
    fn drop(&mut self) {
        drop(self.slices.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(mut self, slices: &Receiver<HostTensor>) -> Result<usize, PipelineError> {
        let mut frame = Frame::new(0, 0, 3);
        let mut written = 0;
        for slice in slices {
            if slice.shape.t == 0 {
                self.sink.finish()?;
                return Ok(written);
            }
            let length = slice.data.len() / slice.shape.t;
            for data in slice.data.chunks_exact(length) {
                let Some(beside) = self.beside.next() else { break };
                let Beside { pts, alpha } = beside?;
                self.geometry.restore(data, alpha.as_deref(), self.clamp, &mut frame);
                self.sink.write(&frame, pts)?;
                written += 1;
            }
        }
        // Dropped before its end: the sink leaves nothing behind.
        Err(MediaError::Cancelled.into())
    }
}
