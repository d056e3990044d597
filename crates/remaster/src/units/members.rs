//! The devices of a run that uses several: checked before anything else, each with its share of the machine.

use std::ffi::OsString;
use std::path::Path;

use remaster_compute::Backend;

use super::scheduler::Named;
use crate::device::Device;
use crate::error::{Blame, Error};
use crate::event::Reporter;
use crate::limits::{Amount, Room, process};
use crate::machine::devices::{has_memory, vram_allowed};
use crate::machine::host::Machine;
use crate::request::Request;
use crate::worker::word;

/// One of several devices, and what its process may use.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    name: String,
    /// Its card and driver, if it is a GPU.
    card: Option<u64>,
    ram: u64,
    disk: u64,
    /// Threads of a CPU.
    threads: Option<usize>,
    /// Bytes of a GPU's own memory, where they are known or were given.
    vram: Option<u64>,
}

impl Member {
    pub(super) fn named(&self) -> Named {
        Named { name: self.name.clone(), card: self.card }
    }

    /// Options of its process. `share` is what an attempt gets of the memory; units are cut for the disk.
    pub(super) fn words(&self, share: impl Fn(u64) -> u64) -> Vec<OsString> {
        let mut words = vec![
            word("--device", &self.name),
            word("--ram", share(self.ram).to_string()),
            word("--disk", self.disk.to_string()),
        ];
        words.extend(self.threads.map(|threads| word("--threads", threads.to_string())));
        words.extend(self.vram.map(|bytes| word("--vram", share(bytes).to_string())));
        words
    }
}

/// Refuses names that are no devices of this machine.
pub(crate) fn check(names: &[String], device: &Device, machine: &Machine) -> Result<(), Error> {
    let named = |name: &String| Device { name: Some(name.clone()), ..device.clone() };
    names.iter().try_for_each(|name| named(name).find(machine).map(drop))
}

/// A device, and a word that is the same for devices with the same results.
type Opened = (Backend, String);

/// The devices of a request by name, and how each computes. Those that computed wrong numbers are left out, unless there is no
/// other.
fn opened(
    request: &Request,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Result<(Vec<String>, Vec<Opened>), Error> {
    let how = &request.how;
    let (mut names, mut found, mut refused) = (Vec::new(), Vec::new(), None);
    for name in &request.units.devices {
        let device = Device { name: Some(name.clone()), threads: None, ..how.device.clone() };
        if how.models.has_no_network() {
            names.push(name.clone());
            found.push((device.find(machine)?, "no network".into()));
            continue;
        }
        let backend = device.settle(machine).and_then(|device| {
            let backend = device.tuned_backend(how.models.is_upscaler(), machine, report)?;
            let class = format!("{}, {}", backend.numerics(), device.dtype().name());
            Ok((backend, class))
        });
        match backend {
            Ok(backend) => {
                names.push(name.clone());
                found.push(backend);
            }
            Err(error) if error.blame() == Blame::WrongDevice => {
                report.warn(&error);
                refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok((names, found)),
    }
}

/// A restoration that is planned for its devices: on the first of them, with the share that each gets. Devices whose
/// results differ are refused.
pub(crate) fn shared(
    request: &Request,
    output: &Path,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Result<(Request, Vec<Member>), Error> {
    let how = &request.how;
    let (names, found) = opened(request, machine, report)?;
    let differ = |(_, class): &&(Backend, String)| found.first().is_some_and(|(_, first)| class != first);
    if let Some(other) = found.iter().position(|it| differ(&it)).filter(|_| !request.units.cut.mix_devices) {
        let named = |i: usize| format!("{} ({})", names[i], found[i].1);
        return Err(Error::OtherDevices { first: named(0), second: named(other) });
    }
    let cpus = found.iter().filter(|(backend, _)| matches!(backend, Backend::Cpu { .. })).count();
    let gpus = found.iter().any(|(backend, _)| has_memory(backend));
    if let (Some(_), false) = (how.limits.vram, gpus) {
        return Err(Error::Vram { backend: "cpu" });
    }
    if let (Some(_), 0) = (how.device.threads, cpus) {
        return Err(Error::Threads { backend: "gpu" });
    }
    // This process waits for the others, and holds no network.
    let (ram, disk) = how.limits.resolve(&Room::of_run(machine, Some(output)))?;
    let count = names.len().max(1) as u64;
    let (ram, disk) = (ram.saturating_sub(process(gpus)) / count, disk / count);
    let mut members = Vec::new();
    for (name, (backend, _)) in names.iter().zip(&found) {
        let threads = match backend {
            Backend::Cpu { threads, .. } => {
                Some((how.device.threads.map_or(*threads, usize::from) / cpus.max(1)).max(1))
            }
            _ => None,
        };
        let same = names.iter().filter(|other| *other == name).count().max(1) as u64;
        let vram = vram_allowed(how.limits.vram, backend)?.map(|bytes| bytes / same);
        members.push(Member { name: name.clone(), card: card(backend), ram, disk, threads, vram });
    }
    let mut shared = request.clone();
    shared.units.devices = names.clone();
    let first = members.first();
    let threads = first.and_then(|member| member.threads).and_then(|n| u16::try_from(n).ok());
    shared.how.device = Device { name: names.first().cloned(), threads, ..how.device.clone() };
    shared.how.limits.ram = Amount::Bytes(ram);
    shared.how.limits.disk = Amount::Bytes(disk);
    shared.how.limits.vram = first.and_then(|member| member.vram).map(Amount::Bytes);
    Ok((shared, members))
}

/// What a verdict on a device is about.
fn card(backend: &Backend) -> Option<u64> {
    match backend {
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => Some(device.fingerprint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_with_less_memory_has_less_of_every_memory() {
        let card = Member {
            name: "vulkan:0".into(),
            card: None,
            ram: 8 << 30,
            disk: 64,
            threads: None,
            vram: Some(4 << 30),
        };
        let words = |member: &Member, share: fn(u64) -> u64| {
            let words = member.words(share);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(&card, |bytes| bytes),
            "--device=vulkan:0 --ram=8589934592 --disk=64 --vram=4294967296"
        );
        assert_eq!(
            words(&card, |bytes| bytes / 2),
            "--device=vulkan:0 --ram=4294967296 --disk=64 --vram=2147483648"
        );
        let cpu = Member { name: "cpu".into(), threads: Some(3), vram: None, ..card };
        assert_eq!(words(&cpu, |bytes| bytes), "--device=cpu --ram=8589934592 --disk=64 --threads=3");
    }
}
