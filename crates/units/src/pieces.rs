//! Frames of a unit in pieces, each of which counts as soon as it is in the store.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use remaster_media::{FrameSink, MediaError};
use remaster_picture::Frame;
use remaster_store::{Attempt, Journal, JournalError, Piece, Verdict};

use crate::error::{UnitsError, of_frames};
use crate::input::Watch;

/// Starts a piece in the file that is named.
pub type NewPiece = Box<dyn FnMut(&Path) -> Result<Box<dyn FrameSink>, MediaError> + Send>;

/// Whether to stop behind the piece that was finished.
pub(crate) type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

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
}

/// A piece that is not whole yet.
pub(crate) struct Open {
    number: u32,
    frames: Range<usize>,
    path: PathBuf,
    sink: Box<dyn FrameSink>,
}

impl Pieces {
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
        let own = Piece { plan, unit, piece: number, file, frames, left };
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
        if let Some((number, wanted)) = self.expected.iter().find(|(number, _)| *number == self.next)
            && *wanted != pts
        {
            let reason = format!("frame {number} is shown at {pts}, but was shown at {wanted} when planned");
            return Err(MediaError::Broken { what: "the clock", reason });
        }
        if self.open.is_none() {
            let Some((number, frames)) = self.left.next() else { return Err(not_planned("more")) };
            let path = self.folder.join(format!("piece-{number:06}.nut"));
            let sink = (self.new)(&path)?;
            self.open = Some(Open { number, frames, path, sink });
        }
        if let Some(open) = &mut self.open {
            open.sink.write(frame, pts)?;
        }
        self.next += 1;
        match self.open.take_if(|open| open.frames.end <= self.next) {
            Some(open) => self.close(open),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        match (&self.open, self.left.len()) {
            (None, 0) => Ok(()),
            _ => Err(not_planned("fewer")),
        }
    }
}
