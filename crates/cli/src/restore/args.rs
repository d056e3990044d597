//! `remaster restore` as typed.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use remaster_colour::Mode;
use remaster_colour::alpha::Border;
use remaster_compute::CancelToken;
use remaster_plan::Windows;
use remaster_restore::{Finish, Pool};

use super::numz::NumzArgs;
use crate::args::BestDevice;
use crate::error::CliError;
use crate::hashes;
use crate::media::{SizeArgs, SourceArgs, TargetArgs};
use crate::memory::{Amount, MemoryArgs};
use crate::models::ModelDirArgs;
use crate::progress::ProgressArgs;
use crate::spill::Spill;
use crate::units::LocalArgs;

#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Video, image, folder of images, or - for y4m on stdin
    pub(crate) input: PathBuf,
    /// Output, or - for y4m on stdout [default: NAME_upscaled]
    ///
    /// By default it is beside the input. The ending decides the format; a name without one is a folder of images.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the output if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    pub(crate) yes: bool,
    /// Also keep the restored latents (.safetensors)
    ///
    /// `remaster redecode` makes another file of them, in another codec, depth or colour, without restoring again.
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub(crate) keep_latents: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
    /// An output that is there already is left alone if it is of the same input and settings.
    #[arg(skip)]
    pub(crate) skip_done: bool,
}

/// Everything that decides the result and the memory, but not where it goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecipeArgs {
    #[command(flatten)]
    pub(crate) models: RestoreModels,
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    /// Keep non-square pixels as they are
    ///
    /// By default the width changes so that pixels are square.
    #[arg(long, help_heading = "Output")]
    pub(crate) keep_sar: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub(crate) vram: Option<Amount>,
    #[command(flatten)]
    pub(crate) device: BestDevice,
    #[command(flatten)]
    pub(crate) numz: NumzArgs,
}

/// Which networks restore.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct RestoreModels {
    /// Transformer: 3b, 7b, 7b-sharp, nano, or a model file
    ///
    /// `3b`, `7b`, `7b-sharp` and `3b-first` use the best file that is installed; `remaster models pull 3b` installs one. `nano` is a
    /// small demonstration network inside this program.
    #[arg(short, long, value_name = "MODEL", default_value = "3b", alias = "dit-model", alias = "dit_model")]
    pub(crate) model: String,
    /// VAE file [default: the installed one]
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<String>,
    /// Text embedding [default: inside the model, or pos_emb.pt]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) text: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dirs: ModelDirArgs,
}

impl RestoreModels {
    /// Whether no network is to change the frames.
    pub(crate) fn is_identity(&self) -> bool {
        self.model.eq_ignore_ascii_case("identity")
    }
}

/// What the result looks like.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Restoration")]
pub(crate) struct LookArgs {
    /// Random seed; the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,
    /// Soften input that is blurrier than its size, 0 to 1
    ///
    /// Downscales the input first, by up to 8 times at 1.
    #[arg(long, value_name = "X", default_value = "0", value_parser = share)]
    pub(crate) softness: f32,
    /// Where shots begin: auto, none, or a `remaster scenes` list
    ///
    /// Each shot is restored on its own. `auto` finds hard cuts, `none` takes the input as one shot.
    #[arg(long, value_name = "FILE", default_value = "auto")]
    pub(crate) scenes: String,
    /// Frames the transformer sees at once
    ///
    /// Longer windows are more stable over time and take more memory. Longer shots are restored in overlapping windows.
    #[arg(long, value_name = "FRAMES", default_value_t = Windows::FRAMES, alias = "batch-size", alias = "batch_size", value_parser = window)]
    pub(crate) window: usize,
    /// Add noise to the input, 0 to 1
    #[arg(long, value_name = "X", default_value = "0", alias = "input_noise_scale", value_parser = share, hide_short_help = true)]
    pub(crate) input_noise: f32,
    /// Add noise to the latents that guide the transformer, 0 to 1
    #[arg(long, value_name = "X", default_value = "0", alias = "latent_noise_scale", value_parser = share, hide_short_help = true)]
    pub(crate) latent_noise: f32,
    #[command(flatten)]
    pub(crate) finish: FinishArgs,
}

impl LookArgs {
    /// How shots are found, or the hash of their list.
    pub(crate) fn shots(&self, cancel: &CancelToken) -> Result<Option<String>, CliError> {
        Ok(Some(match self.scenes.as_str() {
            "auto" | "none" => self.scenes.clone(),
            file => hashes::sha256(Path::new(file), cancel)?,
        }))
    }
}

/// How restored frames become those of the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Restoration")]
pub(crate) struct FinishArgs {
    /// Blend between the input (0) and the restored picture (1)
    ///
    /// Lower it if the result looks too sharp or invented.
    #[arg(long, value_name = "X", default_value = "1", value_parser = share)]
    pub(crate) strength: f32,
    /// Colours: lab, wavelet, wavelet_adaptive, hsv, adain or none
    ///
    /// How colours are matched to the input. docs/quality.md explains the methods.
    #[arg(long, value_name = "METHOD", default_value = "lab", alias = "color_correction", alias = "colour", value_parser = colour)]
    pub(crate) color: Mode,
    /// Match colours per frame, window or shot
    ///
    /// For lab, hsv and wavelet_adaptive. With `shot`, frames are buffered on disk until the shot ends.
    #[arg(
        long,
        value_enum,
        value_name = "POOL",
        default_value = "frame",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub(crate) color_pool: PoolWord,
    /// Dither instead of rounding
    #[arg(long, hide_short_help = true)]
    pub(crate) dither: bool,
}

/// Which frames share a colour correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolWord {
    Frame,
    Window,
    Shot,
}

impl FinishArgs {
    /// An error if an option was given that cannot take effect.
    pub(crate) fn refuse(&self) -> Result<(), CliError> {
        if self.color_pool != PoolWord::Frame && !self.color.pools() {
            let what = "this colour correction, which looks at single frames";
            return Err(CliError::NoEffect { flag: "--color-pool", what });
        }
        Ok(())
    }

    /// Which frames share a correction.
    pub(crate) fn pool(&self) -> Pool {
        match self.color_pool {
            PoolWord::Frame => Pool::Frame,
            PoolWord::Window => Pool::Window,
            PoolWord::Shot => Pool::Shot,
        }
    }

    /// The same for the library; dithering waits for the depth of the output, and a pool for room on the disk.
    pub(crate) fn finish(&self, spill: &Spill) -> Finish {
        Finish {
            colour: self.color,
            pool: self.pool(),
            strength: self.strength,
            dither: None,
            border: Border::Inside,
            folder: spill.folder.clone(),
            room: 0,
        }
    }
}

fn share(word: &str) -> Result<f32, String> {
    let wrong = || format!("`{word}` is not a number from 0 to 1");
    let value: f32 = word.parse().map_err(|_| wrong())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(wrong()) }
}

fn colour(word: &str) -> Result<Mode, String> {
    word.parse().map_err(|error: remaster_colour::ColourError| error.to_string())
}

fn window(word: &str) -> Result<usize, String> {
    let wrong = || format!("`{word}` is not a number of frames from 1 to {}", Windows::MOST_FRAMES);
    let frames: usize = word.parse().map_err(|_| wrong())?;
    Windows::new(frames).map(|_| frames).map_err(|_| wrong())
}
