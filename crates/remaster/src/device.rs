//! What computes: the device, its number format and its kernels.

use remaster_compute::{Backend, CpuPath, DType};
use remaster_model::Build;
use remaster_units::UnitsError;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::event::Reporter;
use crate::machine::host::Machine;
#[cfg(feature = "gpu")]
use crate::machine::monitor;
#[cfg(feature = "gpu")]
use crate::machine::tune::{self, Networks};

/// A compute device by name. Looking it up opens the GPU driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    /// `cpu`, `auto` for the best GPU or else the CPU, or a name that [`crate::machine::devices`] lists. `None` is `auto`.
    pub name: Option<String>,
    /// Storage format; sums are always f32. `None` is f32, and for restorations the fast one of the device: f16 on GPUs, bf16 on
    /// CPUs with AMX, else f32.
    #[serde(with = "words")]
    pub dtype: Option<DType>,
    /// CPU threads; one per core if `None`.
    pub threads: Option<u16>,
    /// CPU kernels; the best ones of this machine if `None`.
    #[serde(with = "words")]
    pub cpu_path: Option<CpuPath>,
    /// Use the fastest kernels of a GPU, and look for them if they are not known.
    pub tune: bool,
    /// Fold upsamplers into one convolution.
    pub collapse: bool,
}

impl Default for Device {
    fn default() -> Self {
        Device { name: None, dtype: None, threads: None, cpu_path: None, tune: true, collapse: true }
    }
}

/// Values as the words that name them.
mod words {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let word = Option::<String>::deserialize(from)?;
        word.map(|word| word.parse().map_err(D::Error::custom)).transpose()
    }
}

impl Device {
    /// The device of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Device { name: Some(name.into()), ..Device::default() }
    }

    /// The same with the format of a plan.
    pub(crate) fn with_dtype(self, name: &str) -> Result<Self, Error> {
        let dtype = name.parse().map_err(|_| UnitsError::Plan { reason: format!("no format {name:?}") })?;
        Ok(Device { dtype: Some(dtype), ..self })
    }

    /// Looks the device up.
    pub fn find(&self, machine: &Machine) -> Result<Backend, Error> {
        let name = self.name.as_deref().unwrap_or("auto");
        let lower = name.to_ascii_lowercase();
        // Names of other tools.
        let other =
            ["cuda", "gpu", "rocm", "hip", "mps", "xpu", "nvidia"].iter().any(|name| lower.starts_with(name));
        if other || lower.bytes().all(|b| b.is_ascii_digit()) {
            let reason = format!(
                "there is no device `{name}`; use auto, cpu, or a name that `remaster devices` lists, such as vulkan:0"
            );
            return Err(Error::Device { reason });
        }
        machine.device(name).map_err(|reason| Error::Device { reason })
    }

    /// Options of it for another process, but for the device, its threads and the format.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = self.cpu_path.filter(|path| *path != CpuPath::detect());
        let path = path.map(|path| format!("--cpu-path={path}"));
        let flags = [("--no-tune", !self.tune), ("--no-collapse", !self.collapse)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        path.into_iter().chain(flags).collect()
    }

    /// The same with the format that is fast on it, unless one was asked for.
    pub(crate) fn settle(&self, machine: &Machine) -> Result<Self, Error> {
        if self.dtype.is_some() {
            return Ok(self.clone());
        }
        let fast = match self.backend(machine)? {
            Backend::Cpu { path, .. } if path.has_amx() => DType::Bf16,
            Backend::Cpu { .. } | Backend::Reference => DType::F32,
            #[cfg(feature = "gpu")]
            Backend::Gpu(gpu) => match gpu.info() {
                Some(info) if info.f16 => DType::F16,
                _ => DType::F32,
            },
        };
        Ok(Device { dtype: Some(fast), ..self.clone() })
    }

    /// The device with its threads and kernels. One that computed wrong numbers is refused.
    pub fn backend(&self, machine: &Machine) -> Result<Backend, Error> {
        let backend = self.backend_to_check(machine)?;
        #[cfg(feature = "gpu")]
        if let Backend::Gpu(device) = backend {
            monitor::refuse_wrong(device, machine)?;
        }
        Ok(backend)
    }

    /// The same for a check of the device, which may find that one is right again that was not.
    pub fn backend_to_check(&self, machine: &Machine) -> Result<Backend, Error> {
        match (self.find(machine)?, self.threads) {
            (Backend::Cpu { threads, .. }, n) => Ok(Backend::Cpu {
                threads: n.map_or(threads, usize::from),
                path: self.cpu_path.unwrap_or_else(CpuPath::detect),
            }),
            #[cfg(feature = "gpu")]
            (Backend::Gpu(device), None) => Ok(Backend::Gpu(tune::apply(device, self.tune, machine))),
            (backend, Some(_)) => Err(Error::Threads { backend: backend.name() }),
            (backend, None) => Ok(backend),
        }
    }

    /// As `backend`, with the fastest kernels of a GPU, which are looked for if they never were.
    #[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "only a GPU has variants"))]
    pub(crate) fn tuned_backend(
        &self,
        upscaler: bool,
        machine: &Machine,
        report: &Reporter<'_>,
    ) -> Result<Backend, Error> {
        match self.backend(machine)? {
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) if self.tune => {
                let networks = if upscaler { Networks::Upscalers } else { Networks::Restoration };
                Ok(Backend::Gpu(tune::tuned(device, networks, self.dtype(), machine, report)?))
            }
            backend => Ok(backend),
        }
    }

    /// The storage format; f32 unless another one was asked for.
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or(DType::F32)
    }

    /// How networks are built for it.
    pub fn build(&self) -> Build {
        Build { dtype: self.dtype(), collapse: self.collapse }
    }
}
