//! Video as people name it: which file, how to read it, what to write. And `remaster probe`.

use std::ffi::OsStr;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use remaster_compute::CancelToken;
use remaster_media::{
    Decoder, Deinterlace, Encoder, Format, FrameSink, FrameSource, Late, MediaError, OutputKind, PictureInfo,
    PictureWriter, Pictures, Probe, ReadOptions, Stop, TimeBase, Tools, WriteOptions, Y4mReader, Y4mWriter,
    encoder_name, is_still, probe as look,
};
use remaster_picture::{Edges, Frame, StillFormat, still};
use remaster_pipeline::{Geometry, Resize};

use crate::destination::{self, Size};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How video is read and written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Video")]
pub(crate) struct MediaArgs {
    /// Size of the result: pixels of the short side (720), a factor (2x), or WIDTHxHEIGHT.
    #[arg(long, value_name = "N|Nx|WxH", value_parser = resolution)]
    pub(crate) resolution: Option<Resize>,
    /// What the network sees beyond the right and the bottom edge, up to the size it takes: mirror-black, mirror or black.
    #[arg(long, value_name = "WHAT", default_value = "mirror-black", value_parser = edges)]
    edges: Edges,
    /// Frames per second of a folder of pictures, like 25 or 24000/1001.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    fps: Option<Rate>,
    /// Read and write OpenEXR pictures: their scene light goes through the sRGB curve, and back.
    #[arg(long)]
    exr: bool,
    /// Deinterlace: auto (what is marked or looks interlaced), on, double (a frame per field), ivtc (undo 3:2
    /// pulldown), or off.
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    deinterlace: DeinterlaceWord,
    /// What to do with PQ and HLG: refuse, or keep the signal as it is.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "refuse")]
    hdr: HdrWord,
    /// What to do with files that the decoder complains about: refuse, or keep what it could make of them.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "refuse")]
    damaged: HdrWord,
    /// Video encoder of ffmpeg with its options, like 'libx265 -crf 16' [default: by file name and depth].
    #[arg(long, value_name = "ENCODER ...")]
    video: Option<String>,
    /// Samples of the output, like yuv420p10le [default: those of the input, as far as the encoder takes them].
    #[arg(long, value_name = "FORMAT", alias = "pix-fmt")]
    pixel_format: Option<String>,
    /// Write FFV1, which loses nothing; needs .mkv.
    #[arg(long, conflicts_with = "video")]
    lossless: bool,
    /// Sound of the output: copy, or none.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "copy")]
    audio: AudioWord,
    /// Copy sound, subtitles, chapters and tags from this file when latents are decoded [default: the file that was
    /// encoded, if it is unchanged].
    #[arg(long, value_name = "FILE")]
    pub(crate) streams: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
}

/// Where the programs are that read and write files.
#[derive(Clone, Debug, Args)]
struct Programs {
    /// Path to ffmpeg [default: found in PATH].
    #[arg(long, value_name = "FILE", env = "REMASTER_FFMPEG")]
    ffmpeg: Option<PathBuf>,
    /// Path to ffprobe [default: beside ffmpeg, or found in PATH].
    #[arg(long, value_name = "FILE", env = "REMASTER_FFPROBE", hide_short_help = true)]
    ffprobe: Option<PathBuf>,
    /// End a silent ffmpeg after this many seconds, where the usual limit is higher. For tests.
    #[arg(long, value_name = "N", env = "REMASTER_STALL_SECONDS", hide = true, value_parser = clap::value_parser!(u64).range(1..))]
    stall_seconds: Option<u64>,
}

impl Programs {
    fn find(&self, cancel: &CancelToken) -> Result<Tools, CliError> {
        let stop = stop(cancel);
        let stop = self.stall_seconds.map_or(stop.clone(), |seconds| stop.or_stalled_for(seconds));
        Ok(Tools::find_apart(self.ffmpeg.as_deref(), self.ffprobe.as_deref(), stop)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DeinterlaceWord {
    Auto,
    On,
    Double,
    Ivtc,
    Off,
}

impl From<DeinterlaceWord> for Deinterlace {
    fn from(word: DeinterlaceWord) -> Self {
        match word {
            DeinterlaceWord::Auto => Deinterlace::Auto,
            DeinterlaceWord::On => Deinterlace::On,
            DeinterlaceWord::Double => Deinterlace::Double,
            DeinterlaceWord::Ivtc => Deinterlace::Ivtc,
            DeinterlaceWord::Off => Deinterlace::Off,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HdrWord {
    Refuse,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AudioWord {
    Copy,
    None,
}

/// Frames per second.
#[derive(Clone, Copy, Debug)]
struct Rate(TimeBase);

fn rate(word: &str) -> Result<Rate, String> {
    let wrong = || format!("`{word}` is not a frame rate from 0.001 to 1000; write 25, 23.976 or 24000/1001");
    let digits = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 9 {
        true => text.parse::<u64>().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    let (num, den) = match (word, word.split_once('/'), word.split_once('.')) {
        // What broadcasters mean by these.
        ("23.976" | "23.98", ..) => (24000, 1001),
        ("29.97", ..) => (30000, 1001),
        ("59.94", ..) => (60000, 1001),
        ("119.88", ..) => (120_000, 1001),
        (_, Some((num, den)), _) => (digits(num)?, digits(den)?),
        (_, _, Some((whole, part))) => {
            let scale = 10u64.pow(part.len().min(9) as u32);
            (digits(whole)? * scale + digits(part)?, scale)
        }
        _ => (digits(word)?, 1),
    };
    // Containers and ffmpeg hold both sides in 31 bits.
    let fits = |n: u64| n <= i32::MAX as u64;
    match TimeBase::new(num, den) {
        Some(rate) if fits(rate.num) && fits(rate.den) && num <= 1000 * den && den <= 1000 * num => {
            Ok(Rate(rate))
        }
        _ => Err(wrong()),
    }
}

fn edges(word: &str) -> Result<Edges, String> {
    let names = Edges::ALL.map(Edges::name).join(", ");
    Edges::from_name(word).ok_or_else(|| format!("`{word}` is none of {names}"))
}

/// The largest side that can be asked for.
const LARGEST: usize = 16384;

fn resolution(word: &str) -> Result<Resize, String> {
    let wrong = || format!("`{word}` is no size; write 1080 (short side), 2x, 1920x1080, 720p, 1080p or 4k");
    let side = |text: &str| {
        let n: usize = text.parse().map_err(|_| wrong())?;
        if (16..=LARGEST).contains(&n) {
            Ok(n)
        } else {
            Err(format!("{n} is not from 16 to {LARGEST} pixels"))
        }
    };
    let lower = word.to_ascii_lowercase();
    if lower == "4k" {
        return Ok(Resize::Short(2160));
    }
    if let Some(lines) = lower.strip_suffix('p') {
        return Ok(Resize::Short(side(lines)?));
    }
    if let Some(factor) = lower.strip_suffix('x') {
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        return if (0.1..=16.0).contains(&factor) {
            Ok(Resize::Times((factor * 100.0).round() as usize))
        } else {
            Err(format!("{factor} is not from 0.1 to 16"))
        };
    }
    match lower.split_once('x') {
        Some((width, height)) => Ok(Resize::Exactly([side(width)?, side(height)?])),
        None => Ok(Resize::Short(side(&lower)?)),
    }
}

/// Whether a path stands for stdin or stdout.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// By its name or by what is in it.
fn is_exr(path: &Path) -> bool {
    has_ending(path, "exr") || still::sniff(path).is_ok_and(|format| format == Some(StillFormat::Exr))
}

/// A clip that was opened.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn FrameSource>,
    /// What ffprobe found, for files.
    pub(crate) probe: Option<Probe>,
    /// Of pictures.
    pub(crate) info: Option<PictureInfo>,
    /// Words for people.
    pub(crate) notes: Vec<String>,
    /// More of them when all was read.
    pub(crate) late: Late,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
}

impl Opened {
    /// Whether the number of frames was computed from duration and rate.
    pub(crate) fn is_estimated(&self) -> bool {
        !self.counted && self.probe.as_ref().is_none_or(|p| p.video.frames_estimated)
    }
}

impl MediaArgs {
    /// An error if a flag was given that cannot matter for `what`.
    pub(crate) fn refuse(&self, what: &'static str) -> Result<(), CliError> {
        self.refuse_size(what)?;
        let flags = [
            ("--fps", self.fps.is_some()),
            ("--exr", self.exr),
            ("--deinterlace", self.deinterlace != DeinterlaceWord::Auto),
            ("--hdr", self.hdr == HdrWord::Keep),
            ("--damaged", self.damaged == HdrWord::Keep),
        ];
        let given = flags.iter().find(|(_, given)| *given);
        self.refuse_output(what)?;
        given.map_or(Ok(()), |(flag, _)| Err(CliError::NoEffect { flag, what }))
    }

    /// Comparing reads and writes no video.
    pub(crate) fn refuse_for_compare(&self) -> Result<(), CliError> {
        self.refuse_output("a comparison")?;
        self.refuse_size("a comparison")
    }

    /// The same for flags that say which sizes the network gets.
    pub(crate) fn refuse_size(&self, what: &'static str) -> Result<(), CliError> {
        let flags =
            [("--resolution", self.resolution.is_some()), ("--edges", self.edges != Edges::default())];
        let given = flags.iter().find(|(_, given)| *given);
        given.map_or(Ok(()), |(flag, _)| Err(CliError::NoEffect { flag, what }))
    }

    /// Sizes of frames like these on their way.
    pub(crate) fn geometry(&self, format: &Format) -> Geometry {
        Geometry::new([format.width, format.height], self.resolution.unwrap_or_default(), self.edges)
    }

    /// Whether the file that `path` names can hold more than frames.
    pub(crate) fn takes_streams(&self, path: &Path) -> bool {
        matches!(OutputKind::of(path), Some(OutputKind::Video(_)))
    }

    /// Whether sound is left out.
    pub(crate) fn is_silent(&self) -> bool {
        self.audio == AudioWord::None
    }

    /// Whether the frames of what was opened have times of their own.
    pub(crate) fn has_clock(&self, opened: &Opened) -> bool {
        opened.info.is_none() || self.fps.is_some()
    }

    /// The same for flags of the output.
    pub(crate) fn refuse_output(&self, what: &'static str) -> Result<(), CliError> {
        let flags = [
            ("--video", self.video.is_some()),
            ("--pixel-format", self.pixel_format.is_some()),
            ("--lossless", self.lossless),
            ("--audio", self.is_silent()),
            ("--streams", self.streams.is_some()),
        ];
        let given = flags.iter().find(|(_, given)| *given);
        given.map_or(Ok(()), |(flag, _)| Err(CliError::NoEffect { flag, what }))
    }

    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            exr: self.exr,
            deinterlace: self.deinterlace.into(),
            keep_hdr: self.hdr == HdrWord::Keep,
            keep_damaged: self.damaged == HdrWord::Keep,
            threads: None,
        }
    }

    pub(crate) fn tools(&self, cancel: &CancelToken) -> Result<Tools, CliError> {
        self.programs.find(cancel)
    }

    /// Opens whatever `path` names. A picture or a raw frame may take a quarter of `ram` bytes.
    pub(crate) fn open(&self, path: &Path, ram: u64, tools: &mut Lazy<'_>) -> Result<Opened, CliError> {
        let options = self.read_options();
        let stop = stop(tools.cancel);
        let most = ram / 4;
        let raw = is_pipe(path) || has_ending(path, "y4m");
        let picture = !raw && (path.is_dir() || is_still(path));
        if picture && !self.exr && is_exr(path) {
            return Err(CliError::Exr { path: path.to_owned() });
        }
        if !picture && self.exr {
            return Err(CliError::NoEffect { flag: "--exr", what: "video" });
        }
        if !picture && self.fps.is_some() {
            return Err(CliError::NoEffect { flag: "--fps", what: "a video, which has its own clock" });
        }
        if raw {
            let input: Box<dyn std::io::Read + Send> = if is_pipe(path) {
                Box::new(std::io::stdin())
            } else {
                let failed = |source| MediaError::Open { path: path.to_owned(), source };
                Box::new(std::fs::File::open(path).map_err(failed)?)
            };
            let reader =
                Y4mReader::new(BufReader::with_capacity(1 << 20, input), path.to_owned(), most, stop)?;
            let notes = reader.format().colour.guesses().into_iter().collect();
            return Ok(Opened {
                source: Box::new(reader),
                probe: None,
                info: None,
                notes,
                late: Late::default(),
                counted: false,
            });
        }
        if picture {
            let rate = self.fps.map_or(TimeBase { num: 25, den: 1 }, |r| r.0);
            let mut notes = Vec::new();
            if path.is_dir() && self.fps.is_none() {
                notes.push("images have no frame rate: assuming 25 fps (change with --fps)".into());
            }
            let pictures = Pictures::open(path, rate, options, most, stop)?;
            notes.extend_from_slice(pictures.notes());
            let info = Some(pictures.info().clone());
            return Ok(Opened {
                source: Box::new(pictures),
                probe: None,
                info,
                notes,
                late: Late::default(),
                counted: true,
            });
        }
        tools.remember(path);
        let options = ReadOptions { threads: tools.threads, ..options };
        let tools = tools.get()?;
        let probe = look(tools, path)?;
        let source = Decoder::open(tools, &probe, options)?;
        let mut notes = probe.video.notes.clone();
        notes.extend_from_slice(source.notes());
        let late = source.late();
        Ok(Opened { source: Box::new(source), probe: Some(probe), info: None, notes, late, counted: false })
    }

    /// Tries what `create` will do, as far as a second or two can tell: mistakes show before the work and not
    /// behind it. Notes are for people.
    pub(crate) fn rehearse(
        &self,
        goal: &Goal<'_>,
        from: Option<&Probe>,
        tools: &mut Lazy<'_>,
    ) -> Result<Option<String>, CliError> {
        let raw = destination::raw_bytes(goal.format);
        let size = match destination::kind(goal.path)? {
            OutputKind::Pipe => {
                self.refuse_output(Y4M)?;
                return Ok(None);
            }
            OutputKind::Y4m => {
                self.refuse_output(Y4M)?;
                Size::Exact
            }
            kind @ (OutputKind::Picture | OutputKind::Folder) => {
                self.refuse_output("pictures")?;
                // A count that is not sure may be one too many.
                let most = if goal.counted { 1 } else { 2 };
                if kind == OutputKind::Picture && goal.format.frames.is_some_and(|n| n > most) {
                    return Err(MediaError::Container {
                        path: goal.path.to_owned(),
                        what: "more than one frame".into(),
                        hint: "write to a folder or a video file".into(),
                    }
                    .into());
                }
                Size::Lossless
            }
            OutputKind::Video(_) => {
                let options = self.write_options(goal.overwrite, tools.threads);
                Encoder::rehearse(tools.get()?, goal.path, goal.format, from, &options)?;
                if self.lossless { Size::Lossless } else { Size::Lossy }
            }
        };
        destination::check_room(goal.path, raw, size)
    }

    /// Makes whatever the goal's path names. Notes are for people.
    pub(crate) fn create(
        &self,
        goal: &Goal<'_>,
        from: Option<&Probe>,
        info: Option<&PictureInfo>,
        tools: &mut Lazy<'_>,
    ) -> Result<(Box<dyn FrameSink>, Vec<String>), CliError> {
        let Goal { path, format, overwrite, .. } = *goal;
        match destination::kind(goal.path)? {
            kind @ (OutputKind::Pipe | OutputKind::Y4m) => {
                let place = (kind == OutputKind::Y4m).then(|| (path.to_owned(), overwrite));
                Ok((Box::new(Y4mWriter::create(place, format)?), left_behind(from, "y4m")))
            }
            OutputKind::Picture | OutputKind::Folder => {
                let writer = PictureWriter::create(path, format, info, overwrite)?;
                let mut notes = left_behind(from, "pictures");
                notes.extend_from_slice(writer.notes());
                Ok((Box::new(writer), notes))
            }
            OutputKind::Video(_) => {
                let options = self.write_options(overwrite, tools.threads);
                let encoder = Encoder::create(tools.get()?, path, format, from, &options)?;
                let notes = encoder.notes().to_vec();
                Ok((Box::new(Complete { sink: Box::new(encoder), inputs: tools.inputs.clone() }), notes))
            }
        }
    }

    fn write_options(&self, overwrite: bool, threads: Option<usize>) -> WriteOptions {
        WriteOptions {
            video: self.video.clone(),
            pixel_format: self.pixel_format.clone(),
            lossless: self.lossless,
            no_audio: self.audio == AudioWord::None,
            overwrite,
            threads,
        }
    }

    /// The encoder of ffmpeg that `create` would start for `path`, if any.
    pub(crate) fn encoder(&self, path: &Path, format: &Format, from: Option<&Probe>) -> Option<String> {
        let video = matches!(OutputKind::of(path), Some(OutputKind::Video(_)));
        video.then(|| encoder_name(path, format, from, &self.write_options(false, None)))
    }
}

/// Why flags of the output mean nothing to it.
const Y4M: &str = "y4m, which has samples and nothing else";

/// What is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Goal<'a> {
    pub(crate) path: &'a Path,
    /// Of the frames that come out.
    pub(crate) format: &'a Format,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
    pub(crate) overwrite: bool,
}

fn left_behind(from: Option<&Probe>, what: &str) -> Vec<String> {
    let streams = from.map_or(0, |p| p.others.len());
    if streams == 0 {
        Vec::new()
    } else {
        vec![format!("{streams} other streams stay behind: {what} hold none")]
    }
}

/// Sound and subtitles are copied from the input while frames are encoded. If it became shorter meanwhile, they are not
/// all there, and ffmpeg does not mind.
struct Complete {
    sink: Box<dyn FrameSink>,
    /// Files that were read, with their sizes before.
    inputs: Vec<(PathBuf, u64)>,
}

impl FrameSink for Complete {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.sink.write(frame, pts)
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        // A file that is gone was open all the time and had its bytes.
        let shorter = |(path, before): &&(PathBuf, u64)| size(path).is_some_and(|now| now < *before);
        match self.inputs.iter().find(shorter) {
            Some((path, _)) => Err(MediaError::Shrunk { path: path.clone() }),
            None => self.sink.finish(),
        }
    }
}

/// Bytes of a file.
fn size(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(|m| m.is_file()).map(|m| m.len())
}

/// ffmpeg is looked for when it is needed: pictures and pipes work without it.
pub(crate) struct Lazy<'a> {
    args: &'a MediaArgs,
    cancel: &'a CancelToken,
    found: Option<Tools>,
    interrupt: &'a Interrupt,
    pending: Vec<crate::interrupt::Pending>,
    /// Files that were opened, with their sizes then.
    inputs: Vec<(PathBuf, u64)>,
    /// Of each child.
    threads: Option<usize>,
}

impl<'a> Lazy<'a> {
    pub(crate) fn new(args: &'a MediaArgs, cancel: &'a CancelToken, interrupt: &'a Interrupt) -> Self {
        let (pending, inputs) = (Vec::new(), Vec::new());
        Lazy { args, cancel, found: None, interrupt, pending, inputs, threads: None }
    }

    fn remember(&mut self, path: &Path) {
        self.inputs.extend(size(path).map(|bytes| (path.to_owned(), bytes)));
    }

    /// With so many threads for each child.
    pub(crate) fn with_threads(self, threads: usize) -> Self {
        Lazy { threads: Some(threads), ..self }
    }

    /// Which programs are used, for people: nothing if none was needed.
    pub(crate) fn details(&self) -> Vec<String> {
        let Some(tools) = &self.found else { return Vec::new() };
        let used = |(program, version): (&Path, &str)| format!("{} {version}", program.display());
        tools.versions().map(used).into_iter().chain(tools.note()).collect()
    }

    /// The most memory that all children together held so far.
    pub(crate) fn children_peak(&self) -> u64 {
        self.found.as_ref().map_or(0, Tools::children_peak)
    }

    pub(crate) fn get(&mut self) -> Result<&Tools, CliError> {
        if self.found.is_none() {
            let tools = self.args.tools(self.cancel)?;
            let children = tools.clone();
            self.pending.push(self.interrupt.pending(move || children.kill_all()));
            self.found = Some(tools);
        }
        self.found.as_ref().ok_or(CliError::Interrupted)
    }
}

fn stop(cancel: &CancelToken) -> Stop {
    let cancel = cancel.clone();
    Stop::when(move || cancel.is_cancelled())
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// A video file.
    pub(crate) input: PathBuf,
    #[command(flatten)]
    programs: Programs,
}

pub(crate) fn probe(args: &ProbeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let tools = args.programs.find(&cancel)?;
    let probe = look(&tools, &args.input)?;
    out.result(&probe, || describe(&probe));
    Ok(())
}

fn describe(probe: &Probe) -> String {
    let v = &probe.video;
    let mut text = format!("{}\n", probe.path.display());
    let mut line = |what: &str, value: String| text += &format!("  {what:10} {value}\n");
    line("container", probe.format.clone());
    if let Some(duration) = probe.duration {
        line("duration", format!("{duration:.3} s"));
    }
    let rate = v.rate.map_or("unknown rate".into(), |r| format!("{:.3} fps", r.num as f64 / r.den as f64));
    let about = if v.frames_estimated { "about " } else { "" };
    let frames = v.frames.map_or("unknown".into(), |n| format!("{about}{n}"));
    line("video", format!("{} {} x {}, {rate}, {frames} frames", v.codec, v.width, v.height));
    let alpha = if v.alpha { ", alpha" } else { "" };
    line("samples", format!("{}, {} bit{alpha}", v.pixel_format, v.depth));
    if v.sample_aspect != [1, 1] {
        line("pixels", format!("{}:{} wide", v.sample_aspect[0], v.sample_aspect[1]));
    }
    let c = &v.colour;
    let tag = |t: &remaster_media::Tag| format!("{}{}", t.value, if t.guessed { " (guessed)" } else { "" });
    line("colour", format!("matrix {}, range {}", tag(&c.matrix), tag(&c.range)));
    line("", format!("primaries {}, transfer {}", tag(&c.primaries), tag(&c.transfer)));
    if let Some(fields) = &v.fields {
        line("fields", format!("interlaced, {fields}"));
    }
    if c.is_hdr() {
        line("hdr", format!("{}: needs --hdr keep", c.transfer.value));
    }
    for s in &probe.others {
        let language = s.language.as_ref().map_or(String::new(), |l| format!(" ({l})"));
        let cover = if s.cover { ", cover picture" } else { "" };
        line(&s.kind, format!("{}{language}{cover}", s.codec));
    }
    if probe.chapters > 0 {
        line("chapters", probe.chapters.to_string());
    }
    for note in v.notes.iter().filter(|n| !n.starts_with("untagged")) {
        line("note", note.clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_as_people_write_them() {
        assert_eq!(resolution("720"), Ok(Resize::Short(720)));
        assert_eq!(resolution("1080p"), Ok(Resize::Short(1080)));
        assert_eq!(resolution("4K"), Ok(Resize::Short(2160)));
        assert_eq!(resolution("1.5x"), Ok(Resize::Times(150)));
        assert_eq!(resolution("640x360"), Ok(Resize::Exactly([640, 360])));
        for word in ["", "x", "0", "99999", "17x", "axb", "640x", "-5"] {
            assert!(resolution(word).is_err(), "{word}");
        }
        for (word, num, den) in [
            ("25", 25, 1),
            ("25.0", 25, 1),
            ("50/2", 25, 1),
            ("0.5", 1, 2),
            ("12.5", 25, 2),
            ("23.976", 24000, 1001),
            ("29.97", 30000, 1001),
            ("30000/1001", 30000, 1001),
            ("14.985", 2997, 200),
            ("1000", 1000, 1),
            ("0.001", 1, 1000),
        ] {
            assert_eq!(rate(word).unwrap().0, TimeBase { num, den }, "{word}");
        }
        let wrong = [
            "0", "-3", "1/0", "0/1", "1e9", "1001", "0.0001", "", ".", "25.", "nan", "inf", "+5", "1/", "/",
            "1/2/3", "25fps",
        ];
        for word in wrong.into_iter().chain(["99999999999999999999", "1.99999999999999999999"]) {
            assert!(rate(word).is_err(), "{word}");
        }
    }
}
