//! Where a film is cut: at shots that are found or listed, or into batches.

use remaster_picture::Frame;
use remaster_scenes::{Detector, Shots};

use crate::error::RestoreError;

/// Where a film is cut. Nothing of one part reaches another.
#[derive(Clone, Debug, Default)]
pub enum Cuts {
    /// Where the picture changes.
    #[default]
    Auto,
    /// Nowhere.
    None,
    /// At the frames of a list.
    At(Shots),
    /// Into batches of `size` frames, each of which begins with the last `overlap` frames of the one before.
    Batches {
        /// Frames of a batch.
        size: usize,
        /// Frames that it repeats, fewer than `size`.
        overlap: usize,
    },
}

impl Cuts {
    /// Frames of the film that a list of shots is of, if it says so.
    pub fn listed(&self) -> Option<u64> {
        match self {
            Cuts::At(shots) => shots.frames(),
            Cuts::Auto | Cuts::None | Cuts::Batches { .. } => None,
        }
    }

    /// Frames of a part that the next one repeats.
    pub(crate) fn overlap(&self) -> usize {
        match self {
            Cuts::Batches { size, overlap } => (*overlap).min(size.saturating_sub(1)),
            Cuts::Auto | Cuts::None | Cuts::At(_) => 0,
        }
    }
}

/// Cuts a film that comes frame by frame.
pub struct Cutter {
    cuts: Cuts,
    /// Of [`Cuts::Auto`].
    detector: Box<Detector>,
    frame: u64,
}

impl Cutter {
    /// At the first frame.
    pub fn new(cuts: &Cuts) -> Self {
        Cutter { cuts: cuts.clone(), detector: Box::default(), frame: 0 }
    }

    /// Takes the next frame. Tells what is certain now of the oldest ones: whether each begins a shot.
    pub fn push(&mut self, frame: &Frame) -> Vec<bool> {
        let index = self.frame;
        self.frame += 1;
        match &self.cuts {
            Cuts::Auto => self.detector.push(frame).into_iter().map(|verdict| verdict.cut).collect(),
            Cuts::None => vec![index == 0],
            Cuts::At(shots) => vec![shots.starts_at(index)],
            // The first batch takes `size` new frames, every other one `size - overlap`.
            Cuts::Batches { size, .. } => {
                let (size, overlap) = ((*size).max(1) as u64, self.cuts.overlap() as u64);
                vec![index == 0 || (index >= size && (index - size).is_multiple_of(size - overlap))]
            }
        }
    }

    /// There are no more frames: tells of those that were left.
    pub fn finish(&mut self) -> Vec<bool> {
        // Without frames it has nothing to tell.
        std::mem::take(self.detector.as_mut()).finish().into_iter().map(|verdict| verdict.cut).collect()
    }
}

/// Cuts at these frames, the first of which is 0.
pub(crate) fn cuts_at(starts: Vec<u64>) -> Result<Cuts, RestoreError> {
    if starts.len() < 2 {
        return Ok(Cuts::None);
    }
    // Units have no more shots than lists of shots, and no more frames.
    Ok(Cuts::At(Shots::new(starts, None).map_err(|error| RestoreError::Frames(error.to_string()))?))
}
