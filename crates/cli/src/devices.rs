//! `remaster devices`: what can compute on this machine.

use remaster_compute::Backend;
use remaster_plan::Budget;
use serde::Serialize;

use crate::error::CliError;
use crate::memory::{Amount, MemoryArgs};
use crate::output::Output;

/// A device and what it can do.
#[derive(Debug, Serialize)]
struct Device {
    /// For `--device`.
    device: String,
    name: String,
    kind: &'static str,
    driver: String,
    usable: bool,
    /// In words, for people. Not stable.
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
}

#[derive(Debug, Serialize)]
struct Limits {
    max_binding_bytes: u64,
    max_buffer_bytes: u64,
    max_bindings: u32,
    max_workgroups: u32,
    workgroup_memory_bytes: u32,
    max_threads: u32,
    max_tensor_bytes: u64,
    f16_arithmetic: bool,
    matrix_units: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<Device>,
    /// What `--device auto` means here.
    auto: String,
}

pub(crate) fn run(out: &Output) -> Result<(), CliError> {
    let mut devices = gpus();
    if let Backend::Cpu { threads, path } = Backend::cpu() {
        devices.push(Device {
            device: "cpu".into(),
            name: format!("{threads} threads, kernels {path}"),
            kind: "cpu",
            driver: String::new(),
            usable: true,
            notes: vec!["f32, bf16 and f16 storage".into()],
            limits: None,
        });
    }
    let report = Report { devices, auto: auto() };
    out.result(&report, || describe(&report));
    Ok(())
}

/// Whether a device may have memory of its own.
pub(crate) fn has_memory(backend: &Backend) -> bool {
    match backend {
        Backend::Cpu { .. } | Backend::Reference => false,
        #[cfg(feature = "gpu")]
        Backend::Gpu(_) => true,
    }
}

/// What a run may use, when the process holds `held` bytes beside it. A software GPU computes in host
/// memory; how much a real one has free its driver does not tell us, so it has to be said.
pub(crate) fn budget(
    backend: &Backend,
    memory: &MemoryArgs,
    vram: Option<Amount>,
    held: u64,
) -> Result<Budget, CliError> {
    match (vram, backend) {
        (Some(vram), _) => memory.apart(vram),
        #[cfg(feature = "gpu")]
        (None, Backend::Gpu(device)) => {
            let software = |d: &remaster_compute::gpu::GpuInfo| d.device == *device && d.kind == "software";
            match remaster_compute::gpu::devices().iter().any(software) {
                true => memory.shared(held),
                false => Err(CliError::UnknownMemory { what: "--vram" }),
            }
        }
        _ => memory.shared(held),
    }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> Vec<Device> {
    Vec::new()
}

#[cfg(not(feature = "gpu"))]
fn auto() -> String {
    "cpu".into()
}

#[cfg(feature = "gpu")]
fn auto() -> String {
    remaster_compute::gpu::preferred().map_or("cpu".into(), |d| d.to_string())
}

#[cfg(feature = "gpu")]
fn gpus() -> Vec<Device> {
    let of = |info: remaster_compute::gpu::GpuInfo| {
        let mut notes: Vec<String> =
            info.lacks.iter().map(|l| format!("cannot be used: it has {l}")).collect();
        if info.kind == "software" {
            notes.push(
                "a processor that plays a GPU: right numbers, slow; --device auto never takes it".into(),
            );
        }
        notes.push("f32, bf16 and f16 storage; sums are f32".into());
        notes.push(match info.f16 {
            true => "16-bit arithmetic: yes".into(),
            false => "16-bit arithmetic: no, and none is needed".into(),
        });
        notes.push(match (info.matrices.is_empty(), info.units) {
            (true, _) => "matrix units: none that the driver offers".into(),
            (false, None) => format!(
                "matrix units: {}; the kernels need square ones of 8 or 16 with f16 products and f32 sums",
                info.matrices.join(", ")
            ),
            (false, Some(units)) => format!(
                "matrix units: {}; `remaster tune` tries the ones of {} for f16",
                info.matrices.join(", "),
                units.size
            ),
        });
        Device {
            device: info.device.to_string(),
            usable: info.lacks.is_empty(),
            kind: info.kind,
            notes,
            limits: Some(Limits {
                max_binding_bytes: info.max_binding,
                max_buffer_bytes: info.max_buffer,
                max_bindings: info.max_bindings,
                max_workgroups: info.max_groups,
                workgroup_memory_bytes: info.shared_memory,
                max_threads: info.max_threads,
                max_tensor_bytes: info.max_operand(),
                f16_arithmetic: info.f16,
                matrix_units: info.matrices.clone(),
            }),
            name: info.name,
            driver: info.driver,
        }
    };
    remaster_compute::gpu::devices().into_iter().map(of).collect()
}

fn describe(report: &Report) -> String {
    let mib = |n: u64| format!("{:.0} MiB", n as f64 / 1048576.0);
    let mut text = String::new();
    for d in &report.devices {
        text += &format!("{:10} {} ({})\n", d.device, d.name, d.kind);
        if !d.driver.is_empty() {
            text += &format!("           driver: {}\n", d.driver);
        }
        if let Some(l) = &d.limits {
            text += &format!(
                "           a tensor: up to {} in {} windows of {}; {} groups a dispatch, {} KiB a group\n",
                mib(l.max_tensor_bytes),
                l.max_bindings,
                mib(l.max_binding_bytes),
                l.max_workgroups,
                l.workgroup_memory_bytes / 1024,
            );
        }
        for note in &d.notes {
            text += &format!("           {note}\n");
        }
    }
    text + &format!("--device auto is {}\n", report.auto)
}
