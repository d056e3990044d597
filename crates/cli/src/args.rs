//! The command line as typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use remaster_compute::{Backend, CpuPath, DType};
use remaster_model::Build;
use remaster_model::vae::Direction;

use crate::compare::CompareArgs;
use crate::config::ConfigArgs;
use crate::error::CliError;
use crate::generate::{CompletionsArgs, ManArgs};
use crate::help;
use crate::media::{MediaArgs, ProbeArgs, is_pipe};
use crate::memory::{Amount, MemoryArgs};
use crate::models::{ListArgs, VerifyArgs};
use crate::output::Output;
use crate::progress::ProgressArgs;

/// Restore and upscale video with the SeedVR2 networks on your own machine.
#[derive(Debug, Parser)]
#[command(name = "remaster", version, arg_required_else_help = true, after_help = help::AFTER)]
pub(crate) struct Cli {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print details: which ffmpeg is used, and whether its version was tested.
    #[arg(short = 'v', long, global = true)]
    pub(crate) verbose: bool,
    /// Stop as with Ctrl-C when stdin is closed: for programs that start this one.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) cancel_on_stdin_close: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at model files.
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Check this machine: run parts of the network and compare with the original's numbers.
    Doctor(DoctorArgs),
    /// List what can compute on this machine, and what each device can do.
    Devices,
    /// Find the fastest kernels of a GPU and use them from now on. Results may differ in the last digits.
    #[cfg(feature = "gpu")]
    Tune(TuneArgs),
    /// Time kernels or the network on this machine.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Say what a run of the video VAE would take: memory, disk, work, and how it would be cut.
    Plan(PlanArgs),
    /// Measure how two clips differ: PSNR, SSIM, SSIMULACRA2, delta E, flicker, drift of colour, seams.
    Compare(CompareArgs),
    /// Say what is in a video file, and what would be done with it.
    Probe(ProbeArgs),
    /// Run the video VAE alone: on video, pictures or tensors.
    Vae {
        #[command(subcommand)]
        command: VaeCommand,
    },
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every command.
    Man(ManArgs),
}

impl Command {
    /// Why closing stdin cannot cancel it.
    pub(crate) fn ignores_stdin_close(&self) -> Option<&'static str> {
        let reads = |paths: &[&PathBuf]| paths.iter().any(|p| is_pipe(p)).then_some("an input from stdin");
        match self {
            Command::Vae {
                command: VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args),
            } => reads(&[&args.input]),
            Command::Compare(args) => reads(&[&args.a, &args.b]),
            Command::Probe(_) | Command::Doctor(_) => None,
            Command::Models { command: ModelsCommand::Verify(_) } => None,
            _ => Some("this command, which Ctrl-C ends at once"),
        }
    }
}

#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Which GPU: a name of `remaster devices`, or auto.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) device: Backend,
    /// Formats to tune for.
    #[arg(long = "dtype", value_name = "FORMAT", value_delimiter = ',', default_value = "f16,f32")]
    pub(crate) dtypes: Vec<DType>,
    /// Rows and columns of the frame that is timed.
    #[arg(long, default_value_t = crate::tune::SIDE, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(8..=4096))]
    pub(crate) side: u16,
    /// Runs of each kernel; the fastest counts.
    #[arg(long, default_value_t = crate::tune::REPEAT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Convolutions, normalisation and attention against the machine's limits.
    Kernels(BenchKernelsArgs),
    /// One half of the full network on made-up weights and frames.
    Vae(BenchVaeArgs),
    /// Both halves of the full network over frames of several sizes: time per pixel should not change.
    Scaling(BenchScalingArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchScalingArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Rows and columns of the frames.
    #[arg(long, value_name = "PIXELS,...", value_delimiter = ',', default_value = "128,256,512,1024", value_parser = clap::value_parser!(u16).range(8..=16384))]
    pub(crate) sides: Vec<u16>,
    /// Runs of each size; the fastest counts.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Also draw the result into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Overwrite that file if it exists.
    #[arg(short = 'y', long, requires = "svg")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchKernelsArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Timed runs of each kernel.
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Runs before them that do not count.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,
    /// Fail (exit code 6) if a kernel is below its recorded share of its limit.
    #[arg(long)]
    pub(crate) gate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchVaeArgs {
    /// encode or decode.
    #[arg(value_enum)]
    pub(crate) what: What,
    #[command(flatten)]
    pub(crate) device: Device,
    /// Frames of the clip, 4n + 1.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) frames: usize,
    /// Rows of a frame.
    #[arg(long, default_value_t = 256, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Columns of a frame.
    #[arg(long, default_value_t = 256, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Frames per slice; 0 runs the clip in one piece.
    #[arg(long, default_value_t = 0, value_name = "FRAMES")]
    pub(crate) slice: usize,
    /// Timed runs.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Runs before them that do not count.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,
    /// Load each weight when it is needed and give its memory back behind it.
    #[arg(long)]
    pub(crate) stream_weights: bool,
    /// Run in exact mode in this many stripes, with the largest activations and the state in the spill file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) stripes: Option<u16>,
    /// Activations of up to this many bytes stay in memory [default: half of the largest].
    #[arg(long, value_name = "SIZE", requires = "stripes")]
    pub(crate) keep: Option<Amount>,
    /// Run in blend mode with tiles of this size, sharing a quarter with their neighbours.
    #[arg(long, value_name = "PIXELS", conflicts_with = "stripes")]
    pub(crate) tile: Option<usize>,
    /// Run once for each line on stdin and print the seconds on stderr: for taking turns with a peer.
    #[arg(long)]
    pub(crate) step: bool,
}

/// A half of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    Encode,
    Decode,
}

impl What {
    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Encode => "encode",
            What::Decode => "decode",
        }
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            What::Encode => Direction::Encode,
            What::Decode => Direction::Decode,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// encode or decode.
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Frames of the clip, 4n + 1.
    #[arg(long, default_value_t = 65, value_name = "N")]
    pub(crate) frames: usize,
    /// Rows of a frame.
    #[arg(long, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Columns of a frame.
    #[arg(long, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Plan for a device with this much memory of its own; --ram is then what the host may give
    /// [default with a GPU: what is free on it, less a headroom].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    #[command(flatten)]
    pub(crate) device: Device,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// What a file is, what is in it, and what is wrong with it.
    Inspect(InspectArgs),
    /// Every model file that is found, and what it is by content.
    List(ListArgs),
    /// Whether model files are whole: by hash against the published ones, or tensor by tensor.
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A safetensors file, whatever its name.
    pub(crate) file: PathBuf,
    /// List every tensor.
    #[arg(long)]
    pub(crate) tensors: bool,
}

/// What computes, and in which precision.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Device {
    /// cpu, auto (the best GPU, else the cpu), a name of `remaster devices` such as vulkan:0, or reference
    /// (naive loops, very slow, for checking).
    #[arg(long = "device", visible_alias = "backend", default_value = "cpu", value_name = "NAME")]
    backend: Backend,
    /// Worker threads of the cpu backend [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Storage of activations and weights: f32, bf16 or f16. Sums are always f32.
    #[arg(long, default_value = "f32", value_name = "TYPE")]
    pub(crate) dtype: DType,
    /// Kernels of the cpu backend: auto, portable, avx2, avx512 or amx; `,direct` turns Winograd off.
    #[arg(long, default_value = "auto", value_name = "PATH", env = "REMASTER_CPU_PATH")]
    cpu_path: CpuPath,
    /// Use a GPU's default kernels: do not time them, and ignore what `remaster tune` found.
    #[arg(long)]
    no_tune: bool,
    /// Run each upsampler step by step instead of folded into one convolution.
    #[arg(long)]
    no_collapse: bool,
}

impl Device {
    pub(crate) fn backend(&self) -> Result<Backend, CliError> {
        match (self.backend, self.threads) {
            (Backend::Cpu { threads, .. }, n) => {
                Ok(Backend::Cpu { threads: n.map_or(threads, usize::from), path: self.cpu_path })
            }
            #[cfg(feature = "gpu")]
            (Backend::Gpu(device), None) => Ok(Backend::Gpu(crate::tune::apply(device, !self.no_tune))),
            (backend, Some(_)) => Err(CliError::Threads { backend: backend.name() }),
            (backend, None) => Ok(backend),
        }
    }

    /// As `backend`, with the fastest kernels of a GPU, which are looked for if they never were.
    #[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "only a GPU has variants"))]
    pub(crate) fn tuned_backend(&self, out: &Output) -> Result<Backend, CliError> {
        match self.backend()? {
            #[cfg(feature = "gpu")]
            Backend::Gpu(device) if !self.no_tune => {
                Ok(Backend::Gpu(crate::tune::tuned(device, self.dtype, out)?))
            }
            backend => Ok(backend),
        }
    }

    pub(crate) fn build(&self) -> Build {
        Build { dtype: self.dtype, collapse: !self.no_collapse }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Run every golden in this folder, or this one golden, instead of the ones inside the binary.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) goldens: Option<PathBuf>,
    /// With a GPU: with each of its kernels in turn.
    #[arg(long)]
    pub(crate) all_variants: bool,
    /// Print the table as Markdown.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VaeCommand {
    /// Frames to latents.
    Encode(VaeArgs),
    /// Latents to frames.
    Decode(VaeArgs),
    /// Frames to latents and back; sound, subtitles, chapters and tags of a video come along.
    Roundtrip(VaeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VaeArgs {
    /// A video file, a picture, a folder of pictures, or - for y4m from stdin. For decode: a file that encode wrote.
    /// Tensors too: safetensors with `x` [1, 3, T, H, W] in [-1, 1], or `latent` [1, 16, t, h, w].
    pub(crate) input: PathBuf,
    /// Where the result goes: a video file, a picture (.png, .jpg, .webp, .tif, .exr), a folder for PNGs, or - for
    /// y4m to stdout; latents and tensors go to .safetensors.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// A checkpoint; identity passes frames through untouched, to see what a file keeps; formula:tiny and
    /// formula:full are made-up weights for testing and timing.
    #[arg(long, value_name = "FILE|identity|formula:NAME")]
    pub(crate) weights: String,
    #[command(flatten)]
    pub(crate) media: MediaArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// Memory of a GPU that may be used: 8G, 80% (of the card's), -1G (what is free less 1G) [default: what
    /// is free, less a tenth and at least 512M].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) vram: Option<Amount>,
    /// Overwrite the output if it exists.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
    #[command(flatten)]
    pub(crate) device: Device,
}
