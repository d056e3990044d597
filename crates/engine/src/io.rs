//! Where frames come from and go to, and what is told on the way.

use std::time::Duration;

use remaster_compute::{HostTensor, Shape};
use remaster_plan::Plan;
use thiserror::Error;

/// Why frames could not be read.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

/// Why a result could not be written.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct SinkError(pub Box<dyn std::error::Error + Send + Sync>);

/// Gives frames in order.
pub trait Source {
    /// Fills `out` with the next frames, `[t, h, w, c]`. Fewer than asked for means the end.
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError>;

    /// Goes back: the next frame is number `frame`, counted from 0. For a run whose device was lost.
    fn back_to(&mut self, _frame: usize) -> Result<(), SourceError> {
        Err(SourceError("what comes in cannot be read twice".into()))
    }
}

/// Takes results in order.
pub trait Sink {
    /// The next frames. `first` counts from the start of the clip.
    fn write(&mut self, first: usize, frames: HostTensor) -> Result<(), SinkError>;

    /// Everything was written.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// The run failed or was cancelled: leave nothing behind.
    fn abort(&mut self) {}
}

/// What waits between two networks: results of the first that the second has not taken yet.
pub trait Link: Source + Sink {
    /// Frames that wait.
    fn waiting(&self) -> usize;

    /// Forgets them: they will be made again.
    fn clear(&mut self);
}

/// A clip in memory as a source and a sink.
pub struct MemoryClip {
    /// The frames.
    pub clip: HostTensor,
    position: usize,
}

impl MemoryClip {
    /// Reads from `clip`.
    pub fn source(clip: HostTensor) -> Self {
        MemoryClip { clip, position: 0 }
    }

    /// Collects what is written.
    pub fn sink() -> Self {
        MemoryClip::source(HostTensor::zeros(Shape::new(0, 0, 0, 0)))
    }

    /// Goes on with frame `position`.
    pub fn seek(&mut self, position: usize) {
        self.position = position;
    }
}

impl Source for MemoryClip {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        let frames = shape.t.min(self.clip.shape.t.saturating_sub(self.position));
        let values = self.clip.frames(self.position..self.position + frames);
        match out.get_mut(..values.len()) {
            Some(out) => out.copy_from_slice(values),
            None => {
                let reason = format!("frames of {} asked for as {shape}", self.clip.shape);
                return Err(SourceError(reason.into()));
            }
        }
        self.position += frames;
        Ok(frames)
    }

    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        self.seek(frame);
        Ok(())
    }
}

impl Sink for MemoryClip {
    fn write(&mut self, _first: usize, frames: HostTensor) -> Result<(), SinkError> {
        if self.clip.data.is_empty() {
            self.clip = frames;
            return Ok(());
        }
        self.clip.shape = Shape { t: self.clip.shape.t + frames.shape.t, ..frames.shape };
        self.clip.data.extend_from_slice(&frames.data);
        Ok(())
    }

    fn abort(&mut self) {
        self.clip = HostTensor::zeros(Shape::new(0, 0, 0, 0));
    }
}

/// What happens in a run, in order.
#[derive(Debug)]
pub enum Event<'a> {
    /// This will be done. Comes again when a run is planned anew.
    Planned(&'a Plan),
    /// Weights are on the device, or will come one by one.
    Loaded,
    /// A slice begins.
    SliceStarted {
        /// Name of the network.
        network: &'static str,
        /// Its number.
        slice: usize,
        /// How many there are.
        of: usize,
        /// Input frames that went before.
        done: usize,
        /// Input frames of this slice.
        frames: usize,
    },
    /// The network is at work on a slice.
    Working {
        /// Name of the network.
        network: &'static str,
        /// Multiply-adds that were done.
        done: u64,
        /// About how many there are.
        of: u64,
    },
    /// A tile of the slice is done.
    TileDone {
        /// Name of the network.
        network: &'static str,
        /// Its number.
        tile: usize,
        /// How many there are.
        of: usize,
    },
    /// A slice was written.
    SliceDone {
        /// Name of the network.
        network: &'static str,
        /// Its number.
        slice: usize,
        /// Frames of the picture in it. Frames that are made again do not count.
        frames: usize,
        /// Output frames written so far.
        written: usize,
        /// How long the network computed: source and sink were not waited for.
        busy: Duration,
        /// Bytes on the device at most so far.
        device_peak: u64,
    },
    /// A film was read to its end and has this many frames.
    Counted(usize),
    /// All frames are made; what was written is completed and checked.
    Finishing,
    /// Something a person should know.
    Warning(&'a str),
    /// Everything was written.
    Done(&'a Summary),
}

/// Who is told what happens in a run.
pub type Events<'a> = &'a mut dyn FnMut(Event<'_>);

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Result frames.
    pub frames: usize,
    /// The most bytes in use on the device.
    pub device_peak: u64,
    /// The most bytes of tensors in host memory, beside the device.
    pub host_peak: u64,
    /// The most bytes in the spill file.
    pub disk_peak: u64,
}
