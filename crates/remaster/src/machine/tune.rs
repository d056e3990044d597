//! The fastest kernels of a GPU, found once and kept in the user's cache folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use remaster_compute::gpu::{
    AttentionLayer, GpuDevice, KernelFault, ProductLayer, Timing, Tuned, layer_name, tune, tune_attention,
};
use remaster_compute::{DType, Weight, WeightSpec};
use remaster_model::compact::{Compact, CompactConfig};
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_model::rrdb::{Rrdb, RrdbConfig};
use remaster_model::vae::{Decoder, Encoder, VaeConfig};
use remaster_model::{Module, Scope, computed};
use remaster_weights::FormulaParams;
use serde::Serialize;

use super::host::Machine;
use super::monitor::{refuse_wrong, watched};
use super::verdict::Verdict;
use crate::control::lock;
use crate::error::Error;
use crate::event::Reporter;

/// A kernel that was timed.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TunedKernel {
    /// The layer it was timed for.
    pub layer: String,
    /// Its name.
    pub kernel: String,
    /// It is right: its results are those of the naive loops, twice to the bit, and it writes nothing else.
    pub right: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// Largest difference; absent if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// Of the fastest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What tuning found.
#[derive(Debug, Serialize)]
#[non_exhaustive]
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

/// The device with what is kept for it: compiled kernels and, if `tuned`, the choice among them.
pub(crate) fn apply(device: GpuDevice, tuned: bool, machine: &Machine) -> GpuDevice {
    with(&Verdict::of(device, machine), device, tuned, machine)
}

fn with(verdict: &Verdict, device: GpuDevice, tuned: bool, machine: &Machine) -> GpuDevice {
    GpuDevice { cache: machine.cache().map(lasting), ..watched(device, verdict, tuned, machine) }
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

/// Networks that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Networks {
    /// The VAE and the transformers.
    Restoration,
    /// Those that take frame by frame.
    Upscalers,
}

/// Every layer of some networks, and whether its input is normalised on the way in: weights come in the order of use, so that a
/// normalisation stands right before the convolution that applies it. The blocks of a network are alike.
fn layers(networks: Networks, dtype: DType) -> Vec<ProductLayer> {
    let mut found: Vec<ProductLayer> = Vec::new();
    let mut before = None;
    let mut note = |weight: &Weight| {
        let spec = weight.spec();
        let prologue = match spec {
            WeightSpec::Conv { cin, .. } => before == Some(WeightSpec::Norm { channels: cin }),
            _ => false,
        };
        before = Some(spec);
        if matches!(spec, WeightSpec::Norm { .. } | WeightSpec::Vector { .. }) {
            return;
        }
        match found.iter_mut().find(|layer| layer.spec == spec) {
            Some(layer) => layer.prologue |= prologue,
            None => found.push(ProductLayer { spec, prologue }),
        }
    };
    let mut params = FormulaParams;
    if networks == Networks::Upscalers {
        Compact::new(&CompactConfig::anime(), &mut params, dtype).weights(&mut note);
        let rrdb = RrdbConfig { width: 64, growth: 32, blocks: 1, scale: 4, unshuffle: 1 };
        Rrdb::new(&rrdb, &mut params, dtype).weights(&mut note);
        return found;
    }
    let config = VaeConfig::full();
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

/// The ways in which some networks attend.
fn attentions(networks: Networks, dtype: DType) -> Vec<AttentionLayer> {
    let of = |windowed, width| AttentionLayer { windowed, width, dtype };
    match networks {
        Networks::Restoration => {
            vec![of(false, VaeConfig::full().channels[3]), of(true, DitConfig::dit_3b().head)]
        }
        Networks::Upscalers => Vec::new(),
    }
}

/// Every kernel that was checked, and the fastest right one by layer.
pub(crate) type Found = (Vec<TunedKernel>, BTreeMap<String, String>);

/// Checks every kernel in every layer of some networks, and times those that are right.
pub(crate) fn search(
    device: GpuDevice,
    networks: Networks,
    dtype: DType,
    timing: Option<Timing>,
    report: &Reporter<'_>,
) -> Result<Found, Error> {
    let mut rows = Vec::new();
    let mut tell = |t: &Tuned| {
        let fault = t.fault.map(KernelFault::name);
        match fault {
            Some(fault) => report.detail(format_args!("{}: {} {fault}", t.layer, t.kernel)),
            None => report.detail(format_args!("{}: {}, {:.3} ms", t.layer, t.kernel, 1e3 * t.seconds)),
        }
        let finite = |v: f64| v.is_finite().then_some(v);
        rows.push(TunedKernel {
            layer: t.layer.clone(),
            kernel: t.kernel.clone(),
            right: fault.is_none(),
            fault,
            max_abs: finite(t.max_abs),
            seconds: finite(t.seconds).filter(|_| timing.is_some()),
        });
    };
    let best = tune(device, &layers(networks, dtype), None, timing, &mut tell)?;
    let runs = timing.map(|timing| timing.runs);
    let best = tune_attention(best, &attentions(networks, dtype), None, runs, &mut tell)?;
    Ok((rows, best.choices.table()))
}

fn failed(rows: &[TunedKernel]) -> impl Iterator<Item = (String, String)> {
    let of = |row: &TunedKernel| Some((format!("{}: {}", row.layer, row.kernel), row.fault?.to_owned()));
    rows.iter().filter_map(of)
}

/// Keeps what was found; the file it is in, unless it cannot be written.
pub(crate) fn keep(
    device: GpuDevice,
    rows: &[TunedKernel],
    chosen: &BTreeMap<String, String>,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Option<PathBuf> {
    let kept = Verdict::change(device, machine, |verdict| {
        verdict.kernels.extend(chosen.clone());
        verdict.failed.extend(failed(rows));
    });
    kept.unwrap_or_else(|error| {
        report.say(format_args!("cannot save the result: {error}"));
        None
    })
}

/// Default rows and columns of the frame.
pub const SIDE: u16 = 128;
/// Default number of runs of each kernel.
pub const REPEAT: u16 = 3;

/// How kernels are timed unasked.
pub(crate) const TIMING: Timing = Timing { side: SIDE as usize, runs: REPEAT as usize };

/// The device with its fastest kernels for a format, which are checked and timed if they never were. A software device is not
/// checked by itself: it would take longer than most of what is done on it.
pub(crate) fn tuned(
    device: GpuDevice,
    networks: Networks,
    dtype: DType,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Result<GpuDevice, Error> {
    refuse_wrong(device, machine)?;
    let mut verdict = Verdict::of(device, machine);
    let known = layers(networks, dtype).iter().all(|l| verdict.kernels.contains_key(&layer_name(&l.spec)));
    let software = || device.info().is_some_and(|i| i.kind == "software");
    if !known && !software() {
        report
            .say(format_args!("checking and timing {dtype} kernels of {device} (once); skip with --no-tune"));
        let checked = check(device, networks, dtype, Some(TIMING), machine, report)?;
        keep(device, &checked.rows, &checked.chosen, machine, report);
        checked.complete(device)?;
        verdict.kernels.extend(checked.chosen);
    }
    Ok(with(&verdict, device, true, machine))
}

/// What a check of kernels found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Every kernel.
    pub(crate) rows: Vec<TunedKernel>,
    /// The fastest right one by layer.
    pub(crate) chosen: BTreeMap<String, String>,
    /// A layer that has none.
    pub(crate) without: Option<String>,
}

impl Checked {
    /// Kernels that are not used, as `layer: kernel`, and why.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (String, String)> {
        failed(&self.rows)
    }

    /// Refuses a device that lacks a right kernel for a layer.
    pub(crate) fn complete(&self, device: GpuDevice) -> Result<(), Error> {
        let Some(layer) = &self.without else { return Ok(()) };
        let reason = format!(
            "no kernel for {layer} computes right numbers on {device}; update its driver, or use --device cpu"
        );
        Err(Error::Device { reason })
    }
}

/// Checks the kernels of some networks, and says how many are wrong.
pub(crate) fn check(
    device: GpuDevice,
    networks: Networks,
    dtype: DType,
    timing: Option<Timing>,
    machine: &Machine,
    report: &Reporter<'_>,
) -> Result<Checked, Error> {
    let (rows, chosen) = search(apply(device, false, machine), networks, dtype, timing, report)?;
    let wrong = rows.iter().filter(|row| !row.right).count();
    if wrong > 0 {
        report.warn(format!(
            "{wrong} of {} kernels of {device} are wrong or cannot run, and are not used; `remaster doctor --device {device} --markdown` prints a report",
            rows.len()
        ));
    }
    let mut names = layers(networks, dtype).into_iter().map(|layer| layer_name(&layer.spec));
    let without = names.find(|name| !chosen.contains_key(name));
    Ok(Checked { rows, chosen, without })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolutions_behind_a_normalisation_are_timed_so() {
        let all = layers(Networks::Restoration, DType::F16);
        let prologue = |spec: WeightSpec| all.iter().find(|l| l.spec == spec).map(|l| l.prologue);
        let conv = |cin, cout| WeightSpec::conv([cin, cout], [3; 3], DType::F16);
        for (cin, cout) in [(128, 128), (128, 256), (512, 512), (512, 256), (128, 3), (512, 32)] {
            assert_eq!(prologue(conv(cin, cout)), Some(true), "{cin} to {cout}");
        }
        for (cin, cout) in [(3, 128), (16, 512)] {
            assert_eq!(prologue(conv(cin, cout)), Some(false), "{cin} to {cout}");
        }
        let others = all
            .iter()
            .filter(|l| !matches!(l.spec, WeightSpec::Conv { kernel: [3, 3, 3], stride: [1, 1, 1], .. }));
        assert!(others.clone().count() > 10 && others.clone().all(|l| !l.prologue));
    }
}
