//! Every kernel and both networks of a card in a few minutes, as a block to paste into an issue.

mod clock;
mod kernels;
mod networks;
mod text;

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::time::Duration;

use remaster_compute::gpu::{GpuDevice, GpuInfo, MatrixUnits};
use remaster_compute::{Backend, ComputeError, DType};
use remaster_engine::EngineError;
use serde::Serialize;

use remaster::card::ceilings::{Ceilings as OfCard, Table};
use remaster::machine::calibrate::subjects::Site;
use remaster::machine::{CardMemory, memory_of};
use remaster::{Device, Error, Event, Machine, tuned_device};

use crate::BenchError;
use clock::Clock;
pub use kernels::Kernel;
use kernels::{Case, Unit};
pub use networks::Network;
use networks::{Allowed, Rates, Which};

/// Shares of the time at which the kernels in f16 and the networks should be done. Kernels in f32 have the rest.
const KERNELS_END: f64 = 0.3;
const NETWORKS_END: f64 = 0.85;
/// What a kernel is taken to need before one was measured, in seconds.
const FIRST_KERNEL: f64 = 1.0;
/// Multiply-adds a second where no convolution was measured.
const SLOW_MACS: f64 = 5e9;
/// Memory that is used where the driver does not say how much there is.
const LEAST_MEMORY: u64 = 1 << 30;

/// What a card reached.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct CardReport {
    pub version: &'static str,
    pub system: String,
    pub device: String,
    pub name: String,
    pub kind: &'static str,
    pub driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<CardMemory>,
    pub matrix_units: Vec<String>,
    /// Layers by the family of kernels that was chosen for them; empty if nothing was tuned.
    pub tuned: BTreeMap<String, usize>,
    pub seconds: f64,
    /// The card whose ceilings were compared with, and the compilers they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
    pub kernels: Vec<Kernel>,
    pub networks: Vec<Network>,
    pub skipped: Vec<Skipped>,
}

/// The card whose ceilings were compared with.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Ceilings {
    pub card: String,
    pub mesa: String,
}

/// Something that was not measured, and why.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Skipped {
    pub what: String,
    pub reason: String,
}

/// Which card, and for how long.
#[derive(Clone, Debug)]
pub struct CardRequest {
    /// The card.
    pub device: Device,
    /// Time that it may take.
    pub seconds: u64,
}

/// Measures every kind of kernel, both halves of the VAE and blocks of the 3B transformer, on generated weights, and
/// compares with the card's ceilings where they are known. What does not fit into the time is skipped and listed.
pub fn card(
    request: &CardRequest,
    say: &dyn Fn(&str),
    events: &mut dyn FnMut(Event),
) -> Result<CardReport, BenchError> {
    let backend = request.device.find(&Machine::this())?;
    let Backend::Gpu(device) = backend else {
        return Err(BenchError::NoCard { backend: backend.name() });
    };
    let seconds = request.seconds;
    let clock = Clock::new(Duration::from_secs(seconds));
    let device = tuned_device(device, DType::F16, &Machine::this(), events)?;
    let gone = || Error::Device { reason: format!("{device} is gone; see `remaster devices`") };
    let info = device.info().ok_or_else(gone)?;
    let tuned = families(&device);
    if lacks_tuning(&tuned, info.units) {
        say(&format!("{device} is not tuned: run `remaster tune` first to measure the fastest kernels"));
    }
    say(&format!("measuring {device} for up to {seconds} s"));
    let site = Site { backend: Backend::Gpu(device), cancel: clock.token.clone() };
    let mut bench = Bench { site, room: room(&info), clock, say, found: Found::default() };
    bench.kernels(kernels::all(DType::F16), KERNELS_END)?;
    bench.kernels(kernels::transfers(), KERNELS_END)?;
    bench.networks()?;
    bench.kernels(kernels::all(DType::F32), 1.0)?;
    let Bench { clock, found, .. } = bench;
    let report = CardReport {
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
    Ok(compared(report, &Table::built_in()))
}

impl Display for CardReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::block(self))
    }
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
    say: &'a dyn Fn(&str),
    found: Found,
}

impl Bench<'_> {
    fn skip(&mut self, what: &str, reason: impl Into<String>) {
        self.found.skipped.push(Skipped { what: what.into(), reason: reason.into() });
    }

    /// Measures kernels until this share of the time is used up. A kernel is begun only if one as slow as the slowest of
    /// them would end in time; those that only move data are another kind.
    fn kernels(&mut self, cases: Vec<Case>, share: f64) -> Result<(), Error> {
        let mut longest = [FIRST_KERNEL; 2];
        for case in cases {
            let longest = &mut longest[usize::from(case.unit == Unit::Gbytes)];
            if self.clock.left(share) < *longest {
                self.skip(&case.name, "no time left");
                continue;
            }
            (self.say)(&format!("measuring {}", case.name));
            let started = self.clock.seconds();
            match kernels::measure(&case, &self.site, &self.clock, self.room / 2) {
                Ok(kernel) => self.found.kernels.push(kernel),
                Err(error) => self.skip(&case.name, excuse(error)?),
            }
            *longest = longest.max(self.clock.seconds() - started);
        }
        Ok(())
    }

    fn networks(&mut self) -> Result<(), Error> {
        let convs = self.found.kernels.iter().filter(|k| k.kernel.starts_with("conv"));
        let best = convs.map(|k| 1e12 * k.rate / 2.0).max_by(f64::total_cmp);
        let rates = Rates::new(best.unwrap_or(SLOW_MACS));
        for (i, which) in Which::ALL.into_iter().enumerate() {
            (self.say)(&format!("measuring the {}", which.name()));
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
fn excuse(error: Error) -> Result<String, Error> {
    match error {
        Error::Engine(EngineError::Compute(ComputeError::Cancelled)) => Ok("no time left".into()),
        Error::Engine(EngineError::Compute(
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
            let free = [memory.free_bytes, Machine::this().memory().free].into_iter().flatten().min();
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
fn compared(mut report: CardReport, table: &Table) -> CardReport {
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

fn least(card: &OfCard, network: &str) -> Option<f64> {
    let which = Which::ALL.into_iter().find(|w| w.name() == network)?;
    match which {
        Which::Decoder => Some(card.decode.seconds()),
        Which::Transformer => Some(card.transformer_3b.seconds()),
        Which::Encoder => None,
    }
}
