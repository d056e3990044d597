//! Where a film is cut: at shots that are found, that somebody listed, or into batches.

use remaster_picture::Frame;
use remaster_scenes::{Detector, Shots};

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
    /// Frames of a part that the next one repeats.
    pub(crate) fn overlap(&self) -> usize {
        match self {
            Cuts::Batches { size, overlap } => (*overlap).min(size.saturating_sub(1)),
            Cuts::Auto | Cuts::None | Cuts::At(_) => 0,
        }
    }
}

/// What is certain now of the oldest frames: whether each begins a shot.
pub(crate) struct Verdicts {
    pub(crate) starts: Vec<bool>,
    /// There are no more frames.
    pub(crate) over: bool,
}

/// Cuts a film that comes frame by frame.
pub(crate) struct Cutter {
    how: How,
    frame: u64,
}

enum How {
    Detect(Box<Detector>),
    Never,
    At(Shots),
    Batches { size: u64, overlap: u64 },
}

impl Cutter {
    pub(crate) fn new(cuts: &Cuts) -> Self {
        let how = match cuts {
            Cuts::Auto => How::Detect(Box::new(Detector::new())),
            Cuts::None => How::Never,
            Cuts::At(shots) => How::At(shots.clone()),
            Cuts::Batches { size, .. } => {
                How::Batches { size: (*size).max(1) as u64, overlap: cuts.overlap() as u64 }
            }
        };
        Cutter { how, frame: 0 }
    }

    /// Takes the next frame.
    pub(crate) fn push(&mut self, frame: &Frame) -> Verdicts {
        let index = self.frame;
        self.frame += 1;
        let starts = match &mut self.how {
            How::Detect(detector) => detector.push(frame).into_iter().map(|verdict| verdict.cut).collect(),
            How::Never => vec![index == 0],
            How::At(shots) => vec![shots.starts_at(index)],
            // The first batch takes `size` new frames, every other one `size - overlap`.
            How::Batches { size, overlap } => {
                vec![index == 0 || (index >= *size && (index - *size).is_multiple_of(*size - *overlap))]
            }
        };
        Verdicts { starts, over: false }
    }

    /// No more frames.
    pub(crate) fn finish(&mut self) -> Verdicts {
        let starts = match &mut self.how {
            How::Detect(detector) => {
                std::mem::take(detector.as_mut()).finish().into_iter().map(|verdict| verdict.cut).collect()
            }
            How::Never | How::At(_) | How::Batches { .. } => Vec::new(),
        };
        Verdicts { starts, over: true }
    }
}
