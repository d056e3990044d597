//! A restoration, as typed.

use std::path::{Path, PathBuf};

use clap::Args;
use remaster::{
    Finishing, Look, Models, PreviewRequest, RedecodeRequest, Request, Restoration, Shots, Target,
};
use remaster_colour::Mode;
use remaster_plan::Windows;
use remaster_restore::Pool;

use super::compat::CompatArgs;
use super::limits::MachineArgs;
use super::media::{FramesArgs, SizeArgs, SourceArgs, TargetArgs};
use super::models::ModelDirArgs;
use super::units::LocalArgs;
use super::whole::{at_least, whole};
use super::{ProgressArgs, one_of};

/// Which frames share a colour correction.
const POOLS: &[(&str, Pool)] = &[("frame", Pool::Frame), ("window", Pool::Window), ("shot", Pool::Shot)];

#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Video, image, folder of images, VapourSynth script, or - for y4m on stdin
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
    frames: FramesArgs,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
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
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) compat: CompatArgs,
}

/// Which networks restore.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct RestoreModels {
    /// Model: 3b, 7b, 7b-sharp, anime, or a model file
    ///
    /// `3b`, `7b`, `7b-sharp` and `3b-first` use the best SeedVR2 file that is installed; `remaster models pull 3b` installs one.
    /// `anime` (realesr-animevideov3) is inside this program: a quick upscaler for animation, and a first look at any film.
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

/// What the result looks like.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Restoration")]
pub(crate) struct LookArgs {
    /// Random seed; the same seed gives the same result
    #[arg(long, value_parser = at_least(0u64), value_name = "N", default_value_t = 42)]
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
    /// How colours are matched to the input [default: lab; none for anime]. docs/quality.md explains the methods.
    #[arg(long, value_name = "METHOD", alias = "color_correction", alias = "colour")]
    pub(crate) color: Option<Mode>,
    /// Match colours per frame, window or shot
    ///
    /// For lab, hsv and wavelet_adaptive. With `shot`, frames are buffered on disk until the shot ends.
    #[arg(
        long,
        value_parser = one_of(POOLS),
        value_name = "POOL",
        default_value = "frame",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub(crate) color_pool: Pool,
    /// Dither instead of rounding
    #[arg(long, hide_short_help = true)]
    pub(crate) dither: bool,
}

/// `remaster preview`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PreviewArgs {
    /// Video, image or folder of images
    pub(crate) input: PathBuf,
    /// Sheet to write (.png) [default: NAME_preview.png, beside the input]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the sheet if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    /// Shots to show, spread over the film
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = whole(1u16..=64), help_heading = "Output")]
    shots: u16,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster redecode`.
#[derive(Debug, Args)]
pub(crate) struct RedecodeArgs {
    /// The input of the restoration
    pub(crate) input: PathBuf,
    /// Latents that `--keep-latents` wrote
    latents: PathBuf,
    /// Output, or - for y4m on stdout [default: NAME_upscaled]
    ///
    /// By default it is beside the input. The ending decides the format; a name without one is a folder of images.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the output if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    #[command(flatten)]
    frames: FramesArgs,
    #[command(flatten)]
    finish: FinishArgs,
    /// VAE file; must be the one of the restoration [default: the installed one]
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    vae: Option<String>,
    #[command(flatten)]
    dirs: ModelDirArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl FinishArgs {
    fn finishing(&self) -> Finishing {
        let FinishArgs { strength, color, color_pool, dither } = self.clone();
        Finishing { strength, color, color_pool, dither }
    }
}

impl RecipeArgs {
    /// A restoration of one film.
    pub(crate) fn request(&self, input: &Path, target: &TargetArgs, local: &LocalArgs) -> Request {
        let (how, target, units) = (self.restoration(), self.target(target), local.units());
        Request { how, target, units, ..Request::restore(input) }
    }

    /// How a film is written, also if that was said in the words of another tool.
    pub(crate) fn target(&self, target: &TargetArgs) -> Target {
        let target = target.target();
        let asked = self.compat.pixel_format().map(str::to_owned);
        Target { pixel_format: target.pixel_format.clone().or(asked), ..target }
    }

    /// The same for an input that was typed, which may be a script.
    pub(crate) fn typed(&self, input: &Path) -> Restoration {
        Restoration { source: self.source.typed(&[input]), ..self.restoration() }
    }

    /// The same for the library.
    pub(crate) fn restoration(&self) -> Restoration {
        let RestoreModels { model, vae, text, dirs } = self.models.clone();
        let LookArgs { seed, softness, window, input_noise, latent_noise, .. } = self.look;
        let finish = self.look.finish.finishing();
        let shots = match self.look.scenes.as_str() {
            "auto" => Shots::Auto,
            "none" => Shots::One,
            file => Shots::List(file.into()),
        };
        Restoration {
            models: Models { model, vae, text, folder: dirs.model_dir },
            look: Look { seed, softness, shots, window, input_noise, latent_noise, finish },
            source: self.source.source(),
            size: self.size.size(),
            keep_sar: self.keep_sar,
            limits: self.machine.limits.limits(self.machine.vram),
            device: self.machine.device.device(),
            compat: self.compat.compat(),
        }
    }
}

impl RestoreArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> Request {
        let mut request = Request {
            output: self.output.clone(),
            overwrite: self.yes,
            keep_latents: self.keep_latents.clone(),
            how: self.how.typed(&self.input),
            ..self.how.request(&self.input, &self.target, &self.local)
        };
        let Request { input, output, how, target, .. } = &mut request;
        self.frames.apply(input, output.as_deref(), &mut how.source, target);
        request
    }
}

impl PreviewArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> PreviewRequest {
        let PreviewArgs { input, output, yes: overwrite, shots, how, .. } = self.clone();
        let how = how.typed(&input);
        PreviewRequest { input, output, overwrite, shots, how }
    }
}

impl RedecodeArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> RedecodeRequest {
        let (mut source, mut target) = (self.source.source(), self.target.target());
        self.frames.apply(&self.input, self.output.as_deref(), &mut source, &mut target);
        RedecodeRequest {
            input: self.input.clone(),
            latents: self.latents.clone(),
            output: self.output.clone(),
            overwrite: self.yes,
            finish: self.finish.finishing(),
            vae: self.vae.clone(),
            folder: self.dirs.model_dir.clone(),
            source,
            target,
            limits: self.machine.limits.limits(self.machine.vram),
            device: self.machine.device.device(),
        }
    }
}

fn share(word: &str) -> Result<f32, String> {
    let wrong = || format!("`{word}` is not a number from 0 to 1");
    let value: f32 = word.parse().map_err(|_| wrong())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(wrong()) }
}

fn window(word: &str) -> Result<usize, String> {
    let wrong = || format!("`{word}` is not a number of frames from 1 to {}", Windows::MOST_FRAMES);
    let frames: usize = word.parse().map_err(|_| wrong())?;
    Windows::new(frames).map(|_| frames).map_err(|_| wrong())
}
