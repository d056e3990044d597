//! Frames of a clip for the engine: decoded and prepared in a thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use remaster_compute::Shape;
use remaster_engine::{Source, SourceError};
use remaster_media::{FrameSource, MediaError};
use remaster_picture::{Frame, mirror_index};

use crate::error::PipelineError;
use crate::geometry::Geometry;

/// Prepared frames that wait for the engine. Two keep it busy; a slice is read at once.
pub(crate) const WAITING: usize = 4;

/// Frames that may be needed again to fill up the end: a clip is at most 3 frames short of 4n + 1.
const LAST: usize = 4;

/// What a frame has beside its colours.
pub(crate) struct Beside {
    pub(crate) pts: i64,
    pub(crate) alpha: Option<Vec<f32>>,
}

/// The engine's end of the decoding thread.
pub(crate) struct Intake {
    frames: Option<Receiver<Result<Vec<f32>, MediaError>>>,
    thread: Option<JoinHandle<()>>,
    last: VecDeque<Arc<Vec<f32>>>,
    /// Frames that came.
    seen: usize,
    /// Frames that were given, with those that fill up the end.
    given: usize,
    over: bool,
}

impl Intake {
    /// Starts to decode. What does not go through the network comes out at the other end.
    pub(crate) fn start(source: Box<dyn FrameSource>, geometry: Geometry) -> (Self, Receiver<Beside>) {
        let (to, frames) = sync_channel(WAITING);
        let (aside, beside) = channel();
        let thread = std::thread::spawn(move || decode(source, geometry, &to, &aside));
        let intake = Intake {
            frames: Some(frames),
            thread: Some(thread),
            last: VecDeque::new(),
            seen: 0,
            given: 0,
            over: false,
        };
        (intake, beside)
    }

    /// Frames of the clip so far, without what fills up its end.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    fn next(&mut self) -> Result<Option<Arc<Vec<f32>>>, PipelineError> {
        if !self.over {
            match self.frames.as_ref().and_then(|f| f.recv().ok()) {
                Some(Ok(frame)) => {
                    let frame = Arc::new(frame);
                    self.seen += 1;
                    self.last.push_back(Arc::clone(&frame));
                    if self.last.len() > LAST {
                        self.last.pop_front();
                    }
                    return Ok(Some(frame));
                }
                Some(Err(error)) => return Err(error.into()),
                None => self.over = true,
            }
        }
        // 4n + 1 by frames that go back the way they came.
        if self.seen == 0 || self.given % 4 == 1 {
            return Ok(None);
        }
        let index = mirror_index(self.given, self.seen);
        let back = self.seen.saturating_sub(index).clamp(1, self.last.len());
        Ok(self.last.get(self.last.len() - back).cloned())
    }
}

impl Source for Intake {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        let length = shape.len() / shape.t.max(1);
        for (i, out) in out.chunks_exact_mut(length.max(1)).take(shape.t).enumerate() {
            let Some(frame) = self.next().map_err(|e| SourceError(Box::new(e)))? else { return Ok(i) };
            if frame.len() != out.len() {
                let reason = format!("a frame of {} values where {shape} was planned", frame.len());
                return Err(SourceError(reason.into()));
            }
            out.copy_from_slice(&frame);
            self.given += 1;
        }
        Ok(shape.t)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // A thread that waits to send sees that nobody listens any more.
        drop(self.frames.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn decode(
    mut source: Box<dyn FrameSource>,
    geometry: Geometry,
    to: &SyncSender<Result<Vec<f32>, MediaError>>,
    aside: &Sender<Beside>,
) {
    let mut frame = Frame::new(0, 0, 3);
    loop {
        let prepared = match source.next(&mut frame) {
            Ok(None) => return,
            Ok(Some(pts)) => {
                let (data, alpha) = geometry.prepare(&frame);
                // Sent first, so that it is there when the frame comes out.
                let _ = aside.send(Beside { pts, alpha });
                Ok(data)
            }
            Err(error) => Err(error),
        };
        let failed = prepared.is_err();
        if to.send(prepared).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remaster_media::{Colour, Format, Said, TimeBase};
    use remaster_picture::Layout;

    /// Frames whose first value is their number.
    struct Numbers(usize, usize, Format);

    fn numbers(frames: usize) -> Numbers {
        let layout = Layout::from_name("rgb24").unwrap();
        let format = Format {
            width: 16,
            height: 16,
            layout,
            colour: Colour::new(Said::default(), &layout, [16, 16]),
            hdr: None,
            sample_aspect: [1, 1],
            time_base: TimeBase { num: 1, den: 25 },
            rate: None,
            frames: None,
        };
        Numbers(0, frames, format)
    }

    impl FrameSource for Numbers {
        fn format(&self) -> &Format {
            &self.2
        }
        fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
            if self.0 == self.1 {
                return Ok(None);
            }
            *frame = Frame::new(16, 16, 3);
            frame.data[0] = self.0 as f32;
            self.0 += 1;
            Ok(Some(self.0 as i64))
        }
    }

    fn through(frames: usize) -> Vec<usize> {
        let (mut intake, beside) =
            Intake::start(Box::new(numbers(frames)), Geometry::new([16, 16], Default::default()));
        let mut all = Vec::new();
        loop {
            let mut out = vec![0.0; 4 * 16 * 16 * 3];
            let got = intake.read(Shape::new(4, 16, 16, 3), &mut out).unwrap();
            all.extend(out.chunks(16 * 16 * 3).take(got).map(|f| ((f[0] + 1.0) / 2.0).round() as usize));
            if got < 4 {
                break;
            }
        }
        assert_eq!(intake.seen(), frames);
        drop(intake);
        assert_eq!(beside.iter().count(), frames);
        all
    }

    #[test]
    fn the_end_is_filled_up_with_frames_that_go_back() {
        assert_eq!(through(5), [0, 1, 2, 3, 4]);
        assert_eq!(through(6), [0, 1, 2, 3, 4, 5, 4, 3, 2]);
        assert_eq!(through(8), [0, 1, 2, 3, 4, 5, 6, 7, 6]);
        assert_eq!(through(1), [0]);
        assert_eq!(through(2), [0, 1, 1, 1, 1]);
        assert_eq!(through(0), [0usize; 0]);
    }
}
