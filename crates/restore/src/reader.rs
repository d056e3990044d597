//! A film shot by shot: decoded, cut and prepared in a thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use remaster_colour::alpha::{AlphaCount, AlphaKind};
use remaster_compute::Shape;
use remaster_engine::{Source, SourceError};
use remaster_media::{FrameSource, MediaError};
use remaster_picture::Frame;
use remaster_scenes::LOOKAHEAD;

use crate::cuts::{Cuts, Cutter};
use crate::decode_thread::{Again, Footage, reopened};
use crate::error::RestoreError;
use crate::prepare::Prepare;
use crate::tail::{Tail, read_frames};

/// Prepared frames that wait for the encoder. Two keep it busy; a slice is read at once.
const WAITING: usize = 4;

/// Prepared frames in flight at most: those that wait, one at hand, those whose shot is not known yet, and the next one.
pub(crate) const IN_FLIGHT: usize = WAITING + 1 + LOOKAHEAD + 1;

/// With those that fill up the end of a shot, and `repeated` frames of overlapping batches.
pub(crate) fn in_flight(repeated: usize) -> usize {
    IN_FLIGHT + Tail::LENGTH + repeated
}

/// What the thread sends.
enum Item {
    Frame(Vec<f32>),
    /// The frames since the last of these are a shot.
    End(Option<AlphaKind>),
}

type Sent = Result<Item, MediaError>;

/// What is known of a shot when all of it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShotRead {
    /// Its frames, without what fills up its end.
    pub(crate) frames: usize,
    /// Of what kind its alpha is, if it has any.
    pub(crate) alpha: Option<AlphaKind>,
}

/// The engine's end of the decoding thread: the frames of one shot after the other.
pub(crate) struct Reader<'a> {
    prepare: Arc<Prepare>,
    cuts: Cuts,
    again: Option<Again<'a>>,
    items: Option<Receiver<Sent>>,
    thread: Option<JoinHandle<()>>,
    /// The first frame of a shot that was found to be there.
    first: Option<Vec<f32>>,
    /// Of this shot.
    tail: Tail,
    /// Frames of the shots before, repeated ones counted again.
    before: usize,
    /// The end of this shot came.
    over: Option<Option<AlphaKind>>,
    /// Frames of the film so far, for who has no reader at hand.
    count: Arc<AtomicUsize>,
    /// Which frame of its shot the first one is.
    index: usize,
}

impl<'a> Reader<'a> {
    /// Starts to decode; the first frame is number `index` of its shot.
    pub(crate) fn start(footage: Footage<'a>, prepare: Arc<Prepare>, cuts: Cuts, index: usize) -> Self {
        let mut reader = Reader {
            prepare,
            cuts,
            again: footage.again,
            items: None,
            thread: None,
            first: None,
            tail: Tail::default(),
            before: 0,
            over: None,
            count: Arc::default(),
            index,
        };
        reader.run(footage.source, 0);
        reader
    }

    /// Decodes and leaves out the first `skip` frames that would be sent.
    fn run(&mut self, source: Box<dyn FrameSource>, skip: usize) {
        let (to, items) = sync_channel(WAITING);
        let (prepare, cutter) = (Arc::clone(&self.prepare), Cutter::new(&self.cuts));
        let overlap = self.cuts.overlap();
        let before = self.index;
        let mut sender = Sender { to, skip, overlap, alpha: None, before, in_shot: 0, sent: 0, prepare };
        self.thread = Some(std::thread::spawn(move || {
            if let Err(error) = sender.film(source, cutter) {
                let _ = sender.to.send(Err(error));
            }
        }));
        self.items = Some(items);
    }

    fn stop(&mut self) {
        // A thread that waits to send sees that the receiver is gone.
        drop(self.items.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Goes on to the next shot; false at the end of the film.
    pub(crate) fn next_shot(&mut self) -> Result<bool, RestoreError> {
        self.before += self.tail.seen;
        (self.tail, self.over) = (Tail::default(), None);
        self.first = match self.receive()? {
            Some(Item::Frame(frame)) => Some(frame),
            Some(Item::End(_)) | None => None,
        };
        Ok(self.first.is_some())
    }

    /// The shot that was read to its end. Who knows its length reads no further than its last frame.
    pub(crate) fn shot(&mut self) -> Result<ShotRead, RestoreError> {
        if self.over.is_none() {
            match self.receive()? {
                Some(Item::End(alpha)) => self.over = Some(alpha),
                Some(Item::Frame(_)) => {
                    return Err(RestoreError::Changed { frame: self.before + self.tail.seen });
                }
                None => return Err(RestoreError::Thread("decoding")),
            }
        }
        Ok(ShotRead { frames: self.tail.seen, alpha: self.over.flatten() })
    }

    /// Counts the frames of the film so far, without what fills up the ends of shots.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + use<> {
        let count = Arc::clone(&self.count);
        move || count.load(Relaxed)
    }

    /// Number of the first frame of this shot.
    pub(crate) fn position(&self) -> usize {
        self.before
    }

    /// Columns and rows of the frames that it gives.
    pub(crate) fn taken(&self) -> [usize; 2] {
        self.prepare.taken()
    }

    /// The next frame of this shot, for who takes single frames.
    pub(crate) fn frame(&mut self) -> Result<Option<Vec<f32>>, RestoreError> {
        Ok(self.next()?.map(Arc::unwrap_or_clone))
    }

    fn receive(&mut self) -> Result<Option<Item>, RestoreError> {
        match self.items.as_ref().and_then(|items| items.recv().ok()) {
            Some(Ok(item)) => Ok(Some(item)),
            Some(Err(error)) => Err(error.into()),
            None => Ok(None),
        }
    }

    fn next(&mut self) -> Result<Option<Arc<Vec<f32>>>, RestoreError> {
        if self.over.is_none() {
            let item = match self.first.take() {
                Some(frame) => Some(Item::Frame(frame)),
                None => self.receive()?,
            };
            match item {
                Some(Item::Frame(frame)) => {
                    // An upscaler takes any number of frames, so nothing fills up the end.
                    let frame = match self.prepare.upscale {
                        Some(_) => self.tail.pass(frame),
                        None => self.tail.push(frame),
                    };
                    self.count.store(self.before + self.tail.seen, Relaxed);
                    return Ok(Some(frame));
                }
                Some(Item::End(alpha)) => self.over = Some(alpha),
                // The thread says where a shot ends, or why it cannot; it did neither.
                None => return Err(RestoreError::Thread("decoding")),
            }
        }
        Ok(if self.prepare.upscale.is_some() { None } else { self.tail.fill() })
    }
}

impl Source for Reader<'_> {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        read_frames("frame", shape, out, || self.next().map_err(|e| SourceError(Box::new(e))))
    }

    /// Decodes from the start of the film again: where it was cut depends on all of it.
    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        let source = reopened(&mut self.again)?;
        self.stop();
        // The end of a shot needs the last frames before it.
        let start = frame.saturating_sub(Tail::LENGTH);
        (self.tail, self.over, self.first) = (Tail::at(start), None, None);
        self.run(source, self.before + start);
        while self.tail.given < frame {
            let next = self.next().map_err(|e| SourceError(Box::new(e)))?;
            if next.is_none() || self.over.is_some() {
                let reason = format!("a shot of at least {frame} frames now has {}", self.tail.seen);
                return Err(SourceError(reason.into()));
            }
        }
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread's end.
struct Sender {
    to: SyncSender<Sent>,
    /// Frames that are still to be left out.
    skip: usize,
    /// Frames of a batch that the next one repeats.
    overlap: usize,
    /// Of this shot; `None` without alpha.
    alpha: Option<AlphaCount>,
    /// Frames of this shot that the source does not have.
    before: usize,
    /// Frames of this shot so far.
    in_shot: usize,
    /// Of them, those that were not left out.
    sent: usize,
    prepare: Arc<Prepare>,
}

/// A frame whose shot may not be known yet.
#[derive(Clone)]
struct Waiting {
    data: Arc<Vec<f32>>,
    /// At the size of the input.
    alpha: Option<Arc<Frame>>,
}

/// Nobody listens any more.
struct Gone;

impl Sender {
    fn film(&mut self, mut source: Box<dyn FrameSource>, mut cutter: Cutter) -> Result<(), MediaError> {
        let mut frame = Frame::new(0, 0, 3);
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        // The last frames of a batch, which the next one begins with.
        let mut repeated: VecDeque<Waiting> = VecDeque::new();
        loop {
            let (over, verdicts) = match source.next(&mut frame)? {
                Some(_) => {
                    let (data, alpha) = (self.prepare.frame(&frame), self.prepare.alpha(&frame));
                    waiting.push_back(Waiting { data: Arc::new(data), alpha: alpha.map(Arc::new) });
                    (false, cutter.push(&frame))
                }
                None => (true, cutter.finish()),
            };
            for starts in verdicts {
                let Some(next) = waiting.pop_front() else { break };
                if starts && self.in_shot > 0 {
                    let sent =
                        self.end().and_then(|()| repeated.iter().try_for_each(|f| self.frame(f.clone())));
                    if sent.is_err() {
                        return Ok(());
                    }
                }
                if self.overlap > 0 {
                    repeated.push_back(next.clone());
                    if repeated.len() > self.overlap {
                        repeated.pop_front();
                    }
                }
                if self.frame(next).is_err() {
                    return Ok(());
                }
            }
            if over {
                if self.in_shot > 0 {
                    let _ = self.end();
                }
                return Ok(());
            }
        }
    }

    /// The next frame of the shot.
    fn frame(&mut self, frame: Waiting) -> Result<(), Gone> {
        let index = self.before + self.in_shot;
        self.in_shot += 1;
        if let Some(plane) = &frame.alpha {
            self.alpha.get_or_insert_default().add(plane);
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        self.sent += 1;
        // Only frames that are repeated are kept elsewhere too.
        let mut data = Arc::unwrap_or_clone(frame.data);
        self.prepare.noise(index, &mut data);
        self.to.send(Ok(Item::Frame(data))).map_err(|_| Gone)
    }

    /// The shot is over.
    fn end(&mut self) -> Result<(), Gone> {
        let alpha = self.alpha.take().map(AlphaCount::kind);
        let sent = std::mem::take(&mut self.sent);
        (self.before, self.in_shot) = (0, 0);
        if sent == 0 {
            return Ok(());
        }
        self.to.send(Ok(Item::End(alpha))).map_err(|_| Gone)
    }
}
