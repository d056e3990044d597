//! How much memory there is: of the machine, of its control groups, and of the limits of this process.

#[cfg(target_os = "macos")]
mod apple;
#[cfg(not(any(windows, target_os = "macos")))]
mod kernel;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "macos")]
use apple as sys;
#[cfg(not(any(windows, target_os = "macos")))]
use kernel as sys;
#[cfg(windows)]
use windows as sys;

/// Memory in all, and what of it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemMemory {
    /// All of it.
    pub total: Option<u64>,
    /// What is free.
    pub free: Option<u64>,
}

/// What this process may have at most, and what it may have now.
pub(crate) fn memory() -> SystemMemory {
    sys::memory()
}

/// Highest resident memory of this process so far.
pub fn resident() -> Option<u64> {
    sys::resident()
}

/// Resident memory of this process now.
pub fn resident_now() -> Option<u64> {
    sys::resident_now()
}

/// What the processor calls itself.
pub fn cpu_name() -> Option<String> {
    sys::cpu_name()
}
