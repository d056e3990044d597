//! What is wanted: plain data that opens no file and asks no machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use remaster_colour::Mode as Colour;
use remaster_colour::alpha::Border;
use remaster_plan::Windows;
use remaster_restore::{Finish, Pool};
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::limits::Limits;
use crate::machine::hashes;
use crate::machine::host::Machine;
use crate::machine::spill::Spill;
use crate::media::{Size, Source, Target, refuse};
use crate::seconds;
use crate::upscaler;

/// A film, an image or a folder of images to restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Video, image, folder of images, or `-` for y4m on stdin.
    pub input: PathBuf,
    /// The ending decides the format; a name without one is a folder of images, `-` is y4m on stdout. Beside the input if
    /// `None`.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Replace an output that exists.
    #[serde(default)]
    pub overwrite: bool,
    /// Count an existing output of a run without units as done instead of failing. A film whose manifest matches the request
    /// is skipped in any case.
    #[serde(default)]
    pub skip_done: bool,
    /// Also write the restored latents to this file.
    #[serde(default)]
    pub keep_latents: Option<PathBuf>,
    /// What decides the result and the memory.
    #[serde(default)]
    pub how: Restoration,
    /// How the film is written.
    #[serde(default)]
    pub target: Target,
    /// How a resumable run saves, waits and resumes.
    #[serde(default)]
    pub units: Units,
}

impl Request {
    /// A restoration with all defaults.
    pub fn restore(input: impl Into<PathBuf>) -> Self {
        Request { input: input.into(), ..Request::default() }
    }

    /// Writes to this file.
    #[must_use]
    pub fn output(mut self, output: impl Into<PathBuf>) -> Self {
        self.output = Some(output.into());
        self
    }

    /// Restores with this model: `3b`, `7b`, `7b-sharp`, `anime`, or a file.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.how.models.model = model.into();
        self
    }

    /// Computes on this device.
    #[must_use]
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.how.device.name = Some(name.into());
        self
    }

    /// Restores at this size.
    #[must_use]
    pub fn resolution(mut self, size: remaster_restore::Resize) -> Self {
        self.how.size.resolution = Some(size);
        self
    }
}

/// Everything that decides the result and the memory, but not where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Restoration {
    /// Which networks restore.
    pub models: Models,
    /// What the result looks like.
    pub look: Look,
    /// How the input is read.
    pub source: Source,
    /// The size the networks work at.
    pub size: Size,
    /// Keep non-square pixels as they are.
    pub keep_sar: bool,
    /// Memory and disk.
    pub limits: Limits,
    /// What computes.
    pub device: Device,
    /// Do as the popular Python tool does, for comparisons.
    pub compat: Option<Compat>,
}

/// What an upscaler is, in messages about what it cannot do.
pub(crate) const UPSCALER: &str = "this model, which takes frame by frame";

impl Restoration {
    /// Refuses what is out of range, and what has no effect with these networks.
    pub(crate) fn check(&self, keep_latents: bool) -> Result<(), Error> {
        self.look.check(self.models.by_frame())?;
        if !self.models.by_frame() {
            return Ok(());
        }
        let (look, usual) = (&self.look, Look::default());
        let flags = [
            ("--seed", look.seed != usual.seed),
            ("--window", look.window != usual.window),
            ("--latent-noise", look.latent_noise != usual.latent_noise),
            ("--color-pool window", look.finish.color_pool == Pool::Window),
            ("--keep-latents", keep_latents),
            ("--vae", self.models.vae.is_some()),
            ("--text", self.models.text.is_some()),
            ("--edges", self.size.edges != Size::default().edges),
            ("--compat", self.compat.is_some()),
        ];
        refuse(&flags, UPSCALER)
    }
}

/// Which networks restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Models {
    /// Transformer: `3b`, `7b`, `7b-sharp`, `3b-first`, or a model file; or the upscaler `anime`; or `identity` for none.
    pub model: String,
    /// VAE file; the installed one if `None`. With `identity` frames go through it alone, or through no network if `None`.
    pub vae: Option<String>,
    /// Text embedding; inside the model, or `pos_emb.pt` if `None`.
    pub text: Option<PathBuf>,
    /// Folder that is searched first.
    pub folder: Option<PathBuf>,
}

impl Default for Models {
    fn default() -> Self {
        Models { model: "3b".into(), vae: None, text: None, folder: None }
    }
}

impl Models {
    /// True if frames go through a network one by one.
    pub(crate) fn is_upscaler(&self) -> bool {
        upscaler::is_upscaler(&self.model)
    }

    /// True if no transformer changes latents.
    pub(crate) fn is_identity(&self) -> bool {
        self.model.eq_ignore_ascii_case("identity")
    }

    /// True if frames go through no network at all, as a VAE alone is one.
    pub(crate) fn has_no_network(&self) -> bool {
        self.is_identity() && self.vae.is_none()
    }

    /// True if frames are taken one by one, through an upscaler or through nothing.
    pub(crate) fn by_frame(&self) -> bool {
        self.has_no_network() || self.is_upscaler()
    }
}

/// Where shots begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shots {
    /// Hard cuts are found.
    #[default]
    Auto,
    /// The input is one shot.
    One,
    /// A list that a [`ScenesRequest`](crate::ScenesRequest) made.
    List(PathBuf),
}

/// What the result looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Look {
    /// The same seed gives the same result.
    pub seed: u64,
    /// Soften input that is blurrier than its size, 0 to 1.
    pub softness: f32,
    /// Where shots begin. Each is restored on its own.
    pub shots: Shots,
    /// Frames the transformer sees at once.
    pub window: usize,
    /// Noise that is added to the input, 0 to 1.
    pub input_noise: f32,
    /// Noise that is added to the latents that guide the transformer, 0 to 1.
    pub latent_noise: f32,
    /// How restored frames become those of the output.
    pub finish: Finishing,
}

impl Default for Look {
    fn default() -> Self {
        Look {
            seed: 42,
            softness: 0.0,
            shots: Shots::Auto,
            window: Windows::FRAMES,
            input_noise: 0.0,
            latent_noise: 0.0,
            finish: Finishing::default(),
        }
    }
}

impl Look {
    /// Refuses numbers out of their ranges.
    fn check(&self, by_frame: bool) -> Result<(), Error> {
        let shares = [
            ("softness", self.softness),
            ("input_noise", self.input_noise),
            ("latent_noise", self.latent_noise),
            ("strength", self.finish.strength),
        ];
        match shares.into_iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            Some((what, value)) => Err(Error::Share { what, value }),
            None => self.finish.refuse(by_frame),
        }
    }

    /// How shots are found, or the hash of their list.
    pub(crate) fn shots(&self, machine: &Machine, control: &Control) -> Result<Option<String>, Error> {
        Ok(Some(match &self.shots {
            Shots::Auto => "auto".to_owned(),
            Shots::One => "none".to_owned(),
            Shots::List(file) => hashes::sha256(file, machine, control)?,
        }))
    }

    /// The list of shots, for messages about it.
    pub(crate) fn list(&self) -> PathBuf {
        match &self.shots {
            Shots::List(file) => file.clone(),
            Shots::Auto | Shots::One => PathBuf::new(),
        }
    }
}

/// How restored frames become those of the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Finishing {
    /// From the input (0) to the restored picture (1).
    pub strength: f32,
    /// How colours are matched to the input; `lab` if `None`, and `none` where frames are taken one by one.
    pub color: Option<Colour>,
    /// Which frames share a correction.
    pub color_pool: Pool,
    /// Dither instead of rounding.
    pub dither: bool,
}

impl Default for Finishing {
    fn default() -> Self {
        Finishing { strength: 1.0, color: None, color_pool: Pool::Frame, dither: false }
    }
}

impl Finishing {
    /// How colours are matched, where frames are taken one by one or not.
    pub(crate) fn color(&self, by_frame: bool) -> Colour {
        self.color.unwrap_or(if by_frame { Colour::None } else { Colour::Lab })
    }

    /// An error if an option was given that cannot take effect.
    pub(crate) fn refuse(&self, by_frame: bool) -> Result<(), Error> {
        if self.color_pool != Pool::Frame && !self.color(by_frame).pools() {
            let what = "this colour correction, which looks at single frames";
            return Err(Error::NoEffect { flag: "--color-pool", what });
        }
        Ok(())
    }

    /// The same for the restoration; dithering waits for the depth of the output, and a pool for room on the disk.
    pub(crate) fn finish(&self, by_frame: bool, spill: &Spill) -> Finish {
        Finish {
            colour: self.color(by_frame),
            pool: self.color_pool,
            strength: self.strength,
            dither: None,
            border: Border::Inside,
            folder: spill.folder.clone(),
            room: 0,
        }
    }
}

/// Imitates the popular Python tool for comparisons: batches blended in pixels, black padding, colour per batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compat {
    /// Frames that neighbouring batches share.
    pub overlap: usize,
}

/// How a film is cut into units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cut {
    /// Frames in a unit of work, about.
    pub unit_frames: u32,
    /// Frames in a segment, about: what is lost at most when a run is stopped. By the size of frames if `None`.
    pub piece_frames: Option<u32>,
    /// Allow devices and encoders whose results differ in the last digits.
    pub mix_devices: bool,
    /// Keep units as lossless FFV1 and encode the film at the end.
    pub lossless_units: bool,
}

impl Default for Cut {
    fn default() -> Self {
        Cut { unit_frames: 1500, piece_frames: None, mix_devices: false, lossless_units: false }
    }
}

/// How a resumable run saves, waits and resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Units {
    /// How the film is cut.
    pub cut: Cut,
    /// Devices to use at once; the one of the restoration if empty.
    pub devices: Vec<String>,
    /// Folder for unfinished work; `OUTPUT.remaster` beside the output if `None`.
    pub temp: Option<PathBuf>,
    /// Keep the folder of unfinished work when the film is done.
    pub keep: bool,
    /// Drop unfinished work of an earlier run.
    pub restart: bool,
    /// If a unit fails because its input is bad, write its input frames instead and go on.
    pub keep_going: bool,
    /// How long to wait for space on a full disk.
    #[serde(with = "seconds")]
    pub wait_disk: Duration,
    /// How often to save unfinished work.
    #[serde(with = "seconds")]
    pub checkpoint: Duration,
    /// Write `OUTPUT.manifest.json`.
    pub manifest: bool,
    /// Also store the settings in the film itself.
    pub embed_manifest: bool,
}

impl Default for Units {
    fn default() -> Self {
        Units {
            cut: Cut::default(),
            devices: Vec::new(),
            temp: None,
            keep: false,
            restart: false,
            keep_going: false,
            wait_disk: Duration::from_secs(3600),
            checkpoint: Duration::from_secs(240),
            manifest: true,
            embed_manifest: false,
        }
    }
}

/// How often frames are saved, whatever `--checkpoint` says: what a stop loses at most.
const MAX_CHECKPOINT_OF_FRAMES: Duration = Duration::from_secs(60);

/// How often frames are saved if unfinished work is to be saved as often as `checkpoint` says.
pub(crate) fn checkpoint_of_frames(checkpoint: Duration) -> Duration {
    checkpoint.min(MAX_CHECKPOINT_OF_FRAMES)
}

impl Units {
    /// An error if an option was given that a run without units cannot follow.
    pub(crate) fn refuse(&self, control: &Control) -> Result<(), Error> {
        let flags = [
            ("--devices", !self.devices.is_empty()),
            ("--until", control.has_stop_time()),
            ("--keep-going", self.keep_going),
            ("--embed-manifest", self.embed_manifest),
            ("--lossless-units", self.cut.lossless_units),
        ];
        refuse(&flags, "this run, which cannot be cut into units")
    }
}

/// Fails early if the input does not exist or cannot be one film.
pub(crate) fn check_input(path: &Path) -> Result<(), Error> {
    if crate::media::is_pipe(path) {
        return Ok(());
    }
    let missing = |source| remaster_media::MediaError::Open { path: path.to_owned(), source };
    path.metadata().map_err(missing)?;
    crate::media::refuse_named_pipe(path)?;
    crate::media::refuse_videos(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_data_that_is_read_back_as_it_was_written() {
        let mut request = Request::restore("film.mkv").output("out.mkv").model("7b").device("cpu");
        request.how.size.resolution = Some(remaster_restore::Resize::Short(1080));
        request.how.look.shots = Shots::List("shots.json".into());
        request.how.look.finish.color = Some(Colour::WaveletAdaptive);
        request.how.source.start = Some(Duration::new(3723, 250_000_001));
        request.how.source.filters = Some("hqdn3d".into());
        request.how.limits.ram = crate::Amount::Percent(80.0);
        request.how.device.dtype = Some(remaster_compute::DType::Bf16);
        request.how.compat = Some(Compat { overlap: 4 });
        request.target.encoder = remaster_media::Encoding::typed("libx265 -crf 16").ok();
        request.units.devices = vec!["cpu".into(), "cpu".into()];
        request.units.checkpoint = Duration::from_millis(1500);
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        // What is left out is the default, and what is not known is refused.
        let plain: Request = serde_json::from_value(json!({"input": "film.mkv"})).unwrap();
        assert_eq!(plain, Request::restore("film.mkv"));
        for (wrong, named) in [
            (json!({"output": "out.mkv"}), "input"),
            (json!({"input": "a", "modle": "3b"}), "modle"),
            (json!({"input": "a", "how": {"limits": {"ram": "8 apples"}}}), "8 apples"),
            (json!({"input": "a", "how": {"look": {"finish": {"color": "LAB"}}}}), "LAB"),
            (json!({"input": "a", "target": {"encoder": "ffv1 -y /victim.mkv"}}), "-y"),
            (json!({"input": "a", "units": {"checkpoint": -1}}), "checkpoint"),
        ] {
            let error = serde_json::from_value::<Request>(wrong).unwrap_err().to_string();
            assert!(error.contains(named) || named == "checkpoint", "{error}");
        }
    }
}
