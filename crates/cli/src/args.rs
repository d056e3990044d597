//! The command line as typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use remaster_compute::{Backend, DType};

/// Restore and upscale video with the SeedVR2 networks on your own machine.
///
/// Results go to stdout, words for people to stderr. Exit codes: 0 done, 2 wrong usage, 3 bad input,
/// 4 would not fit in memory, 5 the device failed, 6 a check failed, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "remaster", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,

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
    /// Run the video VAE alone, on tensors or still images.
    Vae {
        #[command(subcommand)]
        command: VaeCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// What a file is, what is in it, and what is wrong with it.
    Inspect(InspectArgs),
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
    /// cpu, or reference (naive loops, very slow, for checking).
    #[arg(long, default_value = "cpu", value_name = "NAME")]
    backend: Backend,
    /// Worker threads of the cpu backend [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Storage of activations and weights: f32, bf16 or f16. Sums are always f32.
    #[arg(long, default_value = "f32", value_name = "TYPE")]
    pub(crate) dtype: DType,
}

impl Device {
    pub(crate) fn backend(&self) -> Backend {
        match (self.backend, self.threads) {
            (Backend::Cpu { .. }, Some(n)) => Backend::Cpu { threads: n.into() },
            (backend, _) => backend,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Run every golden in this folder instead of the ones inside the binary.
    #[arg(long, value_name = "DIR")]
    pub(crate) goldens: Option<PathBuf>,
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
    /// Frames to latents and back; reports how far the result is from the input.
    Roundtrip(VaeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VaeArgs {
    /// Frames: a PNG, or safetensors with `x` [1, 3, T, H, W] in [-1, 1]. Latents: safetensors with
    /// `latent` [1, 16, t, h, w].
    pub(crate) input: PathBuf,
    /// Where the result goes: `.safetensors`, or `.png` for one frame.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// A checkpoint, or formula:tiny or formula:full: made-up weights for testing and timing.
    #[arg(long, value_name = "FILE|formula:NAME")]
    pub(crate) weights: String,
    /// Frames per slice, a multiple of 4; 0 runs the clip in one piece. Changes memory, never the result.
    #[arg(long, default_value_t = 4, value_name = "FRAMES")]
    pub(crate) slice: usize,
    /// Overwrite the output if it exists.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) device: Device,
}
