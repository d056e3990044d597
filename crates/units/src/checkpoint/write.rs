//! Saving the frames of the piece at work while it is encoded.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster_store::{Journal, JournalError, Keeping, StoreError};

use super::pace::{Pace, is_too_slow};
use super::progress::Progress;
use super::{CHUNK, Checkpoints, TIME, frame_bytes, name, usable_room};
use crate::input::Watch;

/// Saves frames of one piece after the other.
pub(crate) struct Writer {
    journal: Journal,
    unit: u32,
    how: Checkpoints,
    /// What was made of another film than the one that is watched is not saved.
    watch: Watch,
    progress: Arc<Progress>,
    pace: Pace,
    piece: Piece,
    /// The checkpoint on its way into the store, and the frame behind its last one.
    in_flight: Option<(Keeping, usize)>,
    /// A failure was told of.
    has_warned: bool,
}

/// The piece at work.
struct Piece {
    frames: Range<usize>,
    /// Its frames are saved.
    is_saved: bool,
    /// Checkpoints that it has, and their bytes.
    names: Vec<String>,
    bytes: u64,
    /// What they may take.
    room: u64,
    /// Frames that come into the next checkpoint, numbered as in the film, and its bytes so far.
    next: Range<usize>,
    pending: Vec<u8>,
    /// When the first one came, and how long frames waited for the store since.
    began: Option<Instant>,
    waited: Duration,
    /// When frames were saved last.
    last_saved: Instant,
}

impl Piece {
    fn new(frames: Range<usize>) -> Self {
        Piece {
            frames,
            is_saved: true,
            names: Vec::new(),
            bytes: 0,
            room: 0,
            next: 0..0,
            pending: Vec::new(),
            began: None,
            waited: Duration::ZERO,
            last_saved: Instant::now(),
        }
    }
}

impl Writer {
    pub(crate) fn new(
        journal: Journal,
        unit: u32,
        how: Checkpoints,
        watch: Watch,
        progress: Arc<Progress>,
    ) -> Self {
        Writer {
            journal,
            unit,
            how,
            watch,
            progress,
            pace: Pace::default(),
            piece: Piece::new(0..0),
            in_flight: None,
            has_warned: false,
        }
    }

    /// A piece begins that has checkpoints already, of frames with so many bytes of samples.
    pub(crate) fn begin(&mut self, frames: Range<usize>, saved: &[Range<usize>], samples: usize) {
        self.pace = self.pace.next_piece();
        self.piece = Piece::new(frames);
        self.piece.room = usable_room(self.how.room, self.journal.store().folder());
        self.piece.names = saved.iter().map(name).collect();
        self.piece.bytes = saved.iter().map(|range| range.len() as u64 * frame_bytes(samples)).sum();
    }

    /// The encoder got a frame.
    pub(crate) fn frame(&mut self, number: usize, samples: &[u8], pts: i64) {
        let piece = &mut self.piece;
        let began = *piece.began.get_or_insert_with(Instant::now);
        self.pace.frame(began.elapsed());
        self.look();
        let piece = &mut self.piece;
        if !piece.is_saved {
            return;
        }
        if piece.pending.is_empty() {
            piece.next = number..number;
            // Growing would take twice as much.
            piece.pending.reserve_exact(CHUNK.saturating_add(samples.len() + TIME));
        }
        piece.pending.extend_from_slice(&pts.to_le_bytes());
        piece.pending.extend_from_slice(samples);
        piece.next.end = number + 1;
        if piece.pending.len() >= CHUNK || piece.last_saved.elapsed() >= self.how.every {
            self.save();
        }
    }

    /// Saves what is at hand, and waits for it. False if it is not saved.
    pub(crate) fn flush(&mut self) -> bool {
        self.put();
        self.settle();
        self.piece.is_saved
    }

    /// Whether the run was cancelled, and did not fail.
    pub(crate) fn is_cancelled(&self) -> bool {
        (self.how.is_cancelled)()
    }

    /// The piece is whole and counts: its checkpoints are of no use any more.
    pub(crate) fn end(&mut self) {
        self.piece.is_saved = false;
        self.settle();
        // What cannot be removed goes when the unit is done.
        let _ = self.journal.drop_names(self.unit, &std::mem::take(&mut self.piece.names));
    }

    /// Saves what is at hand if it is worth it and there is room.
    fn save(&mut self) {
        let left = self.piece.frames.end.saturating_sub(self.piece.next.start);
        if !self.pace.is_worth_saving(left, self.how.every) {
            self.stop();
            return;
        }
        let before = Instant::now();
        self.settle();
        self.piece.waited += before.elapsed();
        let worked = self.piece.began.map_or(Duration::ZERO, |began| began.elapsed());
        if is_too_slow(self.piece.waited, worked) {
            let place = self.journal.store().place();
            self.fail(format!("{place} is too slow to save frames as fast as they are made"));
        }
        self.put();
    }

    /// Begins to write what is at hand, as soon as what is on its way has arrived.
    fn put(&mut self) {
        self.settle();
        if self.piece.pending.is_empty() {
            return;
        }
        let bytes = self.piece.bytes.saturating_add(self.piece.pending.len() as u64);
        // Nothing of the film is read here, which may take long: whoever finishes the piece says what is wrong with it.
        if bytes > self.piece.room || !self.watch.is_untouched() {
            self.stop();
            return;
        }
        let piece = &mut self.piece;
        let (name, bytes) = (name(&piece.next), std::mem::take(&mut piece.pending));
        piece.bytes += bytes.len() as u64;
        piece.last_saved = Instant::now();
        match self.journal.keep_soon(self.unit, &name, bytes) {
            Ok(keeping) => self.in_flight = Some((keeping, piece.next.end)),
            Err(error) => self.fail(error.to_string()),
        }
        self.piece.names.push(name);
    }

    /// Looks whether what is on its way has arrived.
    fn look(&mut self) {
        if self.in_flight.as_mut().is_some_and(|(keeping, _)| keeping.is_over()) {
            self.settle();
        }
    }

    /// Waits for what is on its way.
    fn settle(&mut self) {
        let Some((keeping, end)) = self.in_flight.take() else { return };
        match keeping.wait() {
            Ok(()) => self.progress.reach(end),
            Err(error) => {
                self.fail(error.to_string());
                if matches!(error, JournalError::Store(StoreError::Full { .. })) {
                    // The film itself needs the space.
                    self.progress.reach(self.piece.frames.start);
                    let _ = self.journal.drop_names(self.unit, &std::mem::take(&mut self.piece.names));
                }
            }
        }
    }

    /// Saves no more of this piece, and says why.
    fn fail(&mut self, why: String) {
        if !std::mem::replace(&mut self.has_warned, true) {
            let text = format!("frames that come next are not saved, and a stop would lose them: {why}");
            self.progress.warn(text);
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.piece.is_saved = false;
        self.piece.pending = Vec::new();
    }
}
