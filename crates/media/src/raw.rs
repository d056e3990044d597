//! Raw RGB frames between programs: a line of text, then planes of numbers. y4m carries no RGB.

use std::io::{BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use remaster_picture::{Frame, Kind, Layout, PictureError};
use serde::{Deserialize, Serialize};

use crate::child::Stop;
use crate::clip::{Format, FrameSink, FrameSource};
use crate::colour::{Colour, Said};
use crate::decode::shape;
use crate::error::{MediaError, frames};
use crate::nut::TimeBase;
use crate::span::Span;
use crate::stream::{Counted, Named, check_size, ratio};

const MAGIC: &str = "REMASTER-FRAMES";

const STREAM: Named = Named("the stream of raw frames");

/// What a frame of a raw stream is: planes of red, green, blue and perhaps alpha, one after the other, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawFrames {
    /// 0 to 65535.
    Rgb16,
    /// Floats, 0 to 1.
    Rgbf32,
    /// 0 to 65535, with straight alpha.
    Rgba16,
}

impl RawFrames {
    /// All kinds with their names.
    pub const NAMES: &[(&str, RawFrames)] =
        &[("rgb16", RawFrames::Rgb16), ("rgbf32", RawFrames::Rgbf32), ("rgba16", RawFrames::Rgba16)];

    /// As headers and options have it.
    pub fn name(self) -> &'static str {
        match self {
            RawFrames::Rgb16 => "rgb16",
            RawFrames::Rgbf32 => "rgbf32",
            RawFrames::Rgba16 => "rgba16",
        }
    }

    /// The samples, apart from the order of their planes, which is that of ffmpeg there.
    pub fn layout(self) -> Layout {
        let depth = if self == RawFrames::Rgbf32 { 32 } else { 16 };
        Layout { kind: Kind::Gbr, depth, alpha: self == RawFrames::Rgba16 }
    }

    /// Refuses frames that have more than it can hold.
    pub fn check(self, format: &Format) -> Result<(), MediaError> {
        if !format.layout.alpha || self.layout().alpha {
            return Ok(());
        }
        let what = format!("alpha as {}", self.name());
        Err(MediaError::cannot_hold(Path::new("stdout"), what, "use --frames rgba16"))
    }
}

/// What the line in front says.
struct Header {
    size: [u64; 2],
    rate: TimeBase,
    aspect: [u32; 2],
    frames: Option<u32>,
}

impl Header {
    /// Reads the line in front of frames of this kind.
    fn parse(kind: RawFrames, line: &str) -> Result<Self, MediaError> {
        let shown = |word: &str| format!("{:?}", word.chars().take(40).collect::<String>());
        let mut words = line.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(STREAM.broken(format!("it does not start with {MAGIC}; leave --frames out for y4m")));
        }
        let named = words.next().unwrap_or_default();
        match RawFrames::NAMES.iter().find(|(name, _)| *name == named) {
            Some((_, found)) if *found == kind => {}
            Some((name, _)) => {
                return Err(STREAM.broken(format!("its frames are {name}; use --frames {name}")));
            }
            None => {
                let reason = format!("{} is no format; use rgb16, rgbf32 or rgba16", shown(named));
                return Err(STREAM.broken(reason));
            }
        }
        const KEYS: &str = "WHFAL";
        let mut found = [None; KEYS.len()];
        for word in words.filter(|word| !word.starts_with('X')) {
            let at = word.chars().next().and_then(|key| KEYS.find(key));
            let slot = at.and_then(|at| found.get_mut(at));
            let Some(slot) = slot else {
                return Err(STREAM.broken(format!("its header has an unknown word, {}", shown(word))));
            };
            if slot.replace(word.get(1..).unwrap_or_default()).is_some() {
                return Err(STREAM.broken(format!("its header says {} twice", shown(word))));
            }
        }
        let [width, height, rate, aspect, frames] = found;
        let wrong = |key: &str, example: &str, value: Option<&str>| match value {
            Some(value) => {
                let word = shown(&format!("{key}{value}"));
                STREAM.broken(format!("its header has {word}; write {example}"))
            }
            None => STREAM.broken(format!("its header has no {key}; write {example}")),
        };
        let number = |key, example, value: Option<&str>| {
            let number = value.and_then(|value| value.parse::<u64>().ok());
            number.ok_or_else(|| wrong(key, example, value))
        };
        let size = [number("W", "W640", width)?, number("H", "H480", height)?];
        let fraction = |value: &str| ratio(value).and_then(|[a, b]| TimeBase::new(a.into(), b.into()));
        let rate = rate.and_then(fraction).ok_or_else(|| wrong("F", "F25:1", rate))?;
        let aspect = aspect.map_or(Some([1, 1]), ratio).ok_or_else(|| wrong("A", "A1:1", aspect))?;
        let counted = |value: &str| value.parse::<u32>().ok().filter(|n| *n > 0);
        let stated = match frames {
            Some(value) => Some(counted(value).ok_or_else(|| wrong("L", "L500", frames))?),
            None => None,
        };
        Ok(Header { size, rate, aspect, frames: stated })
    }
}

/// Reads frames from stdin.
pub struct RawReader<R> {
    input: R,
    kind: RawFrames,
    format: Format,
    bytes: Vec<u8>,
    path: PathBuf,
    /// Frames that were read, those before the part included.
    frames: i64,
    /// Frames that there are, as the header says.
    stated: Option<u32>,
    span: Span,
    stop: Stop,
}

impl<R: BufRead + Send> RawReader<R> {
    /// Reads the header. A frame on its way may take `most` bytes.
    pub fn new(
        kind: RawFrames,
        mut input: R,
        path: PathBuf,
        most: u64,
        stop: Stop,
    ) -> Result<Self, MediaError> {
        let line = STREAM.line(&mut input)?.ok_or_else(|| STREAM.broken("it is empty"))?;
        let Header { size, rate, aspect: sample_aspect, frames: stated } = Header::parse(kind, &line)?;
        let layout = kind.layout();
        let size = check_size(&path, size, &layout, most)?;
        let said = Said {
            range: Some("pc"),
            primaries: Some("bt709"),
            transfer: Some("iec61966-2-1"),
            ..Said::default()
        };
        let frames = stated.map(|n| n as usize);
        let even = Format::even(size, layout, Colour::new(said, &layout, size), rate);
        let format = Format { sample_aspect, frames, ..even };
        let (bytes, span) = (Vec::new(), Span::default());
        Ok(RawReader { input, kind, format, bytes, path, frames: 0, stated, span, stop })
    }

    /// Only a part of it. What is before is read and thrown away; what is behind is not read.
    pub fn within(mut self, span: Span) -> Result<Self, MediaError> {
        let length = self.stated.map(|n| self.format.time_base.seconds(n.into()));
        span.check(&self.path, length)?;
        self.format.frames = self.format.frames.filter(|_| span.is_whole());
        self.span = span;
        Ok(self)
    }
}

impl<R: BufRead> Counted for RawReader<R> {
    fn about(&self) -> (&Format, &Path, Span, i64) {
        (&self.format, &self.path, self.span, self.frames)
    }

    fn read(&mut self) -> Result<bool, MediaError> {
        if self.stop.is_stopped() {
            return Err(MediaError::Cancelled);
        }
        let (read, stated) = (self.frames, self.stated.map(i64::from));
        if stated.is_some_and(|stated| read >= stated) {
            return Ok(false);
        }
        let Format { width, height, layout, .. } = self.format;
        let length = layout.bytes(width, height).unwrap_or(0);
        STREAM.fill(&mut self.input, length, &mut self.bytes)?;
        match (self.bytes.len(), stated) {
            (0, None) => return Ok(false),
            (0, Some(stated)) => {
                let read = frames(usize::try_from(read).unwrap_or(0));
                return Err(STREAM.broken(format!("it ends after {read}, but its header says L{stated}")));
            }
            (some, _) if some < length => return Err(STREAM.broken(format!("it ends within frame {read}"))),
            _ => {}
        }
        self.frames += 1;
        // Who takes all frames may never ask for one more.
        if stated == Some(self.frames) {
            let mut more = Vec::new();
            STREAM.fill(&mut self.input, 1, &mut more)?;
            if !more.is_empty() {
                let reason = format!("it goes on after the {} frames of its header", self.frames);
                return Err(STREAM.broken(reason));
            }
        }
        Ok(true)
    }
}

impl<R: BufRead + Send> FrameSource for RawReader<R> {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(pts) = self.read_wanted()? else { return Ok(None) };
        let Format { width, height, .. } = self.format;
        let channels = self.format.channels();
        shape(frame, width, height, channels);
        for (c, plane) in self.bytes.chunks_exact((self.bytes.len() / channels).max(1)).enumerate() {
            let values = frame.data.iter_mut().skip(c).step_by(channels);
            match self.kind {
                RawFrames::Rgb16 | RawFrames::Rgba16 => {
                    let codes = plane.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
                    values.zip(codes).for_each(|(to, code)| *to = f32::from(code) / 65535.0);
                }
                RawFrames::Rgbf32 => {
                    for (i, (to, bytes)) in values.zip(plane.as_chunks::<4>().0).enumerate() {
                        let value = f32::from_le_bytes(*bytes);
                        if !value.is_finite() {
                            return Err(not_finite(value, self.frames - 1, c, [i % width, i / width]));
                        }
                        *to = value.clamp(0.0, 1.0);
                    }
                }
            }
        }
        Ok(Some(pts))
    }
}

fn not_finite(value: f32, frame: i64, channel: usize, [x, y]: [usize; 2]) -> MediaError {
    let channel = ["red", "green", "blue"].get(channel).unwrap_or(&"alpha");
    STREAM.broken(format!(
        "{channel} of frame {frame} is {value} at column {x}, row {y}; send numbers from 0 to 1"
    ))
}

/// Writes frames to stdout.
pub struct RawWriter<W: Write> {
    to: BufWriter<W>,
    kind: RawFrames,
    size: [usize; 2],
    /// Frames that the header promises.
    stated: Option<usize>,
    written: usize,
    row: Vec<u8>,
}

impl<W: Write + Send> RawWriter<W> {
    /// Writes the header; `frames` is how many there will be, if that is sure. Frames are shown at a constant rate.
    pub fn create(
        kind: RawFrames,
        to: W,
        format: &Format,
        frames: Option<usize>,
    ) -> Result<Self, MediaError> {
        kind.check(format)?;
        let rate = format.rate.unwrap_or(TimeBase { num: format.time_base.den, den: format.time_base.num });
        let (name, [a, b], [width, height]) =
            (kind.name(), format.sample_aspect, [format.width, format.height]);
        let stated = frames.map_or_else(String::new, |n| format!(" L{n}"));
        let mut to = BufWriter::with_capacity(1 << 20, to);
        let header =
            writeln!(to, "{MAGIC} {name} W{width} H{height} F{}:{} A{a}:{b}{stated}", rate.num, rate.den);
        header.and_then(|()| to.flush()).map_err(to_stdout)?;
        Ok(RawWriter { to, kind, size: [width, height], stated: frames, written: 0, row: Vec::new() })
    }
}

fn to_stdout(source: std::io::Error) -> MediaError {
    MediaError::Io { doing: "write frames to stdout".into(), source }
}

impl<W: Write + Send> FrameSink for RawWriter<W> {
    fn write(&mut self, frame: &Frame, _pts: i64) -> Result<(), MediaError> {
        let Frame { width, height, channels, .. } = *frame;
        let alpha = self.kind.layout().alpha;
        if self.size != [width, height] || !frame.is_filled() {
            let values = frame.data.len();
            return Err(PictureError::Frame { width, height, channels, values }.into());
        }
        if channels == 4 && !alpha {
            return Err(PictureError::Alpha { what: "the frame".into() }.into());
        }
        for c in 0..3 + usize::from(alpha) {
            for row in frame.data.chunks_exact(frame.row_len()) {
                self.row.clear();
                // What has no alpha is opaque. What is no number is 0, as in every other output.
                let values = row.chunks_exact(channels).map(|pixel| *pixel.get(c).unwrap_or(&1.0));
                let values = values.map(|value| if value > 0.0 { value.min(1.0) } else { 0.0 });
                match self.kind {
                    RawFrames::Rgb16 | RawFrames::Rgba16 => {
                        let codes = values.map(|value| (value * 65535.0 + 0.5) as u16);
                        self.row.extend(codes.flat_map(u16::to_le_bytes));
                    }
                    RawFrames::Rgbf32 => self.row.extend(values.flat_map(f32::to_le_bytes)),
                }
                self.to.write_all(&self.row).map_err(to_stdout)?;
            }
        }
        self.written += 1;
        // The reader may wait for this frame before it sends another.
        self.to.flush().map_err(to_stdout)
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        match self.stated.filter(|stated| *stated != self.written) {
            Some(stated) => {
                let reason = format!("{} were made, but its header says L{stated}", frames(self.written));
                Err(STREAM.broken(reason))
            }
            None => self.to.flush().map_err(to_stdout),
        }
    }
}
