//! Budgets as people write them, and what this machine has.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use remaster_disk::free_space;
use remaster_plan::{SLICES, SPACE, Tiling, Wish, WishedMode};
use remaster_units::Tiles;

use crate::error::CliError;
use crate::machine;
use crate::spill::{self, Spill};

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
        let wrong = || format!("`{word}` is not a valid size; write 8G, 512M, 80% or -1G (free minus 1G)");
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

/// Memory for a run: less than a MiB is a unit that was forgotten.
pub(crate) fn ram(word: &str) -> Result<Amount, String> {
    match word.parse()? {
        Amount::Bytes(n) if n < 1 << 20 => {
            let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
            Err(format!("`{word}` means {n} bytes, but a run needs at least 1M; did you mean {digits}G?"))
        }
        amount => Ok(amount),
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
#[command(next_help_heading = "Memory")]
pub(crate) struct MemoryArgs {
    /// Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = ram)]
    pub(crate) ram: Amount,
    /// Disk limit for temporary data: 100G or -1G (free minus 1G) [default: -1G]
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        default_value = "-1G",
        hide_default_value = true
    )]
    disk: Amount,
    /// Folder for temporary data [default: the system's]
    ///
    /// The default is the first of the system's temporary folder, the output's folder and the user's cache that is on a
    /// disk. A folder in memory is used only if it is named here.
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// How to fit into memory: auto, whole, exact, shared-stats or blend
    #[arg(
        long,
        value_name = "MODE",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Expert",
        hide_short_help = true,
        long_help = "How to fit into memory:\n\
                     - auto: whole if it fits, else exact\n\
                     - whole: whole frames\n\
                     - exact: stripes; slower, less memory, the same result\n\
                     - shared-stats: bands; nearly the same result\n\
                     - blend: blended tiles; may show seams"
    )]
    mode: ModeWord,
    /// Stripes in exact mode [default: as few as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Expert", hide_short_help = true)]
    stripes: Option<u16>,
    /// Tile size in blend mode [default: 1024]
    #[arg(long, value_name = "PIXELS", help_heading = "Expert", hide_short_help = true)]
    tile: Option<usize>,
    /// Overlap of neighbouring tiles in blend mode [default: 128]
    #[arg(long, value_name = "PIXELS", help_heading = "Expert", hide_short_help = true)]
    overlap: Option<usize>,
    /// Frames per slice, a multiple of 4; 0 runs the whole clip at once [default: as fits]
    ///
    /// Changes the memory use, never the result.
    #[arg(long, value_name = "FRAMES", help_heading = "Expert", hide_short_help = true)]
    slice: Option<usize>,
}

/// Tiles of blend mode, in pixels.
const TILE: usize = 1024;
const OVERLAP: usize = 128;

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
        if self.mode != ModeWord::Blend {
            let flags = [("--tile", self.tile), ("--overlap", self.overlap)];
            if let Some((flag, _)) = flags.into_iter().find(|(_, given)| given.is_some()) {
                return Err(CliError::Tiles { flag });
            }
        }
        let mode = match (self.mode, self.stripes) {
            (ModeWord::Auto, None) => None,
            (ModeWord::Whole, None) => Some(WishedMode::Whole),
            (ModeWord::Exact, n) | (ModeWord::Auto, n @ Some(_)) => {
                Some(WishedMode::Exact { stripes: n.map(usize::from) })
            }
            (ModeWord::SharedStats, None) => Some(WishedMode::SharedStats),
            (ModeWord::Blend, None) => {
                let (tile, overlap) = (self.tile.unwrap_or(TILE), self.overlap.unwrap_or(OVERLAP));
                let tiling = Tiling::new([tile; 2], [overlap; 2], SPACE);
                Some(WishedMode::Blend(tiling.map_err(|source| CliError::Sizes { source })?))
            }
            (ModeWord::Whole | ModeWord::SharedStats | ModeWord::Blend, Some(_)) => {
                return Err(CliError::Stripes);
            }
        };
        Ok(Wish { mode, slice: self.slice })
    }

    /// The same with slices as short as they can be, unless others were asked for.
    pub(crate) fn in_short_slices(&self) -> Self {
        MemoryArgs { slice: self.slice.or(Some(SLICES[SLICES.len() - 1])), ..self.clone() }
    }

    /// The folder of the spill file of a run that writes to `output`.
    pub(crate) fn spill(&self, output: Option<&Path>) -> Result<Spill, CliError> {
        spill::choose(self.spill.as_deref(), output)
    }

    /// Bytes of memory that a run may use. A plan may be for another machine; a run may not.
    pub(crate) fn allowed(&self, real: bool) -> Result<u64, CliError> {
        allowed(self.ram, real)
    }

    /// Bytes of disk that may be used in `spill`.
    fn disk(&self, spill: &Spill) -> Result<u64, CliError> {
        if spill.none {
            return Ok(0);
        }
        let free = free_space(&spill.folder);
        Ok(self.disk.resolve("--disk", free, free).unwrap_or(u64::MAX / 4))
    }

    /// Whether frames are cut so that results change.
    pub(crate) fn changes_frames(&self) -> bool {
        matches!(self.mode, ModeWord::SharedStats | ModeWord::Blend)
    }

    /// How frames are cut, where that changes them.
    pub(crate) fn tiles(&self) -> Option<Tiles> {
        let pixels =
            |given: Option<usize>, usual: usize| u32::try_from(given.unwrap_or(usual)).unwrap_or(u32::MAX);
        match self.mode {
            ModeWord::SharedStats => Some(Tiles::SharedStats),
            ModeWord::Blend => Some(Tiles::Blend([pixels(self.tile, TILE), pixels(self.overlap, OVERLAP)])),
            ModeWord::Auto | ModeWord::Whole | ModeWord::Exact => None,
        }
    }

    /// The same, cut so if that changes frames.
    pub(crate) fn with_tiles(self, tiles: Option<Tiles>) -> Self {
        match tiles {
            None => self,
            Some(Tiles::SharedStats) => {
                MemoryArgs { mode: ModeWord::SharedStats, tile: None, overlap: None, ..self }
            }
            Some(Tiles::Blend([tile, overlap])) => {
                let (tile, overlap) = (Some(tile as usize), Some(overlap as usize));
                MemoryArgs { mode: ModeWord::Blend, tile, overlap, ..self }
            }
        }
    }

    /// The folder for temporary data that was asked for.
    pub(crate) fn spill_folder(&self) -> Option<&Path> {
        self.spill.as_deref()
    }

    /// The same with this much memory.
    pub(crate) fn with_ram(&self, bytes: u64) -> Self {
        MemoryArgs { ram: Amount::Bytes(bytes), ..self.clone() }
    }

    /// The same with this much disk.
    pub(crate) fn with_disk(&self, bytes: u64) -> Self {
        MemoryArgs { disk: Amount::Bytes(bytes), ..self.clone() }
    }

    /// Bytes of memory and of disk that a run may use.
    pub(crate) fn resolve(&self, room: &Room<'_>) -> Result<(u64, u64), CliError> {
        Ok((self.allowed(room.real)?, self.disk(&self.spill(room.output)?)?))
    }
}

/// Bytes of memory that `--ram` allows.
pub(crate) fn allowed(ram: Amount, real: bool) -> Result<u64, CliError> {
    let machine = machine::memory();
    match (ram, machine.free) {
        // Where the system does not say how much there is, only the default is without a limit.
        (Amount::FreeLess(_), None) => Ok(u64::MAX / 4),
        (ram, free) => {
            let given = ram.resolve("--ram", machine.total, free)?;
            match machine.total.filter(|total| real && given > *total) {
                Some(total) => Err(CliError::MoreThanThereIs { given, total }),
                None => Ok(given),
            }
        }
    }
}

/// What budgets are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    /// Whether something will run, or is only planned.
    pub(crate) real: bool,
    /// Where it will write to.
    pub(crate) output: Option<&'a Path>,
}

/// Memory that a run takes beside the network.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Held {
    /// Code, threads and the small things of the process.
    #[serde(rename = "process_bytes")]
    pub(crate) process: u64,
    /// Frames and tensors on their way in and out.
    #[serde(rename = "frames_bytes")]
    pub(crate) frames: u64,
    /// ffmpeg.
    #[serde(rename = "children_bytes")]
    pub(crate) children: u64,
}

impl Held {
    pub(crate) fn total(&self) -> u64 {
        self.process.saturating_add(self.frames).saturating_add(self.children)
    }
}

/// Bytes as they are written behind a flag, never less than `n`: 431M, 12.3G.
pub(crate) fn as_flag(n: u64) -> String {
    let mib = n.div_ceil(1 << 20);
    if mib < 10_000 {
        return format!("{mib}M");
    }
    let tenths = (u128::from(n) * 10).div_ceil(1 << 30);
    // The last digit may be rounded down when it is read back.
    let tenths = tenths + u128::from(tenths % 10 != 0);
    format!("{}.{}G", tenths / 10, tenths % 10)
}

/// Bytes that a line of a file of the system says; `None` where there is none.
fn kernel_field(file: &str, name: &str) -> Option<u64> {
    machine::field(&std::fs::read_to_string(file).ok()?, name)
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

    #[test]
    fn a_forgotten_unit_is_noticed() {
        for word in ["2", "0", "1023K", "16 "] {
            assert!(ram(word).is_err(), "{word}");
        }
        assert!(ram("2").unwrap_err().contains("did you mean 2G?"));
        assert_eq!(ram("1M"), Ok(Amount::Bytes(1 << 20)));
        assert_eq!(ram("-512M"), Ok(Amount::FreeLess(512 << 20)));
    }

    #[test]
    fn a_size_that_is_advised_is_enough_when_it_is_typed() {
        let mut n = 1u64;
        while n < 1 << 55 {
            for n in [n - 1, n, n + 1, n / 3 * 4, n / 7 * 9] {
                let Ok(Amount::Bytes(read)) = as_flag(n).parse() else { panic!("{}", as_flag(n)) };
                assert!(read >= n, "{n}: {}", as_flag(n));
                assert!(read <= n + n / 50 + (2 << 20), "{n}: {}", as_flag(n));
            }
            n = n * 5 / 3 + 1;
        }
    }
}
