//! One unit, from where an earlier attempt was stopped to its commit.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use remaster_media::FrameSink;
use remaster_plan::Windows;
use remaster_restore::{Pool, Unit};
use remaster_store::{Damage, Journal, Notes, Piece, Producer, Verdict};

use crate::checkpoint::{self, Checkpoints, Progress, Stop, Writer};
use crate::error::UnitsError;
use crate::input::Watch;
use crate::kept::Kept;
use crate::pieces::{NewPiece, Pieces};
use crate::plan::FilmPlan;

/// What a worker has.
pub struct Work<'a> {
    /// The store.
    pub journal: &'a Journal,
    /// The plan in it.
    pub plan: &'a FilmPlan,
    /// How the transformer takes long shots.
    pub windows: Windows,
    /// Which frames share a correction of colour.
    pub pool: Pool,
    /// A local folder for the piece at work.
    pub folder: &'a Path,
    /// How often latents are kept.
    pub every: Duration,
    /// Bytes of latents that are kept together at most.
    pub most_kept: u64,
    /// How frames are saved that a network makes one by one; `None` if it makes them of latents, which are saved instead.
    pub checkpoints: Option<Checkpoints>,
    /// How far work is saved.
    pub progress: Arc<Progress>,
    /// Whether to stop behind the next piece.
    pub stop: Stop,
    /// The film that is read.
    pub watch: Watch,
    /// Name of the worker, for messages.
    pub worker: String,
    /// Whose work it is, if that may turn out to be wrong.
    pub producer: Option<Producer>,
    /// Frames are those of the input, as the unit could not be restored.
    pub left: bool,
}

/// What is to be restored.
pub struct Restoring<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// The first frame that is made.
    pub from: usize,
    /// Where frames go.
    pub sink: Box<dyn FrameSink>,
    /// Latents of earlier attempts.
    pub kept: &'a mut Kept,
}

/// How a unit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, by this attempt.
    Done {
        /// Frames that this attempt made; the others were there.
        frames: usize,
    },
    /// Somebody else did it.
    Elsewhere,
}

/// Does a unit that is not done. `restore` makes its frames; `new` starts a piece. What was damaged in the store, and is
/// made again, is added to `damaged`.
pub fn work(
    setup: &Work<'_>,
    index: u32,
    new: NewPiece,
    restore: &mut dyn FnMut(Restoring<'_>) -> Result<(), UnitsError>,
    damaged: &mut Vec<Damage>,
) -> Result<Outcome, UnitsError> {
    let Work { plan, producer, .. } = setup;
    let journal = &setup.journal.made_by(producer.as_ref());
    match journal.commit_of(index) {
        Ok(Some(_)) => return Ok(Outcome::Elsewhere),
        Ok(None) => {}
        Err(error) => {
            damaged.push(Damage::of(index, &format!("the record of unit {index}"), error)?);
            journal.undo(index)?;
        }
    }
    let began = Instant::now();
    damaged.extend(journal.mend(index)?);
    setup.watch.check()?;
    let planned = plan.unit(index)?;
    let unit = &planned.unit;
    let range = unit.frames();
    let pieces = unit.pieces(plan.piece_frames, &setup.windows, setup.pool);
    journal.drop_untrusted(index)?;
    let Usable { pieces: there, mut checkpoints } = usable(journal, index, &pieces, damaged)?;
    let mut attempt = journal.attempt(index)?;
    let (mut todo, mut left) = (Vec::new(), false);
    for (number, frames) in (0u32..).zip(pieces) {
        // Pieces are made in order; one behind a missing one is made again, to the same bytes. Frames that were given up
        // are none for a worker that restores.
        let goes_on = |piece: &&Piece| {
            todo.is_empty() && (setup.left || !piece.left) && journal.inherit(&piece.producers)
        };
        match there.get(&number).filter(goes_on) {
            Some(piece) => {
                left |= piece.left;
                attempt.adopt(piece.file.clone())?;
            }
            None => todo.push((number, frames)),
        }
    }
    left |= setup.left && !todo.is_empty();
    let mut made: usize = todo.iter().map(|(_, frames)| frames.len()).sum();
    let attempt = Arc::new(Mutex::new(attempt));
    if let Some(from) = todo.first().map(|(_, frames)| frames.start) {
        // A worker that was killed when its piece was whole had no time to remove them.
        let old = checkpoints.extract_if(.., |range| range.end <= from).collect::<Vec<_>>();
        journal.drop_names(index, &old.iter().map(checkpoint::name).collect::<Vec<_>>())?;
        let expected = planned.shown.map_or(Vec::new(), |[first, last]| {
            vec![(range.start, first), (range.end.saturating_sub(1), last)]
        });
        let saves = setup.checkpoints.as_ref().filter(|_| !setup.left);
        let writer = saves.map(|how| {
            let (journal, watch) = (journal.clone(), setup.watch.clone());
            Writer::new(journal, index, how.clone(), watch, Arc::clone(&setup.progress))
        });
        let pieces = Pieces {
            journal: journal.clone(),
            attempt: Arc::clone(&attempt),
            unit: index,
            left: todo.into_iter(),
            open: None,
            new,
            folder: setup.folder.to_owned(),
            stop: Arc::clone(&setup.stop),
            watch: setup.watch.clone(),
            expected,
            frames_left: setup.left,
            next: from,
            skip: 0,
            saved: if writer.is_some() { checkpoints } else { Vec::new() },
            writer,
            progress: Arc::clone(&setup.progress),
        };
        let restored = finish(setup, index, pieces, restore, damaged);
        // A film that was replaced is the reason for whatever else went wrong.
        setup.watch.check()?;
        made -= restored?;
    }
    let notes = Notes {
        frames: range.len() as u64,
        worker: setup.worker.clone(),
        milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        left,
    };
    let verdict = attempt.lock().unwrap_or_else(PoisonError::into_inner).commit(notes)?;
    journal.drop_kept(index)?;
    Ok(match verdict {
        Verdict::Won(_) => Outcome::Done { frames: made },
        Verdict::Lost(_) => Outcome::Elsewhere,
    })
}

/// Completes the pieces of a unit: with frames of checkpoints first, and then with those that `restore` makes. Returns how
/// many frames checkpoints had.
fn finish(
    setup: &Work<'_>,
    index: u32,
    mut pieces: Pieces,
    restore: &mut dyn FnMut(Restoring<'_>) -> Result<(), UnitsError>,
    damaged: &mut Vec<Damage>,
) -> Result<usize, UnitsError> {
    let unit = &setup.plan.unit(index)?.unit;
    let first = pieces.next;
    let next = pieces.resume(damaged)?;
    let resumed = next - first;
    if pieces.is_complete() {
        return Ok(resumed);
    }
    // A shot whose colours are matched as a whole is made as a whole.
    let from = unit.start_of(next, setup.pool).max(first);
    pieces.skip = next - from;
    let mut kept = Kept {
        journal: pieces.journal.clone(),
        unit: index,
        every: setup.every,
        last: Instant::now(),
        stop: Arc::clone(&setup.stop),
        watch: setup.watch.clone(),
        most: setup.most_kept,
        progress: Arc::clone(&setup.progress),
    };
    restore(Restoring { unit, from, sink: Box::new(pieces), kept: &mut kept })?;
    Ok(resumed)
}

/// What earlier attempts left of a unit.
struct Usable {
    /// Finished pieces.
    pieces: BTreeMap<u32, Piece>,
    /// Frames of checkpoints.
    checkpoints: Vec<Range<usize>>,
}

/// What earlier attempts left of a unit, as planned. Records of other pieces are removed.
fn usable(
    journal: &Journal,
    index: u32,
    planned: &[Range<usize>],
    damaged: &mut Vec<Damage>,
) -> Result<Usable, UnitsError> {
    let found = journal.pieces(index)?;
    for damage in &found.damaged {
        journal.drop_damaged(damage)?;
    }
    damaged.extend(found.damaged);
    let first = planned.first().map_or(0, |piece| piece.start);
    let end = planned.last().map_or(0, |piece| piece.end);
    let within = |range: &Range<usize>| first <= range.start && range.end <= end;
    let checkpoints = found.others.iter().filter_map(|name| checkpoint::range(name)).filter(within).collect();
    let mut usable = BTreeMap::new();
    for (number, piece) in found.whole {
        if planned.get(number as usize).is_some_and(|frames| frames.len() as u64 == piece.frames) {
            usable.insert(number, piece);
            continue;
        }
        journal.drop_piece(index, number)?;
        let reason = "it has other frames than planned".into();
        damaged.push(Damage { unit: index, key: format!("piece {number} of unit {index}"), reason });
    }
    Ok(Usable { pieces: usable, checkpoints })
}
