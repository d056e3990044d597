//! What computes: `--device`, `--dtype` and how kernels are chosen.

use clap::Args;
use remaster_compute::{Backend, CpuPath, DType};
use remaster_model::Build;
use remaster_units::UnitsError;

use crate::error::CliError;
use crate::output::Output;

/// A device as typed. It is looked up when it is needed: that opens the GPU driver.
#[derive(Clone, Debug)]
pub(crate) struct DeviceName(String);

impl std::str::FromStr for DeviceName {
    type Err = std::convert::Infallible;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(DeviceName(word.to_owned()))
    }
}

impl DeviceName {
    pub(crate) fn find(&self) -> Result<Backend, CliError> {
        let lower = self.0.to_ascii_lowercase();
        // Names of other tools.
        let other =
            ["cuda", "gpu", "rocm", "hip", "mps", "xpu", "nvidia"].iter().any(|name| lower.starts_with(name));
        if other || lower.bytes().all(|b| b.is_ascii_digit()) {
            let reason = format!(
                "there is no device `{}`; use auto, cpu, or a name that `remaster devices` lists, such as vulkan:0",
                self.0
            );
            return Err(CliError::Device { reason });
        }
        self.0.parse().map_err(|reason| CliError::Device { reason })
    }
}

/// What computes, and in which precision.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct Device {
    /// cpu, auto (best GPU), or a name from `remaster devices`
    ///
    /// `auto` uses the CPU if there is no GPU. `reference` runs naive loops to check results against; it is very slow.
    #[arg(long = "device", alias = "backend", default_value = "cpu", value_name = "NAME")]
    name: DeviceName,
    /// Storage format: f32, bf16 or f16; sums are always f32
    #[arg(long, default_value = "f32", value_name = "FORMAT")]
    pub(crate) dtype: DType,
    #[command(flatten)]
    kernels: Kernels,
}

/// Which kernels compute, and with how many threads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
struct Kernels {
    /// CPU threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// CPU kernels: auto, portable, avx2, avx512 or amx; `,direct` disables Winograd
    #[arg(
        long,
        default_value = "auto",
        value_name = "KERNELS",
        env = "REMASTER_CPU_PATH",
        hide_env_values = true,
        help_heading = "Expert",
        hide_short_help = true
    )]
    cpu_path: CpuPath,
    /// Use default GPU kernels: skip tuning and ignore saved results
    #[arg(long, help_heading = "Expert", hide_short_help = true)]
    no_tune: bool,
    /// Run upsamplers step by step instead of folded into one convolution
    #[arg(long, help_heading = "Expert", hide_short_help = true)]
    no_collapse: bool,
}

/// What computes where the best is chosen unless somebody says otherwise.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct BestDevice {
    /// auto (best GPU, else cpu), or a name from `remaster devices` [default: auto]
    #[arg(long = "device", value_name = "NAME")]
    name: Option<DeviceName>,
    /// Storage format: f32, bf16 or f16 [default: f16 on GPUs, bf16 on CPUs with AMX, else f32]
    ///
    /// Sums are always f32.
    #[arg(long, value_name = "FORMAT", hide_default_value = true)]
    dtype: Option<DType>,
    #[command(flatten)]
    kernels: Kernels,
}

impl BestDevice {
    /// What was asked for, else this device in f32: as the commands do that run one network.
    pub(crate) fn or(&self, name: &str) -> Device {
        let BestDevice { name: given, dtype, kernels } = self.clone();
        let name = given.unwrap_or_else(|| DeviceName(name.to_owned()));
        Device { name, dtype: dtype.unwrap_or(DType::F32), kernels }
    }

    /// The same with the format of a plan.
    pub(crate) fn with_dtype(self, name: &str) -> Result<Self, CliError> {
        let dtype = name.parse().map_err(|_| UnitsError::Plan { reason: format!("no format {name:?}") })?;
        Ok(BestDevice { dtype: Some(dtype), ..self })
    }

    /// The same on this device.
    pub(crate) fn named(&self, name: &str) -> Self {
        BestDevice { name: Some(DeviceName(name.to_owned())), ..self.clone() }
    }

    /// The name of the device, as typed.
    #[cfg(debug_assertions)]
    pub(crate) fn name(&self) -> &str {
        self.name.as_ref().map_or("auto", |name| &name.0)
    }

    /// The format that was asked for.
    pub(crate) fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// Looks the device up.
    pub(crate) fn find(&self) -> Result<Backend, CliError> {
        self.or("auto").name.find()
    }

    /// Threads that were asked for.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.kernels.threads.map(usize::from)
    }

    /// The same with this many threads.
    pub(crate) fn with_threads(mut self, threads: usize) -> Self {
        self.kernels.threads = u16::try_from(threads).ok();
        self
    }

    /// The same with as many threads as the device has by itself.
    pub(crate) fn without_threads(mut self) -> Self {
        self.kernels.threads = None;
        self
    }

    /// Options of it for another process, but for the device, its threads and the format.
    pub(crate) fn words(&self) -> Vec<String> {
        let Kernels { threads: _, cpu_path, no_tune, no_collapse } = &self.kernels;
        let path = (*cpu_path != CpuPath::detect()).then(|| format!("--cpu-path={cpu_path}"));
        let flags = [("--no-tune", *no_tune), ("--no-collapse", *no_collapse)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        path.into_iter().chain(flags).collect()
    }

    /// The device, and the format that is fast on it.
    pub(crate) fn settle(&self) -> Result<Device, CliError> {
        let device = self.or("auto");
        if self.dtype.is_some() {
            return Ok(device);
        }
        let fast = match device.backend()? {
            Backend::Cpu { path, .. } if path.amx => DType::Bf16,
            Backend::Cpu { .. } | Backend::Reference => DType::F32,
            #[cfg(feature = "gpu")]
            Backend::Gpu(gpu) => match gpu.info() {
                Some(info) if info.f16 => DType::F16,
                _ => DType::F32,
            },
        };
        Ok(Device { dtype: fast, ..device })
    }
}

impl Device {
    pub(crate) fn backend(&self) -> Result<Backend, CliError> {
        match (self.name.find()?, self.kernels.threads) {
            (Backend::Cpu { threads, .. }, n) => {
                Ok(Backend::Cpu { threads: n.map_or(threads, usize::from), path: self.kernels.cpu_path })
            }
            #[cfg(feature = "gpu")]
            (Backend::Gpu(device), None) => {
                Ok(Backend::Gpu(crate::tune::apply(device, !self.kernels.no_tune)))
            }
            (backend, Some(_)) => Err(CliError::Threads { backend: backend.name() }),
            (backend, None) => Ok(backend),
        }
    }

    /// As `backend`, with the fastest kernels of a GPU, which are looked for if they never were.
    #[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "only a GPU has variants"))]
    pub(crate) fn tuned_backend(&self, out: &Output) -> Result<Backend, CliError> {
        match self.backend()? {
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) if !self.kernels.no_tune => {
                Ok(Backend::Gpu(crate::tune::tuned(device, self.dtype, out)?))
            }
            backend => Ok(backend),
        }
    }

    pub(crate) fn build(&self) -> Build {
        Build { dtype: self.dtype, collapse: !self.kernels.no_collapse }
    }
}
