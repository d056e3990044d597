//! What frames that are taken one by one go through: a network, or nothing.

use std::time::Instant;

use remaster_compute::{CancelToken, HostTensor, Shape};
use remaster_engine::{ClipRunner, Event, Events};
use remaster_media::MediaError;

use crate::error::RestoreError;
use crate::film::{Done, loaded};
use crate::finish::Finisher;
use crate::planned::Planned;
use crate::reader::Reader;

/// What frames are to go through.
#[derive(Clone, Copy)]
pub(crate) enum Frames<'a> {
    /// A network.
    Network(Planned<'a>),
    /// Nothing, until it is cancelled.
    Unchanged(&'a CancelToken),
}

/// The same, ready for its first shot.
pub(crate) enum Way<'a> {
    Network(Box<ClipRunner<'a>>),
    Unchanged {
        cancel: &'a CancelToken,
        /// Frames so far.
        frames: usize,
    },
}

impl<'a> Way<'a> {
    /// Loads the network, if there is one.
    pub(crate) fn start(
        frames: Frames<'a>,
        done: &mut Done,
        events: Events<'_>,
    ) -> Result<Self, RestoreError> {
        Ok(match frames {
            Frames::Network(network) => Way::Network(Box::new(loaded(network, done, events)?)),
            Frames::Unchanged(cancel) => Way::Unchanged { cancel, frames: 0 },
        })
    }

    /// Takes the frames of the shot at hand through.
    pub(crate) fn clip(
        &mut self,
        reader: &mut Reader<'_>,
        finisher: &mut Finisher,
        events: Events<'_>,
    ) -> Result<(), RestoreError> {
        match self {
            Way::Network(runner) => {
                runner.clip(reader, finisher, events)?;
            }
            Way::Unchanged { cancel, frames } => {
                let [width, height] = reader.taken();
                let mut began = Instant::now();
                while let Some(data) = reader.frame()? {
                    if cancel.is_cancelled() {
                        return Err(MediaError::Cancelled.into());
                    }
                    let shape = Shape::new(1, height, width, 3);
                    finisher.frames(HostTensor { shape, data })?;
                    *frames += 1;
                    events(Event::SliceDone {
                        network: "frames",
                        slice: *frames - 1,
                        frames: 1,
                        written: *frames,
                        busy: began.elapsed(),
                        device_peak: 0,
                    });
                    began = Instant::now();
                }
            }
        }
        Ok(())
    }
}
