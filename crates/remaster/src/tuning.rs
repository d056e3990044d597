//! Finds the fastest kernels of a GPU.

use std::collections::BTreeMap;

use remaster_compute::gpu::GpuDevice;
use remaster_compute::{Backend, DType};

use crate::device::Device;
use crate::error::Error;
use crate::event::{Event, Reporter};
use crate::machine::host::Machine;
use crate::machine::tune::{Tuning, apply, keep, key, search, tuned};

/// Which kernels are timed.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The GPU.
    pub device: Device,
    /// Number formats.
    pub dtypes: Vec<DType>,
    /// Rows and columns of the frame.
    pub side: usize,
    /// Runs of each kernel; the fastest counts.
    pub repeat: usize,
}

/// The device with its fastest kernels for a format, which are looked for if they never were.
pub fn tuned_device(
    device: GpuDevice,
    dtype: DType,
    machine: &Machine,
    events: &mut dyn FnMut(Event),
) -> Result<GpuDevice, Error> {
    tuned(device, dtype, machine, &Reporter::new(events))
}

/// Times every kernel for every layer and keeps the fastest. Later runs on the GPU use them.
pub fn tune_device(
    request: &TuneRequest,
    machine: &Machine,
    events: &mut dyn FnMut(Event),
) -> Result<Tuning, Error> {
    let report = &Reporter::new(events);
    let Backend::Gpu(device) = request.device.find(machine)? else {
        return Err(Error::BenchBackend);
    };
    let device = apply(device, false, machine);
    report.say(format_args!("tuning kernels for {device}"));
    let (mut kernels, mut chosen) = (Vec::new(), BTreeMap::new());
    for dtype in &request.dtypes {
        let (rows, best) = search(device, *dtype, None, request.side, request.repeat, report)?;
        kernels.extend(rows);
        chosen.extend(best);
    }
    Ok(Tuning {
        device: device.to_string(),
        fingerprint: key(device),
        side: request.side,
        kernels,
        file: keep(device, &chosen, machine, report),
        chosen,
    })
}
