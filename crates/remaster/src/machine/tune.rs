//! The fastest kernels of a GPU, found once and kept in the user's cache folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use remaster_compute::gpu::{AttentionLayer, Choices, GpuDevice, Tuned, tune, tune_attention};
use remaster_compute::{DType, Weight, WeightSpec};
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_model::vae::{Decoder, Encoder, VaeConfig};
use remaster_model::{Module, Scope, computed};
use remaster_weights::FormulaParams;
use serde::{Deserialize, Serialize};

use super::cache;
use super::host::Machine;
use crate::control::lock;
use crate::error::Error;
use crate::event::Reporter;

/// Changes when the list of kernels does, or what may be chosen unasked: what was kept before is then not used.
const VERSION: u32 = 5;

/// What is kept: kernels by layer, by the fingerprint of device and driver.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    devices: BTreeMap<String, BTreeMap<String, String>>,
}

/// A kernel that was timed.
#[derive(Debug, Serialize)]
pub struct TunedKernel {
    /// The layer it was timed for.
    pub layer: String,
    /// Its name.
    pub kernel: String,
    /// Its results are those of the naive loops.
    pub right: bool,
    /// Largest difference; absent if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// Of the fastest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What tuning found.
#[derive(Debug, Serialize)]
pub struct Tuning {
    /// The GPU.
    pub device: String,
    /// Of device and driver.
    pub fingerprint: String,
    /// Rows and columns of the frame.
    pub side: usize,
    /// All that were timed.
    pub kernels: Vec<TunedKernel>,
    /// The fastest kernel, by layer.
    pub chosen: BTreeMap<String, String>,
    /// Where it was kept; absent where there is no folder for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
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

/// The device with what is kept for it: compiled kernels and, if `tuned`, the choice among them.
pub(crate) fn apply(device: GpuDevice, tuned: bool, machine: &Machine) -> GpuDevice {
    let table = kept(machine).devices.remove(&key(device)).filter(|_| tuned);
    GpuDevice {
        choices: Choices::new(table.unwrap_or_default()),
        cache: machine.cache().map(lasting),
        ..device
    }
}

/// The same path for the rest of the process: devices are copied freely, and there are few folders.
fn lasting(folder: PathBuf) -> &'static Path {
    static FOLDERS: Mutex<Vec<&'static Path>> = Mutex::new(Vec::new());
    let mut folders = lock(&FOLDERS);
    if let Some(known) = folders.iter().find(|known| **known == folder) {
        return known;
    }
    let kept: &'static Path = Box::leak(folder.into_boxed_path());
    folders.push(kept);
    kept
}

/// Every layer of the networks that is multiplied. The blocks of a transformer are alike.
fn layers(dtype: DType) -> Vec<WeightSpec> {
    let mut found = Vec::new();
    let mut note = |weight: &Weight| {
        if !found.contains(&weight.spec()) {
            found.push(weight.spec());
        }
    };
    let config = VaeConfig::full();
    let mut params = FormulaParams;
    let mut scope = Scope::root(&mut params, dtype);
    Encoder::new(&config, &mut scope.at("encoder")).weights(&mut note);
    Decoder::new(&config, &mut scope.at("decoder")).weights(&mut note);
    for config in [DitConfig::dit_3b(), DitConfig::dit_7b()] {
        let config = DitConfig { layers: 1, separate: 1, ..config };
        let text = Text::new(&config, &mut scope, 0, computed(|_| 0.0));
        Dit::new(&config, &mut scope, text, [1, 1], DitConfig::STEP).weights(&mut note);
    }
    found
}

/// The ways in which the networks attend.
fn attentions(dtype: DType) -> [AttentionLayer; 2] {
    let of = |windowed, width| AttentionLayer { windowed, width, dtype };
    [of(false, VaeConfig::full().channels[3]), of(true, DitConfig::dit_3b().head)]
}

/// Times every kernel, or those of one family, in every layer.
pub(crate) fn search(
    device: GpuDevice,
    dtype: DType,
    family: Option<&str>,
    side: usize,
    repeat: usize,
    report: &Reporter<'_>,
) -> Result<(Vec<TunedKernel>, BTreeMap<String, String>), Error> {
    let mut rows = Vec::new();
    let mut tell = |t: &Tuned| {
        report.detail(format_args!("{}: {}, {:.3} ms", t.layer, t.kernel, 1e3 * t.seconds));
        let finite = |v: f64| v.is_finite().then_some(v);
        rows.push(TunedKernel {
            layer: t.layer.clone(),
            kernel: t.kernel.clone(),
            right: t.right,
            max_abs: finite(t.max_abs),
            seconds: finite(t.seconds),
        });
    };
    let best = tune(device, &layers(dtype), family, side, repeat, &mut tell)?;
    let best = tune_attention(best, &attentions(dtype), family, repeat, &mut tell)?;
    Ok((rows, best.choices.table()))
}

/// Keeps what was found; the file it is in, unless it cannot be written.
pub(crate) fn keep(
    device: GpuDevice,
    chosen: &BTreeMap<String, String>,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Option<PathBuf> {
    let file = file(machine)?;
    let mut kept = kept(machine);
    kept.devices.entry(key(device)).or_default().extend(chosen.clone());
    let text = serde_json::to_string_pretty(&kept).unwrap_or_default();
    match cache::write(&file, &text) {
        Ok(()) => Some(file),
        Err(error) => {
            report.say(format_args!("cannot save the result to {}: {error}", file.display()));
            None
        }
    }
}

/// Default rows and columns of the frame.
pub const SIDE: u16 = 128;
/// Default number of runs of each kernel.
pub const REPEAT: u16 = 3;

/// Default family of kernels. All of it gives the same bits, whichever is
/// fastest. `remaster tune` compares all families.
fn usual_family(device: GpuDevice, dtype: DType) -> &'static str {
    let units = || device.info().is_some_and(|i| i.units.is_some());
    if dtype == DType::F16 && units() { "matrix" } else { "direct" }
}

/// The device with its fastest kernels for a format, which are looked for if they never were. A software device is not
/// tuned by itself: it would take longer than most of what is done on it.
pub(crate) fn tuned(
    device: GpuDevice,
    dtype: DType,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Result<GpuDevice, Error> {
    let applied = apply(device, true, machine);
    let ending = format!(" {dtype}");
    let known = applied.choices.table().keys().any(|layer| layer.ends_with(&ending));
    let software = || device.info().is_some_and(|i| i.kind == "software");
    if known || software() {
        return Ok(applied);
    }
    report.say(format_args!("tuning {dtype} kernels for {device} (once); skip with --no-tune"));
    let family = usual_family(device, dtype);
    let search = |family| {
        search(apply(device, false, machine), dtype, Some(family), SIDE.into(), REPEAT.into(), report)
    };
    let (_, mut chosen) = search(family)?;
    if chosen.is_empty() && family != "direct" {
        // Its matrix units cannot be used, or are wrong.
        (_, chosen) = search("direct")?;
    }
    keep(device, &chosen, machine, report);
    let mut table = applied.choices.table();
    table.extend(chosen);
    Ok(GpuDevice { choices: Choices::new(table), ..applied })
}
