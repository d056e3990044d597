//! Checkpoints of frames: what the encoder of the piece at work got so far, in the store. Whoever goes on with the unit
//! hands it to an encoder that starts anew with the piece, so that the bytes are those of a run that was not stopped.
//!
//! A checkpoint is `frames-FIRST-END`, numbered as in the film. It has the time of each frame and its samples, lossless.

mod pace;
mod progress;
mod write;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use remaster_restore::Chain;
use remaster_store::{Damage, Journal, JournalError};

pub use progress::Progress;
pub(crate) use write::Writer;

/// Bytes of a checkpoint, about. A larger frame has one of its own.
const CHUNK: usize = 16 << 20;

/// Bytes of the time of a frame.
const TIME: usize = size_of::<i64>();

/// Returns true when a run has to stop.
pub(crate) type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// How frames are saved.
#[derive(Clone)]
pub struct Checkpoints {
    /// How often.
    pub every: Duration,
    /// Bytes that those of a piece may take in the store.
    pub room: u64,
    /// Whether the run was cancelled: what is at hand is saved then, too. After an error it is not.
    pub is_cancelled: Stop,
}

/// Bytes of a frame with so many bytes of samples in a checkpoint.
pub fn frame_bytes(samples: usize) -> u64 {
    samples as u64 + TIME as u64
}

/// Bytes of memory that checkpoints take: one that is filled, and one on its way into the store.
pub fn memory_bytes(samples: usize) -> u64 {
    (CHUNK as u64).saturating_add(frame_bytes(samples)).saturating_mul(2)
}

/// Bytes of `room` that checkpoints may take in a folder: half of what is free there, as the film needs space, too.
pub fn usable_room(room: u64, folder: Option<&Path>) -> u64 {
    let free = folder.and_then(remaster_disk::free_space);
    free.map_or(room, |free| room.min(free / 2))
}

/// Frames of a unit from `next` on that checkpoints of these names have, without a gap.
pub fn saved_frames(names: &[String], next: usize) -> usize {
    let mut chain = Chain::new(names.iter().filter_map(|name| range(name)).collect());
    let mut end = next;
    while let Some(range) = chain.at(end) {
        end = range.end;
    }
    end - next
}

/// The name of a checkpoint.
pub(crate) fn name(Range { start, end }: &Range<usize>) -> String {
    format!("frames-{start}-{end}")
}

/// The frames that a name promises.
pub(crate) fn range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.strip_prefix("frames-")?.split_once('-')?;
    let range = start.parse().ok()?..end.parse().ok()?;
    // Other ways to write the numbers are not ours.
    (!range.is_empty() && name(&range) == text).then_some(range)
}

/// Frames of a checkpoint at most.
fn max_frames(samples: usize) -> usize {
    CHUNK / (samples + TIME) + 1
}

/// Loads a checkpoint of frames with so many bytes of samples; `None` if it is gone, damaged, or no such checkpoint.
pub(crate) fn load(
    journal: &Journal,
    unit: u32,
    range: &Range<usize>,
    samples: usize,
) -> Result<Option<Vec<u8>>, JournalError> {
    if range.len() > max_frames(samples) {
        return Ok(None);
    }
    let bytes = frame_bytes(samples).saturating_mul(range.len() as u64);
    let loaded = journal.kept(unit, &name(range), bytes)?;
    Ok(loaded.filter(|loaded| loaded.len() as u64 == bytes))
}

/// A checkpoint that could not be used.
pub(crate) fn damage(unit: u32, range: &Range<usize>) -> Damage {
    Damage {
        unit,
        key: format!("checkpoint {} of unit {unit}", name(range)),
        reason: "it is damaged or gone".into(),
    }
}

/// Times and samples of the frames of a checkpoint.
pub(crate) fn frames(bytes: &[u8], samples: usize) -> impl Iterator<Item = (i64, &[u8])> {
    bytes.chunks_exact(samples + TIME).filter_map(|frame| {
        let (time, samples) = frame.split_first_chunk::<TIME>()?;
        Some((i64::from_le_bytes(*time), samples))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_ours_are_none() {
        assert_eq!(range("frames-3-9"), Some(3..9));
        let others = "frames-9-3 frames-3-3 frames-03-9 frames-+3-9 frames-3 frames--3-9 frames-3-9-1 \
            frames-3-99999999999999999999 encoded-3-9 frames-";
        for name in others.split(' ').chain([""]) {
            assert_eq!(range(name), None, "{name}");
        }
    }

    #[test]
    fn frames_count_up_to_the_first_gap() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let saved = names("frames-7-9 frames-0-5 frames-3-7 frames-12-15 encoded-9-12 frames-2-4");
        assert_eq!(saved_frames(&saved, 0), 9);
        assert_eq!(saved_frames(&saved, 8), 1);
        assert_eq!(saved_frames(&saved, 9), 0);
        assert_eq!(saved_frames(&saved, 13), 2);
        assert_eq!(saved_frames(&[], 5), 0);
    }
}
