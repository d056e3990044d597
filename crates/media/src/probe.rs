//! What is in a file, as ffprobe says it. Nothing of it is trusted further than needed: sizes are limited, and
//! frame counts are hints.

mod raw;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use remaster_picture::Layout;
use serde::{Deserialize, Serialize};

use raw::{RawFormat, RawFrame, SideData};
pub(crate) use raw::{RawFrames, RawProbe, RawStream};

use crate::child::{Tools, plain};
use crate::colour::{Colour, Said};
use crate::ends::{self, Announced};
use crate::error::MediaError;
use crate::fields::{self, Deinterlace, Fields, Order};
use crate::hdr::{Hdr, MasterDisplay, POINTS};
use crate::nut::TimeBase;
use crate::span::Span;
use crate::whitelist::{closed, opened, url};

/// The most columns or rows.
pub const MAX_SIDE: u64 = 32768;
/// The most pixels of a frame: 16384 squared.
pub const MAX_AREA: u64 = 1 << 28;

/// The most frames that a header is believed: 145 years at 240 frames per second.
pub(crate) const MAX_FRAMES: usize = 1 << 40;

/// Bytes of a file whose packets are counted: reading them takes less time than starting ffprobe.
const MAX_COUNTED: u64 = 32 << 20;
/// The longest clip that a header is believed, in seconds: 30 years.
const MAX_SECONDS: f64 = 1e9;
/// The most letters of a name or tag.
pub(crate) const MAX_LETTERS: usize = 4096;
/// The most tags of a file or stream.
const MAX_TAGS: usize = 256;

/// A file and what is in it.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// Where it is.
    pub path: PathBuf,
    /// Container, in ffmpeg's words.
    pub format: String,
    /// Seconds, as the container says.
    pub duration: Option<f64>,
    /// Tags of the file.
    pub tags: BTreeMap<String, String>,
    /// Chapters.
    pub chapters: usize,
    /// The video stream that is used.
    pub video: Video,
    /// All other streams.
    pub others: Vec<Stream>,
    /// The part of it that is used.
    #[serde(skip)]
    pub(crate) span: Span,
    /// What was seen of its fields.
    #[serde(skip)]
    pub(crate) fields: Option<Fields>,
}

impl Probe {
    /// Only a part of it: a decoder gives the frames in it, and an encoder copies what is heard and read meanwhile.
    pub fn within(mut self, span: Span) -> Result<Self, MediaError> {
        span.check(&self.path, self.video.ends)?;
        self.span = span;
        Ok(self)
    }

    /// The part of it that is used.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Looks at its fields now, once for all decoders that are opened for it, where `wish` needs that.
    pub fn looked_at(mut self, tools: &Tools, wish: Deinterlace) -> Result<Self, MediaError> {
        self.fields = Some(fields::look(tools, &self, wish)?);
        Ok(self)
    }

    /// When the first frame is shown by the clock of the file, in seconds.
    pub(crate) fn origin(&self) -> f64 {
        self.video.time_base.seconds(self.video.start.unwrap_or(0))
    }
}

/// The first real video stream.
#[derive(Clone, Debug, Serialize)]
pub struct Video {
    /// Number of the stream.
    pub index: usize,
    /// Name of the codec.
    pub codec: String,
    /// Profile, if it has one.
    pub profile: Option<String>,
    /// Columns as stored.
    pub width: usize,
    /// Rows as stored.
    pub height: usize,
    /// Samples as stored, in ffmpeg's words.
    pub pixel_format: String,
    /// Bits per sample.
    pub depth: u32,
    /// There is alpha.
    pub alpha: bool,
    /// Shape of a pixel, width by height.
    pub sample_aspect: [u32; 2],
    /// Quarter turns clockwise that show it upright.
    pub turns: u32,
    /// What the numbers mean.
    pub colour: Colour,
    /// Mastering display and light levels.
    pub hdr: Option<Hdr>,
    /// Order of the fields of interlaced material.
    pub fields: Option<String>,
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Frames per second on average.
    pub rate: Option<TimeBase>,
    /// Frames, as the container says: a hint.
    pub frames: Option<usize>,
    /// No index counts them: `frames` is duration by rate, and wrong by some at a variable rate.
    pub frames_estimated: bool,
    /// Tags of the stream.
    pub tags: BTreeMap<String, String>,
    /// Notes to print.
    pub notes: Vec<String>,
    /// What a decoder said about the first frames: a sign of damage before any work is done.
    #[serde(skip)]
    pub(crate) complaints: Vec<String>,
    /// What the file announces about its end.
    #[serde(skip)]
    pub(crate) announced: Announced,
    /// Seconds that it lasts, as ffprobe says: a hint.
    #[serde(skip)]
    pub(crate) ends: Option<f64>,
    /// When the first frame is shown; raw streams have no times.
    #[serde(skip)]
    pub(crate) start: Option<i64>,
    /// Frames are decoded in another order than they are shown in.
    #[serde(skip)]
    pub(crate) is_reordered: bool,
    /// Frames per second that ffmpeg's filters believe in.
    #[serde(skip)]
    pub(crate) believed: Option<TimeBase>,
    /// Order of the fields, if it is marked.
    #[serde(skip)]
    pub(crate) order: Option<Order>,
    #[serde(skip)]
    pub(crate) read_as: Layout,
    /// Its name for ffmpeg, which asks for no conversion where none is needed.
    #[serde(skip)]
    pub(crate) read_name: String,
    #[serde(skip)]
    pub(crate) decoder: Option<&'static str>,
}

/// A stream that is copied.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// Its number.
    pub index: usize,
    /// audio, subtitle, attachment, data, or video for a cover picture.
    pub kind: String,
    /// Name of the codec; attachments may have none.
    pub codec: String,
    /// Language, if it is tagged.
    pub language: Option<String>,
    /// A cover picture.
    pub cover: bool,
}

/// A fraction of two numbers that ffmpeg can have: both are positive and fit in 31 bits.
fn ratio(text: &str) -> Option<TimeBase> {
    let (num, den) = text.split_once(['/', ':'])?;
    let part = |text: &str| text.parse::<u64>().ok().filter(|n| (1..1 << 31).contains(n));
    TimeBase::new(part(num)?, part(den)?)
}

/// Frames per second that can be meant: one in an hour to 100,000.
pub(crate) fn frame_rate(text: &str) -> Option<TimeBase> {
    ratio(text).filter(|r| r.num <= 100_000 * r.den && r.den <= 3600 * r.num)
}

/// Looks into a file. Interlaced and HDR material is found, not judged.
pub fn probe(tools: &Tools, path: &Path) -> Result<Probe, MediaError> {
    let size = remaster_disk::read_named(path)
        .and_then(|file| file.metadata())
        .map_err(|source| MediaError::Open { path: path.to_owned(), source })?
        .len();
    let count: &[&str] = if size <= MAX_COUNTED { &["-count_packets"] } else { &[] };
    let (json, _) =
        ask(tools, path, &[&["-show_format", "-show_streams", "-show_chapters"], count].concat())?;
    let raw: RawProbe = parse(path, &json)?;
    let selector = raw.video(path)?.index.to_string();
    let first = ["-select_streams", &selector, "-show_frames", "-read_intervals", "%+#8"];
    let (json, complaints) = ask(tools, path, &first)?;
    let mut probe = describe(path, raw, &parse::<RawFrames>(path, &json)?)?;
    probe.video.complaints = complaints;
    ends::look(tools.stopper(), path, &mut probe.video)?;
    Ok(probe)
}

/// What both answers of ffprobe say together.
pub(crate) fn describe(path: &Path, raw: RawProbe, frames: &RawFrames) -> Result<Probe, MediaError> {
    let video = video(path, raw.video(path)?, &frames.frames, &raw.format)?;
    let others = raw.streams.iter().filter(|s| s.index != video.index).map(|s| Stream {
        index: s.index,
        kind: short(&s.codec_type),
        codec: short(&s.codec_name),
        language: s.tags.get("language").map(|l| short(l)),
        cover: s.is_cover(),
    });
    Ok(Probe {
        path: path.to_owned(),
        format: short(&raw.format.format_name),
        duration: seconds(raw.format.duration.as_deref()),
        tags: tags(&raw.format.tags),
        chapters: raw.chapters.len(),
        others: others.collect(),
        video,
        span: Span::default(),
        fields: None,
    })
}

/// Names, tags and other words are cut where no honest file has that many letters.
fn short(text: &str) -> String {
    text.chars().take(MAX_LETTERS).collect()
}

fn tags(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    all.iter().take(MAX_TAGS).map(|(key, value)| (short(key), short(value))).collect()
}

/// A length of time that can be meant.
fn seconds(text: Option<&str>) -> Option<f64> {
    text?.parse().ok().filter(|s| (0.0..=MAX_SECONDS).contains(s))
}

/// Hours, minutes and seconds.
fn clock(text: &str) -> Option<f64> {
    let mut parts = text.trim().splitn(3, ':');
    let (hours, minutes) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    let rest = seconds(parts.next())?;
    Some(f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + rest)
        .filter(|s| (0.0..MAX_SECONDS).contains(s))
}

/// ffprobe's answer about `path`, and its complaints.
fn ask(tools: &Tools, path: &Path, entries: &[&str]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
    let mut args: Vec<OsString> = ["-v", "error", "-print_format", "json"].map(Into::into).into();
    args.extend(entries.iter().map(Into::into));
    args.extend(opened(path));
    tools.ffprobe(&args).map_err(|e| match e {
        MediaError::Child { reason, .. } => {
            // ffprobe begins its last line with the name.
            let name = format!("{}: ", url(path).to_string_lossy());
            closed(path, reason.replace(&name, ""))
        }
        e => e,
    })
}

pub(crate) fn parse<T: for<'a> Deserialize<'a>>(path: &Path, json: &[u8]) -> Result<T, MediaError> {
    serde_json::from_slice(json)
        .map_err(|e| MediaError::unreadable(path, format!("unexpected output of ffprobe: {e}")))
}

/// Quarter turns clockwise that make the picture upright.
fn quarter_turns(s: &RawStream, notes: &mut Vec<String>) -> u32 {
    let rotation = s.side_data_list.iter().find_map(|d| d.rotation).unwrap_or(0.0);
    // ffprobe counts anticlockwise.
    let turns = (-rotation / 90.0).rem_euclid(4.0);
    if turns.fract() != 0.0 {
        notes.push(format!("rotation by {rotation} degrees dropped: only quarter turns are supported"));
    }
    let turns = turns as u32 % 4;
    if turns != 0 {
        notes.push(format!("rotated by {} degrees to be upright", turns * 90));
    }
    turns
}

/// Which field is shown first, and in words. A stream is marked by its container or by its frames; the second letter of a
/// container's mark is the field that is shown first.
fn field_order(s: &RawStream, frames: &[RawFrame]) -> (Option<Order>, Option<String>) {
    let (top, bottom) = ("top field first".to_owned(), "bottom field first".to_owned());
    let interlaced = frames.iter().find(|f| f.interlaced_frame != 0);
    match (interlaced, s.field_order.as_deref()) {
        (Some(f), _) if f.top_field_first != 0 => (Some(Order::Each), Some(top)),
        (Some(_), _) => (Some(Order::Each), Some(bottom)),
        (None, Some("tt" | "bt")) => (Some(Order::Top), Some(top)),
        (None, Some("bb" | "tb")) => (Some(Order::Bottom), Some(bottom)),
        _ => (None, None),
    }
}

fn video(path: &Path, s: &RawStream, frames: &[RawFrame], format: &RawFormat) -> Result<Video, MediaError> {
    // Decoders crop by rules that a header does not always say (Theora): the frames know better.
    let first = frames.first();
    let width = first.and_then(|f| f.width).unwrap_or(s.width);
    let height = first.and_then(|f| f.height).unwrap_or(s.height);
    if width == 0 || height == 0 {
        return Err(MediaError::unreadable(path, "its pictures have no size"));
    }
    let sides = 1..=MAX_SIDE;
    if !sides.contains(&width) || !sides.contains(&height) || width * height > MAX_AREA {
        let path = path.to_owned();
        return Err(MediaError::TooLarge { path, width, height, limit: MAX_SIDE, area: MAX_AREA });
    }
    let unsupported = |what: String| MediaError::Samples { path: path.to_owned(), what };
    let mut notes = Vec::new();
    // ffmpeg's own VP8 and VP9 decoders drop alpha; the tag of WebM tells that there is some.
    let hidden_alpha = s.tags.iter().any(|(k, v)| k.eq_ignore_ascii_case("alpha_mode") && v == "1");
    let decoder = match (hidden_alpha, s.codec_name.as_str()) {
        (true, "vp9") => Some("libvpx-vp9"),
        (true, "vp8") => Some("libvpx"),
        _ => None,
    };
    let stored = if decoder.is_some() { s.pix_fmt.replacen("yuv4", "yuva4", 1) } else { s.pix_fmt.clone() };
    let read_as =
        planar(&stored).ok_or_else(|| unsupported(format!("the pixel format {}", short(&s.pix_fmt))))?;
    let size = [width as usize, height as usize];
    let full = if stored.starts_with("yuvj") { Some("pc") } else { s.color_range.as_deref() };
    let said = Said {
        matrix: s.color_space.as_deref(),
        range: full,
        primaries: s.color_primaries.as_deref(),
        transfer: s.color_transfer.as_deref(),
        siting: s.chroma_location.as_deref(),
    };
    let colour = Colour::new(said, &read_as, size);
    colour.coding().map_err(unsupported)?;
    notes.extend(colour.guesses());
    let turns = quarter_turns(s, &mut notes);
    let (order, fields) = field_order(s, frames);
    let no_time = || MediaError::unreadable(path, "its video has no time base");
    let time_base = ratio(&s.time_base).ok_or_else(no_time)?;
    let rate = [&s.avg_frame_rate, &s.r_frame_rate].into_iter().flatten().find_map(|r| frame_rate(r));
    // Matroska has the duration of a stream in a tag; that of the file may be its sound's.
    let own = s.duration.as_deref().and_then(|text| seconds(Some(text)));
    let tagged = || s.tags.iter().find(|(key, _)| *key == "DURATION").and_then(|(_, text)| clock(text));
    let duration = own.or_else(tagged).or_else(|| seconds(format.duration.as_deref()));
    let by_time = duration.zip(rate).map(|(d, r)| (d * r.num as f64 / r.den as f64).round() as usize);
    let by_time = by_time.filter(|n| *n <= MAX_FRAMES);
    let number = |text: &Option<String>| text.as_ref()?.parse().ok().filter(|n| *n <= MAX_FRAMES);
    let (counted, packets) = (number(&s.nb_frames), number(&s.nb_read_packets).filter(|n| *n > 0));
    let hdr = colour.is_hdr().then(|| hdr(frames.iter().flat_map(|f| &f.side_data_list)));
    let sample_aspect = s.sample_aspect_ratio.as_deref().and_then(ratio);
    let sample_aspect = sample_aspect.map_or([1, 1], |r| [r.num as u32, r.den as u32]);
    Ok(Video {
        index: s.index,
        codec: short(&s.codec_name),
        profile: s.profile.as_deref().map(short),
        width: size[0],
        height: size[1],
        pixel_format: s.pix_fmt.clone(),
        depth: read_as.depth,
        alpha: read_as.alpha,
        sample_aspect,
        turns,
        colour,
        hdr,
        fields,
        order,
        time_base,
        rate,
        // An index can list frames that an edit leaves out. Where there is none, a variable rate has fewer than its highest.
        frames: match (by_time, counted.or(packets.filter(|_| by_time.is_some()))) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        // By time and by an index the same, but for a frame that is cut off at either end.
        frames_estimated: counted.is_none_or(|b| by_time.is_some_and(|a| a.abs_diff(b) > 1)),
        complaints: Vec::new(),
        announced: announced(s, format, own, counted.is_some()),
        ends: duration,
        start: first.and_then(|f| f.best_effort_timestamp),
        is_reordered: s.has_b_frames > 0,
        believed: s.r_frame_rate.as_deref().and_then(frame_rate),
        tags: tags(&s.tags),
        notes,
        read_name: if Layout::from_name(&stored).is_some() { stored } else { read_as.name() },
        read_as,
        decoder,
    })
}

/// What the file announces about its end.
fn announced(s: &RawStream, format: &RawFormat, own: Option<f64>, is_counted: bool) -> Announced {
    let id = s.id.as_deref().and_then(|id| u16::from_str_radix(id.strip_prefix("0x")?, 16).ok());
    let start = s.start_time.as_deref().and_then(|text| text.parse().ok()).filter(|s: &f64| s.is_finite());
    let file = seconds(format.duration.as_deref());
    Announced::by(&format.format_name, ends::Lengths { is_counted, start, stream: own, file, id })
}

/// How samples are asked for: as they are, or repacked without loss.
fn planar(name: &str) -> Option<Layout> {
    let name = match name {
        "nv12" | "nv21" => "yuv420p",
        "nv16" | "yuyv422" | "uyvy422" | "yvyu422" => "yuv422p",
        "nv24" | "nv42" => "yuv444p",
        "p010le" | "p010be" => "yuv420p10le",
        "p016le" | "p016be" => "yuv420p16le",
        "p210le" => "yuv422p10le",
        "uyyvyy411" => "yuv411p",
        "bgr24" | "bgr0" | "rgb0" | "0rgb" | "0bgr" | "rgb8" | "bgr8" | "rgb565le" | "rgb555le" => "rgb24",
        "bgra" | "argb" | "abgr" | "pal8" | "ya8" => "rgba",
        "rgb48be" | "bgr48le" | "bgr48be" => "rgb48le",
        "rgba64be" | "bgra64le" | "bgra64be" | "ya16le" | "ya16be" => "rgba64le",
        "monow" | "monob" => "gray",
        other => match other.strip_suffix("be") {
            Some(stem) => return Layout::from_name(&format!("{stem}le")),
            None => other,
        },
    };
    Layout::from_name(name)
}

/// A fraction of ffprobe in units of `1 / unit`.
fn scaled(text: Option<&String>, unit: u32) -> Option<u32> {
    let (num, den) = text?.split_once('/')?;
    let value = (num.parse::<f64>().ok()? / den.parse::<f64>().ok()? * f64::from(unit)).round();
    (0.0..=f64::from(u32::MAX)).contains(&value).then_some(value as u32)
}

/// What frames say about HDR; numbers that cannot be are left out.
fn hdr<'a>(data: impl Iterator<Item = &'a SideData> + Clone) -> Hdr {
    let display = |d: &SideData| {
        let point = |x: &Option<String>, y: &Option<String>| {
            Some([scaled(x.as_ref(), POINTS)?, scaled(y.as_ref(), POINTS)?])
        };
        let points = [
            point(&d.green_x, &d.green_y)?,
            point(&d.blue_x, &d.blue_y)?,
            point(&d.red_x, &d.red_y)?,
            point(&d.white_point_x, &d.white_point_y)?,
        ];
        let luminance = [&d.max_luminance, &d.min_luminance].map(|l| scaled(l.as_ref(), 10_000));
        MasterDisplay::new(points, [luminance[0]?, luminance[1]?])
    };
    let level = |n: Option<u32>| u16::try_from(n?).ok();
    let mut of = data.clone().filter(|d| d.side_data_type.starts_with("Mastering display"));
    Hdr {
        master_display: of.find_map(display),
        light_level: data.clone().find_map(|d| Some([level(d.max_content)?, level(d.max_average)?])),
    }
}

/// Frames of a file of ours, counted by a decoder that goes through all of it. Complaints are an error.
pub fn count_frames(tools: &Tools, path: &Path) -> Result<usize, MediaError> {
    let mut args: Vec<OsString> =
        ["-hide_banner", "-nostdin", "-v", "error", "-nostats"].map(Into::into).into();
    args.extend(opened(path));
    // Microseconds keep the times of any frames apart. By default times are rounded to the frame rate, and where sound
    // begins earlier than the picture two frames may get the same one, which is a complaint.
    args.extend(
        ["-map", "0:v:0", "-noautoscale", "-fps_mode", "passthrough", "-enc_time_base", "1:1000000"]
            .map(Into::into),
    );
    let (frames, lines) = tools.count(&args)?;
    if !lines.is_empty() {
        return Err(MediaError::Verify { path: path.to_owned(), reason: plain(&lines) });
    }
    Ok(frames)
}
