//! What is known about a GPU: which kernels are right and which of them are fastest, how much of its work was verified, and
//! whether it computed wrong numbers. It is kept in the user's cache folder for the card, its driver and limits, and the build of
//! the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use remaster_compute::gpu::{GpuDevice, NetworkId};
use remaster_store::Producer;
use serde::{Deserialize, Serialize};

use super::cache;
use super::host::Machine;
use super::lock;
use crate::error::Error;

/// Changes when the list of kernels does, or what is checked: what was kept before is then not used.
const VERSION: u32 = 7;
/// The program that checks.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("REMASTER_BUILD"));

/// Work of one device that does not count, at most: the oldest is forgotten.
const MAX_UNTRUSTED: usize = 16;

/// What is known about a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The program that found it.
    build: String,
    /// The fastest kernel that is right, by layer.
    pub(crate) kernels: BTreeMap<String, String>,
    /// Kernels that are not used, as `layer: kernel`, and why.
    pub(crate) failed: BTreeMap<String, String>,
    /// Products that were computed again and were right, by network and format.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) verified: BTreeMap<String, u64>,
    /// What it computed wrong during a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrong: Option<String>,
    /// Names its work in the records of units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) producer: Option<Producer>,
    /// Names of its work before it was found wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    untrusted: Vec<Producer>,
}

/// What is kept, by the fingerprint of card, driver and limits.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    devices: BTreeMap<String, Verdict>,
}

impl Kept {
    /// A file that is not ours counts as none.
    fn read(file: &Path) -> Self {
        let kept: Kept = cache::read(file);
        if kept.version == VERSION { kept } else { Kept { version: VERSION, ..Kept::default() } }
    }

    /// What is known about a GPU. Another build of the program has other kernels, but a card that computed wrong numbers stays
    /// one that did.
    fn of(&self, key: &str) -> Verdict {
        let known = self.devices.get(key).cloned().unwrap_or_default();
        match known.build == BUILD {
            true => known,
            false => Verdict {
                build: BUILD.into(),
                wrong: known.wrong,
                producer: known.producer,
                untrusted: known.untrusted,
                ..Verdict::default()
            },
        }
    }
}

pub(super) fn file(machine: &Machine) -> Option<PathBuf> {
    Some(machine.cache()?.join("tune.json"))
}

pub(crate) fn key(device: GpuDevice) -> String {
    format!("{:016x}", device.fingerprint)
}

impl Verdict {
    /// What this build of the program knows about a GPU.
    pub(crate) fn of(device: GpuDevice, machine: &Machine) -> Self {
        Self::in_file(file(machine).as_deref(), &key(device))
    }

    pub(super) fn in_file(file: Option<&Path>, key: &str) -> Self {
        file.map(Kept::read).unwrap_or_default().of(key)
    }

    /// Changes what is known. Returns the file it is in, if there is a folder for it.
    pub(crate) fn change(
        device: GpuDevice,
        machine: &Machine,
        change: impl FnOnce(&mut Verdict),
    ) -> Result<Option<PathBuf>, Error> {
        let Some(file) = file(machine) else { return Ok(None) };
        Self::change_in(&file, &key(device), change)?;
        Ok(Some(file))
    }

    /// Changes what a file says, one process after the other. Returns what it says now.
    pub(super) fn change_in(
        file: &Path,
        key: &str,
        change: impl FnOnce(&mut Verdict),
    ) -> Result<Verdict, Error> {
        let _lock = lock::lock(file)?;
        let mut kept = Kept::read(file);
        let mut verdict = kept.of(key);
        change(&mut verdict);
        kept.devices.insert(key.to_owned(), verdict.clone());
        cache::write(file, &serde_json::to_string_pretty(&kept).unwrap_or_default())?;
        Ok(verdict)
    }

    /// Takes note that the device computed wrong numbers: nothing that it made before counts.
    pub(super) fn set_wrong(&mut self, reason: &str, producer: Option<&Producer>) {
        self.wrong.get_or_insert_with(|| reason.to_owned());
        self.verified.clear();
        for producer in self.producer.take().iter().chain(producer) {
            if !self.untrusted.contains(producer) {
                self.untrusted.push(producer.clone());
            }
        }
        let surplus = self.untrusted.len().saturating_sub(MAX_UNTRUSTED);
        self.untrusted.drain(..surplus);
    }

    /// Takes note that the device was checked and is right. It is watched as a new one is.
    pub(crate) fn set_right(&mut self) {
        self.wrong = None;
        self.verified.clear();
    }

    /// Counts a product that is right.
    pub(super) fn add_verified(&mut self, network: NetworkId) {
        if self.wrong.is_none() {
            let count = self.verified.entry(network.to_string()).or_default();
            *count = count.saturating_add(1);
        }
    }
}

/// Names of work on this machine that does not count.
pub(crate) fn untrusted(machine: &Machine) -> BTreeSet<Producer> {
    let kept = file(machine).map(|file| Kept::read(&file)).unwrap_or_default();
    kept.devices.into_values().flat_map(|verdict| verdict.untrusted).collect()
}

#[cfg(test)]
mod tests {
    use super::super::monitor::refuse_wrong;
    use super::*;
    use remaster_compute::DType;

    const NETWORK: NetworkId = NetworkId { name: "encode", values: 9, dtype: DType::F16 };

    fn card(fingerprint: u64) -> GpuDevice {
        GpuDevice { fingerprint, ..GpuDevice::imagined() }
    }

    fn machine() -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::this().with("XDG_CACHE_HOME", folder.path());
        (folder, machine)
    }

    #[test]
    fn a_verdict_is_of_a_card_and_a_build() {
        let (_folder, machine) = machine();
        assert_eq!(Verdict::of(card(7), &machine).kernels.len(), 0);
        let chosen = |verdict: &mut Verdict| {
            verdict.kernels.insert("conv".into(), "direct".into());
            verdict.add_verified(NETWORK);
        };
        let file = Verdict::change(card(7), &machine, chosen).unwrap().unwrap();
        let known = Verdict::of(card(7), &machine);
        assert_eq!((known.kernels.len(), known.verified[&NETWORK.to_string()]), (1, 1));
        assert_eq!(Verdict::of(card(8), &machine).kernels.len(), 0);
        // Another build knows nothing, and no more does one that finds a damaged file.
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(BUILD, "0.0.1 other")).unwrap();
        assert_eq!(Verdict::of(card(7), &machine).kernels.len(), 0);
        std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert_eq!(Verdict::of(card(7), &machine).kernels.len(), 0);
        // A count that cannot grow does not overflow.
        std::fs::write(&file, text.replace("in f16\": 1", &format!("in f16\": {}", u64::MAX))).unwrap();
        Verdict::change(card(7), &machine, chosen).unwrap();
        assert_eq!(Verdict::of(card(7), &machine).verified[&NETWORK.to_string()], u64::MAX);
    }

    #[test]
    fn a_card_that_computed_wrong_numbers_is_refused_until_it_was_found_right() {
        let (_folder, machine) = machine();
        assert!(refuse_wrong(card(7), &machine).is_ok());
        let first = Producer::random();
        let wrong = |verdict: &mut Verdict| {
            verdict.producer = Some(first.clone());
            verdict.add_verified(NETWORK);
            verdict.set_wrong("conv is off", None);
        };
        let file = Verdict::change(card(7), &machine, wrong).unwrap().unwrap();
        let refused = refuse_wrong(card(7), &machine).unwrap_err();
        assert_eq!((refused.kind(), refused.class().exit_code()), ("device-wrong", 5));
        assert!(refused.to_string().contains("conv is off"), "{refused}");
        assert!(refuse_wrong(card(8), &machine).is_ok());
        assert_eq!(untrusted(&machine), BTreeSet::from([first.clone()]));
        // Verified products, tuned kernels and another build of the program change nothing about that.
        let other = |verdict: &mut Verdict| {
            verdict.add_verified(NETWORK);
            verdict.kernels.insert("conv".into(), "direct".into());
        };
        Verdict::change(card(7), &machine, other).unwrap();
        assert!(Verdict::of(card(7), &machine).verified.is_empty());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(BUILD, "0.0.1 other")).unwrap();
        assert!(refuse_wrong(card(7), &machine).is_err());
        // What it made before stays wrong when it is right again.
        Verdict::change(card(7), &machine, Verdict::set_right).unwrap();
        assert!(refuse_wrong(card(7), &machine).is_ok());
        assert_eq!(untrusted(&machine), BTreeSet::from([first]));
    }

    #[test]
    fn a_file_of_an_earlier_release_opens_and_its_refused_card_stays_refused() {
        let (_folder, machine) = machine();
        let file = file(&machine).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = r#"{ "version": 7, "devices": { "0000000000000007": { "build": "0.1.0 aa31a19",
            "kernels": { "conv": "direct" }, "failed": {}, "films": 1, "wrong": "conv is off" } } }"#;
        std::fs::write(&file, text).unwrap();
        assert!(refuse_wrong(card(7), &machine).is_err());
        assert_eq!(Verdict::of(card(7), &machine).kernels.len(), 0);
    }

    #[test]
    fn changes_of_many_at_the_same_time_are_all_kept() {
        let (_folder, machine) = machine();
        std::thread::scope(|scope| {
            for fingerprint in 0..4 {
                let machine = &machine;
                scope.spawn(move || {
                    for _ in 0..25 {
                        Verdict::change(card(fingerprint), machine, |v| v.add_verified(NETWORK)).unwrap();
                    }
                });
            }
        });
        for fingerprint in 0..4 {
            assert_eq!(Verdict::of(card(fingerprint), &machine).verified[&NETWORK.to_string()], 25);
        }
    }
}
