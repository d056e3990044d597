//! `remaster bench card`: every kernel and both networks in a few minutes, as a block to paste into an issue.

mod ceilings;
mod clock;
mod kernels;
mod networks;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use remaster_compute::gpu::{GpuDevice, GpuInfo, MatrixUnits};
use remaster_compute::{Backend, ComputeError, DType};
use remaster_engine::EngineError;
use serde::Serialize;

use super::subjects::Site;
use crate::args::BenchCardArgs;
use crate::devices::{CardMemory, memory_of};
use crate::error::CliError;
use crate::output::Output;
use crate::{machine, tune};
use ceilings::{Card, Table};
use clock::Clock;
use kernels::{Case, Kernel, Unit};
use networks::{Allowed, Network, Rates, Which};

/// Shares of the time at which the kernels in f16 and the networks should be done. Kernels in f32 have the rest.
const KERNELS_END: f64 = 0.3;
const NETWORKS_END: f64 = 0.85;
/// What a kernel is taken to need before one was measured, in seconds.
const FIRST_KERNEL: f64 = 1.0;
/// Multiply-adds a second where no convolution was measured.
const SLOW_MACS: f64 = 5e9;
/// Memory that is used where the driver does not say how much there is.
const LEAST_MEMORY: u64 = 1 << 30;

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    system: String,
    device: String,
    name: String,
    kind: &'static str,
    driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<CardMemory>,
    matrix_units: Vec<String>,
    /// Layers by the family of kernels that was chosen for them; empty if nothing was tuned.
    tuned: BTreeMap<String, usize>,
    seconds: f64,
    /// The card whose ceilings were compared with, and the compilers they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    ceilings: Option<Ceilings>,
    kernels: Vec<Kernel>,
    networks: Vec<Network>,
    skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct Ceilings {
    card: String,
    mesa: String,
}

/// Something that was not measured, and why.
#[derive(Debug, Serialize)]
struct Skipped {
    what: String,
    reason: String,
}

pub(crate) fn card(args: &BenchCardArgs, out: &Output) -> Result<(), CliError> {
    let backend = args.device.find()?;
    let Backend::Gpu(device) = backend else {
        return Err(CliError::NoCard { backend: backend.name() });
    };
    let seconds = args.seconds.map_or(60 * u64::from(args.minutes), u64::from);
    let clock = Clock::new(Duration::from_secs(seconds));
    let device = tune::tuned(device, DType::F16, out)?;
    let gone = || CliError::Device { reason: format!("{device} is gone; see `remaster devices`") };
    let info = device.info().ok_or_else(gone)?;
    let tuned = families(&device);
    if lacks_tuning(&tuned, info.units) {
        out.say(format_args!(
            "{device} is not tuned: run `remaster tune` first to measure the fastest kernels"
        ));
    }
    out.say(format_args!("measuring {device} for up to {seconds} s"));
    let site = Site { backend: Backend::Gpu(device), cancel: clock.token.clone() };
    let mut bench = Bench { site, room: room(&info), clock, out, found: Found::default() };
    bench.kernels(kernels::all(DType::F16), KERNELS_END)?;
    bench.kernels(kernels::transfers(), KERNELS_END)?;
    bench.networks()?;
    bench.kernels(kernels::all(DType::F32), 1.0)?;
    let Bench { clock, found, .. } = bench;
    let table = Table::built_in();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        system: system(),
        device: device.to_string(),
        kind: info.kind,
        memory: memory_of(&info),
        matrix_units: info.matrices.clone(),
        tuned,
        seconds: clock.seconds(),
        ceilings: None,
        kernels: found.kernels,
        networks: found.networks,
        skipped: found.skipped,
        name: info.name,
        driver: info.driver,
    };
    let report = compared(report, &table);
    out.result(&report, || text::block(&report));
    Ok(())
}

/// How many layers have chosen kernels, by family.
fn families(device: &GpuDevice) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for kernel in device.choices.table().values() {
        // Names begin with the family.
        let family = kernel.split_whitespace().next().unwrap_or_default();
        *count.entry(family.to_owned()).or_default() += 1;
    }
    count
}

/// Whether faster kernels may be found: only `remaster tune` chooses those on matrix units.
fn lacks_tuning(tuned: &BTreeMap<String, usize>, units: Option<MatrixUnits>) -> bool {
    tuned.is_empty() || (units.is_some() && !tuned.contains_key("matrix"))
}

#[derive(Default)]
struct Found {
    kernels: Vec<Kernel>,
    networks: Vec<Network>,
    skipped: Vec<Skipped>,
}

/// A run of the command.
struct Bench<'a> {
    site: Site,
    /// Bytes of the device that may be used.
    room: u64,
    clock: Clock,
    out: &'a Output,
    found: Found,
}

impl Bench<'_> {
    fn skip(&mut self, what: &str, reason: impl Into<String>) {
        self.found.skipped.push(Skipped { what: what.into(), reason: reason.into() });
    }

    /// Measures kernels until this share of the time is used up. A kernel is begun only if one as slow as the slowest of
    /// them would end in time; those that only move data are another kind.
    fn kernels(&mut self, cases: Vec<Case>, share: f64) -> Result<(), CliError> {
        let mut longest = [FIRST_KERNEL; 2];
        for case in cases {
            let longest = &mut longest[usize::from(case.unit == Unit::Gbytes)];
            if self.clock.left(share) < *longest {
                self.skip(&case.name, "no time left");
                continue;
            }
            self.out.say(format_args!("measuring {}", case.name));
            let started = self.clock.seconds();
            match kernels::measure(&case, &self.site, &self.clock, self.room / 2) {
                Ok(kernel) => self.found.kernels.push(kernel),
                Err(error) => self.skip(&case.name, excuse(error)?),
            }
            *longest = longest.max(self.clock.seconds() - started);
        }
        Ok(())
    }

    fn networks(&mut self) -> Result<(), CliError> {
        let convs = self.found.kernels.iter().filter(|k| k.kernel.starts_with("conv"));
        let best = convs.map(|k| 1e12 * k.rate / 2.0).max_by(f64::total_cmp);
        let rates = Rates::new(best.unwrap_or(SLOW_MACS));
        for (i, which) in Which::ALL.into_iter().enumerate() {
            self.out.say(format_args!("measuring the {}", which.name()));
            // The decoder is first and takes longest.
            let rest = if i + 1 < Which::ALL.len() { 0.5 } else { 1.0 };
            let seconds = rest * self.clock.left(NETWORKS_END);
            let allowed = Allowed { bytes: self.room, seconds };
            match networks::measure(which, &self.site, &self.clock, rates, allowed) {
                Ok(Ok(network)) => self.found.networks.push(network),
                Ok(Err(reason)) => self.skip(which.name(), reason),
                Err(error) => self.skip(which.name(), excuse(error)?),
            }
        }
        Ok(())
    }
}

/// Why something could not be measured, if that says nothing about the rest.
fn excuse(error: CliError) -> Result<String, CliError> {
    match error {
        CliError::Engine(EngineError::Compute(ComputeError::Cancelled)) => Ok("no time left".into()),
        CliError::Engine(EngineError::Compute(
            ComputeError::OutOfMemory { .. }
            | ComputeError::HostMemory { .. }
            | ComputeError::DeviceMemory { .. }
            | ComputeError::DeviceBindings { .. },
        )) => Ok(error.to_string()),
        error => Err(error),
    }
}

/// Bytes of the device that may be used. What it shares with the host has to leave room for both copies.
fn room(info: &GpuInfo) -> u64 {
    match memory_of(info) {
        Some(memory) if memory.shared => {
            let free = [memory.free_bytes, machine::memory().free].into_iter().flatten().min();
            free.map_or(LEAST_MEMORY, |free| free / 2)
        }
        Some(memory) => memory.allowed(),
        None => LEAST_MEMORY,
    }
}

/// The operating system as people name it.
fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    name.map_or(machine.clone(), |name| format!("{machine}, {}", name.trim_matches('"')))
}

/// With the ceilings of the card, if there are any.
fn compared(mut report: Report, table: &Table) -> Report {
    let Some(card) = table.find(&report.name) else { return report };
    for kernel in report.kernels.iter_mut().filter(|k| k.unit == Unit::Tflops) {
        kernel.ceiling = card.rate(&kernel.kernel).map(|rate| rate / 1e12);
        kernel.reached = kernel.ceiling.map(|ceiling| kernel.rate / ceiling);
    }
    for network in &mut report.networks {
        network.ceiling = least(card, network.network);
        network.reached = network.ceiling.map(|ceiling| ceiling / network.seconds_per_megapixel);
    }
    report.ceilings = Some(Ceilings { card: card.name.clone(), mesa: table.mesa.clone() });
    report
}

fn least(card: &Card, network: &str) -> Option<f64> {
    let which = Which::ALL.into_iter().find(|w| w.name() == network)?;
    match which {
        Which::Decoder => Some(card.decode.seconds()),
        Which::Transformer => Some(card.transformer_3b.seconds()),
        Which::Encoder => None,
    }
}
