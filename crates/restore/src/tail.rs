//! Frames on their way into the engine: filled up to 4n + 1 behind their end, and copied into slices.

use std::collections::VecDeque;
use std::sync::Arc;

use remaster_compute::Shape;
use remaster_engine::SourceError;
use remaster_picture::mirror_index;
use remaster_plan::TIME;

/// The last frames of a clip, which fill up its end by going back the way they came.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<Arc<Vec<f32>>>);

impl Tail {
    /// Frames that may be needed again: a clip is at most 3 frames short of 4n + 1.
    pub(crate) const LENGTH: usize = 4;

    /// Keeps the next frame of the clip.
    pub(crate) fn push(&mut self, frame: &Arc<Vec<f32>>) {
        self.0.push_back(Arc::clone(frame));
        if self.0.len() > Self::LENGTH {
            self.0.pop_front();
        }
    }

    /// Forgets the clip.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What comes behind a clip of `seen` frames of which `given` went on, with those that fill up; `None` where 4n + 1
    /// is reached, and for a clip of no frames.
    pub(crate) fn fill(&self, given: usize, seen: usize) -> Option<Arc<Vec<f32>>> {
        if self.0.is_empty() || given % TIME == 1 {
            return None;
        }
        let back = seen.saturating_sub(mirror_index(given, seen)).clamp(1, self.0.len());
        self.0.get(self.0.len() - back).cloned()
    }
}

/// Fills `out` with the frames that `next` gives, until it has no more. Returns how many there were.
pub(crate) fn read_frames(
    shape: Shape,
    out: &mut [f32],
    mut next: impl FnMut() -> Result<Option<Arc<Vec<f32>>>, SourceError>,
) -> Result<usize, SourceError> {
    let length = shape.len() / shape.t.max(1);
    for (i, out) in out.chunks_exact_mut(length.max(1)).take(shape.t).enumerate() {
        let Some(frame) = next()? else { return Ok(i) };
        if frame.len() != out.len() {
            let reason = format!("a frame of {} values where {shape} was planned", frame.len());
            return Err(SourceError(reason.into()));
        }
        out.copy_from_slice(&frame);
    }
    Ok(shape.t)
}
