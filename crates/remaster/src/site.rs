//! The device of a run, and what may be used on it.

use std::fmt::Display;
use std::path::Path;

use remaster_compute::Backend;
use remaster_model::Build;

use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::limits::{Limits, Room};
use crate::machine::devices;
use crate::machine::host::Machine;
use crate::machine::spill::Spill;

/// The device of a run, and what may be used on it.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) backend: Backend,
    pub(crate) build: Build,
    pub(crate) spill: Spill,
    pub(crate) limits: Limits,
    pub(crate) machine: Machine,
    pub(crate) control: Control,
}

impl Site {
    /// Opens a device. Kernels of a GPU that was never tuned are timed if there is a `report` to say so.
    pub(crate) fn open(
        device: &Device,
        limits: &Limits,
        room: &Room<'_>,
        control: &Control,
        report: Option<&Reporter<'_>>,
    ) -> Result<Self, Error> {
        let backend = match report {
            Some(report) => device.tuned_backend(room.machine, report)?,
            None => device.backend(room.machine)?,
        };
        if limits.vram.is_some() && !devices::has_memory(&backend) {
            return Err(Error::Vram { backend: backend.name() });
        }
        Ok(Site {
            backend,
            build: device.build(),
            spill: limits.spill(room)?,
            limits: limits.clone(),
            machine: room.machine.clone(),
            control: control.clone(),
        })
    }

    /// What a run is about.
    pub(crate) fn about(&self, model: &str, input: &dyn Display, output: &Path) -> About {
        let (model, input, output) = (model.to_owned(), input.to_string(), output.display().to_string());
        About { device: self.worker(), model, input, output }
    }

    /// Kernels and number format, in words.
    pub(crate) fn worker(&self) -> String {
        format!("{}, {}", self.backend.numerics(), self.build.dtype.name())
    }
}
