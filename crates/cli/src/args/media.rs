//! Options for reading and writing video.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args};
use remaster::{Programs, Scripts, Size, Source, Target, is_pipe};
use remaster_media::{Deinterlace, Encoding, Filters, RawFrames, TimeBase};
use remaster_picture::Edges;
use remaster_restore::Resize;

use super::one_of;
use super::whole::{at_least, whole};
use remaster::words;

const DEINTERLACE: &[(&str, Deinterlace)] = &[
    ("auto", Deinterlace::Auto),
    ("on", Deinterlace::On),
    ("double", Deinterlace::Double),
    ("ivtc", Deinterlace::Ivtc),
    ("off", Deinterlace::Off),
];

/// Whether input that may come out wrong is kept.
const KEEP: &[(&str, bool)] = &[("refuse", false), ("keep", true)];

/// Whether audio is left out.
const NO_AUDIO: &[(&str, bool)] = &[("copy", false), ("none", true)];

/// How input is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct SourceArgs {
    /// Start at TIME, in seconds (90.5) or as 1:30.5
    ///
    /// Counted from the first frame. The output starts at 0; audio, subtitles and chapters are trimmed to match.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    ss: Option<Duration>,
    /// End at TIME (exclusive), counted like --ss
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    to: Option<Duration>,
    /// ffmpeg filters to apply first, e.g. hqdn3d,crop=704:576:8:0
    ///
    /// They see frames after deinterlacing and rotation, with the timestamps of the file.
    #[arg(long, value_name = "FILTERS")]
    vf: Option<Filters>,
    /// Frame rate of an image folder, e.g. 25 or 24000/1001 [default: 25]
    #[arg(long, value_name = "FPS", value_parser = words::rate)]
    fps: Option<TimeBase>,
    /// Deinterlacing: auto, on, double, ivtc or off
    #[arg(
        long,
        value_name = "MODE",
        value_parser = one_of(DEINTERLACE),
        default_value = "auto",
        hide_possible_values = true,
        long_help = "Deinterlacing mode:\n\
                     - auto: deinterlace video that is flagged as interlaced or looks interlaced\n\
                     - on: deinterlace, one frame per frame\n\
                     - double: deinterlace, one frame per field (twice the frame rate)\n\
                     - ivtc: undo 3:2 pulldown (29.97 to 23.976 fps)\n\
                     - off: use frames as they are"
    )]
    deinterlace: Deinterlace,
    /// HDR video (PQ, HLG): refuse, or keep the signal
    #[arg(long, action = ArgAction::Set, value_parser = one_of(KEEP), value_name = "ACTION", default_value = "refuse", hide_possible_values = true)]
    hdr: bool,
    /// Damaged video: refuse, or keep what can be decoded
    #[arg(long, action = ArgAction::Set, value_parser = one_of(KEEP), value_name = "ACTION", default_value = "refuse", hide_possible_values = true)]
    damaged: bool,
    /// Read and write OpenEXR images; linear values are converted to sRGB and back
    #[arg(long, hide_short_help = true)]
    exr: bool,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
}

/// The size the network works at.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SizeArgs {
    /// Resize first: short side (720, 1080p, 4k, 8k), factor (2x) or WxH
    ///
    /// A restoration has a short side of 1080 by default, or the size of the input if that is larger. Other commands keep
    /// the size.
    #[arg(long, value_name = "SIZE", value_parser = words::resolution, help_heading = "Input")]
    resolution: Option<Resize>,
    /// Padding at the right and bottom edges: mirror-black, mirror or black
    ///
    /// The network works on multiples of 16 pixels. Frames are padded to that size and cropped afterwards. `mirror-black`
    /// mirrors at least 8 pixels and adds 16 black ones, which leaves no visible line at the edge; `black` is what the
    /// original does.
    #[arg(long, value_name = "KIND", default_value = "mirror-black", value_parser = words::edges, help_heading = "Expert", hide_short_help = true)]
    edges: Edges,
}

/// How video is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct TargetArgs {
    /// ffmpeg video encoder and its options, e.g. 'libx265 -crf 16'
    ///
    /// The default depends on the file name and the bit depth: H.264 for 8 bits, H.265 for more, VP9 for .webm.
    #[arg(long, value_name = "ENCODER")]
    video: Option<Encoding>,
    /// Quality: 0 (best) to 51, or 63 for VP9 and AV1 [default: 12 to 18]
    ///
    /// For encoders with a constant quality: libx264, libx265, libvpx-vp9, libsvtav1 and libaom-av1. The default is 12 for
    /// H.264, 14 for H.265 and 18 for VP9.
    #[arg(long, value_name = "N", value_parser = whole(0u8..=63), conflicts_with = "lossless")]
    crf: Option<u8>,
    /// Threads of the video encoder, 1 to 64 [default: 4]
    ///
    /// For some encoders the number decides the bytes of the film, so it never depends on the machine.
    #[arg(long, value_name = "N", value_parser = whole(1u32..=64), hide_short_help = true)]
    encoder_threads: Option<u32>,
    /// Output pixel format, e.g. yuv420p10le [default: as the input]
    #[arg(long, value_name = "FORMAT", alias = "pix-fmt")]
    pixel_format: Option<String>,
    /// Write lossless FFV1 (.mkv only)
    #[arg(long, conflicts_with = "video")]
    lossless: bool,
    /// Audio: copy, or none
    #[arg(long, action = ArgAction::Set, value_parser = one_of(NO_AUDIO), value_name = "ACTION", default_value = "copy", hide_possible_values = true)]
    audio: bool,
    /// When decoding latents, copy audio, subtitles, chapters and tags from FILE
    ///
    /// By default they come from the file that was encoded, if it is still there and unchanged.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    streams: Option<PathBuf>,
}

/// What `-` stands for.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FramesArgs {
    /// What - reads and writes instead of y4m: rgb16, rgbf32 or rgba16
    ///
    /// Raw planes behind a line of text, for programs that send or take RGB; docs/formats.md describes them.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(RawFrames::NAMES), hide_possible_values = true, hide_short_help = true, help_heading = "Output")]
    frames: Option<RawFrames>,
}

/// Where ffmpeg is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct ProgramArgs {
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
    /// Path to vspipe, which runs VapourSynth scripts [default: found in PATH]
    #[arg(
        long,
        value_name = "FILE",
        env = "REMASTER_VSPIPE",
        hide_env_values = true,
        hide_short_help = true
    )]
    vspipe: Option<PathBuf>,
    /// Refuse VapourSynth scripts as input
    ///
    /// For programs that pass on file names from others: a script can do everything that you can.
    #[arg(long, hide_short_help = true)]
    no_scripts: bool,
    /// Stop ffmpeg when it is silent for this many seconds, where the usual limit is higher. For tests.
    #[arg(long, value_name = "N", env = "REMASTER_STALL_SECONDS", hide = true, value_parser = at_least(1u64))]
    stall_seconds: Option<u64>,
}

impl ProgramArgs {
    /// The same for the library.
    pub(crate) fn programs(&self) -> Programs {
        let ProgramArgs { ffmpeg, ffprobe, vspipe, stall_seconds, .. } = self.clone();
        Programs { ffmpeg, ffprobe, vspipe, stall_seconds }
    }

    /// Inputs that were typed: they may be scripts, unless none is to run.
    pub(crate) fn typed(&self, inputs: &[&Path]) -> Scripts {
        let inputs = if self.no_scripts { &[] } else { inputs };
        Scripts::typed(inputs.iter().copied())
    }
}

impl FramesArgs {
    /// Says to both ends what their `-` is. If neither is one, the input refuses it.
    pub(crate) fn apply(self, input: &Path, output: Option<&Path>, source: &mut Source, target: &mut Target) {
        let written = output.is_some_and(is_pipe);
        source.frames = self.frames.filter(|_| is_pipe(input) || !written);
        target.frames = self.frames.filter(|_| written);
    }
}

impl SourceArgs {
    /// The same for the library, with inputs that were typed: they may be scripts.
    pub(crate) fn typed(&self, inputs: &[&Path]) -> Source {
        Source { scripts: self.programs.typed(inputs), ..self.source() }
    }

    /// The same for the library. Inputs may come from anywhere, so no script runs.
    pub(crate) fn source(&self) -> Source {
        let SourceArgs { ss: start, to: end, vf: filters, fps: rate, deinterlace, exr, .. } = self.clone();
        let (keep_hdr, keep_damaged, programs) = (self.hdr, self.damaged, self.programs.programs());
        let (frames, scripts) = (None, Scripts::default());
        Source {
            start,
            end,
            filters,
            rate,
            deinterlace,
            keep_hdr,
            keep_damaged,
            exr,
            frames,
            programs,
            scripts,
        }
    }
}

impl SizeArgs {
    /// The same for the library.
    pub(crate) fn size(&self) -> Size {
        Size { resolution: self.resolution, edges: self.edges }
    }
}

impl TargetArgs {
    /// The same for the library.
    pub(crate) fn target(&self) -> Target {
        let TargetArgs { video, crf, encoder_threads, pixel_format, lossless, audio, streams } = self.clone();
        let (encoder, no_audio, frames) = (video, audio, None);
        Target {
            encoder,
            crf,
            encoder_threads,
            pixel_format,
            lossless,
            no_audio,
            streams,
            frames,
            newest: None,
        }
    }
}
