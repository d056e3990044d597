//! Options of units as typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::clock::{self, Until};
use super::members::Member;
use super::request::TypedArgs;
use crate::args::BestDevice;
use crate::error::CliError;
use crate::media::Programs;
use crate::memory::{Amount, MemoryArgs};
use crate::models::ModelDirArgs;
use crate::progress::ProgressArgs;

/// How a film is cut into units.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Units")]
pub(crate) struct CutArgs {
    /// Frames in a unit of work, about
    ///
    /// Shots are grouped up to this length. Longer shots are split, with the same result.
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..=1_000_000), hide_short_help = true)]
    pub(crate) unit_frames: u32,
    /// Frames in a piece, about: what is lost at most when a run is stopped. For tests
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) piece_frames: Option<u32>,
    /// Allow devices and encoders whose results differ in the last digits
    ///
    /// Without it all units are the same to the byte wherever they are done; other devices, versions of ffmpeg and hardware
    /// encoders are refused.
    #[arg(long, hide_short_help = true)]
    pub(crate) mix_devices: bool,
    /// Keep units as lossless FFV1 and encode the film at the end
    ///
    /// For encoders that need to see the whole film, such as those with a target bit rate: without it -b:v applies to each
    /// piece. Takes more disk.
    #[arg(long, hide_short_help = true)]
    pub(crate) lossless_units: bool,
}

/// How a run on this machine goes on, waits and stops.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Units")]
pub(crate) struct LocalArgs {
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    /// Devices to use at once, e.g. vulkan:0,vulkan:1, as listed by `remaster devices`
    ///
    /// Each does units of its own, in a process of its own, with an even share of --ram and --disk. A unit that fails on
    /// one is tried on another. All must be of one kind, or results differ in the last digits: see --mix-devices.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "name")]
    pub(crate) devices: Vec<String>,
    /// What each of them may use.
    #[arg(skip)]
    pub(crate) members: Vec<Member>,
    /// Folder for unfinished work [default: OUTPUT.remaster, beside the output]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) temp: Option<PathBuf>,
    /// Keep the folder of unfinished work when the film is done
    #[arg(long, hide_short_help = true)]
    pub(crate) keep: bool,
    /// Drop unfinished work of an earlier run and start over
    #[arg(long)]
    pub(crate) restart: bool,
    /// If a unit fails, write its input frames instead and go on
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_going: bool,
    /// Stop at this time of day, e.g. 07:00; run the same command again to resume
    ///
    /// Finishes the piece at work and ends with exit code 130.
    #[arg(long, value_name = "HH:MM", value_parser = clock::until)]
    pub(crate) until: Option<Until>,
    /// How long to wait for space on a full disk, e.g. 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = clock::span, hide_short_help = true)]
    pub(crate) wait_disk: Duration,
    /// How often to save unfinished work, e.g. 4m
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = clock::span, hide_short_help = true)]
    pub(crate) checkpoint: Duration,
    /// Do not write OUTPUT.manifest.json
    #[arg(long, hide_short_help = true)]
    pub(crate) no_manifest: bool,
    /// Also store the settings in the film itself, as the tag REMASTER (.mkv, .webm)
    #[arg(long, hide_short_help = true)]
    pub(crate) embed_manifest: bool,
}

impl LocalArgs {
    /// An error if an option was given that a run without units cannot follow.
    pub(crate) fn refuse(&self) -> Result<(), CliError> {
        let flags = [
            ("--devices", !self.devices.is_empty()),
            ("--until", self.until.is_some()),
            ("--keep-going", self.keep_going),
            ("--embed-manifest", self.embed_manifest),
            ("--lossless-units", self.cut.lossless_units),
        ];
        let what = "this run, which cannot be cut into units";
        let given = flags.iter().find(|(_, given)| *given);
        given.map_or(Ok(()), |(flag, _)| Err(CliError::NoEffect { flag, what }))
    }
}

/// `remaster unit run`.
#[derive(Debug, Args)]
pub(crate) struct UnitRunArgs {
    /// Folder or URL of the plan
    #[arg(long, value_name = "URL")]
    pub(crate) plan: OsString,
    /// Units to do, e.g. 0-3,7, or `missing` for all that are not done
    #[arg(long, value_name = "LIST", value_parser = indices)]
    pub(crate) index: Indices,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// How often to save unfinished work, e.g. 4m
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = clock::span, hide_short_help = true)]
    pub(crate) checkpoint: Duration,
    /// How long to wait for space on a full disk, e.g. 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = clock::span, hide_short_help = true)]
    pub(crate) wait_disk: Duration,
    /// Write the input frames instead of restoring them
    #[arg(long, hide = true)]
    pub(crate) leave: bool,
    /// Wait, go on and stop as stdin says: for the process that starts this one
    #[arg(long, hide = true)]
    pub(crate) obey_stdin: bool,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster unit status`.
#[derive(Debug, Args)]
pub(crate) struct UnitStatusArgs {
    /// Folder or URL of the plan
    #[arg(long, value_name = "URL")]
    pub(crate) plan: OsString,
}

/// `remaster assemble`.
#[derive(Debug, Args)]
pub(crate) struct AssembleArgs {
    /// Folder or URL of the plan
    #[arg(long, value_name = "URL")]
    pub(crate) plan: OsString,
    /// Output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: PathBuf,
    /// Overwrite the output if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    pub(crate) yes: bool,
    /// The film that was planned
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Folder for temporary data [default: that of the output]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) temp: Option<PathBuf>,
    /// Do not write OUTPUT.manifest.json
    #[arg(long, hide_short_help = true)]
    pub(crate) no_manifest: bool,
    /// Also store the settings in the film itself, as the tag REMASTER (.mkv, .webm)
    #[arg(long, hide_short_help = true)]
    pub(crate) embed_manifest: bool,
    #[command(flatten)]
    pub(crate) typed: TypedArgs,
    #[command(flatten)]
    pub(crate) programs: Programs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// What differs from machine to machine.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    /// The film that was planned
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Transformer file [default: as planned, from the folders of models]
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// VAE file [default: as planned, from the folders of models]
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) vae: Option<String>,
    /// Text embedding [default: as planned, from the folders of models]
    #[arg(long, value_name = "FILE", help_heading = "Model", hide_short_help = true)]
    pub(crate) text: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dirs: ModelDirArgs,
    /// Folder for the piece at work [default: as --spill]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) temp: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) device: BestDevice,
    #[command(flatten)]
    pub(crate) typed: TypedArgs,
    #[command(flatten)]
    pub(crate) programs: Programs,
}

/// Which units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Indices {
    /// By number, in order and once each.
    These(Vec<u32>),
    /// All that are not done.
    Missing,
}

/// `0-3,7` or `missing`.
fn indices(text: &str) -> Result<Indices, String> {
    if text == "missing" {
        return Ok(Indices::Missing);
    }
    let wrong = || format!("`{text}` is not a list of units; write 7, 0-3, 0-3,7 or missing");
    let mut all = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| digits.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= 1_000_000 {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    Ok(Indices::These(all.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_units_are_read() {
        let read = |text: &str| indices(text);
        assert_eq!(read("7"), Ok(Indices::These(vec![7])));
        assert_eq!(read("0-3,7,2-4"), Ok(Indices::These(vec![0, 1, 2, 3, 4, 7])));
        assert_eq!(read("missing"), Ok(Indices::Missing));
        for wrong in ["", "a", "Missing", "0,missing", "3-1", "-1", "1,,2", "1-", "0-1000000", "99999999999"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
