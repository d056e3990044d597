//! Restored frames as frames of a film: colour, strength, alpha, and the encoder, in a thread of its own.

use std::f64::consts::PI;
use std::ops::Range;
use std::path::PathBuf;
use std::slice::{from_mut, from_ref};
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};

use remaster_colour::alpha::{self, AlphaKind, Border};
use remaster_colour::{Mode, ShotStatistics, correct};
use remaster_compute::HostTensor;
use remaster_engine::{Sink, SinkError};
use remaster_media::{FrameSink, FrameSource, MediaError};
use remaster_picture::{Frame, crop, dither};
use remaster_plan::{ShotRange, Windows, first_frame, latent_by, latents_of};
use serde::{Deserialize, Serialize};

use crate::error::RestoreError;
use crate::geometry::Geometry;
use crate::latent_file::Times;
use crate::prepare::reference;
use crate::spool::{Shown, Spool};
use crate::upscale::{Upscale, kind_of};
use crate::worker::Worker;

/// Which frames share one correction of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// Each frame for itself.
    #[default]
    Frame,
    /// The frames of a window.
    Window,
    /// All frames of a shot, by histograms of 65,536 bins.
    Shot,
}

/// How restored frames are finished.
#[derive(Clone, Debug)]
pub struct Finish {
    /// How colours are brought back to those of the input.
    pub colour: Mode,
    /// Over which frames.
    pub pool: Pool,
    /// 0 to 1: how much of what was restored is shown.
    pub strength: f32,
    /// Bits of a sample that is dithered; `None` for rounding.
    pub dither: Option<u32>,
    /// What alpha is fitted with beyond the border of a frame.
    pub border: Border,
    /// Where a pool of whole shots keeps its frames.
    pub folder: PathBuf,
    /// Bytes that these may take.
    pub room: u64,
}

impl Finish {
    /// True if the frames that were restored are shown as they are, so that nothing is compared with the input.
    pub(crate) fn is_plain(&self) -> bool {
        self.colour == Mode::None && self.strength >= 1.0
    }
}

/// A shot whose frames come next.
#[derive(Clone, Debug)]
pub(crate) struct ShotShown {
    /// Frames that are decoded before the first one that is shown.
    pub(crate) early: usize,
    /// Its frames; those that the networks make beyond fill up its end.
    pub(crate) frames: usize,
    /// Of what kind its alpha is.
    pub(crate) alpha: Option<AlphaKind>,
    /// Frames that end a pool of colour, in order; the last one is `frames`.
    pub(crate) pools: Vec<usize>,
    /// First frames that are mixed into the last ones of the shot before.
    pub(crate) overlap: usize,
    /// The next shot may be mixed into its last frames, so they wait for it.
    pub(crate) open: bool,
}

impl ShotShown {
    /// A range of a shot that is mixed with no other.
    pub(crate) fn new(range: &ShotRange, early: usize, alpha: Option<AlphaKind>, windows: &Windows) -> Self {
        let (made, latents) = (&range.made, latents_of(range.shot));
        // A pool goes up to where the next window begins.
        let inside = windows.touching(latents, latent_by(made.start)..latents_of(made.end));
        let ends = inside.map(|w| first_frame(w.start)).filter(|end| made.start < *end && *end < made.end);
        let pools = ends.chain([made.end]).map(|end| end - made.start).collect();
        ShotShown { early, frames: made.len(), alpha, pools, overlap: 0, open: false }
    }

    /// Frames that come one by one, as many as there are.
    pub(crate) fn of_frames() -> Self {
        ShotShown { early: 0, frames: usize::MAX, alpha: None, pools: Vec::new(), overlap: 0, open: false }
    }

    /// Whether a pool is complete with this many frames.
    fn ends(&self, count: usize, pool: Pool) -> bool {
        !self.open && (pool == Pool::Frame || self.pools.contains(&count))
    }
}

enum Message {
    Shot(ShotShown),
    Slice(HostTensor),
    Over,
}

/// The engine's end of the finishing thread.
pub(crate) struct Finisher(Worker<Message, RestoreError>);

impl Finisher {
    /// Starts to finish frames of a geometry, written at a size, each compared with the next one of `input`, and tells when each is shown. If it is known when they should be, an input with other times is an error. `first` is the number of the
    /// first one in its film.
    pub(crate) fn start(
        sink: Box<dyn FrameSink>,
        input: Box<dyn FrameSource>,
        (geometry, shown, upscale): (Geometry, [usize; 2], Option<Upscale>),
        finish: &Finish,
        first: usize,
        expected: Option<Times>,
    ) -> (Self, Receiver<i64>) {
        let (tell, times) = channel();
        let (finish, pending) = (finish.clone(), Vec::new());
        let job = FinishJob {
            sink,
            input,
            geometry,
            shown,
            upscale,
            finish,
            first,
            expected,
            tell,
            pending,
            written: 0,
        };
        (Finisher(Worker::start(RestoreError::Thread, move |from| job.run(&from))), times)
    }

    /// The frames of this shot come next.
    pub(crate) fn shot(&mut self, shot: ShotShown) -> Result<(), RestoreError> {
        self.0.send(Message::Shot(shot))
    }

    /// The next frames of this shot.
    pub(crate) fn frames(&mut self, frames: HostTensor) -> Result<(), RestoreError> {
        self.0.send(Message::Slice(frames))
    }

    /// Waits until everything is written and the file is in its place. Returns its frames.
    pub(crate) fn complete(self) -> Result<usize, RestoreError> {
        self.0.complete(Message::Over)
    }
}

impl Sink for Finisher {
    fn write(&mut self, _first: usize, frames: HostTensor) -> Result<(), SinkError> {
        self.frames(frames).map_err(|error| SinkError(Box::new(error)))
    }
}

/// What the thread works with.
struct FinishJob {
    sink: Box<dyn FrameSink>,
    input: Box<dyn FrameSource>,
    geometry: Geometry,
    /// Columns and rows that are written.
    shown: [usize; 2],
    upscale: Option<Upscale>,
    finish: Finish,
    /// Number of the first frame in the film, from which dithering counts.
    first: usize,
    /// When frames must be shown.
    expected: Option<Times>,
    /// When they are shown. Nobody may listen.
    tell: Sender<i64>,
    /// Frames of a pool that is not complete.
    pending: Vec<Shown>,
    /// Of the whole film.
    written: usize,
}

impl FinishJob {
    fn run(mut self, from: &Receiver<Message>) -> Result<usize, RestoreError> {
        let mut next = from.recv();
        loop {
            match next {
                Ok(Message::Shot(shot)) => next = self.shot(&shot, from)?,
                Ok(Message::Over) => {
                    self.flush()?;
                    self.check_end()?;
                    self.sink.finish()?;
                    return Ok(self.written);
                }
                // Slices belong to shots.
                Ok(Message::Slice(_)) => return Err(RestoreError::Thread("decoding")),
                // Dropped before its end: the sink leaves nothing behind.
                Err(RecvError) => return Err(MediaError::Cancelled.into()),
            }
        }
    }

    /// Takes all frames of a shot; returns what comes behind them.
    fn shot(
        &mut self,
        shot: &ShotShown,
        from: &Receiver<Message>,
    ) -> Result<Result<Message, RecvError>, RestoreError> {
        if shot.overlap == 0 {
            self.flush()?;
        }
        let mut spool = match self.finish.pool {
            Pool::Shot => Some((
                Spool::new(&self.finish.folder, self.finish.room)?,
                ShotStatistics::new(self.finish.colour),
            )),
            Pool::Frame | Pool::Window => None,
        };
        let (mut early, mut count) = (shot.early, 0);
        let behind = loop {
            let mut slice = match from.recv() {
                Ok(Message::Slice(slice)) => slice,
                other => break other,
            };
            let length = (slice.data.len() / slice.shape.t.max(1)).max(1);
            let skip = early.min(slice.shape.t);
            early -= skip;
            // What is beyond the shot's frames filled up its end.
            let frames = slice.data.len() / length;
            let wanted = frames.min(skip.saturating_add(shot.frames.saturating_sub(count)));
            for i in skip..wanted {
                count += 1;
                let picture = self.picture(&mut slice, i * length..(i + 1) * length);
                let frame = self.cut(picture);
                if count <= shot.overlap {
                    self.mix(count - 1, shot.overlap, &frame);
                    if count == shot.overlap {
                        self.flush()?;
                    }
                    continue;
                }
                let shown = self.beside(frame, shot.alpha)?;
                if let Some((spool, statistics)) = &mut spool {
                    statistics.add(&shown.frame, &shown.reference)?;
                    spool.push(&shown)?;
                    continue;
                }
                self.pending.push(shown);
                if shot.ends(count, self.finish.pool) {
                    self.flush()?;
                }
            }
        };
        if let Some((mut spool, statistics)) = spool {
            let maps = statistics.finish();
            while let Some(mut shown) = spool.pop()? {
                maps.apply(&mut shown.frame, &shown.reference)?;
                self.write(shown)?;
            }
        }
        Ok(behind)
    }

    /// The picture that a network made of some values of a slice.
    fn picture(&self, slice: &mut HostTensor, values: Range<usize>) -> Frame {
        if let Some(upscale) = &self.upscale {
            // Slices of an upscaler are single frames, which are large: their memory becomes the picture's.
            let data = match slice.shape.t {
                1 => std::mem::take(&mut slice.data),
                _ => slice.data[values].to_vec(),
            };
            return upscale.output(data, self.geometry.shown);
        }
        let mut frame = Frame::new(0, 0, 3);
        self.geometry.restore(&slice.data[values], None, false, &mut frame);
        frame
    }

    /// The restored frame with the next one of the input.
    fn beside(&mut self, frame: Frame, kind: Option<AlphaKind>) -> Result<Shown, RestoreError> {
        let mut source = Frame::new(0, 0, 3);
        let number = self.first + self.written + self.pending.len();
        let Some(pts) = self.input.next(&mut source)? else {
            return Err(match &self.expected {
                Some(times) => RestoreError::Length { frames: times.frames(), longer: false },
                None => RestoreError::Changed { frame: number },
            });
        };
        if let Some(expected) = self.expected.as_mut().and_then(Iterator::next).transpose()?
            && expected != pts
        {
            return Err(RestoreError::Other { frame: number, pts, expected });
        }
        let alpha = match self.upscale.filter(|_| self.geometry.alpha) {
            // Frames of an upscaler know nothing of each other.
            Some(_) => alpha::plane(&source).map(|plane| {
                let kind = kind_of(&plane);
                (plane, kind)
            }),
            None => kind.and_then(|kind| Some((alpha::plane(&source)?, kind))),
        };
        let reference = match self.upscale.is_some() && self.finish.is_plain() {
            true => Frame::new(0, 0, 3),
            false => self.cut(reference(&self.geometry, &source)),
        };
        Ok(Shown { frame, reference, alpha, pts })
    }

    /// An input that goes on where the latents end is another one.
    fn check_end(&mut self) -> Result<(), RestoreError> {
        if self.expected.is_some() && self.input.next(&mut Frame::new(0, 0, 3))?.is_some() {
            return Err(RestoreError::Length { frames: self.written, longer: true });
        }
        Ok(())
    }

    fn cut(&self, frame: Frame) -> Frame {
        let [width, height] = self.shown;
        if [frame.width, frame.height] == self.shown { frame } else { crop(&frame, width, height) }
    }

    /// Mixes a frame into one of the last `overlap` frames that wait.
    fn mix(&mut self, i: usize, overlap: usize, frame: &Frame) {
        let before = weight_before(i, overlap);
        let at = (self.pending.len() + i).checked_sub(overlap);
        if let Some(shown) = at.and_then(|at| self.pending.get_mut(at)) {
            let values = shown.frame.data.iter_mut().zip(&frame.data);
            values.for_each(|(old, new)| *old = before * *old + (1.0 - before) * new);
        }
    }

    /// Corrects and writes the frames that wait.
    fn flush(&mut self) -> Result<(), RestoreError> {
        let mut frames: Vec<Frame> = Vec::with_capacity(self.pending.len());
        let mut references: Vec<Frame> = Vec::with_capacity(self.pending.len());
        let mut rest = Vec::with_capacity(self.pending.len());
        for Shown { frame, reference, alpha, pts } in self.pending.drain(..) {
            frames.push(frame);
            references.push(reference);
            rest.push((alpha, pts));
        }
        match self.finish.pool {
            _ if self.upscale.is_some() && self.finish.is_plain() => {}
            Pool::Frame => {
                for (frame, reference) in frames.iter_mut().zip(&references) {
                    correct(self.finish.colour, from_mut(frame), from_ref(reference))?;
                }
            }
            Pool::Window | Pool::Shot => correct(self.finish.colour, &mut frames, &references)?,
        }
        for ((frame, reference), (alpha, pts)) in frames.into_iter().zip(references).zip(rest) {
            self.write(Shown { frame, reference, alpha, pts })?;
        }
        Ok(())
    }

    /// Mixes a corrected frame with the input, adds alpha, and hands it to the encoder.
    fn write(&mut self, shown: Shown) -> Result<(), RestoreError> {
        let Shown { mut frame, reference, alpha, pts } = shown;
        let strength = self.finish.strength;
        if strength < 1.0 {
            let values = frame.data.iter_mut().zip(&reference.data);
            values.for_each(|(new, old)| *new = old + strength * (*new - old));
        }
        if let Some((plane, kind)) = alpha {
            let is_whole = [plane.width, plane.height] == [frame.width, frame.height];
            let plane = match self.upscale.is_some_and(|upscale| !upscale.by_network) && is_whole {
                true => plane,
                false => alpha::restore(kind, &plane, &frame, self.finish.border)?,
            };
            frame = alpha::attach(&frame, &plane)?;
        }
        if let Some(bits) = self.finish.dither {
            dither(&mut frame, bits, (self.first + self.written) as u64);
        }
        self.sink.write(&frame, pts)?;
        let _ = self.tell.send(pts);
        self.written += 1;
        Ok(())
    }
}

/// What counts of the batch before, at frame `i` of `overlap` shared ones, as the popular implementation mixes them: a cosine
/// in the middle third, and the ends as they are. One, two and four frames do not mix at all.
pub(crate) fn weight_before(i: usize, overlap: usize) -> f32 {
    if overlap < 3 {
        return if i == 0 { 1.0 } else { 0.0 };
    }
    let t = i as f64 / (overlap - 1) as f64;
    let u = ((t - 1.0 / 3.0) * 3.0).clamp(0.0, 1.0);
    (0.5 + 0.5 * libm::cos(PI * u)) as f32
}
