//! Options of units as typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use remaster::units::{AssembleRequest, Indices, OwnModels, Repeated, UnitsRequest};
use remaster::{Cut, Scripts, Units};
use remaster_media::{Encoding, Filters};
use remaster_units::emit::Kind;

use super::clock;
use super::limits::MachineArgs;
use super::media::{ProgramArgs, TargetArgs};
use super::models::ModelDirArgs;
use super::whole::whole;
use super::{ProgressArgs, one_of};

/// How a film is cut into units.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Units")]
pub(crate) struct CutArgs {
    /// Frames in a unit of work, about
    ///
    /// Shots are grouped up to this length. Longer shots are split, with the same result.
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = whole(1u32..=1_000_000), hide_short_help = true)]
    pub(crate) unit_frames: u32,
    /// Frames in a piece, about. For tests
    #[arg(long, value_name = "N", hide = true, value_parser = whole(1u32..=1_000_000))]
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
    /// Each does units of its own, in a separate process, with an even share of --ram and --disk. A unit that fails on
    /// one is tried on another. All must be of one kind, or results differ in the last digits: see --mix-devices.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "name")]
    pub(crate) devices: Vec<String>,
    /// Folder for unfinished work [default: OUTPUT.remaster, beside the output]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) temp: Option<PathBuf>,
    /// Keep the folder of unfinished work when the film is done
    #[arg(long, hide_short_help = true)]
    pub(crate) keep: bool,
    /// Drop unfinished work of an earlier run and start over
    #[arg(long)]
    pub(crate) restart: bool,
    /// If a unit fails because its input is bad, write its input frames instead and go on
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_going: bool,
    /// Stop at this time of day, e.g. 07:00; run the same command again to resume
    ///
    /// Stops as soon as the work is saved, and ends with exit code 130.
    #[arg(long, value_name = "HH:MM", value_parser = clock::until)]
    pub(crate) until: Option<Instant>,
    /// How long to wait for space on a full disk, e.g. 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = clock::span, hide_short_help = true)]
    pub(crate) wait_disk: Duration,
    /// How often to save unfinished work, e.g. 4m; frames of an upscaler at least once a minute
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = clock::span, hide_short_help = true)]
    pub(crate) checkpoint: Duration,
    /// Do not write OUTPUT.manifest.json
    #[arg(long, hide_short_help = true)]
    pub(crate) no_manifest: bool,
    /// Also store the settings in the film itself, as the tag REMASTER (.mkv, .webm)
    #[arg(long, hide_short_help = true)]
    pub(crate) embed_manifest: bool,
}

impl CutArgs {
    /// The same for the library.
    pub(crate) fn cut(&self) -> Cut {
        let CutArgs { unit_frames, piece_frames, mix_devices, lossless_units } = self.clone();
        Cut { unit_frames, piece_frames, mix_devices, lossless_units }
    }
}

impl LocalArgs {
    /// The same for the library.
    pub(crate) fn units(&self) -> Units {
        Units {
            cut: self.cut.cut(),
            devices: self.devices.clone(),
            temp: self.temp.clone(),
            keep: self.keep,
            restart: self.restart,
            keep_going: self.keep_going,
            wait_disk: self.wait_disk,
            checkpoint: self.checkpoint,
            manifest: !self.no_manifest,
            embed_manifest: self.embed_manifest,
        }
    }
}

/// `remaster unit run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UnitRunArgs {
    /// Folder or URL of the plan
    #[arg(long, value_name = "URL")]
    pub(crate) plan: OsString,
    /// Units to do, e.g. 0-3,7, or `missing` for all that are not done
    #[arg(long, value_name = "LIST", value_parser = indices)]
    pub(crate) index: Indices,
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
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) typed: TypedArgs,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
    /// How often to save unfinished work, e.g. 4m
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = clock::span, hide_short_help = true)]
    pub(crate) checkpoint: Duration,
    /// How long to wait for space on a full disk, e.g. 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = clock::span, hide_short_help = true)]
    pub(crate) wait_disk: Duration,
    /// Write the input frames instead of restoring them
    #[arg(long, hide = true)]
    pub(crate) leave: bool,
    /// Run the input, which is a script: for the process that starts this one, which was allowed to
    #[arg(long, hide = true, requires = "obey_stdin")]
    pub(crate) script: bool,
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
#[derive(Clone, Debug, Args)]
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
    pub(crate) programs: ProgramArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// Filters and encoder options, which a plan holds as they are only if they are in closed lists.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TypedArgs {
    /// Filters of the plan, if the plan cannot hold them: as they were given to `remaster plan`
    #[arg(long, value_name = "FILTERS", hide_short_help = true)]
    vf: Option<Filters>,
    /// Encoder options of the plan, if the plan cannot hold them: as they were given to `remaster plan`
    #[arg(long, value_name = "ENCODER", hide_short_help = true)]
    video: Option<Encoding>,
}

/// A plan for other machines.
#[derive(Debug, Args)]
pub(crate) struct FarmArgs {
    /// Put a plan of units for other machines into this folder or bucket
    ///
    /// A path, or s3://bucket/prefix, gs:// or az:// in builds with the feature `cloud`. `remaster unit run` does its units
    /// and `remaster assemble` joins them. docs/scale.md shows how.
    #[arg(long, value_name = "URL", requires = "input", help_heading = "Units")]
    pub(crate) store: Option<String>,
    /// Print a job for a scheduler: openjd, slurm, k8s or shell
    #[arg(
        long,
        value_parser = one_of(KINDS),
        value_name = "KIND",
        requires = "store",
        hide_possible_values = true,
        help_heading = "Units"
    )]
    pub(crate) emit: Option<Kind>,
    /// Units in a task of the job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1u32..=1000), requires = "emit", help_heading = "Units", hide_short_help = true)]
    pub(crate) chunk: u32,
    /// Container image of the Kubernetes job
    #[arg(long, value_name = "IMAGE", requires = "emit", help_heading = "Units", hide_short_help = true)]
    pub(crate) image: Option<String>,
    /// Output [default: NAME_upscaled]
    #[arg(short, long, value_name = "FILE", requires = "store", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Kueue queue of the Kubernetes job
    #[arg(long, value_name = "NAME", requires = "emit", help_heading = "Units", hide_short_help = true)]
    pub(crate) queue: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyFilmArgs {
    /// A film that was restored, with its manifest beside it
    pub(crate) film: PathBuf,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
}

/// Whose job.
const KINDS: &[(&str, Kind)] =
    &[("openjd", Kind::Openjd), ("slurm", Kind::Slurm), ("k8s", Kind::K8s), ("shell", Kind::Shell)];

impl TypedArgs {
    fn repeated(&self) -> Repeated {
        Repeated { filters: self.vf.clone(), encoder: self.video.clone() }
    }
}

impl UnitRunArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> UnitsRequest {
        let UnitRunArgs { model, vae, text, .. } = self.clone();
        UnitsRequest {
            plan: self.plan.clone(),
            index: self.index.clone(),
            input: self.input.clone(),
            models: OwnModels { model, vae, text, folder: self.dirs.model_dir.clone() },
            repeated: self.typed.repeated(),
            programs: self.programs.programs(),
            scripts: if self.script { Scripts::typed([&self.input]) } else { Scripts::default() },
            limits: self.machine.limits.limits(self.machine.vram),
            device: self.machine.device.device(),
            temp: self.temp.clone(),
            checkpoint: self.checkpoint,
            wait_disk: self.wait_disk,
            leave: self.leave,
            planned_here: self.obey_stdin,
        }
    }
}

impl AssembleArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> AssembleRequest {
        let AssembleArgs { plan, input, output, yes: overwrite, temp, embed_manifest, .. } = self.clone();
        let (manifest, repeated, programs) =
            (!self.no_manifest, self.typed.repeated(), self.programs.programs());
        AssembleRequest { plan, input, output, overwrite, temp, manifest, embed_manifest, repeated, programs }
    }
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
