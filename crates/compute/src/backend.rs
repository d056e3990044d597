//! Choosing a backend by name.

use std::str::FromStr;

use crate::cancel::CancelToken;
use crate::cpu::{Cpu, CpuOptions, CpuPath, CpuSizing};
use crate::dtype::DType;
use crate::error::Result;
#[cfg(feature = "gpu")]
use crate::gpu::{Gpu, GpuDevice, GpuSizing, NetworkId, numerics, preferred};
use crate::ops::{Ops, Sizing};
use crate::reference::{Reference, ReferenceSizing};

/// A backend that is not running yet: enough to predict its sizes and to start it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// See `cpu`.
    Cpu {
        /// Worker threads.
        threads: usize,
        /// Kernels to use.
        path: CpuPath,
    },
    /// See `gpu`.
    #[cfg(feature = "gpu")]
    Gpu(GpuDevice),
    /// See `reference`.
    Reference,
}

impl Backend {
    /// The CPU with as many threads as the machine offers and the fastest kernels it has.
    pub fn cpu() -> Self {
        Self::cpu_with(std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// The CPU with this many threads and the fastest kernels it has.
    pub fn cpu_with(threads: usize) -> Self {
        Backend::Cpu { threads, path: CpuPath::detect() }
    }

    /// The word used on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Cpu { .. } => "cpu",
            #[cfg(feature = "gpu")]
            Backend::Gpu(_) => "gpu",
            Backend::Reference => "reference",
        }
    }

    /// Which kernels compute. Results of one class are the same to the bit, however the work is cut.
    pub fn numerics(&self) -> String {
        match self {
            Backend::Cpu { path, .. } => format!("cpu {path}"),
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) => numerics(device),
            Backend::Reference => "reference".into(),
        }
    }

    /// What a meter needs to stand for it.
    pub fn sizing(&self) -> Box<dyn Sizing> {
        match *self {
            Backend::Cpu { threads, path } => Box::new(CpuSizing { threads, path }),
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) => Box::new(GpuSizing { choices: device.choices }),
            Backend::Reference => Box::new(ReferenceSizing),
        }
    }

    /// The same for a network, by its short name, its values and its format. Devices that are not trusted are watched by
    /// network and format.
    #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only GPUs are watched"))]
    pub fn for_network(self, name: &'static str, values: u64, dtype: DType) -> Self {
        match self {
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) => {
                Backend::Gpu(GpuDevice { network: Some(NetworkId { name, values, dtype }), ..device })
            }
            other => other,
        }
    }

    /// Starts it with an arena of `cap` bytes.
    pub fn open(&self, cap: u64, cancel: CancelToken) -> Result<Box<dyn Ops + Send>> {
        Ok(match *self {
            Backend::Cpu { threads, path } => Box::new(Cpu::new(CpuOptions { threads, path, cap, cancel })?),
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) => Box::new(Gpu::new(device, cap, cancel)?),
            Backend::Reference => Box::new(Reference::new(cap)?),
        })
    }
}

/// What can be asked for by name.
#[cfg(feature = "gpu")]
const NAMES: &str = "auto, cpu, reference, or a name of `remaster devices` such as vulkan:0";
#[cfg(not(feature = "gpu"))]
const NAMES: &str = "cpu or reference; this build has no GPU backend";

impl FromStr for Backend {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "cpu" => Ok(Backend::cpu()),
            "reference" => Ok(Backend::Reference),
            #[cfg(feature = "gpu")]
            "auto" => Ok(preferred().map_or_else(Backend::cpu, Backend::Gpu)),
            #[cfg(not(feature = "gpu"))]
            "auto" => Ok(Backend::cpu()),
            #[cfg(feature = "gpu")]
            _ if ["vulkan", "dx12", "metal"].contains(&word.split(':').next().unwrap_or_default()) => {
                word.parse().map(Backend::Gpu)
            }
            _ => Err(format!("unknown backend `{word}`; use {NAMES}")),
        }
    }
}
