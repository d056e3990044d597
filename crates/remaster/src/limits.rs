//! Memory and disk that a run may use, and how its work may be cut.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use remaster_plan::{SPACE, Tiling, Wish, WishedMode};
use remaster_units::Tiles;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine::host::Machine;
use crate::machine::spill::{self, Spill};

/// `8G`, `80%` of all there is, or `-1G`: what is free now, less one gibibyte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// A share of all there is.
    Percent(f64),
    /// What is free now, less so many bytes.
    FreeLess(u64),
}

impl TryFrom<String> for Amount {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        word.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Bytes(n) => write!(f, "{n}"),
            Amount::Percent(p) => write!(f, "{p}%"),
            Amount::FreeLess(n) => write!(f, "-{n}"),
        }
    }
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
pub fn ram(word: &str) -> Result<Amount, String> {
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
    pub fn bytes(self, what: &'static str) -> Result<u64, Error> {
        self.resolve(what, None, None)
    }

    /// In bytes, where there is this much in all and this much free.
    pub(crate) fn resolve(
        self,
        what: &'static str,
        total: Option<u64>,
        free: Option<u64>,
    ) -> Result<u64, Error> {
        let unknown = Error::UnknownMemory { what };
        match self {
            Amount::Bytes(n) => Ok(n),
            Amount::Percent(p) => total.map(|n| (n as f64 * p / 100.0) as u64).ok_or(unknown),
            Amount::FreeLess(n) => free.map(|f| f.saturating_sub(n)).ok_or(unknown),
        }
    }
}

/// How much memory may be used, and how the work may be cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole run, ffmpeg included.
    pub ram: Amount,
    /// GPU memory; free memory less a tenth, at least 512 MiB, if `None`.
    pub vram: Option<Amount>,
    /// Disk for temporary data.
    pub disk: Amount,
    /// Folder for temporary data. The first of the system's temporary folder, the output's folder and the user's cache that is
    /// on a disk, if `None`.
    pub spill: Option<PathBuf>,
    /// How to fit into memory.
    pub mode: Mode,
    /// Stripes in exact mode; as few as fit if `None`.
    pub stripes: Option<u16>,
    /// Tile size in blend mode, in pixels; 1024 if `None`.
    pub tile: Option<usize>,
    /// Overlap of neighbouring tiles in blend mode, in pixels; 128 if `None`.
    pub overlap: Option<usize>,
    /// Frames per slice, a multiple of 4; 0 runs the whole clip at once. Never changes the result.
    pub slice: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            ram: Amount::FreeLess(512 << 20),
            vram: None,
            disk: Amount::FreeLess(1 << 30),
            spill: None,
            mode: Mode::Auto,
            stripes: None,
            tile: None,
            overlap: None,
            slice: None,
        }
    }
}

/// Tiles of blend mode, in pixels.
const TILE: usize = 1024;
const OVERLAP: usize = 128;

/// How to fit into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Whole frames if they fit, else exact.
    #[default]
    Auto,
    /// Whole frames.
    Whole,
    /// Stripes: slower, less memory, the same result.
    Exact,
    /// Bands: nearly the same result.
    SharedStats,
    /// Blended tiles, which may show seams.
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

impl Limits {
    pub(crate) fn wish(&self) -> Result<Wish, Error> {
        if self.mode != Mode::Blend {
            let flags = [("--tile", self.tile), ("--overlap", self.overlap)];
            if let Some((flag, _)) = flags.into_iter().find(|(_, given)| given.is_some()) {
                return Err(Error::Tiles { flag });
            }
        }
        let mode = match (self.mode, self.stripes) {
            (Mode::Auto, None) => None,
            (Mode::Whole, None) => Some(WishedMode::Whole),
            (Mode::Exact, n) | (Mode::Auto, n @ Some(_)) => {
                Some(WishedMode::Exact { stripes: n.map(usize::from) })
            }
            (Mode::SharedStats, None) => Some(WishedMode::SharedStats),
            (Mode::Blend, None) => {
                let (tile, overlap) = (self.tile.unwrap_or(TILE), self.overlap.unwrap_or(OVERLAP));
                let tiling = Tiling::new([tile; 2], [overlap; 2], SPACE);
                Some(WishedMode::Blend(tiling.map_err(|source| Error::Sizes { source })?))
            }
            (Mode::Whole | Mode::SharedStats | Mode::Blend, Some(_)) => {
                return Err(Error::Stripes);
            }
        };
        Ok(Wish { mode, slice: self.slice })
    }

    /// The folder of the spill file of a run.
    pub(crate) fn spill(&self, room: &Room<'_>) -> Result<Spill, Error> {
        spill::choose(self.spill.as_deref(), room.output, room.machine)
    }

    /// The folder for temporary data.
    pub fn spill_folder(&self, machine: &Machine) -> Result<PathBuf, Error> {
        Ok(self.spill(&Room::of_plan(machine))?.folder)
    }

    /// Bytes of memory that a run may use. A plan may be for another machine; a run may not.
    pub(crate) fn allowed(&self, room: &Room<'_>) -> Result<u64, Error> {
        allowed(self.ram, room)
    }

    /// Bytes of disk that may be used in `spill`.
    fn disk(&self, spill: &Spill, machine: &Machine) -> Result<u64, Error> {
        if spill.none {
            return Ok(0);
        }
        let free = machine.free_space(&spill.folder);
        Ok(self.disk.resolve("--disk", free, free).unwrap_or(u64::MAX / 4))
    }

    /// How frames are cut, where that changes them.
    pub(crate) fn tiles(&self) -> Option<Tiles> {
        let pixels =
            |given: Option<usize>, usual: usize| u32::try_from(given.unwrap_or(usual)).unwrap_or(u32::MAX);
        match self.mode {
            Mode::SharedStats => Some(Tiles::SharedStats),
            Mode::Blend => Some(Tiles::Blend([pixels(self.tile, TILE), pixels(self.overlap, OVERLAP)])),
            Mode::Auto | Mode::Whole | Mode::Exact => None,
        }
    }

    /// The same, cut so if that changes frames.
    pub(crate) fn with_tiles(self, tiles: Option<Tiles>) -> Self {
        match tiles {
            None => self,
            Some(Tiles::SharedStats) => Limits { mode: Mode::SharedStats, tile: None, overlap: None, ..self },
            Some(Tiles::Blend([tile, overlap])) => {
                let (tile, overlap) = (Some(tile as usize), Some(overlap as usize));
                Limits { mode: Mode::Blend, tile, overlap, ..self }
            }
        }
    }

    /// Bytes of memory and of disk that a run may use.
    pub(crate) fn resolve(&self, room: &Room<'_>) -> Result<(u64, u64), Error> {
        Ok((self.allowed(room)?, self.disk(&self.spill(room)?, room.machine)?))
    }
}

/// Bytes of memory that `--ram` allows.
pub(crate) fn allowed(ram: Amount, room: &Room<'_>) -> Result<u64, Error> {
    let machine = room.machine.memory();
    match (ram, machine.free) {
        // Where the system does not say how much there is, only the default is without a limit.
        (ram, None) if ram == Limits::default().ram => Ok(u64::MAX / 4),
        (ram, free) => {
            let given = ram.resolve("--ram", machine.total, free)?;
            match machine.total.filter(|total| room.real && given > *total) {
                Some(total) => Err(Error::MoreThanThereIs { given, total }),
                None => Ok(given),
            }
        }
    }
}

/// What budgets are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub(crate) machine: &'a Machine,
    /// Whether something will run, or is only planned.
    pub(crate) real: bool,
    /// Where it will write to.
    pub(crate) output: Option<&'a Path>,
}

impl<'a> Room<'a> {
    /// Of a run that writes to `output`.
    pub(crate) fn of_run(machine: &'a Machine, output: Option<&'a Path>) -> Self {
        Room { machine, real: true, output }
    }

    /// Of a plan, perhaps for another machine.
    pub(crate) fn of_plan(machine: &'a Machine) -> Self {
        Room { machine, real: false, output: None }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::as_flag;

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
