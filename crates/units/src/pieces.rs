//! Frames of a unit in pieces, each of which counts as soon as it is in the store.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use remaster_media::{FrameSink, MediaError, SampleSink};
use remaster_picture::Frame;
use remaster_restore::Chain;
use remaster_store::{Attempt, Damage, Journal, JournalError, Piece, Verdict};

use crate::checkpoint::{self, Progress, Stop, Writer};
use crate::error::{UnitsError, of_frames};
use crate::input::Watch;

/// Starts a piece in the file that is named.
pub type NewPiece = Box<dyn FnMut(&Path) -> Result<Box<dyn SampleSink>, MediaError> + Send>;

/// What is done with a piece, for messages.
const KEEP: &str = "keep a finished piece";

/// Writes frames into one piece after the other.
pub(crate) struct Pieces {
    pub(crate) journal: Journal,
    pub(crate) attempt: Arc<Mutex<Attempt>>,
    pub(crate) unit: u32,
    /// Those that are left, with their numbers; the next one first.
    pub(crate) left: std::vec::IntoIter<(u32, Range<usize>)>,
    /// The one at work.
    pub(crate) open: Option<Open>,
    pub(crate) new: NewPiece,
    pub(crate) folder: PathBuf,
    pub(crate) stop: Stop,
    pub(crate) watch: Watch,
    /// Times that frames must have: number and time.
    pub(crate) expected: Vec<(usize, i64)>,
    /// Frames are those of the input.
    pub(crate) frames_left: bool,
    /// Number of the next frame.
    pub(crate) next: usize,
    /// Frames that come although the piece has them already.
    pub(crate) skip: usize,
    /// Checkpoints that an earlier attempt saved.
    pub(crate) saved: Vec<Range<usize>>,
    /// Saves frames of the piece at work, if they are saved.
    pub(crate) writer: Option<Writer>,
    pub(crate) progress: Arc<Progress>,
}

/// A piece that is not whole yet.
pub(crate) struct Open {
    number: u32,
    frames: Range<usize>,
    path: PathBuf,
    sink: Box<dyn SampleSink>,
}

/// A frame on its way into a piece.
enum Content<'a> {
    Frame(&'a Frame),
    /// As its encoder got it before.
    Samples(&'a [u8]),
}

impl Pieces {
    /// Takes the frames that checkpoints have, in order, up to the first one that they do not have: the number of that is
    /// returned. Checkpoints that cannot be used are added to `damaged`.
    pub(crate) fn resume(&mut self, damaged: &mut Vec<Damage>) -> Result<usize, UnitsError> {
        let mut chain = Chain::new(self.saved.clone());
        while let Some(range) = chain.at(self.next) {
            let samples = self.opened()?.sink.frame_bytes();
            let Some(bytes) = checkpoint::load(&self.journal, self.unit, &range, samples)? else {
                damaged.push(checkpoint::damage(self.unit, &range));
                continue;
            };
            let skip = self.next - range.start;
            for (pts, samples) in checkpoint::frames(&bytes, samples).skip(skip) {
                self.put(&Content::Samples(samples), pts)?;
            }
        }
        self.progress.reach(self.next);
        Ok(self.next)
    }

    /// Whether all frames of the unit are in their pieces.
    pub(crate) fn is_complete(&self) -> bool {
        self.open.is_none() && self.left.len() == 0
    }

    /// The piece of the next frame.
    fn opened(&mut self) -> Result<&mut Open, MediaError> {
        if self.open.is_none() {
            let Some((number, frames)) = self.left.next() else { return Err(not_planned("more")) };
            let path = self.folder.join(format!("piece-{number:06}.nut"));
            let sink = (self.new)(&path)?;
            if let Some(writer) = &mut self.writer {
                let within = |range: &&Range<usize>| frames.start <= range.start && range.end <= frames.end;
                let saved: Vec<_> = self.saved.iter().filter(within).cloned().collect();
                writer.begin(frames.clone(), &saved, sink.frame_bytes());
            }
            self.open = Some(Open { number, frames, path, sink });
        }
        self.open.as_mut().ok_or_else(|| not_planned("more"))
    }

    /// The next frame goes into its piece.
    fn put(&mut self, content: &Content<'_>, pts: i64) -> Result<(), MediaError> {
        if let Some((number, wanted)) = self.expected.iter().find(|(number, _)| *number == self.next)
            && *wanted != pts
        {
            let reason = format!("frame {number} is shown at {pts}, but was shown at {wanted} when planned");
            return Err(MediaError::Broken { what: "the clock", reason });
        }
        let number = self.next;
        let open = self.opened()?;
        match content {
            Content::Frame(frame) => open.sink.write(frame, pts)?,
            Content::Samples(samples) => open.sink.write_samples(samples, pts)?,
        }
        self.next += 1;
        if let Some(open) = self.open.take_if(|open| open.frames.end <= number + 1) {
            return self.close(open);
        }
        if let (Content::Frame(_), Some(writer), Some(open)) = (content, &mut self.writer, &self.open) {
            writer.frame(number, open.sink.samples(), pts);
            if (self.stop)() && writer.flush() {
                return Err(MediaError::Cancelled);
            }
        }
        Ok(())
    }

    /// The piece is whole: it goes into the store and counts from then on.
    fn close(&mut self, open: Open) -> Result<(), MediaError> {
        let Open { number, frames, path, sink } = open;
        sink.finish()?;
        let other = |error: UnitsError| std::io::Error::other(error.to_string());
        let same = self.watch.check().map_err(|e| MediaError::Io { doing: KEEP.into(), source: other(e) });
        let kept = same.and_then(|()| {
            self.keep(number, &frames, &path).map_err(|error| of_frames(&error, KEEP, &self.folder))
        });
        // Whether or not it is in the store now, this copy is not needed any more.
        let _ = remaster_disk::remove(&path);
        kept?;
        if let Some(writer) = &mut self.writer {
            writer.end();
        }
        self.progress.reach(frames.end);
        match (self.stop)() {
            true => Err(MediaError::Cancelled),
            false => Ok(()),
        }
    }

    fn keep(&self, number: u32, frames: &Range<usize>, path: &Path) -> Result<(), JournalError> {
        let mut own = self.journal.attempt(self.unit)?;
        let name = format!("piece-{number:06}.nut");
        own.put_file(&name, path)?;
        let Some(file) = own.files().first().cloned() else { return Ok(()) };
        let (plan, unit) = (self.journal.plan().hash(), self.unit);
        let (left, frames) = (self.frames_left, frames.len() as u64);
        let producers = self.journal.producers();
        let own = Piece { plan, unit, piece: number, file, frames, left, producers };
        let counts = match self.journal.keep_piece(&own)? {
            // Somebody leaves the unit at the same time. What was restored is better.
            Verdict::Lost(theirs) if theirs.left && !left => own.file,
            Verdict::Lost(theirs) => theirs.file,
            Verdict::Won(_) => own.file,
        };
        let mut attempt = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        attempt.adopt(counts)
    }
}

fn not_planned(frames: &str) -> MediaError {
    MediaError::Broken { what: "the unit", reason: format!("it has {frames} frames than planned") }
}

impl FrameSink for Pieces {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        self.put(&Content::Frame(frame), pts)
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        if self.is_complete() { Ok(()) } else { Err(not_planned("fewer")) }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.as_mut().filter(|writer| writer.is_cancelled()) {
            writer.flush();
        }
    }
}
