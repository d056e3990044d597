//! Finds the fastest kernels of a GPU.

use std::collections::BTreeMap;

use remaster_compute::gpu::{GpuDevice, Timing};
use remaster_compute::{Backend, DType};

use crate::device::Device;
use crate::error::Error;
use crate::event::{Event, Reporter};
use crate::health::Check;
use crate::machine::host::Machine;
use crate::machine::monitor::{monitor, refuse_wrong};
use crate::machine::tune::{Checked, Networks, TIMING, Tuning, apply, check, keep, search, tuned};
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
    refuse_wrong(device, machine)?;
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

/// What a check of a device found. It counts when it is kept.
#[derive(Debug)]
pub struct KernelCheck {
    /// In words.
    pub check: Check,
    device: GpuDevice,
    found: Checked,
}

impl KernelCheck {
    /// Makes it the verdict on the device, in one step. A device that computed wrong numbers in a run is used again if nothing
    /// but kernels that have a right substitute was found wrong and `passed` says the same of all that was checked beside the
    /// kernels; otherwise it stays refused.
    pub fn keep(self, passed: bool, machine: &Machine) -> Result<(), Error> {
        let KernelCheck { check: _, device, found } = self;
        let failed: BTreeMap<String, String> = found.failed().collect();
        let is_right = passed && found.without.is_none();
        Verdict::change(device, machine, |verdict| {
            verdict.failed = failed;
            verdict.kernels.extend(found.chosen);
            if is_right {
                verdict.set_right();
            }
        })?;
        if is_right {
            monitor(device, machine).set_right();
        }
        Ok(())
    }
}

/// Checks the kernels of a GPU anew: each against the naive loops, twice for the same bits, and with guards between its
/// operands. A card is checked and timed for all networks; a software device, which is slow, for those that take frame by frame.
/// An earlier verdict decides nothing here, and stays until the check is kept. After an error nothing was found.
pub fn check_kernels(
    device: GpuDevice,
    dtype: DType,
    machine: &Machine,
    events: &mut dyn FnMut(Event),
) -> Result<KernelCheck, Error> {
    let report = &Reporter::new(events);
    let software = device.info().is_some_and(|info| info.kind == "software");
    let all: &[Networks] =
        if software { &[Networks::Upscalers] } else { &[Networks::Upscalers, Networks::Restoration] };
    let timing = (!software).then_some(TIMING);
    let mut found = Checked::default();
    for networks in all {
        let more = check(device, *networks, dtype, timing, machine, report)?;
        found.rows.extend(more.rows);
        found.chosen.extend(more.chosen);
        found.without = found.without.or(more.without);
    }
    let check = in_words(device, dtype, &found);
    Ok(KernelCheck { check, device, found })
}

fn in_words(device: GpuDevice, dtype: DType, found: &Checked) -> Check {
    if let Err(error) = found.complete(device) {
        return Check::problem("kernels", error.to_string(), "update the driver, or use --device cpu");
    }
    let mut layers: Vec<&str> = found.rows.iter().map(|row| row.layer.as_str()).collect();
    layers.dedup();
    let text = format!("{} kernels of {} layers checked in {dtype}", found.rows.len(), layers.len());
    let failed: BTreeMap<String, String> = found.failed().collect();
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
