//! How video is read, resized and written, and which of it applies where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use remaster_media::{
    Deinterlace, Encoding, Filters, Format, RawFrames, ReadOptions, Secrets, Span, Stop, TimeBase, Tools,
    Vspipe, ffmpeg_memory,
};
use remaster_picture::{Edges, Layout};
use remaster_restore::{Geometry, Resize};
use serde::{Deserialize, Serialize};

use super::{Opened, Scripts, is_pipe};
use crate::control::Control;
use crate::error::Error;
use crate::seconds;
use crate::worker::word;

/// Default threads of an encoder.
const ENCODER_THREADS: u32 = 4;

/// How input is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Source {
    /// Start here, counted from the first frame.
    #[serde(with = "seconds::maybe")]
    pub start: Option<Duration>,
    /// End before this, counted alike.
    #[serde(with = "seconds::maybe")]
    pub end: Option<Duration>,
    /// ffmpeg filters to apply first.
    pub filters: Option<Filters>,
    /// Frame rate of an image folder; 25 if `None`.
    pub rate: Option<TimeBase>,
    /// What to do with interlaced video.
    pub deinterlace: Deinterlace,
    /// Keep the signal of HDR video instead of refusing it.
    pub keep_hdr: bool,
    /// Keep what can be decoded of damaged video instead of refusing it.
    pub keep_damaged: bool,
    /// Read OpenEXR images: linear values are converted to sRGB and back.
    pub exr: bool,
    /// What comes from stdin; y4m if `None`.
    pub frames: Option<RawFrames>,
    /// Where ffmpeg is.
    pub programs: Programs,
    /// Scripts that may run. A script is a program: neither a request that serde reads nor a plan can allow one.
    #[serde(skip)]
    pub scripts: Scripts,
}

/// The size the network works at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Size {
    /// The size; what the job takes by default if `None`.
    pub resolution: Option<Resize>,
    /// Padding at the right and bottom edges.
    pub edges: Edges,
}

/// How video is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Target {
    /// Video encoder and its options; by container and bit depth if `None`.
    pub encoder: Option<Encoding>,
    /// Constant quality of encoders that have it.
    pub crf: Option<u8>,
    /// Threads of the encoder, 4 if `None`. For some encoders the number decides the bytes of the film.
    pub encoder_threads: Option<u32>,
    /// Pixel format; that of the input if `None`.
    pub pixel_format: Option<String>,
    /// Lossless FFV1.
    pub lossless: bool,
    /// Leave audio out.
    pub no_audio: bool,
    /// When decoding latents, copy audio, subtitles, chapters and tags from this file.
    pub streams: Option<PathBuf>,
    /// What goes to stdout; y4m if `None`.
    pub frames: Option<RawFrames>,
    /// Keep a small picture of the newest frame in this folder: `12345.jpg` is of 12.345 seconds. Films alone have one, and only
    /// while one device restores.
    pub newest: Option<PathBuf>,
}

/// Where ffmpeg and vspipe are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Programs {
    /// Path to ffmpeg; found in PATH if `None`.
    pub ffmpeg: Option<PathBuf>,
    /// Path to ffprobe; beside ffmpeg or found in PATH if `None`.
    pub ffprobe: Option<PathBuf>,
    /// Path to vspipe, which runs VapourSynth scripts; found in PATH if `None`.
    pub vspipe: Option<PathBuf>,
    /// Stop ffmpeg when it is silent for this many seconds, where the usual limit is higher.
    pub stall_seconds: Option<u64>,
}

impl Programs {
    /// Its options for another process.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let path = |name, path: &Option<PathBuf>| path.as_ref().map(|path| word(name, path));
        let stall = self.stall_seconds.map(|n| word("--stall-seconds", n.to_string()));
        let vspipe = path("--vspipe", &self.vspipe);
        let programs = [path("--ffmpeg", &self.ffmpeg), path("--ffprobe", &self.ffprobe), vspipe, stall];
        programs.into_iter().flatten().collect()
    }

    /// Looks for ffmpeg and ffprobe.
    pub fn find(&self, control: &Control) -> Result<Tools, Error> {
        Ok(Tools::find_apart(self.ffmpeg.as_deref(), self.ffprobe.as_deref(), self.stop(control), secrets())?)
    }

    /// Looks for vspipe.
    pub(crate) fn find_vspipe(&self, control: &Control) -> Result<Vspipe, Error> {
        Ok(Vspipe::find(self.vspipe.as_deref(), self.stop(control), secrets())?)
    }

    fn stop(&self, control: &Control) -> Stop {
        let stop = control.child_stop();
        self.stall_seconds.map_or(stop.clone(), |seconds| stop.or_stalled_for(seconds))
    }
}

/// Variables of this process that its children do not get.
fn secrets() -> Secrets {
    Secrets::among(std::env::vars_os().map(|(name, _)| name))
}

/// The name of a mode, as it is typed.
fn deinterlace_name(mode: Deinterlace) -> &'static str {
    match mode {
        Deinterlace::Auto => "auto",
        Deinterlace::On => "on",
        Deinterlace::Double => "double",
        Deinterlace::Ivtc => "ivtc",
        Deinterlace::Off => "off",
    }
}

/// An error for the first flag that was given.
pub(crate) fn refuse(flags: &[(&'static str, bool)], what: &'static str) -> Result<(), Error> {
    let given = flags.iter().find(|(_, given)| *given);
    given.map_or(Ok(()), |(flag, _)| Err(Error::NoEffect { flag, what }))
}

fn refuse_frames(frames: Option<RawFrames>, path: &Path) -> Result<(), Error> {
    refuse(&[("--frames", frames.is_some() && !is_pipe(path))], "files, only on - as input or output")
}

impl Source {
    /// An error if an option was given that cannot affect `what`.
    pub fn refuse(&self, what: &'static str) -> Result<(), Error> {
        let flags = [
            ("--ss", self.start.is_some()),
            ("--to", self.end.is_some()),
            ("--vf", self.filters.is_some()),
            ("--fps", self.rate.is_some()),
            ("--exr", self.exr),
            ("--deinterlace", self.deinterlace != Deinterlace::Auto),
            ("--hdr", self.keep_hdr),
            ("--damaged", self.keep_damaged),
            ("--frames", self.frames.is_some()),
        ];
        refuse(&flags, what)
    }

    /// An error if raw frames are said to come from something else than stdin.
    pub(crate) fn refuse_frames(&self, path: &Path) -> Result<(), Error> {
        refuse_frames(self.frames, path)
    }

    /// The options that decide which frames an input has, in one way of writing them.
    pub(crate) fn reading(&self) -> String {
        let time = |time: Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
        let mode =
            (self.deinterlace != Deinterlace::Auto).then(|| deinterlace_name(self.deinterlace).to_owned());
        let options = [
            ("--ss", self.start.map(time)),
            ("--to", self.end.map(time)),
            ("--vf", self.filters.as_ref().map(|filters| filters.text().to_owned())),
            ("--fps", self.rate.map(|rate| format!("{}/{}", rate.num, rate.den))),
            ("--deinterlace", mode),
        ];
        let words = options.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether only a part of the input is used.
    pub(crate) fn is_cut(&self) -> bool {
        !self.span().is_whole()
    }

    /// The part of the input that is used.
    pub(super) fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// An error if there are filters for `what`, which does not go through ffmpeg.
    pub(super) fn refuse_filters(&self, what: &'static str) -> Result<(), Error> {
        refuse(&[("--vf", self.filters.is_some())], what)
    }

    /// Bytes that ffmpeg takes to decode an input and filter its frames.
    pub(crate) fn ffmpeg_memory(&self, opened: &Opened, threads: usize) -> u64 {
        let (Some(probe), format) = (&opened.probe, opened.source.format()) else { return 0 };
        let before = ffmpeg_memory::Size::of(&probe.video);
        let decodes = ffmpeg_memory::decoder(&probe.video.codec, before, threads);
        let after = ffmpeg_memory::Size::new(&format.layout, format.width, format.height);
        let filters = self.filters.as_ref().map_or(0, |_| ffmpeg_memory::filters(before, after));
        decodes.saturating_add(filters)
    }

    pub(super) fn read_options(&self) -> ReadOptions {
        let Source { exr, deinterlace, filters, keep_hdr, keep_damaged, .. } = self.clone();
        ReadOptions { exr, deinterlace, filters, keep_hdr, keep_damaged, threads: None }
    }
}

impl Size {
    /// An error if an option was given that cannot affect `what`.
    pub fn refuse(&self, what: &'static str) -> Result<(), Error> {
        let flags =
            [("--resolution", self.resolution.is_some()), ("--edges", self.edges != Edges::default())];
        refuse(&flags, what)
    }

    /// Sizes of frames like these on their way.
    pub(crate) fn geometry(&self, format: &Format) -> Geometry {
        Geometry::new([format.width, format.height], self.resolution.unwrap_or_default(), self.edges)
    }
}

impl Target {
    /// An error if an option was given that cannot affect `what`.
    pub fn refuse(&self, what: &'static str) -> Result<(), Error> {
        let flags = [
            ("--video", self.encoder.is_some()),
            ("--crf", self.crf.is_some()),
            ("--pixel-format", self.pixel_format.is_some()),
            ("--lossless", self.lossless),
            ("--encoder-threads", self.encoder_threads.is_some()),
            ("--audio", self.no_audio),
            ("--streams", self.streams.is_some()),
        ];
        refuse(&flags, what)
    }

    /// An error if raw frames are said to go to something else than stdout.
    pub(crate) fn refuse_frames(&self, path: &Path) -> Result<(), Error> {
        refuse_frames(self.frames, path)
    }

    /// How samples are written, as far as it is known before: as asked for, or as they came.
    pub(crate) fn layout(&self, format: &Format) -> Layout {
        let asked = self.pixel_format.as_deref().and_then(Layout::from_name);
        asked.or(self.frames.map(RawFrames::layout)).unwrap_or(format.layout)
    }

    /// Threads of the encoder. They decide the bytes of x264, x265 and VP9, so neither memory nor cores have a say.
    pub(crate) fn encoder_threads(&self) -> u32 {
        self.encoder_threads.unwrap_or(ENCODER_THREADS)
    }
}
