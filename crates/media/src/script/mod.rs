//! VapourSynth scripts, through `vspipe` as a child process.
//!
//! A script is a program with the rights of this process. Nothing here decides whether it may run: the caller of
//! [`Script::open`] did. What vspipe says is data like that of any other child: it is limited, checked, and waited for with an end.

mod frames;
mod info;
mod times;

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::child::{DESCRIBE_BYTES, Keeper, Stop, Supervised};
use crate::clip::Format;
use crate::decode::ReadOptions;
use crate::ends::Announced;
use crate::error::MediaError;
use crate::excerpt::Excerpt;
use crate::fields::Deinterlace;
use crate::nut::TimeBase;
use crate::place::Scratch;
use crate::probe::{Probe, Video};
use crate::secrets::Secrets;
use crate::span::Span;

pub use frames::ScriptFrames;
use info::Info;

/// Filters that open a film look through all of it when a script runs first: 1,000 frames of a DVD in a second.
const PATIENCE: u64 = 1800;

/// Where vspipe is, and which version.
#[derive(Clone, Debug)]
pub struct Vspipe {
    program: PathBuf,
    core: String,
    keeper: Keeper,
}

impl Vspipe {
    /// vspipe at `program`, or the one that the system finds. It does not get to know the secrets.
    pub fn find(program: Option<&Path>, stop: Stop, secrets: Secrets) -> Result<Self, MediaError> {
        let program = program.map_or_else(|| PathBuf::from("vspipe"), Path::to_owned);
        let mut vspipe = Vspipe { program, core: String::new(), keeper: Keeper::new(stop, secrets) };
        let missing = |reason| MediaError::NoVspipe { program: vspipe.program.display().to_string(), reason };
        let text = vspipe.ask([OsStr::new("--version")]).map_err(|error| match error {
            Failed::Start(reason) | Failed::Words(reason) => missing(reason),
            Failed::Other(error) => error,
        })?;
        let text = String::from_utf8_lossy(&text);
        let core = text.lines().find_map(|line| line.trim().strip_prefix("Core ")).unwrap_or_default();
        if core.is_empty() || core.len() > 100 {
            return Err(missing("it does not say which version it is".into()));
        }
        vspipe.core = core.to_owned();
        Ok(vspipe)
    }

    /// Where it is, and its version.
    pub fn version(&self) -> (&Path, &str) {
        (&self.program, &self.core)
    }

    /// The most memory that all scripts together held so far.
    pub fn children_peak(&self) -> u64 {
        self.keeper.peak()
    }

    fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null());
        command
    }

    fn spawn(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Supervised, MediaError> {
        self.keeper.watched(self.command(args), "vspipe", PATIENCE)
    }

    /// What vspipe prints.
    fn ask(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Vec<u8>, Failed> {
        let (out, watched) = match self.keeper.read(self.command(args), "vspipe", PATIENCE) {
            Err(MediaError::NoTool { reason, .. }) => return Err(Failed::Start(reason)),
            read => read?,
        };
        if out.len() > DESCRIBE_BYTES {
            return Err(MediaError::TooMuch { what: "vspipe", limit: DESCRIBE_BYTES }.into());
        }
        ended(watched)?;
        Ok(out)
    }
}

/// Why vspipe has no answer.
enum Failed {
    /// It could not be started.
    Start(String),
    /// It said so, or its end did.
    Words(String),
    Other(MediaError),
}

impl From<MediaError> for Failed {
    fn from(error: MediaError) -> Self {
        Failed::Other(error)
    }
}

impl Failed {
    /// The error for a script.
    fn of(self, path: &Path) -> MediaError {
        match self {
            Failed::Start(reason) => MediaError::NoVspipe { program: "vspipe".into(), reason },
            Failed::Words(reason) => MediaError::Script { path: path.to_owned(), reason },
            Failed::Other(error) => error,
        }
    }
}

/// Waits for the end of a child that has nothing more to give.
fn ended(child: Supervised) -> Result<(), Failed> {
    let (end, lines) = child.ended();
    match end {
        Ok(()) => Ok(()),
        Err(MediaError::Stalled { seconds, .. }) => {
            Err(Failed::Words(format!("it gave nothing for {seconds} s and was stopped")))
        }
        Err(MediaError::Child { reason, .. }) => Err(Failed::Words(said(&lines).unwrap_or(reason))),
        Err(MediaError::Died { how, .. }) => {
            Err(Failed::Words(format!("vspipe was killed or crashed ({how})")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The one line of a traceback that says what is wrong, with the last line of the script that it names.
fn said(lines: &[String]) -> Option<String> {
    let told = |line: &&String| !line.is_empty() && !line.starts_with("Output ") && !line.starts_with('^');
    let exception = lines.iter().find_map(|line| line.strip_prefix("Python exception: "));
    let last = exception.or_else(|| lines.iter().rev().find(told).map(String::as_str))?;
    let number = |line: &String| {
        let (_, rest) = line.strip_prefix("File ")?.split_once(".vpy\", line ")?;
        rest.split(|c: char| !c.is_ascii_digit()).next().map(str::to_owned)
    };
    let at = lines.iter().rev().find_map(number).filter(|_| !last.contains("line "));
    Some(at.map_or_else(|| last.to_owned(), |at| format!("{last} (line {at})")))
}

/// A script whose clip is known: all of its frames, or some in a row.
#[derive(Clone, Debug)]
pub struct Script {
    vspipe: Vspipe,
    path: PathBuf,
    /// Absolute, so that it is no option.
    file: PathBuf,
    info: Info,
    /// Of the frames in `range`.
    format: Format,
    /// Which of the fields comes first, of frames that have fields.
    fields: Option<&'static str>,
    /// Of all frames, where they are not even.
    times: Option<Arc<[i64]>>,
    range: Range<usize>,
    /// What is taken from times.
    shift: i64,
}

impl Script {
    /// Runs the script at `path` to learn about its clip. The first frame tells for all what its numbers mean. If frames are
    /// not shown evenly, the script is run to its end once.
    pub fn open(vspipe: &Vspipe, path: &Path) -> Result<Self, MediaError> {
        let failed = |source| MediaError::Open { path: path.to_owned(), source };
        remaster_disk::read_named(path).map_err(failed)?;
        let file = std::path::absolute(path).map_err(failed)?;
        let text = vspipe.ask(["--info".as_ref(), file.as_os_str(), "-".as_ref()]).map_err(|e| e.of(path))?;
        let info = Info::parse(path, &String::from_utf8_lossy(&text))?;
        let properties = vspipe.properties(path, &file)?;
        let colour = properties.colour(&info);
        let unsupported = |what| MediaError::Samples { path: path.to_owned(), what };
        colour.coding().map_err(unsupported)?;
        let (rate, clock, times) = match info.rate {
            Some(rate) => (Some(rate), None, None),
            None => {
                let times = times::read(vspipe, path, &file, info.frames)?;
                (times::rate(&times), Some(times::CLOCK), Some(times))
            }
        };
        let even = Format::even(info.size, info.layout, colour, rate.unwrap_or(TimeBase { num: 25, den: 1 }));
        let format = Format {
            sample_aspect: properties.aspect(),
            time_base: clock.unwrap_or(even.time_base),
            frames: Some(info.frames),
            ..even
        };
        let (fields, range) = (properties.fields(), 0..info.frames);
        let (vspipe, path) = (vspipe.clone(), path.to_owned());
        Ok(Script { vspipe, path, file, info, format, fields, times, range, shift: 0 })
    }

    /// Refuses frames that a network cannot take as they are.
    pub fn judged(self, options: &ReadOptions) -> Result<Self, MediaError> {
        let Script { path, format, .. } = &self;
        if format.colour.is_hdr() && !options.keep_hdr {
            let transfer = format.colour.transfer.value.clone();
            return Err(MediaError::Hdr { path: path.clone(), transfer });
        }
        match self.fields.filter(|_| options.deinterlace != Deinterlace::Off) {
            Some(order) => Err(MediaError::ScriptFormat {
                path: path.clone(),
                what: format!("frames with fields ({order} first)"),
                line: "clip = core.std.SetFieldBased(clip, 0)  # behind the line that deinterlaces".into(),
            }),
            None => Ok(self),
        }
    }

    /// Only a part of it.
    pub fn within(mut self, span: Span) -> Result<Self, MediaError> {
        if span.is_whole() {
            return Ok(self);
        }
        let clock = self.format.time_base;
        let length = Some(clock.seconds(self.time(self.info.frames.saturating_sub(1)).saturating_add(1)));
        span.check(&self.path, length)?;
        let ticks = span.counted(clock);
        let (first, end) = (self.at(ticks.first), ticks.end.map_or(self.info.frames, |end| self.at(end)));
        if first >= end {
            return Err(span.empty(&self.path, length));
        }
        self.shift = ticks.shift;
        Ok(self.cut(first..end))
    }

    /// Only some frames of it, with the times that they have here.
    pub fn excerpt(self, excerpt: Excerpt) -> Result<Self, MediaError> {
        let Range { start, end } = self.range;
        let first = match excerpt.first {
            None => start,
            Some(pts) => {
                let first = self.at(pts.saturating_add(self.shift));
                let is_there = (start..end).contains(&first) && self.shown(first) == pts;
                if is_there { Ok(first) } else { Err(excerpt.missing()) }?
            }
        };
        let end = excerpt.end.map_or(end, |pts| self.at(pts.saturating_add(self.shift)).clamp(first, end));
        Ok(self.cut(first..end))
    }

    fn cut(mut self, range: Range<usize>) -> Self {
        self.format.frames = Some(range.len());
        self.range = range;
        self
    }

    /// When a frame is shown by the clock of the clip.
    fn time(&self, frame: usize) -> i64 {
        match &self.times {
            Some(times) => times.get(frame).copied().unwrap_or(i64::MAX),
            None => i64::try_from(frame).unwrap_or(i64::MAX),
        }
    }

    /// When it is shown in the part that is used.
    fn shown(&self, frame: usize) -> i64 {
        self.time(frame).saturating_sub(self.shift).max(0)
    }

    /// The first frame that is shown at `time` or later.
    fn at(&self, time: i64) -> usize {
        match &self.times {
            Some(times) => times.partition_point(|at| *at < time),
            None => usize::try_from(time.max(0)).unwrap_or(usize::MAX).min(self.info.frames),
        }
    }

    /// What a person should know about how it is read.
    pub fn notes(&self) -> Vec<String> {
        let memory = "--ram does not limit the script, which may use half of the memory; set core.max_cache_size in it";
        self.format.colour.guesses().into_iter().chain([memory.to_owned()]).collect()
    }

    /// What the clip is, as far as the script says it: another clip has other words. Files that the script reads are no part of
    /// it.
    pub fn identity(&self) -> String {
        let Format { colour, sample_aspect: [a, b], .. } = &self.format;
        let [width, height] = self.info.size;
        let rate = match (&self.times, self.info.rate) {
            (Some(times), _) => format!("times {}", times::hash(times)),
            (None, rate) => rate.map_or_else(String::new, |rate| format!("{}/{} fps", rate.num, rate.den)),
        };
        let tags = [&colour.matrix, &colour.range, &colour.primaries, &colour.transfer, &colour.siting];
        let tags: Vec<&str> = tags.iter().map(|tag| tag.value.as_str()).collect();
        let (frames, samples) = (self.info.frames, self.info.layout.name());
        let core = &self.vspipe.core;
        format!(
            "VapourSynth {core}: {frames} frames, {width}x{height}, {samples}, {rate}, {}, pixels {a}:{b}",
            tags.join(" ")
        )
    }

    /// The same as a file would say it.
    pub fn probe(&self) -> Probe {
        let Format { colour, sample_aspect, time_base, rate, .. } = self.format.clone();
        let [width, height] = self.info.size;
        let lasts = self.info.rate.map(|rate| self.info.frames as f64 * rate.den as f64 / rate.num as f64);
        let notes = self.notes();
        Probe {
            path: self.path.clone(),
            format: "vapoursynth".into(),
            duration: lasts.or_else(|| self.times.as_ref()?.last().map(|last| time_base.seconds(*last))),
            tags: [("core".to_owned(), self.vspipe.core.clone())].into(),
            chapters: 0,
            video: Video {
                index: 0,
                codec: "rawvideo".into(),
                profile: None,
                width,
                height,
                pixel_format: self.info.layout.name(),
                depth: self.info.layout.depth,
                alpha: false,
                sample_aspect,
                turns: 0,
                colour,
                hdr: None,
                fields: self.fields.map(|order| format!("{order} field first")),
                time_base,
                rate,
                frames: Some(self.info.frames),
                frames_estimated: false,
                tags: Default::default(),
                notes,
                complaints: Vec::new(),
                announced: Announced::default(),
                ends: None,
                start: None,
                is_reordered: false,
                believed: None,
                order: None,
                read_as: self.info.layout,
                read_name: self.info.layout.name(),
                decoder: None,
            },
            others: Vec::new(),
            span: Span::default(),
            fields: None,
        }
    }
}

impl Vspipe {
    /// What the first frame says of itself, which vspipe writes to a file and nowhere else.
    fn properties(&self, path: &Path, file: &Path) -> Result<info::Properties, MediaError> {
        let text = self.written(path, file, "-j", &["-s", "0", "-e", "0"], DESCRIBE_BYTES, |args| {
            let mut args = args.to_vec();
            args.push("--".into());
            self.ask(args).map(drop)
        })?;
        info::Properties::parse(path, &text)
    }

    /// What vspipe writes to a file that `option` names, while `run` runs it. More than `most` bytes are refused.
    fn written(
        &self,
        path: &Path,
        file: &Path,
        option: &str,
        others: &[&str],
        most: usize,
        run: impl FnOnce(&[OsString]) -> Result<(), Failed>,
    ) -> Result<Vec<u8>, MediaError> {
        let failed = |source| MediaError::Io { doing: "read what vspipe says of the script".into(), source };
        let scratch = Scratch::new(None).map_err(failed)?;
        let place = scratch.path().join("said");
        let mut args: Vec<OsString> = others.iter().map(Into::into).collect();
        args.extend([option.into(), place.clone().into(), file.into()]);
        run(&args).map_err(|error| error.of(path))?;
        let mut text = Vec::new();
        let read = remaster_disk::read(&place).map_err(failed)?;
        read.take(most as u64 + 1).read_to_end(&mut text).map_err(failed)?;
        match text.len() > most {
            true => Err(MediaError::TooMuch { what: "vspipe", limit: most }),
            false => Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_matters_is_taken_out_of_a_traceback() {
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let raised = lines(
            "Script evaluation failed:\nPython exception: boom\n\nTraceback (most recent call last):\n\
             File \"vapoursynth.pyx\", line 4634, in vapoursynth._vpy_evaluate\n\
             File \"err.vpy\", line 3, in <module>\nraise ValueError(\"boom\")\nValueError: boom",
        );
        assert_eq!(said(&raised).as_deref(), Some("boom (line 3)"));
        let none = lines("Failed to retrieve output node. Invalid index specified?");
        assert_eq!(said(&none).as_deref(), Some("Failed to retrieve output node. Invalid index specified?"));
        let frame = lines(
            "Error: Failed to retrieve frame 5 with error:\nFile \"f.vpy\", line 5, in f\nValueError: five\n\
             Output 5 frames in 0.00 seconds (1.00 fps)",
        );
        assert_eq!(said(&frame).as_deref(), Some("ValueError: five (line 5)"));
        assert_eq!(said(&[]), None);
    }
}
