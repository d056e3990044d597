//! Memory and disk, as typed.

use std::path::PathBuf;

use clap::Args;
use remaster::{Amount, Limits, Mode};

use super::device::BestDeviceArgs;
use super::one_of;
use super::whole::{at_least, whole};

const MODES: &[(&str, Mode)] = &[
    ("auto", Mode::Auto),
    ("whole", Mode::Whole),
    ("exact", Mode::Exact),
    ("shared-stats", Mode::SharedStats),
    ("blend", Mode::Blend),
];

/// How much memory may be used, and how the work may be cut.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct LimitArgs {
    /// Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = remaster::ram)]
    ram: Amount,
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
        value_parser = one_of(MODES),
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
    mode: Mode,
    /// Stripes in exact mode [default: as few as fit]
    #[arg(long, value_name = "N", value_parser = whole(1u16..=256), help_heading = "Expert", hide_short_help = true)]
    stripes: Option<u16>,
    /// Tile size in blend mode [default: 1024]
    #[arg(long, value_parser = at_least(0usize), value_name = "PIXELS", help_heading = "Expert", hide_short_help = true)]
    tile: Option<usize>,
    /// Overlap of neighbouring tiles in blend mode [default: 128]
    #[arg(long, value_parser = at_least(0usize), value_name = "PIXELS", help_heading = "Expert", hide_short_help = true)]
    overlap: Option<usize>,
    /// Frames per slice, a multiple of 4; 0 runs the whole clip at once [default: as fits]
    ///
    /// Changes the memory use, never the result.
    #[arg(long, value_parser = at_least(0usize), value_name = "FRAMES", help_heading = "Expert", hide_short_help = true)]
    slice: Option<usize>,
}

/// Memory, disk and device of a restoration.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) device: BestDeviceArgs,
}

impl LimitArgs {
    /// The same for the library, with the limit of a GPU.
    pub(crate) fn limits(&self, vram: Option<Amount>) -> Limits {
        let LimitArgs { ram, disk, spill, mode, stripes, tile, overlap, slice } = self.clone();
        Limits { ram, vram, disk, spill, mode, stripes, tile, overlap, slice }
    }
}
