//! YUV4MPEG2, the raw video of pipes: read and written without ffmpeg.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use remaster_picture::{Coding, Frame, Kind, Layout};

use crate::child::Stop;
use crate::clip::{Format, FrameSink, FrameSource};
use crate::colour::{Colour, Said};
use crate::decode::shape;
use crate::error::{MediaError, frames};
use crate::nut::TimeBase;
use crate::place::PartialFile;
use crate::probe::MAX_FRAMES;
use crate::span::Span;
use crate::stream::{Counted, Named, check_size, ratio};

pub(crate) const MAGIC: &str = "YUV4MPEG2";

pub(crate) const STREAM: Named = Named("the y4m stream");

/// Reads frames from a file or from stdin.
pub struct Y4mReader<R> {
    input: R,
    format: Format,
    coding: Coding,
    bytes: Vec<u8>,
    path: PathBuf,
    /// Frames that were read, those before the part included.
    frames: i64,
    span: Span,
    /// Frames that the header announces.
    length: Option<i64>,
    stop: Stop,
}

/// What `C` says: samples, and where chroma lies.
pub(crate) fn samples(tag: &str) -> Option<(Layout, &'static str)> {
    let siting = if tag == "420jpeg" || tag.is_empty() { "center" } else { "left" };
    let siting = if tag == "420paldv" { "topleft" } else { siting };
    let (kind, depth) = match tag {
        "" | "420" | "420jpeg" | "420mpeg2" | "420paldv" => ("yuv420p", ""),
        "422" => ("yuv422p", ""),
        "444" => ("yuv444p", ""),
        "411" => ("yuv411p", ""),
        "440" => ("yuv440p", ""),
        "444alpha" => ("yuva444p", ""),
        "mono" => ("gray", ""),
        _ => match (tag.strip_prefix("mono"), tag.split_once('p')) {
            (Some(depth), _) => ("gray", depth),
            (None, Some(("420", depth))) => ("yuv420p", depth),
            (None, Some(("422", depth))) => ("yuv422p", depth),
            (None, Some(("444", depth))) => ("yuv444p", depth),
            _ => return None,
        },
    };
    let name = if depth.is_empty() { kind.to_owned() } else { format!("{kind}{depth}le") };
    Some((Layout::from_name(&name)?, siting))
}

/// The word for samples; `None` if there is none.
fn word(layout: &Layout, siting: &str) -> Option<String> {
    let stem = match (layout.kind, layout.alpha, layout.depth) {
        (Kind::Gray, false, 8) => return Some("mono".into()),
        (Kind::Gray, false, d) => return Some(format!("mono{d}")),
        (Kind::Yuv { across: 1, down: 1 }, false, 8) => {
            return Some(match siting {
                "center" => "420jpeg".into(),
                "topleft" => "420paldv".into(),
                _ => "420mpeg2".into(),
            });
        }
        (Kind::Yuv { across: 0, down: 0 }, true, 8) => return Some("444alpha".into()),
        (Kind::Yuv { across: 2, down: 0 }, false, 8) => return Some("411".into()),
        (Kind::Yuv { across: 1, down: 1 }, false, _) => "420",
        (Kind::Yuv { across: 1, down: 0 }, false, _) => "422",
        (Kind::Yuv { across: 0, down: 0 }, false, _) => "444",
        _ => return None,
    };
    Some(if layout.depth == 8 { stem.into() } else { format!("{stem}p{}", layout.depth) })
}

impl<R: BufRead + Send> Y4mReader<R> {
    /// Reads the header. A frame on its way may take `most` bytes.
    pub fn new(mut input: R, path: PathBuf, most: u64, stop: Stop) -> Result<Self, MediaError> {
        let header = STREAM.line(&mut input)?.ok_or_else(|| STREAM.broken("it is empty"))?;
        Self::behind(&header, input, path, most, stop)
    }

    /// What comes behind a header.
    pub(crate) fn behind(
        line: &str,
        input: R,
        path: PathBuf,
        most: u64,
        stop: Stop,
    ) -> Result<Self, MediaError> {
        let mut words = line.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(STREAM.broken(format!("it does not start with {MAGIC}")));
        }
        let (mut width, mut height) = (0u64, 0u64);
        let (mut rate, mut aspect) = (None, None);
        let (mut chroma, mut range, mut fields, mut length) = (String::new(), None, None, None);
        for word in words {
            let (Some(key), value) = (word.chars().next(), word.get(1..).unwrap_or_default()) else {
                continue;
            };
            match key {
                'W' => width = value.parse().unwrap_or(0),
                'H' => height = value.parse().unwrap_or(0),
                'F' => rate = ratio(value).and_then(|[num, den]| TimeBase::new(num.into(), den.into())),
                'A' => aspect = ratio(value),
                'C' => chroma = value.to_owned(),
                'I' if matches!(value, "t" | "b" | "m") => fields = Some(value.to_owned()),
                'X' => match value {
                    "COLORRANGE=FULL" => range = Some("pc"),
                    "COLORRANGE=LIMITED" => range = Some("tv"),
                    _ => length = value.strip_prefix("LENGTH=").and_then(|n| n.parse().ok()).or(length),
                },
                _ => {}
            }
        }
        if let Some(order) = fields {
            // Making frames of fields is ffmpeg's work, and this reader has none.
            let order = format!("I{order} in its header; deinterlacing needs a file instead of a pipe");
            return Err(MediaError::Interlaced { path, order });
        }
        let unsupported = |what| MediaError::Samples { path: path.clone(), what };
        let (layout, siting) =
            samples(&chroma).ok_or_else(|| unsupported(format!("the chroma format C{chroma}")))?;
        let size = check_size(&path, [width, height], &layout, most)?;
        let said = Said { range, siting: Some(siting), ..Said::default() };
        let colour = Colour::new(said, &layout, size);
        let coding = colour.coding().map_err(unsupported)?;
        let rate = rate.unwrap_or(TimeBase { num: 25, den: 1 });
        let sample_aspect = aspect.unwrap_or([1, 1]);
        // vspipe writes it. A number that cannot be meant says nothing.
        let length = length.filter(|n: &i64| (1..=MAX_FRAMES as i64).contains(n));
        let frames = length.and_then(|n| usize::try_from(n).ok());
        let format = Format { sample_aspect, frames, ..Format::even(size, layout, colour, rate) };
        let span = Span::default();
        Ok(Y4mReader { input, format, coding, bytes: Vec::new(), path, frames: 0, span, length, stop })
    }

    /// Only a part of it. What is before is read and thrown away; what is behind is not read.
    pub fn within(mut self, span: Span) -> Result<Self, MediaError> {
        let clock = self.format.time_base;
        span.check(&self.path, self.length.map(|n| clock.seconds(n)))?;
        let ticks = span.counted(clock);
        let part = |n: i64| ticks.end.map_or(n, |end| end.min(n)).saturating_sub(ticks.first.max(0));
        self.format.frames = self.length.and_then(|n| usize::try_from(part(n)).ok());
        self.span = span;
        Ok(self)
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&mut self) -> bool {
        self.input.fill_buf().map_or(true, <[u8]>::is_empty)
    }

    /// With colours and pixels that are known from elsewhere.
    pub(crate) fn meaning(mut self, colour: Colour, sample_aspect: [u32; 2]) -> Result<Self, MediaError> {
        let unsupported = |what| MediaError::Samples { path: self.path.clone(), what };
        self.coding = colour.coding().map_err(unsupported)?;
        (self.format.colour, self.format.sample_aspect) = (colour, sample_aspect);
        Ok(self)
    }
}

impl<R: BufRead> Counted for Y4mReader<R> {
    fn about(&self) -> (&Format, &Path, Span, i64) {
        (&self.format, &self.path, self.span, self.frames)
    }

    fn read(&mut self) -> Result<bool, MediaError> {
        if self.stop.is_stopped() {
            return Err(MediaError::Cancelled);
        }
        let Some(line) = STREAM.line(&mut self.input)? else {
            return match self.length.filter(|n| *n != self.frames) {
                Some(n) => {
                    let (n, got) = (frames(n as usize), self.frames);
                    Err(STREAM.broken(format!("its header announces {n}, but it ends after {got}")))
                }
                None => Ok(false),
            };
        };
        if self.length == Some(self.frames) {
            return Err(STREAM
                .broken(format!("its header announces {}, but it goes on", frames(self.frames as usize))));
        }
        if !line.starts_with("FRAME") {
            return Err(STREAM.broken(format!("frame {} does not start with FRAME", self.frames)));
        }
        let Format { width, height, layout, .. } = self.format;
        let length = layout.bytes(width, height).unwrap_or(0);
        STREAM.fill(&mut self.input, length, &mut self.bytes)?;
        if self.bytes.len() < length {
            return Err(STREAM.broken(format!("it ends within frame {}", self.frames)));
        }
        self.frames += 1;
        Ok(true)
    }
}

impl<R: BufRead + Send> FrameSource for Y4mReader<R> {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(pts) = self.read_wanted()? else { return Ok(None) };
        let Format { width, height, layout, .. } = self.format;
        shape(frame, width, height, self.format.channels());
        layout.unpack(&self.bytes, &self.coding, frame)?;
        Ok(Some(pts))
    }
}

/// Where raw frames go.
enum To {
    Stdout(std::io::Stdout),
    File(std::io::BufWriter<std::fs::File>, PartialFile, PathBuf),
}

/// Writes frames to a file or to stdout.
pub struct Y4mWriter {
    to: To,
    layout: Layout,
    coding: Coding,
    bytes: Vec<u8>,
}

impl Y4mWriter {
    /// Writes the header. Without a path the frames go to stdout. Frames are shown at a constant rate.
    pub fn create(path: Option<(PathBuf, bool)>, format: &Format) -> Result<Self, MediaError> {
        let near = match format.layout.kind {
            Kind::Gray | Kind::Yuv { .. } => format.layout,
            Kind::Gbr | Kind::Packed => Layout {
                kind: Kind::Yuv { across: 0, down: 0 },
                depth: format.layout.depth.min(16),
                alpha: format.layout.alpha,
            },
        };
        let shown = path.as_ref().map_or_else(|| PathBuf::from("-"), |(p, _)| p.clone());
        let colour = format.colour.for_layout(&near, [format.width, format.height]);
        let refused =
            || MediaError::cannot_hold(&shown, format!("{} samples", near.name()), "write .mkv or .mov");
        let chroma = word(&near, &colour.siting.value).ok_or_else(refused)?;
        let coding = colour.coding().map_err(|what| MediaError::Samples { path: shown, what })?;
        let rate = format.rate.unwrap_or(TimeBase { num: format.time_base.den, den: format.time_base.num });
        let [a, b] = format.sample_aspect;
        let full = if colour.range.value == "pc" { "FULL" } else { "LIMITED" };
        let header = format!(
            "{MAGIC} W{} H{} F{}:{} Ip A{a}:{b} C{chroma} XCOLORRANGE={full}\n",
            format.width, format.height, rate.num, rate.den
        );
        let to = match path {
            None => To::Stdout(std::io::stdout()),
            Some((path, overwrite)) => {
                let part = PartialFile::beside(&path, overwrite)?;
                let file = remaster_disk::create(part.path()).map_err(|e| MediaError::writing(&path, e))?;
                To::File(std::io::BufWriter::new(file), part, path)
            }
        };
        let mut writer = Y4mWriter { to, layout: near, coding, bytes: Vec::new() };
        writer.put(header.as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        match &mut self.to {
            To::Stdout(out) => out.lock().write_all(bytes).map_err(to_stdout),
            To::File(out, _, path) => out.write_all(bytes).map_err(|e| MediaError::writing(path, e)),
        }
    }
}

fn to_stdout(source: std::io::Error) -> MediaError {
    MediaError::Io { doing: "write y4m to stdout".into(), source }
}

impl FrameSink for Y4mWriter {
    fn write(&mut self, frame: &Frame, _pts: i64) -> Result<(), MediaError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.layout.pack(frame, &self.coding, &mut bytes)?;
        self.put(b"FRAME\n")?;
        self.put(&bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        match self.to {
            To::Stdout(mut out) => out.flush().map_err(to_stdout),
            To::File(mut out, part, path) => {
                out.flush().map_err(|e| MediaError::writing(&path, e))?;
                drop(out);
                part.put()
            }
        }
    }
}
