//! `remaster tune`: the fastest kernels of a GPU, found once and kept in the user's cache folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use remaster_compute::Backend;
use remaster_compute::gpu::{GpuDevice, tune};
use serde::{Deserialize, Serialize};

use crate::args::TuneArgs;
use crate::cache;
use crate::error::CliError;
use crate::output::Output;

/// Changes when the list of kernels does: what was kept before is then not used.
const VERSION: u32 = 1;

/// What is kept: kernels by the fingerprint of device and driver.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    devices: BTreeMap<String, [u8; 2]>,
}

#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    right: bool,
    /// Absent if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_abs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    fingerprint: String,
    side: usize,
    kernels: Vec<Row>,
    chosen: [u8; 2],
    /// Where it was kept; absent where there is no folder for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

fn file() -> Option<PathBuf> {
    Some(cache::folder()?.join("tune.json"))
}

/// A file of another version, or one that is not ours, counts as none.
fn kept() -> Kept {
    let text = file().and_then(|f| std::fs::read_to_string(f).ok()).unwrap_or_default();
    let kept: Kept = serde_json::from_str(&text).unwrap_or_default();
    if kept.version == VERSION { kept } else { Kept { version: VERSION, ..Kept::default() } }
}

fn key(device: GpuDevice) -> String {
    format!("{:016x}", device.fingerprint)
}

/// The device with what is kept for it: compiled kernels and, if `tuned`, the choice among them.
pub(crate) fn apply(device: GpuDevice, tuned: bool) -> GpuDevice {
    let tiles = kept().devices.get(&key(device)).copied().filter(|_| tuned);
    GpuDevice { tiles: tiles.unwrap_or(device.tiles), cache: cache::folder(), ..device }
}

pub(crate) fn run(args: &TuneArgs, out: &Output) -> Result<(), CliError> {
    let Backend::Gpu(device) = args.device else {
        return Err(CliError::BenchBackend);
    };
    let device = apply(device, false);
    out.say(format_args!("timing the kernels of {device}"));
    let (best, tuned) = tune(device, args.side.into(), args.repeat.into())?;
    let mut kept = kept();
    kept.devices.insert(key(device), best.tiles);
    let mut path = file();
    if let Some(file) = &path {
        let text = serde_json::to_string_pretty(&kept).unwrap_or_default();
        let beside = file.with_extension("new");
        let write = || {
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(&beside, text)?;
            std::fs::rename(&beside, file)
        };
        if let Err(error) = write() {
            out.say(format_args!("not kept: {} cannot be written: {error}", file.display()));
            path = None;
        }
    }
    let finite = |v: f64| v.is_finite().then_some(v);
    let rows = tuned.iter().map(|t| {
        let [m, n, k] = t.variant.tile;
        Row {
            kernel: format!(
                "{} {} ({m}x{n}x{k}, {} threads)",
                t.variant.name, t.variant.index, t.variant.threads
            ),
            right: t.right,
            max_abs: finite(t.max_abs),
            seconds: finite(t.seconds),
        }
    });
    let report = Report {
        device: device.to_string(),
        fingerprint: key(device),
        side: args.side.into(),
        kernels: rows.collect(),
        chosen: best.tiles,
        file: path,
    };
    out.result(&report, || describe(&report));
    Ok(())
}

fn describe(report: &Report) -> String {
    let mut text = String::new();
    for row in &report.kernels {
        let time = row.seconds.map_or("not right".into(), |s| format!("{:.3} ms", 1e3 * s));
        text += &format!("{time:>12}  {}\n", row.kernel);
    }
    let place = report.file.as_ref().map_or("not kept".into(), |f| format!("kept in {}", f.display()));
    text + &format!("{}: wide {}, narrow {}; {place}\n", report.device, report.chosen[0], report.chosen[1])
}
