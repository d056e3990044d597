//! What computes: `--device`, `--dtype` and how kernels are chosen.

use clap::Args;
use remaster::Device;
use remaster_compute::{CpuPath, DType};

use super::whole::whole;

/// What computes, and in which precision.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// cpu, auto (best GPU), or a name from `remaster devices`
    ///
    /// `auto` uses the CPU if there is no GPU. `reference` runs naive loops to check results against; it is very slow.
    #[arg(long = "device", alias = "backend", default_value = "cpu", value_name = "NAME")]
    name: String,
    /// Storage format: f32, bf16 or f16; sums are always f32
    #[arg(long, default_value = "f32", value_name = "FORMAT")]
    dtype: DType,
    #[command(flatten)]
    kernels: KernelArgs,
}

/// Which kernels compute, and with how many threads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
struct KernelArgs {
    /// CPU threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1u16..=1024))]
    threads: Option<u16>,
    /// CPU kernels: auto, portable, neon, avx2, avx512 or amx; `,direct` disables Winograd
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

/// What computes; the fastest device by default.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct BestDeviceArgs {
    /// auto (best GPU, else cpu), or a name from `remaster devices` [default: auto]
    #[arg(long = "device", value_name = "NAME")]
    name: Option<String>,
    /// Storage format: f32, bf16 or f16 [default: f16 on GPUs, bf16 on CPUs with AMX, else f32]
    ///
    /// Sums are always f32.
    #[arg(long, value_name = "FORMAT", hide_default_value = true)]
    dtype: Option<DType>,
    #[command(flatten)]
    kernels: KernelArgs,
}

impl KernelArgs {
    fn on(&self, name: Option<String>, dtype: Option<DType>) -> Device {
        let KernelArgs { threads, cpu_path, no_tune, no_collapse } = self.clone();
        Device { name, dtype, threads, cpu_path: Some(cpu_path), tune: !no_tune, collapse: !no_collapse }
    }
}

impl DeviceArgs {
    /// The same for the library.
    pub(crate) fn device(&self) -> Device {
        self.kernels.on(Some(self.name.clone()), Some(self.dtype))
    }
}

impl BestDeviceArgs {
    /// The same for the library.
    pub(crate) fn device(&self) -> Device {
        self.kernels.on(self.name.clone(), self.dtype)
    }

    /// What was asked for, else this device in f32: as the commands do that run one network.
    pub(crate) fn or(&self, name: &str) -> Device {
        let name = self.name.clone().unwrap_or_else(|| name.to_owned());
        self.kernels.on(Some(name), Some(self.dtype.unwrap_or(DType::F32)))
    }
}
