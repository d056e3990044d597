//! Networks alone, as typed: plans, the VAE, checks and benchmarks.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use remaster::{Amount, NetworkKind, VaeRequest, VaeWork};
#[cfg(feature = "gpu")]
use remaster_compute::DType;
use remaster_model::vae::Direction;

use super::device::DeviceArgs;
use super::limits::LimitArgs;
use super::media::{ProgramArgs, SizeArgs, SourceArgs, TargetArgs};
use super::restore::RecipeArgs;
use super::units::FarmArgs;
use super::whole::{at_least, whole};
use super::{ProgressArgs, one_of};

#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// GPU to tune, as listed by `remaster devices`, or auto
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) device: String,
    /// Number formats to tune for
    #[arg(long = "dtype", value_name = "FORMAT", value_delimiter = ',', default_value = "f16,f32")]
    pub(crate) dtypes: Vec<DType>,
    /// Height and width of the test frame
    #[arg(long, default_value_t = remaster::machine::SIDE, value_name = "PIXELS", value_parser = whole(8u16..=4096))]
    pub(crate) side: u16,
    /// Runs per kernel; the fastest counts
    #[arg(long, default_value_t = remaster::machine::REPEAT, value_name = "N", value_parser = whole(1u16..=1000))]
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
    /// Time an upscaler
    Upscaler(BenchUpscalerArgs),
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
    pub(crate) device: String,
    /// Minutes that it may take
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole(1u16..=60))]
    pub(crate) minutes: u16,
    /// Seconds that it may take, for tests
    #[arg(long, value_parser = at_least(0u16), hide = true, value_name = "N", conflicts_with = "minutes")]
    pub(crate) seconds: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchScalingArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Heights and widths of the frames
    #[arg(long, value_name = "PIXELS,...", value_delimiter = ',', default_value = "128,256,512,1024", value_parser = whole(8u16..=16384))]
    pub(crate) sides: Vec<u16>,
    /// Runs per size; the fastest counts
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = whole(1u16..=1000))]
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
    pub(crate) device: DeviceArgs,
    /// Timed runs per kernel
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = whole(1u16..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(0u16..=1000))]
    pub(crate) warmup: u16,
    /// Fail (exit code 6) if a kernel is slower than its recorded share of the limit
    #[arg(long)]
    pub(crate) gate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchVaeArgs {
    /// Which network to run
    #[arg(value_parser = one_of(DIRECTIONS), value_name = "NETWORK")]
    pub(crate) what: Direction,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Frames in the clip, 4n + 1
    #[arg(long, value_parser = at_least(0usize), default_value_t = 5, value_name = "N")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, value_parser = at_least(0usize), default_value_t = 256, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Frame width
    #[arg(long, value_parser = at_least(0usize), default_value_t = 256, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Frames per slice; 0 runs the whole clip at once
    #[arg(long, value_parser = at_least(0usize), default_value_t = 0, value_name = "FRAMES")]
    pub(crate) slice: usize,
    /// Timed runs
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = whole(1u16..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(0u16..=1000))]
    pub(crate) warmup: u16,
    /// Load each weight when it is needed and free it afterwards
    #[arg(long)]
    pub(crate) stream_weights: bool,
    /// Run in exact mode with N stripes, spilling state and large activations to disk
    #[arg(long, value_name = "N", value_parser = whole(1u16..=4096))]
    pub(crate) stripes: Option<u16>,
    /// Keep activations up to this size in memory [default: half of the largest]
    #[arg(long, value_name = "SIZE", requires = "stripes")]
    pub(crate) keep: Option<Amount>,
    /// Run in blend mode with tiles of this size that overlap by a quarter
    #[arg(long, value_parser = at_least(0usize), value_name = "PIXELS", conflicts_with = "stripes")]
    pub(crate) tile: Option<usize>,
    /// Run once per line on stdin and print the seconds to stderr
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDitArgs {
    /// Model file, or formula:3b, formula:7b for generated weights
    #[arg(short, long, value_name = "FILE", default_value = "formula:3b")]
    pub(crate) weights: String,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Frames in the clip, 4n + 1
    #[arg(long, value_parser = at_least(0usize), default_value_t = 5, value_name = "N")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, value_parser = at_least(0usize), default_value_t = 720, value_name = "PIXELS")]
    pub(crate) height: usize,
    /// Frame width
    #[arg(long, value_parser = at_least(0usize), default_value_t = 1280, value_name = "PIXELS")]
    pub(crate) width: usize,
    /// Only the first N blocks [default: all]
    #[arg(long, value_name = "N", value_parser = whole(1u16..=1024))]
    pub(crate) layers: Option<u16>,
    /// Timed runs
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1u16..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = whole(0u16..=1000))]
    pub(crate) warmup: u16,
    /// Tokens that go through a block together, instead of what fits into memory
    #[arg(long, value_parser = at_least(0usize), value_name = "N")]
    pub(crate) group: Option<usize>,
    /// Stream the weights, instead of deciding by memory
    #[arg(long)]
    pub(crate) stream_weights: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Run once per line on stdin and print the seconds to stderr
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchUpscalerArgs {
    /// Upscaler to run: anime, or a file
    #[arg(short, long, value_name = "MODEL", default_value = "anime")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Frames in the clip
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1u16..=1000))]
    pub(crate) frames: u16,
    /// Frame height
    #[arg(long, default_value_t = 270, value_name = "PIXELS", value_parser = whole(1u16..=16384))]
    pub(crate) height: u16,
    /// Frame width
    #[arg(long, default_value_t = 480, value_name = "PIXELS", value_parser = whole(1u16..=16384))]
    pub(crate) width: u16,
    /// Timed runs
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole(1u16..=1000))]
    pub(crate) repeat: u16,
    /// Untimed runs before them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(0u16..=1000))]
    pub(crate) warmup: u16,
    /// Run once per line on stdin and print the seconds to stderr
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

/// Networks that can be planned.
const NETWORKS: &[(&str, NetworkKind)] =
    &[("encode", NetworkKind::Encode), ("decode", NetworkKind::Decode), ("dit", NetworkKind::Transformer)];

/// The two networks of the VAE.
const DIRECTIONS: &[(&str, Direction)] = &[("encode", Direction::Encode), ("decode", Direction::Decode)];

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Video, image or folder of images to plan a restoration for
    #[arg(required_unless_present = "network", conflicts_with = "network")]
    pub(crate) input: Option<PathBuf>,
    /// Plan one network for a clip of the given size instead of a file
    #[arg(long, value_parser = one_of(NETWORKS), value_name = "NAME", requires_all = ["height", "width"])]
    pub(crate) network: Option<NetworkKind>,
    /// Frames in that clip, 4n + 1
    #[arg(long, value_parser = at_least(0usize), default_value_t = 65, value_name = "N", conflicts_with = "input")]
    pub(crate) frames: usize,
    /// Frame height
    #[arg(long, value_parser = at_least(0usize), value_name = "PIXELS", requires = "network")]
    pub(crate) height: Option<usize>,
    /// Frame width
    #[arg(long, value_parser = at_least(0usize), value_name = "PIXELS", requires = "network")]
    pub(crate) width: Option<usize>,
    /// Plan for this model file: one network, or the VAE's round trip of a video
    ///
    /// Defaults to the published networks, which need not be installed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) weights: Option<String>,
    /// Plan for a graphics card that is not there, such as "RTX 4060"
    ///
    /// Says what stays on the card and what is streamed, and the least time by the ceilings of its kernels, where they are
    /// known. An unknown name lists the cards.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["network", "weights", "store"],
        help_heading = "Device"
    )]
    pub(crate) card: Option<String>,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    pub(crate) farm: FarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
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
    pub(crate) programs: ProgramArgs,
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

#[derive(Clone, Debug, Args)]
pub(crate) struct VaeArgs {
    /// Video, image, folder of images, or - for y4m on stdin; latents for decode
    ///
    /// Tensors work too: a .safetensors file with `x` [1, 3, T, H, W] in [-1, 1], or `latent` [1, 16, t, h, w].
    pub(crate) input: PathBuf,
    /// Model file; `remaster models list` shows what is installed
    ///
    /// `identity` passes frames through unchanged, to see what the file formats keep. `formula:tiny` and `formula:full` are
    /// generated weights for tests and timing.
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
    pub(crate) limits: LimitArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl VaeCommand {
    /// What was typed behind it.
    pub(crate) fn args(&self) -> &VaeArgs {
        let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = self;
        args
    }

    /// The same for the library.
    pub(crate) fn request(&self) -> VaeRequest {
        let work = match self {
            VaeCommand::Encode(_) => VaeWork::Encode,
            VaeCommand::Decode(_) => VaeWork::Decode,
            VaeCommand::Roundtrip(_) => VaeWork::Roundtrip,
        };
        let args = self.args();
        let VaeArgs { input, weights, output, yes: overwrite, .. } = args.clone();
        let (source, target, size) = (args.source.source(), args.target.target(), args.size.size());
        let (limits, device) = (args.limits.limits(args.vram), args.device.device());
        VaeRequest { work, input, weights, source, output, overwrite, target, size, limits, device }
    }
}
