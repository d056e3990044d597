//! What is known about a GPU: which kernels are right and which of them are fastest, and whether a film was made on it. It is
//! kept in the user's cache folder for the card, its driver and limits, and the build of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use remaster_compute::Backend;
use remaster_compute::gpu::{Choices, GpuDevice, Watch};
use serde::{Deserialize, Serialize};

use super::cache;
use super::host::Machine;
use crate::error::{Error, with_causes};

/// Changes when the list of kernels does, or what is checked: what was kept before is then not used.
const VERSION: u32 = 7;
/// The program that checks.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("REMASTER_BUILD"));

/// The kind of error of a device that computed something else than the naive loops.
const WRONG: &str = "device-wrong";

/// What is known about a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The program that found it.
    build: String,
    /// The fastest kernel that is right, by layer.
    pub(crate) kernels: BTreeMap<String, String>,
    /// Kernels that are not used, as `layer: kernel`, and why.
    pub(crate) failed: BTreeMap<String, String>,
    /// Films made on it.
    films: u64,
    /// What it computed wrong during a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrong: Option<String>,
}

/// What is kept, by the fingerprint of card, driver and limits.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    devices: BTreeMap<String, Verdict>,
}

impl Kept {
    /// What this build of the program knows about a GPU.
    fn of(&mut self, device: GpuDevice) -> Verdict {
        let known = self.devices.remove(&key(device)).filter(|verdict| verdict.build == BUILD);
        known.unwrap_or_else(|| Verdict { build: BUILD.into(), ..Verdict::default() })
    }
}

fn file(machine: &Machine) -> Option<PathBuf> {
    Some(machine.cache()?.join("tune.json"))
}

/// A file of another version, or one that is not ours, counts as none.
fn kept(machine: &Machine) -> Kept {
    let kept: Kept = file(machine).map(|file| cache::read(&file)).unwrap_or_default();
    if kept.version == VERSION { kept } else { Kept { version: VERSION, ..Kept::default() } }
}

pub(crate) fn key(device: GpuDevice) -> String {
    format!("{:016x}", device.fingerprint)
}

impl Verdict {
    /// What this build of the program knows about a GPU.
    pub(crate) fn of(device: GpuDevice, machine: &Machine) -> Self {
        kept(machine).of(device)
    }

    /// Changes what is known. The file it is in, if there is a folder for it.
    pub(crate) fn change(
        device: GpuDevice,
        machine: &Machine,
        change: impl FnOnce(&mut Verdict),
    ) -> Result<Option<PathBuf>, Error> {
        let Some(file) = file(machine) else { return Ok(None) };
        let mut kept = kept(machine);
        let mut verdict = kept.of(device);
        change(&mut verdict);
        kept.devices.insert(key(device), verdict);
        cache::write(&file, &serde_json::to_string_pretty(&kept).unwrap_or_default())?;
        Ok(Some(file))
    }

    /// The device with the kernels that are known to be right. Until a film was made on a card, its results are looked at.
    pub(crate) fn apply(&self, device: GpuDevice, tuned: bool) -> GpuDevice {
        let kernels = if tuned { self.kernels.clone() } else { BTreeMap::new() };
        let watch = if self.films == 0 { Watch::Seldom } else { Watch::Never };
        GpuDevice { choices: Choices::new(kernels), watch, ..device }
    }
}

/// Records how a film ended on a device. If it cannot be written, the next run checks the device again.
pub(crate) fn note<T>(backend: &Backend, machine: &Machine, outcome: &Result<T, Error>) {
    let Backend::Gpu(device) = *backend else { return };
    let _ = match outcome {
        Ok(_) => Verdict::change(device, machine, |verdict| verdict.films = verdict.films.saturating_add(1)),
        Err(error) if error.kind() == WRONG => {
            Verdict::change(device, machine, |verdict| verdict.wrong = Some(with_causes(error)))
        }
        Err(_) => return,
    };
}

#[cfg(test)]
mod tests {
    use remaster_compute::ComputeError;

    use super::*;

    #[test]
    fn a_verdict_is_of_a_card_and_a_build() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::this().with("XDG_CACHE_HOME", folder.path());
        let device = GpuDevice { fingerprint: 7, ..GpuDevice::imagined() };
        let other = GpuDevice { fingerprint: 8, ..device };
        assert_eq!(Verdict::of(device, &machine).kernels.len(), 0);
        assert_eq!(Verdict::of(device, &machine).apply(device, true).watch, Watch::Seldom);
        let chosen = |verdict: &mut Verdict| drop(verdict.kernels.insert("conv".into(), "direct".into()));
        let file = Verdict::change(device, &machine, chosen).unwrap().unwrap();
        note(&Backend::Gpu(device), &machine, &Ok(()));
        let known = Verdict::of(device, &machine);
        assert_eq!((known.kernels.len(), known.films), (1, 1));
        assert_eq!(known.apply(device, true).watch, Watch::Never);
        assert_eq!(Verdict::of(other, &machine).kernels.len(), 0);
        let failed =
            Error::from(ComputeError::DeviceWrong { device: "vulkan:0".into(), reason: "off".into() });
        note(&Backend::Gpu(device), &machine, &Err::<(), _>(failed));
        note(&Backend::Gpu(device), &machine, &Err::<(), _>(Error::Interrupted));
        assert!(Verdict::of(device, &machine).wrong.is_some_and(|wrong| wrong.contains("off")));
        // Another build knows nothing, and no more does one that finds a damaged file.
        let text = std::fs::read_to_string(&file).unwrap();
        let many = text.replace("\"films\": 1", &format!("\"films\": {}", u64::MAX));
        std::fs::write(&file, &many).unwrap();
        note(&Backend::Gpu(device), &machine, &Ok(()));
        assert_eq!(Verdict::of(device, &machine).films, u64::MAX);
        std::fs::write(&file, text.replace(BUILD, "0.0.1 other")).unwrap();
        assert_eq!(Verdict::of(device, &machine).kernels.len(), 0);
        std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert_eq!(Verdict::of(device, &machine).kernels.len(), 0);
    }
}
