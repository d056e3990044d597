//! This machine: its memory, disks, devices and caches.

pub(crate) mod awake;
pub(crate) mod cache;
pub mod calibrate;
pub(crate) mod devices;
#[cfg(feature = "gpu")]
pub mod drivers;
pub(crate) mod hashes;
pub(crate) mod host;
#[cfg(feature = "gpu")]
mod lock;
pub(crate) mod memory;
#[cfg(feature = "gpu")]
pub(crate) mod monitor;
pub(crate) mod producers;
pub(crate) mod rates;
pub(crate) mod spill;
#[cfg(feature = "gpu")]
pub(crate) mod tune;
#[cfg(feature = "gpu")]
pub(crate) mod verdict;

#[cfg(feature = "gpu")]
pub use devices::memory_of;
pub use devices::{CardMemory, DeviceInfo, DeviceLimits, Devices, LeftOut, devices};
pub use host::Machine;
pub use memory::{SystemMemory, cpu_name, resident, resident_now};
pub use spill::settle_temporary;
#[cfg(feature = "gpu")]
pub use tune::{REPEAT, SIDE, TunedKernel, Tuning};
