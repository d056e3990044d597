//! Options for reading and writing video, and which of them apply where.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use remaster_compute::CancelToken;
use remaster_media::{Deinterlace, Encoding, Filters, Format, Probe, ReadOptions, Span, Tools, appetite};
use remaster_picture::{Edges, Layout};
use remaster_pipeline::{Geometry, Resize};

use super::tools::stop;
use super::words::{self, Rate};
use crate::args::word;
use crate::error::CliError;

/// Threads of an encoder unless another number is asked for.
pub(crate) const ENCODER_THREADS: u32 = 4;

/// How input is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct SourceArgs {
    /// Start at TIME, in seconds (90.5) or as 1:30.5
    ///
    /// Counted from the first frame. The output starts at 0; audio, subtitles and chapters are trimmed to match.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub(super) ss: Option<Duration>,
    /// End at TIME (exclusive), counted like --ss
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub(super) to: Option<Duration>,
    /// ffmpeg filters to apply first, e.g. 'hqdn3d,crop=704:576:8:0'
    ///
    /// They see frames after deinterlacing and rotation, with the timestamps of the file.
    #[arg(long, value_name = "FILTERS", value_parser = words::filters)]
    pub(super) vf: Option<Filters>,
    /// Frame rate of an image folder, e.g. 25 or 24000/1001 [default: 25]
    #[arg(long, value_name = "FPS", value_parser = words::rate)]
    pub(super) fps: Option<Rate>,
    /// Deinterlacing: auto, on, double, ivtc or off
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        default_value = "auto",
        hide_possible_values = true,
        long_help = "Deinterlacing mode:\n\
                     - auto: deinterlace video that is flagged as interlaced or looks interlaced\n\
                     - on: deinterlace, one frame per frame\n\
                     - double: deinterlace, one frame per field (twice the frame rate)\n\
                     - ivtc: undo 3:2 pulldown (29.97 to 23.976 fps)\n\
                     - off: use frames as they are"
    )]
    pub(super) deinterlace: DeinterlaceMode,
    /// HDR video (PQ, HLG): refuse, or keep the signal
    #[arg(long, value_enum, value_name = "ACTION", default_value = "refuse", hide_possible_values = true)]
    pub(super) hdr: Policy,
    /// Damaged video: refuse, or keep what can be decoded
    #[arg(long, value_enum, value_name = "ACTION", default_value = "refuse", hide_possible_values = true)]
    pub(super) damaged: Policy,
    /// Read and write OpenEXR images; linear values are converted to sRGB and back
    #[arg(long, hide_short_help = true)]
    pub(super) exr: bool,
    #[command(flatten)]
    pub(crate) programs: Programs,
}

/// The size the network works at.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SizeArgs {
    /// Resize first: short side (720, 1080p, 4k), factor (2x) or WxH
    ///
    /// A restoration has a short side of 1080 by default, or the size of the input if that is larger. Other commands keep
    /// the size.
    #[arg(long, value_name = "SIZE", value_parser = words::resolution, help_heading = "Input")]
    pub(super) resolution: Option<Resize>,
    /// Padding at the right and bottom edges: mirror-black, mirror or black
    ///
    /// The network works on multiples of 16 pixels. Frames are padded to that size and cropped afterwards. `mirror-black`
    /// mirrors at least 8 pixels and adds 16 black ones, which leaves no visible line at the edge; `black` is what the
    /// original does.
    #[arg(long, value_name = "KIND", default_value = "mirror-black", value_parser = words::edges, help_heading = "Expert", hide_short_help = true)]
    pub(super) edges: Edges,
}

/// How video is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct TargetArgs {
    /// ffmpeg video encoder and its options, e.g. 'libx265 -crf 16'
    ///
    /// The default depends on the file name and the bit depth: H.264 for 8 bits, H.265 for more, VP9 for .webm.
    #[arg(long, value_name = "ENCODER")]
    pub(super) video: Option<Encoding>,
    /// Quality: 0 (best) to 51, or 63 for VP9 and AV1 [default: 12 to 18]
    ///
    /// For encoders with a constant quality: libx264, libx265, libvpx-vp9, libsvtav1 and libaom-av1. The default is 12 for
    /// H.264, 14 for H.265 and 18 for VP9.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63), conflicts_with = "lossless")]
    pub(super) crf: Option<u8>,
    /// Threads of the video encoder, 1 to 64 [default: 4]
    ///
    /// For some encoders the number decides the bytes of the film, so it never depends on the machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    pub(super) encoder_threads: Option<u32>,
    /// Output pixel format, e.g. yuv420p10le [default: as the input]
    #[arg(long, value_name = "FORMAT", alias = "pix-fmt")]
    pub(super) pixel_format: Option<String>,
    /// Write lossless FFV1 (.mkv only)
    #[arg(long, conflicts_with = "video")]
    pub(super) lossless: bool,
    /// Audio: copy, or none
    #[arg(long, value_enum, value_name = "ACTION", default_value = "copy", hide_possible_values = true)]
    pub(super) audio: AudioMode,
    /// When decoding latents, copy audio, subtitles, chapters and tags from FILE
    ///
    /// By default they come from the file that was encoded, if it is still there and unchanged.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) streams: Option<PathBuf>,
}

/// Where ffmpeg is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Programs {
    /// Path to ffmpeg [default: found in PATH]
    #[arg(
        long,
        value_name = "FILE",
        env = "REMASTER_FFMPEG",
        hide_env_values = true,
        hide_short_help = true
    )]
    ffmpeg: Option<PathBuf>,
    /// Path to ffprobe [default: beside ffmpeg, or found in PATH]
    #[arg(
        long,
        value_name = "FILE",
        env = "REMASTER_FFPROBE",
        hide_env_values = true,
        hide_short_help = true
    )]
    ffprobe: Option<PathBuf>,
    /// Stop ffmpeg when it is silent for this many seconds, where the usual limit is higher. For tests.
    #[arg(long, value_name = "N", env = "REMASTER_STALL_SECONDS", hide = true, value_parser = clap::value_parser!(u64).range(1..))]
    stall_seconds: Option<u64>,
}

impl Programs {
    /// Its options for another process.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let path = |name, path: &Option<PathBuf>| path.as_ref().map(|path| word(name, path));
        let stall = self.stall_seconds.map(|n| word("--stall-seconds", n.to_string()));
        let programs = [path("--ffmpeg", &self.ffmpeg), path("--ffprobe", &self.ffprobe), stall];
        programs.into_iter().flatten().collect()
    }

    pub(crate) fn find(&self, cancel: &CancelToken) -> Result<Tools, CliError> {
        let stop = stop(cancel);
        let stop = self.stall_seconds.map_or(stop.clone(), |seconds| stop.or_stalled_for(seconds));
        Ok(Tools::find_apart(self.ffmpeg.as_deref(), self.ffprobe.as_deref(), stop)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DeinterlaceMode {
    Auto,
    On,
    Double,
    Ivtc,
    Off,
}

impl From<DeinterlaceMode> for Deinterlace {
    fn from(mode: DeinterlaceMode) -> Self {
        match mode {
            DeinterlaceMode::Auto => Deinterlace::Auto,
            DeinterlaceMode::On => Deinterlace::On,
            DeinterlaceMode::Double => Deinterlace::Double,
            DeinterlaceMode::Ivtc => Deinterlace::Ivtc,
            DeinterlaceMode::Off => Deinterlace::Off,
        }
    }
}

/// What to do with input that may come out wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Policy {
    Refuse,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AudioMode {
    Copy,
    None,
}

/// An error for the first flag that was given.
fn refuse(flags: &[(&'static str, bool)], what: &'static str) -> Result<(), CliError> {
    let given = flags.iter().find(|(_, given)| *given);
    given.map_or(Ok(()), |(flag, _)| Err(CliError::NoEffect { flag, what }))
}

impl SourceArgs {
    /// An error if an option was given that cannot affect `what`.
    pub(crate) fn refuse(&self, what: &'static str) -> Result<(), CliError> {
        let flags = [
            ("--ss", self.ss.is_some()),
            ("--to", self.to.is_some()),
            ("--vf", self.vf.is_some()),
            ("--fps", self.fps.is_some()),
            ("--exr", self.exr),
            ("--deinterlace", self.deinterlace != DeinterlaceMode::Auto),
            ("--hdr", self.hdr == Policy::Keep),
            ("--damaged", self.damaged == Policy::Keep),
        ];
        refuse(&flags, what)
    }

    /// The options that decide which frames an input has, in one way of writing them.
    pub(crate) fn reading(&self) -> String {
        let time = |time: Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
        let mode = self.deinterlace.to_possible_value().map(|value| value.get_name().to_owned());
        let options = [
            ("--ss", self.ss.map(time)),
            ("--to", self.to.map(time)),
            ("--vf", self.vf.as_ref().map(|filters| filters.text().to_owned())),
            ("--fps", self.fps.map(|rate| format!("{}/{}", rate.0.num, rate.0.den))),
            ("--deinterlace", mode.filter(|_| self.deinterlace != DeinterlaceMode::Auto)),
        ];
        let words = options.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether only a part of the input is used.
    pub(crate) fn is_cut(&self) -> bool {
        !self.span().is_whole()
    }

    /// Where in the film the first frame is that is read.
    pub(crate) fn start(&self) -> Duration {
        self.ss.unwrap_or_default()
    }

    /// The part of the input that is used.
    pub(super) fn span(&self) -> Span {
        Span::new(self.ss, self.to)
    }

    /// An error if there are filters for `what`, which does not go through ffmpeg.
    pub(super) fn refuse_filters(&self, what: &'static str) -> Result<(), CliError> {
        refuse(&[("--vf", self.vf.is_some())], what)
    }

    /// An error if a part is asked for of `what`, which has no clock.
    pub(super) fn refuse_part(&self, what: &'static str) -> Result<(), CliError> {
        refuse(&[("--ss", self.ss.is_some()), ("--to", self.to.is_some())], what)
    }

    /// Bytes that ffmpeg takes to decode a file, with filters that give frames of `format`.
    pub(crate) fn appetite(&self, probe: &Probe, format: &Format, threads: usize) -> u64 {
        let before = appetite::Size::of(&probe.video);
        let decodes = appetite::decoder(&probe.video.codec, before, threads);
        let after = appetite::Size::new(&format.layout, format.width, format.height);
        let filters = self.vf.as_ref().map_or(0, |_| appetite::filters(before, after));
        decodes.saturating_add(filters)
    }

    pub(super) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            exr: self.exr,
            deinterlace: self.deinterlace.into(),
            filters: self.vf.clone(),
            keep_hdr: self.hdr == Policy::Keep,
            keep_damaged: self.damaged == Policy::Keep,
            threads: None,
        }
    }
}

impl SizeArgs {
    /// An error if an option was given that cannot affect `what`.
    pub(crate) fn refuse(&self, what: &'static str) -> Result<(), CliError> {
        let flags =
            [("--resolution", self.resolution.is_some()), ("--edges", self.edges != Edges::default())];
        refuse(&flags, what)
    }

    /// The size that was asked for.
    pub(crate) fn resolution(&self) -> Option<Resize> {
        self.resolution
    }

    /// What the network sees beyond the frame.
    pub(crate) fn edges(&self) -> Edges {
        self.edges
    }

    /// Sizes of frames like these on their way.
    pub(crate) fn geometry(&self, format: &Format) -> Geometry {
        Geometry::new([format.width, format.height], self.resolution.unwrap_or_default(), self.edges)
    }
}

impl TargetArgs {
    /// An error if an option was given that cannot affect `what`.
    pub(crate) fn refuse(&self, what: &'static str) -> Result<(), CliError> {
        let flags = [
            ("--video", self.video.is_some()),
            ("--crf", self.crf.is_some()),
            ("--pixel-format", self.pixel_format.is_some()),
            ("--lossless", self.lossless),
            ("--encoder-threads", self.encoder_threads.is_some()),
            ("--audio", self.is_silent()),
            ("--streams", self.streams.is_some()),
        ];
        refuse(&flags, what)
    }

    /// How samples are written, as far as it is known before: as asked for, or as they came.
    pub(crate) fn layout(&self, format: &Format) -> Layout {
        self.pixel_format.as_deref().and_then(Layout::from_name).unwrap_or(format.layout)
    }

    /// Writes this pixel format unless another was asked for.
    pub(crate) fn pixel_format_or(&mut self, format: Option<&str>) {
        self.pixel_format = self.pixel_format.take().or(format.map(str::to_owned));
    }

    /// Threads of the encoder. They decide the bytes of x264, x265 and VP9, so neither memory nor cores have a say.
    pub(crate) fn encoder_threads(&self) -> u32 {
        self.encoder_threads.unwrap_or(ENCODER_THREADS)
    }

    /// Whether audio is left out.
    pub(crate) fn is_silent(&self) -> bool {
        self.audio == AudioMode::None
    }
}
