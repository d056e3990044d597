//! The command line as typed.

mod device;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
#[cfg(feature = "gpu")]
use remaster_compute::DType;
use remaster_model::vae::Direction;

#[cfg(feature = "gpu")]
use device::DeviceName;
pub(crate) use device::{BestDevice, Device};

use crate::batch::BatchArgs;
use crate::compare::CompareArgs;
use crate::config::ConfigArgs;
use crate::generate::{CompletionsArgs, ManArgs};
use crate::help;
use crate::media::{Programs, SizeArgs, SourceArgs, TargetArgs, is_pipe};
use crate::memory::{Amount, MemoryArgs};
use crate::models::{ListArgs, PullArgs, VerifyArgs};
use crate::probe::ProbeArgs;
use crate::progress::ProgressArgs;
use crate::restore::{PreviewArgs, RecipeArgs, RedecodeArgs, RestoreArgs};
use crate::scenes::ScenesArgs;
use crate::units::{AssembleArgs, FarmArgs, UnitRunArgs, UnitStatusArgs, VerifyFilmArgs};

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
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

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
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
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
            Command::Probe(_) | Command::Doctor(_) | Command::Batch(_) => None,
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

#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// GPU to tune, as listed by `remaster devices`, or auto
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) device: DeviceName,
    /// Number formats to tune for
    #[arg(long = "dtype", value_name = "FORMAT", value_delimiter = ',', default_value = "f16,f32")]
    pub(crate) dtypes: Vec<DType>,
    /// Height and width of the test frame
    #[arg(long, default_value_t = crate::tune::SIDE, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(8..=4096))]
    pub(crate) side: u16,
    /// Runs per kernel; the fastest counts
    #[arg(long, default_value_t = crate::tune::REPEAT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time convolutions, normalisation and attention against the machine's limits
    Kernels(BenchKernelsArgs),
    /// Measure a graphics card, as a block to paste into an issue
    ///
    /// Measures every kind of kernel, both halves of the VAE and blocks of the 3B transformer, on generated weights, and
    /// compares with the card's ceilings where they are known. What does not fit into the time is skipped and listed.
    #[cfg(feature = "gpu")]
    Card(BenchCardArgs),
    /// Time the full encoder or decoder on generated weights and frames
    Vae(BenchVaeArgs),
    /// Time the diffusion transformer
    Dit(BenchDitArgs),
    /// Time encoder and decoder at several frame sizes
    ///
    /// The time per pixel should not depend on the size.
    Scaling(BenchScalingArgs),
}

#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
pub(crate) struct BenchCardArgs {
    /// GPU to measure, as listed by `remaster devices`, or auto
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) device: DeviceName,
    /// Minutes that it may take
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) minutes: u16,
    /// Seconds that it may take, for tests
    #[arg(long, hide = true, value_name = "N", conflicts_with = "minutes")]
    pub(crate) seconds: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchScalingArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Heights and widths of the frames
    #[arg(long, value_name = "PIXELS,...", value_delimiter = ',', default_value = "128,256,512,1024", value_parser = clap::value_parser!(u16).range(8..=16384))]
    pub(crate) sides: Vec<u16>,
    /// Runs per size; the fastest counts
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Also plot the result to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Overwrite the plot if it exists
    #[arg(short = 'y', long, requires = "svg")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchKernelsArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Timed runs per kernel
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,
    /// Fail (exit code 6) if a kernel is slower than its recorded share of the limit
    #[arg(long)]
    pub(crate) gate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchVaeArgs {
    /// Which network to run
    #[arg(value_enum, value_name = "NETWORK")]
    pub(crate) what: NetworkName,
    #[command(flatten)]
    pub(crate) device: Device,
    /// Frames in the clip, 4n + 1
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, default_value_t = 256, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Frame width
    #[arg(long, default_value_t = 256, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Frames per slice; 0 runs the whole clip at once
    #[arg(long, default_value_t = 0, value_name = "FRAMES")]
    pub(crate) slice: usize,
    /// Timed runs
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,
    /// Load each weight when it is needed and free it afterwards
    #[arg(long)]
    pub(crate) stream_weights: bool,
    /// Run in exact mode with N stripes, spilling state and large activations to disk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) stripes: Option<u16>,
    /// Keep activations up to this size in memory [default: half of the largest]
    #[arg(long, value_name = "SIZE", requires = "stripes")]
    pub(crate) keep: Option<Amount>,
    /// Run in blend mode with tiles of this size that overlap by a quarter
    #[arg(long, value_name = "PIXELS", conflicts_with = "stripes")]
    pub(crate) tile: Option<usize>,
    /// Run once per line on stdin and print the seconds to stderr
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDitArgs {
    /// Model file, nano, or formula:3b, formula:7b for generated weights
    #[arg(short, long, value_name = "FILE", default_value = "formula:3b")]
    pub(crate) weights: String,
    #[command(flatten)]
    pub(crate) device: Device,
    /// Frames in the clip, 4n + 1
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, default_value_t = 720, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Frame width
    #[arg(long, default_value_t = 1280, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Only the first N blocks [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) layers: Option<u16>,
    /// Timed runs
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,
    /// Tokens that go through a block together, instead of what fits into memory
    #[arg(long, value_name = "N")]
    pub(crate) group: Option<usize>,
    /// Stream the weights, instead of deciding by memory
    #[arg(long)]
    pub(crate) stream_weights: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// Run once per line on stdin and print the seconds to stderr
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

/// A network that can be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanNetwork {
    Encode,
    Decode,
    Dit,
}

/// One of the two networks of the VAE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkName {
    Encode,
    Decode,
}

impl NetworkName {
    pub(crate) fn name(self) -> &'static str {
        self.direction().name()
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            NetworkName::Encode => Direction::Encode,
            NetworkName::Decode => Direction::Decode,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Video, image or folder of images to plan a restoration for
    #[arg(required_unless_present = "network", conflicts_with = "network")]
    pub(crate) input: Option<PathBuf>,
    /// Plan one network for a clip of the given size instead of a file
    #[arg(long, value_enum, value_name = "NAME", requires_all = ["height", "width"])]
    pub(crate) network: Option<PlanNetwork>,
    /// Frames in that clip, 4n + 1
    #[arg(long, default_value_t = 65, value_name = "N", conflicts_with = "input")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, value_name = "PIXELS", requires = "network")]
    pub(crate) height: Option<usize>,
    /// Frame width
    #[arg(long, value_name = "PIXELS", requires = "network")]
    pub(crate) width: Option<usize>,
    /// Plan for this model file: one network, or the VAE's round trip of a video
    ///
    /// Defaults to the published networks, which need not be installed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) weights: Option<String>,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    pub(crate) farm: FarmArgs,
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

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A safetensors file of any name
    pub(crate) file: PathBuf,
    /// List every tensor
    #[arg(long)]
    pub(crate) tensors: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Compare with the golden file or folder at PATH instead of the built-in ones
    #[arg(long, value_name = "PATH", help_heading = "Expert", hide_short_help = true)]
    pub(crate) goldens: Option<PathBuf>,
    /// Check every kernel variant of a GPU
    #[arg(long, help_heading = "Expert", hide_short_help = true)]
    pub(crate) all_variants: bool,
    /// Print every comparison as a Markdown table
    #[arg(long, conflicts_with = "json", help_heading = "Expert", hide_short_help = true)]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) programs: Programs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VaeCommand {
    /// Encode video, images or tensors to latents
    Encode(Box<VaeArgs>),
    /// Decode latents to video, images or tensors
    Decode(Box<VaeArgs>),
    /// Encode and decode again
    ///
    /// Audio, subtitles, chapters and tags of a video are copied.
    Roundtrip(Box<VaeArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct VaeArgs {
    /// Video, image, folder of images, or - for y4m on stdin; latents for decode
    ///
    /// Tensors work too: a .safetensors file with `x` [1, 3, T, H, W] in [-1, 1], or `latent` [1, 16, t, h, w].
    pub(crate) input: PathBuf,
    /// Model file; `remaster models list` shows what is installed
    ///
    /// `nano` is a small network inside the program, to try things out. `identity` passes frames through unchanged, to see
    /// what the file formats keep. `formula:tiny` and `formula:full` are generated weights for tests and timing.
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    pub(crate) weights: String,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Video, image, folder, or - for y4m on stdout; latents: .safetensors
    ///
    /// The ending decides the format; a name without one is a folder. Images can be .png, .jpg, .webp, .tif or .exr; a folder gets PNGs. Tensors are written to .safetensors.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: PathBuf,
    /// Overwrite the output if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) device: Device,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `--name=value`, for another process. The value may be any path.
pub(crate) fn word(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}
