//! Budgets as people write them, and what this machine has.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use remaster_engine::free_space;
use remaster_plan::{Budget, Tiling, Wish, WishedMode};

use crate::error::CliError;

/// `8G`, `80%` of all there is, or `-1G`: what is free now, less one gibibyte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    Bytes(u64),
    Percent(f64),
    FreeLess(u64),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let wrong = || format!("`{word}` is no amount of memory; write 8G, 512M, 80% or -1G (free less 1G)");
        if let Some(percent) = word.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            return if percent > 0.0 && percent <= 100.0 {
                Ok(Amount::Percent(percent))
            } else {
                Err(wrong())
            };
        }
        let (less, number) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let upper = number.to_ascii_uppercase();
        let upper = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
        let (digits, unit) = match upper.char_indices().last() {
            Some((i, 'K')) => (&upper[..i], 1u64 << 10),
            Some((i, 'M')) => (&upper[..i], 1 << 20),
            Some((i, 'G')) => (&upper[..i], 1 << 30),
            Some((i, 'T')) => (&upper[..i], 1 << 40),
            _ => (upper, 1),
        };
        let value: f64 = digits.parse().map_err(|_| wrong())?;
        let bytes = value * unit as f64;
        if !(0.0..1e18).contains(&bytes) || digits.starts_with(['+', '-']) {
            return Err(wrong());
        }
        let bytes = bytes as u64;
        Ok(if less { Amount::FreeLess(bytes) } else { Amount::Bytes(bytes) })
    }
}

impl Amount {
    /// In bytes, where only bytes make sense.
    pub(crate) fn bytes(self, what: &'static str) -> Result<u64, CliError> {
        self.resolve(what, None, None)
    }

    /// In bytes, where there is this much in all and this much free.
    pub(crate) fn resolve(
        self,
        what: &'static str,
        total: Option<u64>,
        free: Option<u64>,
    ) -> Result<u64, CliError> {
        let unknown = CliError::UnknownMemory { what };
        match self {
            Amount::Bytes(n) => Ok(n),
            Amount::Percent(p) => total.map(|n| (n as f64 * p / 100.0) as u64).ok_or(unknown),
            Amount::FreeLess(n) => free.map(|f| f.saturating_sub(n)).ok_or(unknown),
        }
    }
}

/// How much memory may be used, and how the work may be cut.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Memory for everything the run does: 8G, 80% (of the machine's), -1G (what is free less 1G).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M")]
    pub(crate) ram: Amount,
    /// Disk for what does not fit: 100G, or -1G (what is free less 1G).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-1G")]
    disk: Amount,
    /// Folder for what does not fit [default: the system's for temporary files].
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// auto, whole, exact (stripes: slower, less memory, the same result), shared-stats (bands, nearly the
    /// same result) or blend (tiles with seams).
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeWord,
    /// Stripes of exact mode [default: as few as fit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    stripes: Option<u16>,
    /// Rows and columns of a tile of blend mode, in pixels of the frame.
    #[arg(long, value_name = "PIXELS", default_value_t = 1024)]
    tile: usize,
    /// What neighbouring tiles share.
    #[arg(long, value_name = "PIXELS", default_value_t = 128)]
    overlap: usize,
    /// Frames per slice, a multiple of 4; 0 runs the clip in one piece. Changes memory, never the result
    /// [default: what fits].
    #[arg(long, value_name = "FRAMES")]
    slice: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ModeWord {
    Auto,
    Whole,
    Exact,
    SharedStats,
    Blend,
}

/// Code, threads and the small things of a process.
const PROCESS: u64 = 64 << 20;
/// What the driver of a GPU takes of the host beside that. Without it plans for a software device, which
/// brings a compiler along, fell short by up to 92 MiB.
const DRIVER: u64 = 96 << 20;

/// What a process takes that computes on a GPU, or that does not.
pub(crate) fn process(gpu: bool) -> u64 {
    PROCESS + if gpu { DRIVER } else { 0 }
}

impl MemoryArgs {
    pub(crate) fn wish(&self) -> Result<Wish, CliError> {
        let mode = match (self.mode, self.stripes) {
            (ModeWord::Auto, None) => None,
            (ModeWord::Whole, None) => Some(WishedMode::Whole),
            (ModeWord::Exact, n) | (ModeWord::Auto, n @ Some(_)) => {
                Some(WishedMode::Exact { stripes: n.map(usize::from) })
            }
            (ModeWord::SharedStats, None) => Some(WishedMode::SharedStats),
            (ModeWord::Blend, None) => {
                let tiling = Tiling::new([self.tile; 2], [self.overlap; 2]);
                Some(WishedMode::Blend(tiling.map_err(|source| CliError::Sizes { source })?))
            }
            (ModeWord::Whole | ModeWord::SharedStats | ModeWord::Blend, Some(_)) => {
                return Err(CliError::Stripes);
            }
        };
        Ok(Wish { mode, slice: self.slice })
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.spill.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// What a device that computes in host memory may use, when the process has `held` bytes beside it.
    pub(crate) fn shared(&self, held: u64) -> Result<Budget, CliError> {
        let (ram, disk) = self.resolve()?;
        Ok(Budget::Shared { ram: ram.saturating_sub(held), disk })
    }

    /// What a device may use that has `vram` bytes of its own for us.
    pub(crate) fn apart(&self, vram: u64, held: u64) -> Result<Budget, CliError> {
        let (ram, disk) = self.resolve()?;
        Ok(Budget::Apart { vram, ram: ram.saturating_sub(held), disk })
    }

    /// Bytes that the run may take in all.
    pub(crate) fn ram(&self) -> Result<u64, CliError> {
        Ok(self.resolve()?.0)
    }

    fn resolve(&self) -> Result<(u64, u64), CliError> {
        let (total, free) = machine();
        let disk = free_space(&self.folder());
        // Where the system does not say how much there is, only the default is without a limit.
        let ram = match (self.ram, free) {
            (Amount::FreeLess(_), None) => u64::MAX / 4,
            (ram, free) => ram.resolve("--ram", total, free)?,
        };
        Ok((ram, self.disk.resolve("--disk", disk, disk).unwrap_or(u64::MAX / 4)))
    }
}

/// Bytes that a line `name:  123 kB` of a file of the system says; `None` where there is none.
fn kernel_field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Bytes of memory in all, and those that are free; `None` where the system does not say.
fn machine() -> (Option<u64>, Option<u64>) {
    let field = |name| kernel_field("/proc/meminfo", name);
    (field("MemTotal:"), field("MemAvailable:"))
}

/// Bytes that are free now; no limit where the system does not say.
pub(crate) fn free() -> u64 {
    machine().1.unwrap_or(u64::MAX / 4)
}

/// Highest resident memory of this process so far.
pub(crate) fn resident() -> Option<u64> {
    kernel_field("/proc/self/status", "VmHWM:")
}

/// Resident memory of this process now.
pub(crate) fn resident_now() -> Option<u64> {
    kernel_field("/proc/self/status", "VmRSS:")
}

/// What the processor calls itself.
pub(crate) fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_people_write_them() {
        for (word, expected) in [
            ("8G", Amount::Bytes(8 << 30)),
            ("1.5g", Amount::Bytes(3 << 29)),
            ("512MiB", Amount::Bytes(512 << 20)),
            ("12345", Amount::Bytes(12345)),
            ("80%", Amount::Percent(80.0)),
            ("-1G", Amount::FreeLess(1 << 30)),
        ] {
            assert_eq!(word.parse(), Ok(expected), "{word}");
        }
        for word in ["", "G", "-", "0%", "101%", "8X", "--1G", "1e30G", "nanG", "%", "8 apples"] {
            assert!(word.parse::<Amount>().is_err(), "{word}");
        }
        assert_eq!(Amount::FreeLess(2).resolve("x", None, Some(1)).ok(), Some(0));
        assert!(Amount::Percent(50.0).resolve("x", None, None).is_err());
    }
}
