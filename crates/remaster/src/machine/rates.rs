//! How fast this machine runs the network: measured by earlier runs and kept in the user's cache folder.

use std::path::{Path, PathBuf};

use remaster_compute::{Backend, DType};
use remaster_model::dit::DitConfig;
use remaster_model::vae::VaeConfig;
use serde::{Deserialize, Serialize};

use super::cache;
use super::host::Machine;
use super::memory::cpu_name;
use crate::error::Error;
use crate::event::Reporter;

/// What a rate depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    device: String,
    numerics: String,
    dtype: String,
    /// Channels of the widest layer: narrow networks reach a fraction of the rate of wide ones.
    pub(crate) channels: usize,
}

impl Key {
    pub(crate) fn of(backend: &Backend, dtype: DType, config: &VaeConfig) -> Self {
        Self::new(backend, dtype, config.channels.into_iter().max().unwrap_or(0))
    }

    /// Of a transformer. They are wider than any VAE of their kind, so the two are not mistaken for each other.
    pub(crate) fn of_transformer(backend: &Backend, dtype: DType, config: &DitConfig) -> Self {
        Self::new(backend, dtype, config.width)
    }

    /// Of an upscaler. Its layers in two dimensions are no measure for others of the same width.
    pub(crate) fn of_upscaler(backend: &Backend, dtype: DType, width: usize) -> Self {
        let key = Self::new(backend, dtype, width);
        Key { numerics: format!("{}, frame by frame", key.numerics), ..key }
    }

    fn new(backend: &Backend, dtype: DType, channels: usize) -> Self {
        let device = match backend {
            Backend::Cpu { threads, .. } => {
                format!("{}, {threads} threads", cpu_name().unwrap_or_else(|| "cpu".into()))
            }
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) => format!("{:016x}", device.fingerprint),
            Backend::Reference => "reference".into(),
        };
        Key { device, numerics: backend.numerics(), dtype: dtype.name().into(), channels }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rate {
    #[serde(flatten)]
    key: Key,
    macs_per_second: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// The newest last.
    rates: Vec<Rate>,
}

const VERSION: u32 = 1;
/// A machine has a few devices, each with a few formats and networks.
const MOST_RATES: usize = 64;
/// Shorter runs measure how they start, not how they go on.
const LEAST_SECONDS: f64 = 1.0;

fn file(machine: &Machine) -> Option<PathBuf> {
    Some(machine.cache()?.join("rates.json"))
}

/// What the file says; a damaged one, or one of another version, counts as none.
fn read(file: &Path) -> Kept {
    let mut kept: Kept = cache::read(file);
    kept.rates.retain(|r| r.macs_per_second.is_finite() && r.macs_per_second > 0.0);
    if kept.version == VERSION { kept } else { Kept { version: VERSION, rates: Vec::new() } }
}

/// Keeps what a run measured. Without a folder, or in a short run, nothing is kept.
pub(crate) fn record(machine: &Machine, key: &Key, (macs, seconds): (f64, f64), report: &Reporter<'_>) {
    let Some(file) = file(machine).filter(|_| seconds >= LEAST_SECONDS) else { return };
    if let Err(error) = record_in(&file, key, macs / seconds) {
        report.detail(format_args!("cannot save the speed of this run: {error}"));
    }
}

fn record_in(file: &Path, key: &Key, macs_per_second: f64) -> Result<(), Error> {
    if !(macs_per_second.is_finite() && macs_per_second > 0.0) {
        return Ok(());
    }
    let mut kept = read(file);
    kept.rates.retain(|r| r.key != *key);
    let surplus = (kept.rates.len() + 1).saturating_sub(MOST_RATES);
    kept.rates.drain(..surplus);
    kept.rates.push(Rate { key: key.clone(), macs_per_second });
    let text = serde_json::to_string_pretty(&kept).unwrap_or_default();
    cache::write(file, &text)
}

/// Multiply-adds per second of the last run like this.
pub(crate) fn recorded(machine: &Machine, key: &Key) -> Option<f64> {
    let kept = read(&file(machine)?);
    kept.rates.iter().find(|r| r.key == *key).map(|r| r.macs_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(channels: usize) -> Key {
        Key { channels, ..Key::new(&Backend::cpu(), DType::F32, 512) }
    }

    #[test]
    fn the_newest_rates_are_kept_and_the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/rates.json");
        for n in 1..200 {
            record_in(&file, &key(n), n as f64).unwrap();
        }
        record_in(&file, &key(199), 7.0).unwrap();
        let kept = read(&file);
        assert_eq!(kept.rates.len(), MOST_RATES);
        assert_eq!((kept.rates[0].key.channels, kept.rates[63].macs_per_second), (136, 7.0));
        assert!(file.metadata().unwrap().len() < 64 << 10);
        for nonsense in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            record_in(&file, &key(5), nonsense).unwrap();
        }
        assert!(read(&file).rates.iter().all(|r| r.key != key(5)));
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rates.json");
        let mut long = b"[".repeat(1 << 20);
        long.push(b'1');
        let other = br#"{"version": 99, "rates": []}"#.to_vec();
        for bytes in [Vec::new(), b"{".to_vec(), vec![0xff; 100], long, other] {
            std::fs::write(&file, &bytes).unwrap();
            assert!(read(&file).rates.is_empty());
            record_in(&file, &key(1), 3.0).unwrap();
            assert_eq!(read(&file).rates[0].macs_per_second, 3.0);
        }
    }
}
