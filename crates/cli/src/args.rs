//! The command line as typed.

mod bench;
mod clips;
mod clock;
mod compat;
mod device;
mod limits;
mod media;
mod models;
#[cfg(test)]
mod pinned;
mod restore;
#[cfg(feature = "serve")]
mod serve;
mod units;
mod whole;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use remaster::is_pipe;

#[cfg(feature = "gpu")]
pub(crate) use bench::{BenchCardArgs, TuneArgs};
pub(crate) use bench::{
    BenchCommand, BenchDitArgs, BenchKernelsArgs, BenchScalingArgs, BenchUpscalerArgs, BenchVaeArgs,
    DoctorArgs, PlanArgs, VaeCommand,
};
pub(crate) use clips::{BatchArgs, CompareArgs, ProbeArgs, ScenesArgs};
pub(crate) use models::{InspectArgs, ListArgs, PullArgs, VerifyArgs};
pub(crate) use restore::{PreviewArgs, RedecodeArgs, RestoreArgs};
#[cfg(feature = "serve")]
pub(crate) use serve::{ServeArgs, TOKEN};
pub(crate) use units::{AssembleArgs, UnitRunArgs, UnitStatusArgs, VerifyFilmArgs};

use crate::help;

/// Words that stand for values.
fn one_of<T: Clone + Send + Sync + 'static>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).try_map(|typed| {
        let found = words.iter().find(|(word, _)| *word == typed);
        found.map(|(_, value)| value.clone()).ok_or_else(|| format!("`{typed}` is not known"))
    })
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar on a terminal, nothing elsewhere
    #[default]
    Auto,
    /// A line every 5 %, at least every 30 s
    Plain,
    /// JSON lines, see docs/json.md
    Json,
    /// No progress
    None,
}

/// For commands that take long: `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ProgressArgs {
    /// Progress on stderr: auto (bar), plain, json or none
    #[arg(id = "progress", long, value_enum, default_value = "auto", value_name = "KIND", help_heading = GLOBAL, hide_possible_values = true)]
    pub(crate) mode: ProgressMode,
}

/// Restore and upscale video with SeedVR2 on your own machine
#[derive(Debug, Parser)]
#[command(
    name = "remaster",
    version,
    arg_required_else_help = true,
    after_long_help = help::LONG
)]
pub(crate) struct Cli {
    /// Print errors only
    #[arg(short = 'q', long, global = true, conflicts_with = "verbose", help_heading = GLOBAL)]
    pub(crate) quiet: bool,
    /// Print details: the plan, the ffmpeg in use, a full summary
    #[arg(short = 'v', long, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,
    /// Print the result as one JSON document
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Stop when stdin is closed, as with Ctrl-C
    ///
    /// For programs that start this one and keep a pipe to its stdin. Useful where signals are not available.
    #[arg(long, global = true, hide_short_help = true, help_heading = GLOBAL)]
    pub(crate) cancel_on_stdin_close: bool,
    /// Use this config file instead of the user's
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL, hide_short_help = true)]
    config: Option<PathBuf>,
    /// Apply [preset.NAME] from the config file
    #[arg(long, global = true, value_name = "NAME", help_heading = GLOBAL)]
    preset: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
pub(crate) const GLOBAL: &str = "Global options";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Restore and upscale a video, an image or a folder of images
    ///
    /// `remaster IN` is shorthand for `remaster restore IN`, and `remaster A B` for `remaster batch A B`.
    Restore(Box<RestoreArgs>),
    /// Show a frame of each shot before and after
    ///
    /// Restores single frames and writes one sheet, to try settings before a long run.
    Preview(Box<PreviewArgs>),
    /// Write a restored film again in another codec, depth or colour
    ///
    /// Takes the latents that `remaster restore --keep-latents` kept, so that nothing is restored twice.
    Redecode(Box<RedecodeArgs>),
    /// Restore many films
    ///
    /// Goes on when one fails, skips those that are done, and ends with one report.
    Batch(Box<BatchArgs>),
    /// Start a page and an API for this machine
    ///
    /// Films are dropped on a page or sent by programs, wait in a queue and are restored one after the other. Jobs survive a
    /// restart. Clients of Replicate's API work with it; docs/serve.md describes it.
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
    /// Do units of a planned film, on any machine
    Unit {
        #[command(subcommand)]
        command: UnitCommand,
    },
    /// Join the units of a planned film
    ///
    /// Checks every unit, copies audio, subtitles, chapters and tags from the input, and writes OUTPUT.manifest.json.
    Assemble(AssembleArgs),
    /// Check a restored film against its manifest
    Verify(VerifyFilmArgs),
    /// Encode video to latents, decode latents, or both
    Vae {
        #[command(subcommand)]
        command: VaeCommand,
    },
    /// Estimate memory, disk and time before a run
    Plan(Box<PlanArgs>),
    /// Show what a video file contains
    Probe(ProbeArgs),
    /// Measure the difference between two clips
    ///
    /// Reports PSNR, SSIM, SSIMULACRA2, delta E, flicker, colour drift and tile seams.
    Compare(CompareArgs),
    /// List where the shots of a clip begin
    ///
    /// Finds hard cuts. Fades and dissolves are not listed.
    Scenes(ScenesArgs),
    /// Download, list, verify and inspect models
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// List the devices that can run the network
    Devices,
    /// Check that this machine is ready
    ///
    /// Checks the device, its driver, ffmpeg and its encoders, model files, disk and memory, and compares results with
    /// the original implementation's.
    Doctor(DoctorArgs),
    /// Find the fastest kernels for a GPU
    ///
    /// Times every kernel for every layer and saves the fastest. Later runs on the GPU use them; results may differ in the
    /// last digits.
    #[cfg(feature = "gpu")]
    Tune(TuneArgs),
    /// Benchmark kernels or the whole network
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Print a shell completion script
    Completions {
        /// Shell to complete for
        #[arg(conflicts_with = "json")]
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// Write a page for every command to this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Describe this program for programs that wrap it
    Generate {
        #[command(subcommand)]
        command: GenerateCommand,
    },
    /// Print the licences of this program and of the data inside it
    Licenses,
    /// Do one task, which is a line of JSON on stdin. The end of stdin cancels it
    #[command(hide = true)]
    Work,
}

impl Command {
    /// Why closing stdin cannot cancel it.
    pub(crate) fn ignores_stdin_close(&self) -> Option<&'static str> {
        let reads = |paths: &[&PathBuf]| paths.iter().any(|p| is_pipe(p)).then_some("input from stdin");
        match self {
            Command::Vae {
                command: VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args),
            } => reads(&[&args.input]),
            Command::Restore(args) => reads(&[&args.input]),
            Command::Preview(args) => reads(&[&args.input]),
            Command::Redecode(args) => reads(&[&args.input]),
            Command::Compare(args) => reads(&[&args.a, &args.b]),
            Command::Scenes(args) => reads(&[&args.input]),
            Command::Probe(_) | Command::Doctor(_) | Command::Batch(_) | Command::Work => None,
            #[cfg(feature = "serve")]
            Command::Serve(_) => None,
            Command::Unit { .. } | Command::Assemble(_) | Command::Verify(_) => None,
            Command::Models { command: ModelsCommand::Verify(_) | ModelsCommand::Pull(_) } => None,
            _ => Some("this command"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum UnitCommand {
    /// Restore units of a plan
    ///
    /// Any number of machines may do so at the same time, and any unit any number of times: the first result counts.
    /// Units that are done are skipped. Run it again to resume.
    Run(Box<UnitRunArgs>),
    /// Show which units of a plan are done
    Status(UnitStatusArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    /// List the options of a restoration: names, types, ranges and defaults
    ///
    /// With --json, all that a binding needs: see docs/json.md.
    Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Download a model
    ///
    /// Files go to the Hugging Face cache, which other tools share. A transformer comes with the VAE and the text embedding
    /// that it needs, unless they are installed. Run the command again to continue a download that stopped.
    Pull(PullArgs),
    /// List installed models
    List(ListArgs),
    /// Check models for corruption
    ///
    /// Compares hashes with the published files, or checks tensor by tensor. Changes nothing.
    Verify(VerifyArgs),
    /// Show what a model file contains
    Inspect(InspectArgs),
}
