//! How much memory may be used, and how much a run takes.

use serde::{Deserialize, Serialize};

/// The most bytes in use at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// On the device: weights, activations, state, scratch, and what a GPU needs beside them.
    pub device: u64,
    /// In host memory, beside the device.
    pub host: u64,
    /// In the spill file.
    pub disk: u64,
}

/// What may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// The device computes in host memory: one figure for both.
    Shared {
        /// Bytes of memory.
        ram: u64,
        /// Bytes of the spill file.
        disk: u64,
    },
    /// The device has memory of its own.
    Apart {
        /// Bytes on the device.
        vram: u64,
        /// Bytes of host memory.
        ram: u64,
        /// Bytes of the spill file.
        disk: u64,
    },
}

/// Which memory is too small, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    /// Which one.
    pub memory: Memory,
    /// Bytes needed.
    pub needed: u64,
    /// Bytes allowed.
    pub allowed: u64,
}

/// A memory with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The device's own.
    Device,
    /// The host's.
    Host,
    /// The spill file.
    Disk,
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let memory = match self.memory {
            Memory::Device => "on the device",
            Memory::Host => "of memory",
            Memory::Disk => "of disk",
        };
        write!(f, "it takes {} {memory}, {} are allowed", bytes(self.needed), bytes(self.allowed))
    }
}

impl Budget {
    /// Whether the device has memory of its own.
    pub fn is_apart(&self) -> bool {
        matches!(self, Budget::Apart { .. })
    }

    /// Whether it is of the same kind as `other` and allows no more.
    pub fn is_within(&self, other: &Budget) -> bool {
        let mut sizes = self.sizes().into_iter().zip(other.sizes());
        self.is_apart() == other.is_apart() && sizes.all(|(own, other)| own <= other)
    }

    /// The first memory that is too small.
    pub fn lack(&self, peaks: &Peaks) -> Option<Lack> {
        let memories = [Memory::Device, Memory::Host, Memory::Disk];
        let needs = memories.into_iter().zip(self.needs(peaks)).zip(self.sizes());
        let mut needs = needs.map(|((memory, needed), allowed)| Lack { memory, needed, allowed });
        needs.find(|lack| lack.needed > lack.allowed)
    }

    /// A part of it.
    pub fn share(&self, part: u64, of: u64) -> Budget {
        let share = |n: u64| u128::from(n) * u128::from(part) / u128::from(of.max(1));
        self.each([0; 3], |n, _| share(n).min(u128::from(u64::MAX)) as u64)
    }

    /// What is left of it when a run with these peaks has its part.
    pub fn less(&self, peaks: &Peaks) -> Budget {
        self.each(self.needs(peaks), u64::saturating_sub)
    }

    /// It and what a run with these peaks takes.
    pub fn plus(&self, peaks: &Peaks) -> Budget {
        self.each(self.needs(peaks), u64::saturating_add)
    }

    /// The least of this kind that allows both itself and these peaks.
    pub fn raised(&self, peaks: &Peaks) -> Budget {
        self.each(self.needs(peaks), u64::max)
    }

    /// The smaller of two, memory by memory.
    pub(crate) fn least_of(&self, other: &Budget) -> Budget {
        self.each(other.sizes(), u64::min)
    }

    /// The larger of two, memory by memory.
    pub(crate) fn most_of(&self, other: &Budget) -> Budget {
        self.each(other.sizes(), u64::max)
    }

    /// The same but for what is near the computation: the device's memory, or the host's if it computes there.
    pub(crate) fn with_near(&self, near: u64) -> Budget {
        match *self {
            Budget::Shared { disk, .. } => Budget::Shared { ram: near, disk },
            Budget::Apart { ram, disk, .. } => Budget::Apart { vram: near, ram, disk },
        }
    }

    fn each(&self, [device, host, file]: [u64; 3], f: impl Fn(u64, u64) -> u64) -> Budget {
        match *self {
            Budget::Shared { ram, disk } => Budget::Shared { ram: f(ram, host), disk: f(disk, file) },
            Budget::Apart { vram, ram, disk } => {
                Budget::Apart { vram: f(vram, device), ram: f(ram, host), disk: f(disk, file) }
            }
        }
    }

    /// Bytes on the device, of host memory and of disk; a device without memory of its own has none.
    pub(crate) fn sizes(&self) -> [u64; 3] {
        match *self {
            Budget::Shared { ram, disk } => [0, ram, disk],
            Budget::Apart { vram, ram, disk } => [vram, ram, disk],
        }
    }

    /// The same of what a run takes.
    fn needs(&self, &Peaks { device, host, disk }: &Peaks) -> [u64; 3] {
        match self {
            Budget::Shared { .. } => [0, device.saturating_add(host), disk],
            Budget::Apart { .. } => [device, host, disk],
        }
    }
}

impl Peaks {
    /// Whether it takes no more than `other` of anything.
    pub fn is_within(&self, other: &Peaks) -> bool {
        self.device <= other.device && self.host <= other.host && self.disk <= other.disk
    }

    /// Of two runs one after the other.
    pub fn most(&self, other: &Peaks) -> Peaks {
        self.each(other, u64::max)
    }

    /// Of two runs at the same time.
    pub fn with(&self, other: &Peaks) -> Peaks {
        self.each(other, u64::saturating_add)
    }

    fn each(&self, other: &Peaks, f: impl Fn(u64, u64) -> u64) -> Peaks {
        let Peaks { device, host, disk } = *other;
        Peaks { device: f(self.device, device), host: f(self.host, host), disk: f(self.disk, disk) }
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Budget::Shared { ram, disk } => {
                write!(f, "{} of memory and {} of disk", bytes(ram), bytes(disk))
            }
            Budget::Apart { vram, ram, disk } => write!(
                f,
                "{} on the device, {} of memory and {} of disk",
                bytes(vram),
                bytes(ram),
                bytes(disk)
            ),
        }
    }
}

/// Bytes with a unit, rounded up in the last digit so that the figure is enough.
pub fn bytes(n: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => {
            let hundredths = (u128::from(n) * 100).div_ceil(u128::from(size));
            format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
        }
        None => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_names_the_memory_and_both_figures() {
        let peaks = Peaks { device: 3 << 30, host: 1 << 30, disk: 0 };
        let lack = Budget::Shared { ram: 3 << 30, disk: 0 }.lack(&peaks).unwrap();
        assert_eq!(lack.to_string(), "it takes 4.00 GiB of memory, 3.00 GiB are allowed");
        assert_eq!(Budget::Shared { ram: 4 << 30, disk: 0 }.lack(&peaks), None);
        let apart = Budget::Apart { vram: 2 << 30, ram: 2 << 30, disk: 0 };
        assert_eq!(apart.lack(&peaks).unwrap().memory, Memory::Device);
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes((1 << 30) + 1), "1.01 GiB");
    }
}
