//! What can compute on this machine, and how much memory a run gets there.

use remaster_compute::Backend;
#[cfg(feature = "gpu")]
use remaster_compute::gpu::{self, GpuInfo};
use remaster_plan::Budget;
use serde::Serialize;

use crate::error::Error;
use crate::limits::{Amount, Held, Limits, Room, process};

/// A device and what it can do.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// As a request names it.
    pub device: String,
    /// As its maker names it.
    pub name: String,
    /// `cpu`, `discrete`, `integrated`, `virtual` or `software`.
    pub kind: &'static str,
    /// Name and version.
    pub driver: String,
    /// False if it lacks something; a note says what.
    pub usable: bool,
    /// In words. Not stable.
    pub notes: Vec<String>,
    /// GPUs only, as are the limits; absent where the driver does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<CardMemory>,
    /// Of its kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<DeviceLimits>,
}

/// Memory of a GPU.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CardMemory {
    /// All of it.
    pub bytes: u64,
    /// What this process may take now; absent where the driver only says how much there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// It is the host's, so that the limit of host memory counts.
    pub shared: bool,
}

/// Limits of a GPU's kernels.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "named as in WebGPU")]
#[non_exhaustive]
pub struct DeviceLimits {
    pub max_binding_bytes: u64,
    pub max_buffer_bytes: u64,
    pub max_bindings: u32,
    pub max_workgroups: u32,
    pub workgroup_memory_bytes: u32,
    pub max_threads: u32,
    pub max_tensor_bytes: u64,
    pub f16_arithmetic: bool,
    pub matrix_units: Vec<String>,
}

/// All devices of this machine.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Devices {
    /// GPUs first.
    pub devices: Vec<DeviceInfo>,
    /// What `auto` means here.
    pub auto: String,
    /// Drivers that did not survive being asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A driver that did not survive being asked for its devices.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// `vulkan`, `dx12` or `metal`.
    pub api: &'static str,
    /// What it did.
    pub reason: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LeftOut { api, reason } = self;
        write!(
            f,
            "the {api} driver {reason} when it was asked for its devices, which are left out; update it"
        )
    }
}

/// Drivers that did not survive being asked in another process, if that was done.
#[cfg(feature = "gpu")]
pub(crate) fn left_out() -> Vec<LeftOut> {
    gpu::unlisted().iter().map(|u| LeftOut { api: u.api.name(), reason: u.reason.clone() }).collect()
}

#[cfg(not(feature = "gpu"))]
pub(crate) fn left_out() -> Vec<LeftOut> {
    Vec::new()
}

/// Lists the devices of this machine.
pub fn devices() -> Devices {
    let mut devices = gpus();
    if let Backend::Cpu { threads, path } = Backend::cpu() {
        devices.push(DeviceInfo {
            device: "cpu".into(),
            name: format!("{threads} threads, kernels {path}"),
            kind: "cpu",
            driver: String::new(),
            usable: true,
            notes: Vec::new(),
            memory: None,
            limits: None,
        });
    }
    Devices { devices, auto: auto(), left_out: left_out() }
}

impl CardMemory {
    /// What a run may take by default. The rest is for other programs, which ask for more while we
    /// run, and for the driver, which keeps kernels and page tables in the same memory. Where only the size
    /// is known, what others hold already has to come out of the headroom too.
    pub fn allowed(&self) -> u64 {
        match self.free_bytes {
            Some(free) => free.saturating_sub((free / 10).max(512 << 20)),
            None => self.bytes.saturating_sub((self.bytes / 4).max(1 << 30)),
        }
    }
}

/// Whether it is a GPU, which may have memory of its own.
pub(crate) fn has_memory(backend: &Backend) -> bool {
    match backend {
        Backend::Cpu { .. } | Backend::Reference => false,
        #[cfg(feature = "gpu")]
        Backend::Gpu(_) => true,
    }
}

/// GPU memory that a run may use, in bytes: as given, or what is free. `None` if the device has no memory of its own or
/// the driver does not report it.
pub(crate) fn vram_allowed(vram: Option<Amount>, backend: &Backend) -> Result<Option<u64>, Error> {
    let own = own(backend).filter(|own| !own.shared);
    match vram.filter(|_| has_memory(backend)) {
        Some(vram) => {
            let (size, free) = (own.map(|m| m.bytes), own.and_then(|m| m.free_bytes));
            vram.resolve("--vram", size, free).map(Some)
        }
        None => Ok(own.map(|own| own.allowed())),
    }
}

/// What is held beside the network on this backend: so many bytes of frames, so many by ffmpeg.
pub(crate) fn held(backend: &Backend, frames: u64, children: u64) -> Held {
    Held { process: process(has_memory(backend)), frames, children }
}

/// What this machine allows a run: asked once, as the answer changes while it runs.
pub(crate) struct Allowance {
    /// Memory of the device.
    own: Option<CardMemory>,
    gpu: bool,
    vram: Option<Amount>,
    ram: u64,
    disk: u64,
}

/// Asks the machine, its disk and the driver.
pub(crate) fn allowance(backend: &Backend, limits: &Limits, room: &Room<'_>) -> Result<Allowance, Error> {
    let (ram, disk) = limits.resolve(room)?;
    Ok(Allowance { own: own(backend), gpu: has_memory(backend), vram: limits.vram, ram, disk })
}

impl Allowance {
    /// What the network may use, beside `held` bytes.
    pub(crate) fn beside(&self, held: u64) -> Result<Budget, Error> {
        let (ram, disk) = (self.ram.saturating_sub(held), self.disk);
        match (self.vram, self.own) {
            (Some(vram), own) => {
                let (size, free) = (own.map(|m| m.bytes), own.and_then(|m| m.free_bytes));
                Ok(Budget::Apart { vram: vram.resolve("--vram", size, free)?, ram, disk })
            }
            // A size alone says little: an old Mesa names 2 GiB whatever the machine has.
            (None, Some(own)) if own.shared => {
                Ok(Budget::Shared { ram: ram.min(own.free_bytes.unwrap_or(u64::MAX)), disk })
            }
            (None, Some(own)) => Ok(Budget::Apart { vram: own.allowed(), ram, disk }),
            (None, None) if self.gpu => Err(Error::UnknownMemory { what: "--vram" }),
            (None, None) => Ok(Budget::Shared { ram, disk }),
        }
    }
}

#[cfg(not(feature = "gpu"))]
fn own(_: &Backend) -> Option<CardMemory> {
    None
}

/// Memory of the device that computes, where it can be asked.
#[cfg(feature = "gpu")]
fn own(backend: &Backend) -> Option<CardMemory> {
    match backend {
        Backend::Gpu(device) => device.info().and_then(|info| memory_of(&info)),
        _ => None,
    }
}

/// Memory of a GPU, where the driver says it.
#[cfg(feature = "gpu")]
pub fn memory_of(info: &GpuInfo) -> Option<CardMemory> {
    let shared = info.shares_memory();
    info.memory.map(|m| CardMemory { bytes: m.size, free_bytes: m.free, shared })
}

#[cfg(not(feature = "gpu"))]
fn auto() -> String {
    "cpu".into()
}

#[cfg(feature = "gpu")]
fn auto() -> String {
    gpu::preferred().map_or("cpu".into(), |d| d.to_string())
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> Vec<DeviceInfo> {
    Vec::new()
}

#[cfg(feature = "gpu")]
fn gpus() -> Vec<DeviceInfo> {
    let of = |info: GpuInfo| {
        let mut notes: Vec<String> =
            info.lacks.iter().map(|l| format!("cannot be used: it has {l}")).collect();
        if info.kind == "software" {
            notes.push("software rendering: correct but slow; `--device auto` never chooses it".into());
        }
        if !info.matrices.is_empty() {
            notes.push(match info.units {
                None => "matrix units not used: the kernels need square ones of 8 or 16, f16 to f32".into(),
                Some(units) => {
                    format!("`remaster tune` can use its {0} x {0} matrix units for f16", units.size)
                }
            });
        }
        DeviceInfo {
            device: info.device.to_string(),
            usable: info.lacks.is_empty(),
            kind: info.kind,
            notes,
            memory: memory_of(&info),
            limits: Some(DeviceLimits {
                max_binding_bytes: info.max_binding,
                max_buffer_bytes: info.max_buffer,
                max_bindings: info.max_bindings,
                max_workgroups: info.max_groups,
                workgroup_memory_bytes: info.shared_memory,
                max_threads: info.max_threads,
                max_tensor_bytes: info.max_operand(),
                f16_arithmetic: info.f16,
                matrix_units: info.matrices,
            }),
            name: info.name,
            driver: info.driver,
        }
    };
    gpu::devices().into_iter().map(of).collect()
}

/// GPUs that can be used, and those that cannot with the reason, in a line each.
pub(crate) fn gpu_names() -> (Vec<String>, Vec<String>) {
    let (mut usable, mut others) = (Vec::new(), Vec::new());
    for d in gpus() {
        let software = if d.kind == "software" { "; software: correct but slow" } else { "" };
        let text = format!("{} {}, {}{software}", d.device, d.name, d.driver);
        match d.usable {
            true => usable.push(text),
            false => others.push(format!("{text} {}", d.notes.join("; "))),
        }
    }
    (usable, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::Machine;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_default_leaves_a_headroom() {
        let of = |bytes, free_bytes| CardMemory { bytes, free_bytes, shared: false };
        assert_eq!(of(24 * GIB, Some(20 * GIB)).allowed(), 18 * GIB);
        assert_eq!(of(8 * GIB, Some(4 * GIB)).allowed(), 7 * GIB / 2);
        assert_eq!(of(8 * GIB, Some(GIB / 4)).allowed(), 0);
        assert_eq!(of(8 * GIB, None).allowed(), 6 * GIB);
        assert_eq!(of(2 * GIB, None).allowed(), GIB);
    }

    #[test]
    fn a_card_has_its_own_budget_and_what_shares_memory_has_not() {
        let limits = Limits { ram: Amount::Bytes(4 * GIB), ..Limits::default() };
        let card = CardMemory { bytes: 8 * GIB, free_bytes: Some(4 * GIB), shared: false };
        let (ram, disk) = limits.resolve(&Room::of_plan(&Machine::this())).unwrap();
        let budget = |own, gpu, vram: Option<&str>| {
            let vram = vram.map(|v| v.parse().unwrap());
            Allowance { own, gpu, vram, ram, disk }.beside(GIB)
        };
        let of = |own, gpu, vram| match budget(own, gpu, vram) {
            Ok(Budget::Apart { vram, ram, .. }) => Ok((Some(vram), ram)),
            Ok(Budget::Shared { ram, .. }) => Ok((None, ram)),
            Err(error) => Err(error.to_string()),
        };
        let (cpu, gpu) = (3 * GIB, 3 * GIB);
        assert_eq!(of(Some(card), true, None), Ok((Some(7 * GIB / 2), gpu)));
        assert_eq!(of(Some(card), true, Some("2G")), Ok((Some(2 * GIB), gpu)));
        assert_eq!(of(Some(card), true, Some("50%")), Ok((Some(4 * GIB), gpu)));
        assert_eq!(of(Some(card), true, Some("-1G")), Ok((Some(3 * GIB), gpu)));
        let shared = CardMemory { shared: true, ..card };
        assert_eq!(of(Some(shared), true, None), Ok((None, gpu)));
        assert_eq!(of(Some(CardMemory { free_bytes: Some(GIB), ..shared }), true, None), Ok((None, GIB)));
        assert_eq!(
            of(Some(CardMemory { bytes: GIB, free_bytes: None, ..shared }), true, None),
            Ok((None, gpu))
        );
        assert_eq!(of(None, false, None), Ok((None, cpu)));
        assert!(of(None, true, None).unwrap_err().contains("--vram"));
    }
}
