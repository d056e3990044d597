//! Frames on their way into the engine: filled up to 4n + 1 behind their end, and copied into slices.

use std::collections::VecDeque;
use std::sync::Arc;

use remaster_compute::Shape;
use remaster_engine::SourceError;
use remaster_picture::mirror_index;
use remaster_plan::TIME;

/// The last frames of a clip, which fill up its end by going back the way they came.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    last: VecDeque<Arc<Vec<f32>>>,
    /// Frames of the clip that came.
    pub(crate) seen: usize,
    /// Frames that went on, with those that fill up the end.
    pub(crate) given: usize,
}

impl Tail {
    /// Frames that may be needed again: a clip is at most 3 frames short of 4n + 1.
    pub(crate) const LENGTH: usize = 4;

    /// Of a clip whose next frame is number `frame`.
    pub(crate) fn at(frame: usize) -> Self {
        Tail { last: VecDeque::new(), seen: frame, given: frame }
    }

    /// The next frame of the clip goes on.
    pub(crate) fn push(&mut self, frame: Vec<f32>) -> Arc<Vec<f32>> {
        let frame = self.pass(frame);
        self.last.push_back(Arc::clone(&frame));
        if self.last.len() > Self::LENGTH {
            self.last.pop_front();
        }
        frame
    }

    /// The next frame of a clip whose end is not filled up goes on.
    pub(crate) fn pass(&mut self, frame: Vec<f32>) -> Arc<Vec<f32>> {
        (self.seen, self.given) = (self.seen + 1, self.given + 1);
        Arc::new(frame)
    }

    /// What comes behind the clip; `None` where 4n + 1 is reached, and for a clip of no frames.
    pub(crate) fn fill(&mut self) -> Option<Arc<Vec<f32>>> {
        if self.last.is_empty() || self.given % TIME == 1 {
            return None;
        }
        let back = self.seen.saturating_sub(mirror_index(self.given, self.seen)).clamp(1, self.last.len());
        self.given += 1;
        self.last.get(self.last.len() - back).cloned()
    }
}

/// Fills `out` with the frames or latents that `next` gives, until it has no more. Returns how many there were; `what` they
/// are is for errors.
pub(crate) fn read_frames<T: AsRef<Vec<f32>>>(
    what: &str,
    shape: Shape,
    out: &mut [f32],
    mut next: impl FnMut() -> Result<Option<T>, SourceError>,
) -> Result<usize, SourceError> {
    let length = shape.len() / shape.t.max(1);
    for (i, out) in out.chunks_exact_mut(length.max(1)).take(shape.t).enumerate() {
        let Some(frame) = next()? else { return Ok(i) };
        let frame = frame.as_ref();
        if frame.len() != out.len() {
            let reason = format!("a {what} of {} values where {shape} was planned", frame.len());
            return Err(SourceError(reason.into()));
        }
        out.copy_from_slice(frame);
    }
    Ok(shape.t)
}
