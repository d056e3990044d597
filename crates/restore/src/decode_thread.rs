//! Frames of a clip for the engine: decoded and prepared in a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use remaster_compute::Shape;
use remaster_engine::{Source, SourceError};
use remaster_media::{FrameSource, MediaError};
use remaster_picture::Frame;

use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::tail::{Tail, read_frames};

/// Prepared frames that wait for the engine. Two keep it busy; a slice is read at once.
pub(crate) const WAITING: usize = 4;

/// Opens a clip again, from its first frame.
pub type Again<'a> =
    Box<dyn FnMut() -> Result<Box<dyn FrameSource>, Box<dyn std::error::Error + Send + Sync>> + 'a>;

/// Frames of a clip, and how to get them once more.
pub struct Footage<'a> {
    /// The frames.
    pub source: Box<dyn FrameSource>,
    /// `None` for what can only be read once, such as a pipe.
    pub again: Option<Again<'a>>,
}

/// The clip from its first frame again.
pub(crate) fn reopened(again: &mut Option<Again<'_>>) -> Result<Box<dyn FrameSource>, SourceError> {
    match again {
        Some(again) => again().map_err(SourceError),
        None => Err(SourceError("a pipe cannot be read twice".into())),
    }
}

impl From<Box<dyn FrameSource>> for Footage<'_> {
    fn from(source: Box<dyn FrameSource>) -> Self {
        Footage { source, again: None }
    }
}

/// What a frame has beside its colours.
pub(crate) struct Beside {
    pub(crate) pts: i64,
    pub(crate) alpha: Option<Vec<f32>>,
}

/// Where the thread sends what does not go through the network.
struct Aside {
    to: Sender<Beside>,
    /// Frames it was sent for.
    sent: usize,
}

/// The engine's end of the decoding thread.
pub(crate) struct DecodeThread<'a> {
    geometry: Geometry,
    again: Option<Again<'a>>,
    frames: Option<Receiver<Result<Vec<f32>, MediaError>>>,
    thread: Option<JoinHandle<Option<Aside>>>,
    tail: Tail,
    /// Frames that came, for who has no thread at hand.
    seen: Arc<AtomicUsize>,
    over: bool,
}

impl<'a> DecodeThread<'a> {
    /// Starts to decode. What does not go through the network comes out at the other end, where it must be taken as
    /// frames are: never more of it waits than there are frames on their way.
    pub(crate) fn start(footage: Footage<'a>, geometry: Geometry) -> (Self, Receiver<Beside>) {
        let (to, beside) = channel();
        let mut decoding = DecodeThread {
            geometry,
            again: footage.again,
            frames: None,
            thread: None,
            tail: Tail::default(),
            seen: Arc::default(),
            over: false,
        };
        decoding.run(footage.source, Some(Aside { to, sent: 0 }), 0);
        (decoding, beside)
    }

    /// Decodes from frame `skip` on.
    fn run(&mut self, source: Box<dyn FrameSource>, aside: Option<Aside>, skip: usize) {
        let (to, frames) = sync_channel(WAITING);
        let geometry = self.geometry;
        self.thread = Some(std::thread::spawn(move || decode(source, geometry, skip, &to, aside)));
        self.frames = Some(frames);
        (self.tail, self.over) = (Tail::at(skip), false);
        self.seen.store(skip, Relaxed);
    }

    /// Ends the thread. What it gives back is there if it did not come to the end of the clip.
    fn stop(&mut self) -> Option<Aside> {
        // A thread that waits to send sees that the receiver is gone.
        drop(self.frames.take());
        self.thread.take().and_then(|thread| thread.join().ok()).flatten()
    }

    /// Counts the frames of the clip so far, without what fills up its end.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + use<> {
        let seen = Arc::clone(&self.seen);
        move || seen.load(Relaxed)
    }

    fn next(&mut self) -> Result<Option<Arc<Vec<f32>>>, SourceError> {
        if !self.over {
            match self.frames.as_ref().and_then(|f| f.recv().ok()) {
                Some(Ok(frame)) => {
                    self.seen.fetch_add(1, Relaxed);
                    return Ok(Some(self.tail.push(frame)));
                }
                Some(Err(error)) => return Err(SourceError(Box::new(PipelineError::from(error)))),
                None => self.over = true,
            }
        }
        Ok(self.tail.fill())
    }
}

impl Source for DecodeThread<'_> {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        read_frames("frame", shape, out, || self.next())
    }

    /// Decodes from the start again: times and alpha of frames that went out before are not sent twice.
    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        let source = reopened(&mut self.again)?;
        let aside = self.stop();
        // The end of a clip needs the last frames before it.
        self.run(source, aside, frame.saturating_sub(Tail::LENGTH));
        while self.tail.given < frame {
            if self.next()?.is_none() || self.over {
                let reason = format!("it had {frame} frames and now has {}", self.tail.seen);
                return Err(SourceError(reason.into()));
            }
        }
        Ok(())
    }
}

impl Drop for DecodeThread<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread. Gives `aside` back if it was stopped before the end of the clip.
fn decode(
    mut source: Box<dyn FrameSource>,
    geometry: Geometry,
    skip: usize,
    to: &SyncSender<Result<Vec<f32>, MediaError>>,
    mut aside: Option<Aside>,
) -> Option<Aside> {
    let mut frame = Frame::new(0, 0, 3);
    for number in 0.. {
        let prepared = match source.next(&mut frame) {
            Ok(None) => return None,
            Ok(Some(_)) if number < skip => continue,
            Ok(Some(pts)) => {
                let (data, alpha) = geometry.prepare(&frame);
                // Sent first, so that it is there when the frame comes out.
                if let Some(aside) = aside.as_mut().filter(|a| a.sent == number) {
                    let _ = aside.to.send(Beside { pts, alpha });
                    aside.sent += 1;
                }
                Ok(data)
            }
            Err(error) => Err(error),
        };
        let failed = prepared.is_err();
        if to.send(prepared).is_err() {
            break;
        }
        if failed {
            return None;
        }
    }
    aside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{format, made};
    use remaster_picture::Edges;

    /// Frames whose first value is their number.
    fn numbers(frames: usize) -> Box<dyn FrameSource> {
        made(format("rgb24", [16, 16]), frames, |i| {
            let mut frame = Frame::new(16, 16, 3);
            frame.data[0] = i as f32;
            (frame, i as i64 + 1)
        })
    }

    fn start(footage: Footage<'_>) -> (DecodeThread<'_>, Receiver<Beside>) {
        DecodeThread::start(footage, Geometry::new([16, 16], Default::default(), Edges::Black))
    }

    /// Read again, it has another number of frames.
    fn twice<'a>(first: usize, again: usize) -> Footage<'a> {
        Footage { source: numbers(first), again: Some(Box::new(move || Ok(numbers(again)))) }
    }

    /// Everything that is left, in slices of four.
    fn rest(decoding: &mut DecodeThread<'_>) -> Vec<usize> {
        let mut all = Vec::new();
        loop {
            let mut out = vec![0.0; 4 * 16 * 16 * 3];
            let got = decoding.read(Shape::new(4, 16, 16, 3), &mut out).unwrap();
            all.extend(out.chunks(16 * 16 * 3).take(got).map(|f| ((f[0] + 1.0) / 2.0).round() as usize));
            if got < 4 {
                return all;
            }
        }
    }

    fn through(frames: usize) -> Vec<usize> {
        let (mut decoding, beside) = start(numbers(frames).into());
        let all = rest(&mut decoding);
        assert_eq!(decoding.seen.load(Relaxed), frames);
        assert!(decoding.back_to(0).is_err());
        drop(decoding);
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

    #[test]
    fn a_clip_that_goes_back_is_the_same_and_its_times_come_once() {
        for frames in [1, 2, 6, 8, 23] {
            let whole = through(frames);
            for (read, back) in (0..=whole.len()).flat_map(|r| (0..=r.min(frames)).map(move |b| (r, b))) {
                let (mut decoding, beside) = start(twice(frames, frames));
                let mut out = vec![0.0; read * 16 * 16 * 3];
                assert_eq!(decoding.read(Shape::new(read, 16, 16, 3), &mut out).unwrap(), read);
                decoding.back_to(back).unwrap();
                assert_eq!(rest(&mut decoding), whole[back..], "{frames}: {read} read, back to {back}");
                assert_eq!(decoding.seen.load(Relaxed), frames);
                drop(decoding);
                let times: Vec<i64> = beside.iter().map(|b| b.pts).collect();
                assert_eq!(times, (1..=frames as i64).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_clip_that_got_shorter_is_an_error() {
        for frames in 0..8 {
            let (mut decoding, _beside) = start(twice(9, frames));
            assert!(decoding.back_to(8).is_err(), "{frames}");
        }
    }
}
