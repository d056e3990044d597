//! Finds the fastest kernels of a GPU.

use std::collections::BTreeMap;

use remaster_compute::gpu::{GpuDevice, Timing};
use remaster_compute::{Backend, DType};

use crate::device::Device;
use crate::error::Error;
use crate::event::{Event, Reporter};
use crate::health::Check;
use crate::machine::host::Machine;
use crate::machine::tune::{Networks, TIMING, TunedKernel, Tuning, apply, checked, keep, search, tuned};
use crate::machine::verdict::{Verdict, key};

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
    tuned(device, Networks::Restoration, dtype, machine, &Reporter::new(events))
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
    let timing = Some(Timing { side: request.side, runs: request.repeat });
    for dtype in &request.dtypes {
        for networks in [Networks::Restoration, Networks::Upscalers] {
            let (rows, best) = search(device, networks, *dtype, timing, report)?;
            kernels.extend(rows);
            chosen.extend(best);
        }
    }
    Ok(Tuning {
        device: device.to_string(),
        fingerprint: key(device),
        side: request.side,
        file: keep(device, &kernels, &chosen, machine, report),
        kernels,
        chosen,
    })
}

/// Checks the kernels of a GPU anew: each against the naive loops, twice for the same bits, and with guards between its
/// operands. A card is checked and timed for all networks; a software device, which is slow, for those that take frame by frame.
pub fn check_kernels(
    device: GpuDevice,
    dtype: DType,
    machine: &Machine,
    events: &mut dyn FnMut(Event),
) -> Check {
    let report = &Reporter::new(events);
    let software = device.info().is_some_and(|info| info.kind == "software");
    let all: &[Networks] =
        if software { &[Networks::Upscalers] } else { &[Networks::Upscalers, Networks::Restoration] };
    let timing = (!software).then_some(TIMING);
    // An earlier verdict must not decide this one.
    let _ = Verdict::change(device, machine, |verdict| {
        verdict.wrong = None;
        verdict.failed.clear();
    });
    let mut rows: Vec<TunedKernel> = Vec::new();
    for networks in all {
        match checked(device, *networks, dtype, timing, machine, report) {
            Ok((found, _)) => rows.extend(found),
            Err(error) => {
                return Check::problem(
                    "kernels",
                    error.to_string(),
                    "update the driver, or use --device cpu",
                );
            }
        }
    }
    let mut layers: Vec<&str> = rows.iter().map(|row| row.layer.as_str()).collect();
    layers.dedup();
    let failed = Verdict::of(device, machine).failed;
    let text = format!("{} kernels of {} layers checked in {dtype}", rows.len(), layers.len());
    match failed.len() {
        0 => Check::ok("kernels", format!("{text}: right, the same bits twice, nothing written beyond")),
        n => {
            let named: Vec<String> =
                failed.iter().map(|(kernel, fault)| format!("{kernel} {fault}")).collect();
            let next = "update the driver; until then others are used, or use --device cpu";
            Check::problem("kernels", format!("{text}, {n} of them wrong: {}", named.join("; ")), next)
        }
    }
}
