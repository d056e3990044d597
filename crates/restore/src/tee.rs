//! A film that is read once and needed twice: by a network, and a little later by what finishes its frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use remaster_media::{Format, FrameSource, MediaError};
use remaster_picture::Frame;

use crate::decode_thread::{Again, Footage};

/// The footage, and a source of the same frames that has each of them once it was read. Frames wait there until they are
/// taken: no more of them than are on their way through the network. Without `pictures` only their times do, and
/// frames come out empty.
pub(crate) fn tee(footage: Footage<'_>, pictures: bool) -> (Footage<'_>, Box<dyn FrameSource>) {
    let (to, from) = channel();
    let format = footage.source.format().clone();
    let passed: Arc<AtomicUsize> = Arc::default();
    let split = move |source: Box<dyn FrameSource>| -> Box<dyn FrameSource> {
        let (passed, to) = (Arc::clone(&passed), to.clone());
        Box::new(Split { source, read: 0, passed, to, pictures })
    };
    let source = split(footage.source);
    let again = footage.again.map(|mut again| -> Again<'_> { Box::new(move || again().map(&split)) });
    (Footage { source, again }, Box::new(Passed { format, from }))
}

/// The end that is read first.
struct Split {
    source: Box<dyn FrameSource>,
    /// Frames of this source.
    read: usize,
    /// Frames that were passed on, of whatever source: after a lost device the film is read again.
    passed: Arc<AtomicUsize>,
    to: Sender<(i64, Frame)>,
    pictures: bool,
}

impl FrameSource for Split {
    fn format(&self) -> &Format {
        self.source.format()
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let pts = self.source.next(frame)?;
        if let Some(pts) = pts {
            if self.read == self.passed.load(Relaxed) {
                self.passed.fetch_add(1, Relaxed);
                let picture = if self.pictures { frame.clone() } else { Frame::new(0, 0, 3) };
                // If the other end is gone, so is the film.
                let _ = self.to.send((pts, picture));
            }
            self.read += 1;
        }
        Ok(pts)
    }
}

/// The end that follows.
struct Passed {
    format: Format,
    from: Receiver<(i64, Frame)>,
}

impl FrameSource for Passed {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        Ok(self.from.recv().ok().map(|(pts, picture)| {
            *frame = picture;
            pts
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::source;

    #[test]
    fn every_frame_comes_out_once_however_often_the_film_is_read() {
        let frames: Arc<Vec<Frame>> = Arc::new(
            (0..7).map(|i| Frame { width: 3, height: 2, channels: 3, data: vec![i as f32; 18] }).collect(),
        );
        let again = || Ok(source(&frames));
        let footage = Footage { source: source(&frames), again: Some(Box::new(again)) };
        let (mut first, mut second) = tee(footage, true);
        let mut frame = Frame::new(0, 0, 3);
        for _ in 0..3 {
            first.source.next(&mut frame).unwrap();
        }
        let mut again = first.again.as_mut().unwrap()().unwrap();
        while again.next(&mut frame).unwrap().is_some() {}
        drop((again, first));
        for (i, expected) in frames.iter().enumerate() {
            assert_eq!(second.next(&mut frame).unwrap(), Some(i as i64));
            assert_eq!(frame.data, expected.data);
        }
        assert_eq!(second.next(&mut frame).unwrap(), None);
    }
}
