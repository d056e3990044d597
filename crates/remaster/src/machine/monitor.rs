//! Remembers in the process that owns a device, and in the user's cache folder, what the watch on the device finds.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;

use remaster_compute::Backend;
use remaster_compute::gpu::{Choices, GpuDevice, Monitor, MonitorRef, NetworkId, Watch};
use remaster_store::Producer;

use super::host::Machine;
use super::verdict::{Verdict, file, key};
use crate::control::lock;
use crate::error::Error;

/// The memory of one device.
pub(crate) struct CardMonitor {
    file: Option<PathBuf>,
    key: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    verified: HashMap<NetworkId, u64>,
    /// What its work is called in this process.
    producer: Option<Producer>,
    /// What could not be kept in the file.
    wrong: Option<String>,
}

impl From<&'static CardMonitor> for MonitorRef {
    fn from(monitor: &'static CardMonitor) -> Self {
        MonitorRef(monitor)
    }
}

/// The monitor of a device. It stays for the rest of the process: devices are copied freely, and there are few.
pub(crate) fn monitor(device: GpuDevice, machine: &Machine) -> &'static CardMonitor {
    static MONITORS: Mutex<Vec<&'static CardMonitor>> = Mutex::new(Vec::new());
    let (file, key) = (file(machine), key(device));
    let mut monitors = lock(&MONITORS);
    if let Some(known) = monitors.iter().find(|known| known.file == file && known.key == key) {
        return known;
    }
    let new: &'static CardMonitor = Box::leak(Box::new(CardMonitor { file, key, state: Mutex::default() }));
    monitors.push(new);
    new
}

impl CardMonitor {
    /// What it computed wrong in this process, if the file does not say it.
    pub(super) fn wrong(&self) -> Option<String> {
        lock(&self.state).wrong.clone()
    }

    /// Forgets what the file does not say any more.
    pub(crate) fn set_right(&self) {
        *lock(&self.state) = State::default();
    }

    /// What the work of the device is called, in this process and in all others until it is found wrong.
    fn producer(&self) -> Producer {
        if let Some(producer) = &lock(&self.state).producer {
            return producer.clone();
        }
        let mut producer = Producer::random();
        if let Some(file) = &self.file {
            let known =
                |verdict: &mut Verdict| producer = verdict.producer.get_or_insert(producer.clone()).clone();
            // Without the file it has a name in this process.
            let _ = Verdict::change_in(file, &self.key, known);
        }
        lock(&self.state).producer.get_or_insert(producer).clone()
    }
}

impl Monitor for CardMonitor {
    fn verified(&self, network: NetworkId) -> u64 {
        if let Some(count) = lock(&self.state).verified.get(&network) {
            return *count;
        }
        let verdict = Verdict::in_file(self.file.as_deref(), &self.key);
        let count = verdict.verified.get(&network.to_string()).copied().unwrap_or(0);
        *lock(&self.state).verified.entry(network).or_insert(count)
    }

    fn add_verified(&self, network: NetworkId) -> Option<String> {
        let before = self.verified(network);
        let file = self.file.as_deref();
        let kept = file.and_then(|file| {
            Verdict::change_in(file, &self.key, |verdict| verdict.add_verified(network)).ok()
        });
        // Other processes count, too.
        let count = kept.as_ref().and_then(|verdict| verdict.verified.get(&network.to_string()).copied());
        lock(&self.state).verified.insert(network, count.unwrap_or(before.saturating_add(1)));
        kept.and_then(|verdict| verdict.wrong).or_else(|| self.wrong())
    }

    fn found_wrong(&self, reason: &str) {
        let producer = lock(&self.state).producer.clone();
        let change = |verdict: &mut Verdict| verdict.set_wrong(reason, producer.as_ref());
        let kept = self.file.as_deref().map(|file| Verdict::change_in(file, &self.key, change));
        if !matches!(kept, Some(Ok(_))) {
            lock(&self.state).wrong = Some(reason.to_owned());
        }
    }
}

/// The device with the kernels that are known to be right. Its results are looked at until enough of each network was right.
pub(crate) fn watched(device: GpuDevice, verdict: &Verdict, tuned: bool, machine: &Machine) -> GpuDevice {
    let kernels = if tuned { verdict.kernels.clone() } else { BTreeMap::new() };
    let monitor = Some(monitor(device, machine).into());
    GpuDevice { choices: Choices::new(kernels), watch: watch(machine), monitor, ..device }
}

/// How closely cards are watched. Tests watch software devices, too.
fn watch(machine: &Machine) -> Watch {
    match cfg!(debug_assertions) && machine.text("REMASTER_TEST_WATCH").is_some() {
        true => Watch::Always,
        false => Watch::Seldom,
    }
}

/// Refuses a device that computed wrong numbers. Every route to a device leads through here but that of the check which may
/// find it right.
pub(crate) fn refuse_wrong(device: GpuDevice, machine: &Machine) -> Result<(), Error> {
    let wrong = Verdict::of(device, machine).wrong.or_else(|| monitor(device, machine).wrong());
    match wrong {
        None => Ok(()),
        Some(reason) => Err(Error::DeviceWrong { device: device.to_string(), reason }),
    }
}

/// What the work of a device is called in records of units, if it is one whose results are watched.
pub(crate) fn producer(backend: &Backend, machine: &Machine) -> Option<Producer> {
    let Backend::Gpu(device) = backend else { return None };
    let is_watched = match device.watch {
        Watch::Never => false,
        Watch::Seldom => device.info().is_some_and(|info| info.kind != "software"),
        Watch::Always => true,
    };
    is_watched.then(|| monitor(*device, machine).producer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use remaster_compute::DType;

    const NETWORK: NetworkId = NetworkId { name: "encode", values: 9, dtype: DType::F16 };

    #[test]
    fn what_a_device_made_has_one_name_until_it_is_found_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let device = GpuDevice { fingerprint: 1, ..GpuDevice::imagined() };
        let fresh = |monitor: &CardMonitor| CardMonitor {
            file: monitor.file.clone(),
            key: monitor.key.clone(),
            state: Mutex::default(),
        };
        for machine in
            [Machine::this().with("XDG_CACHE_HOME", folder.path()), Machine::this().without_environment()]
        {
            let monitor = monitor(device, &machine);
            let producer = monitor.producer();
            assert_eq!(monitor.producer(), producer);
            assert_eq!(monitor.verified(NETWORK), 0);
            monitor.add_verified(NETWORK);
            assert_eq!(monitor.verified(NETWORK), 1);
            let kept = machine.cache().is_some();
            // Another process on the same device.
            let other = fresh(monitor);
            assert_eq!((other.producer() == producer, other.verified(NETWORK)), (kept, u64::from(kept)));
            monitor.found_wrong("conv is off");
            assert!(refuse_wrong(device, &machine).is_err());
            assert_eq!(super::super::verdict::untrusted(&machine).contains(&producer), kept);
            let later = fresh(monitor);
            assert_ne!(later.producer(), producer);
            assert_eq!(later.verified(NETWORK), 0);
            // One that did not hear of it computes under the old name, which stays wrong.
            other.add_verified(NETWORK);
            other.found_wrong("conv is off, too");
            assert_eq!(super::super::verdict::untrusted(&machine).contains(&producer), kept);
        }
    }
}
