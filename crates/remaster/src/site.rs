//! The device of a run, and what may be used on it.

use std::fmt::Display;
use std::path::Path;

use remaster_compute::Backend;
#[cfg(feature = "gpu")]
use remaster_compute::{
    DType,
    gpu::{Choices, GpuDevice},
};
use remaster_model::Build;

use crate::card::Card;
#[cfg(feature = "gpu")]
use crate::card::ceilings::{Ceilings, Table};
use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::event::{About, Reporter};
#[cfg(feature = "gpu")]
use crate::limits::Amount;
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
    /// Opens a device. Kernels of a GPU that were never checked are, if there is a `first` run to say so: whether it is one of
    /// an upscaler, and where to say it.
    pub(crate) fn open(
        device: &Device,
        limits: &Limits,
        room: &Room<'_>,
        control: &Control,
        first: Option<(bool, &Reporter<'_>)>,
    ) -> Result<Self, Error> {
        let backend = match first {
            Some((upscaler, report)) => {
                let backend = device.tuned_backend(upscaler, room.machine, report)?;
                // A run that was told which device to use needs none of them.
                if device.name.as_deref().is_none_or(|name| name == "auto") {
                    devices::left_out().iter().for_each(|left| report.warn(left.to_string()));
                }
                backend
            }
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

    /// A card that is not there and has nothing else to do, in f16 unless another format was asked for. It has the kernels that
    /// its ceilings are for, some of which take scratch.
    #[cfg(feature = "gpu")]
    pub(crate) fn imagined(
        card: &Card,
        device: &Device,
        limits: &Limits,
        room: &Room<'_>,
        control: &Control,
    ) -> Result<Self, Error> {
        let memory = card.memory();
        let vram = match limits.vram {
            Some(vram) => vram.resolve("--vram", Some(memory.bytes), memory.free_bytes)?,
            None => memory.allowed(),
        };
        let build = Build { dtype: device.dtype.unwrap_or(DType::F16), collapse: device.collapse };
        let kernels = Table::built_in().find(card.name).map(Ceilings::choices).unwrap_or_default();
        let device = GpuDevice { choices: Choices::new(kernels), ..GpuDevice::imagined() };
        Ok(Site {
            backend: Backend::Gpu(device),
            build,
            spill: limits.spill(room)?,
            limits: Limits { vram: Some(Amount::Bytes(vram)), ..limits.clone() },
            machine: room.machine.clone(),
            control: control.clone(),
        })
    }

    /// Only builds with a GPU backend know what a card takes.
    #[cfg(not(feature = "gpu"))]
    pub(crate) fn imagined(
        _: &Card,
        _: &Device,
        _: &Limits,
        _: &Room<'_>,
        _: &Control,
    ) -> Result<Self, Error> {
        let reason = "this build has no GPU backend and cannot plan for a card; remove --card".into();
        Err(Error::Device { reason })
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
