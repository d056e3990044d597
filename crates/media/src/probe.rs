//! What is in a file, as ffprobe says it. Nothing of it is trusted further than needed: sizes are limited, and
//! frame counts are hints.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use remaster_picture::Layout;
use serde::{Deserialize, Serialize};

use crate::child::{Tools, plain};
use crate::colour::{Colour, Said};
use crate::error::MediaError;
use crate::nut::TimeBase;

/// The most columns or rows.
pub const MAX_SIDE: u64 = 32768;
/// The most pixels of a frame: 16384 squared.
pub const MAX_AREA: u64 = 1 << 28;

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
    /// Frames, as duration and rate say: a hint.
    pub frames: Option<usize>,
    /// Tags of the stream.
    pub tags: BTreeMap<String, String>,
    /// Words for people.
    pub notes: Vec<String>,
    /// What a decoder said about the first frames: a sign of damage before any work is done.
    #[serde(skip)]
    pub(crate) complaints: Vec<String>,
    /// An index counts the frames: a file that has fewer is not whole.
    #[serde(skip)]
    pub(crate) is_indexed: bool,
    /// Seconds that it should last.
    #[serde(skip)]
    pub(crate) ends: Option<f64>,
    #[serde(skip)]
    pub(crate) read_as: Layout,
    /// Its name for ffmpeg, which asks for no conversion where none is needed.
    #[serde(skip)]
    pub(crate) read_name: String,
    #[serde(skip)]
    pub(crate) decoder: Option<&'static str>,
}

/// Static metadata of HDR10.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdr {
    /// In the words of x265: `G(x,y)B(x,y)R(x,y)WP(x,y)L(max,min)`.
    pub master_display: Option<String>,
    /// Most and average light level, nits.
    pub light_level: Option<[u32; 2]>,
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

#[derive(Deserialize)]
struct RawProbe {
    #[serde(default)]
    streams: Vec<RawStream>,
    #[serde(default)]
    format: RawFormat,
    #[serde(default)]
    chapters: Vec<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct RawFormat {
    #[serde(default)]
    format_name: String,
    duration: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawStream {
    index: usize,
    #[serde(default)]
    codec_name: String,
    #[serde(default)]
    codec_type: String,
    profile: Option<String>,
    #[serde(default)]
    width: u64,
    #[serde(default)]
    height: u64,
    #[serde(default)]
    pix_fmt: String,
    sample_aspect_ratio: Option<String>,
    field_order: Option<String>,
    color_range: Option<String>,
    color_space: Option<String>,
    color_transfer: Option<String>,
    color_primaries: Option<String>,
    chroma_location: Option<String>,
    #[serde(default)]
    time_base: String,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    duration: Option<String>,
    nb_frames: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    disposition: BTreeMap<String, u32>,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

#[derive(Deserialize)]
struct SideData {
    #[serde(default)]
    side_data_type: String,
    rotation: Option<f64>,
    red_x: Option<String>,
    red_y: Option<String>,
    green_x: Option<String>,
    green_y: Option<String>,
    blue_x: Option<String>,
    blue_y: Option<String>,
    white_point_x: Option<String>,
    white_point_y: Option<String>,
    min_luminance: Option<String>,
    max_luminance: Option<String>,
    max_content: Option<u32>,
    max_average: Option<u32>,
}

#[derive(Deserialize)]
struct RawFrames {
    #[serde(default)]
    frames: Vec<RawFrame>,
}

#[derive(Deserialize)]
struct RawFrame {
    width: Option<u64>,
    height: Option<u64>,
    #[serde(default)]
    interlaced_frame: u32,
    #[serde(default)]
    top_field_first: u32,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

fn ratio(text: &str) -> Option<TimeBase> {
    let (num, den) = text.split_once(['/', ':'])?;
    let (num, den) = (num.parse().ok()?, den.parse().ok()?);
    TimeBase::new(num, den)
}

/// Looks into a file. Interlaced and HDR material is found, not judged.
pub fn probe(tools: &Tools, path: &Path) -> Result<Probe, MediaError> {
    std::fs::File::open(path).map_err(|source| MediaError::Open { path: path.to_owned(), source })?;
    let file = url(path);
    let entries =
        ["-v", "error", "-print_format", "json", "-show_format", "-show_streams", "-show_chapters", "-i"];
    let (raw, _): (RawProbe, _) = ask(tools, path, &entries, &file)?;
    let is_cover = |s: &RawStream| s.disposition.get("attached_pic").is_some_and(|n| *n != 0);
    let Some(stream) = raw.streams.iter().find(|s| s.codec_type == "video" && !is_cover(s)) else {
        let found: Vec<&str> = raw.streams.iter().map(|s| s.codec_type.as_str()).collect();
        let found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
        return Err(MediaError::NoVideo { path: path.to_owned(), found });
    };
    let selector = stream.index.to_string();
    let entries = [
        "-v",
        "error",
        "-print_format",
        "json",
        "-select_streams",
        &selector,
        "-show_frames",
        "-read_intervals",
        "%+#8",
        "-i",
    ];
    let (frames, complaints): (RawFrames, _) = ask(tools, path, &entries, &file)?;
    let video = Video { complaints, ..video(path, stream, &frames.frames, &raw.format)? };
    let others = raw.streams.iter().filter(|s| s.index != video.index).map(|s| Stream {
        index: s.index,
        kind: s.codec_type.clone(),
        codec: s.codec_name.clone(),
        language: s.tags.get("language").cloned(),
        cover: is_cover(s),
    });
    Ok(Probe {
        path: path.to_owned(),
        format: raw.format.format_name.clone(),
        duration: raw.format.duration.as_deref().and_then(|d| d.parse().ok()),
        tags: raw.format.tags.clone(),
        chapters: raw.chapters.len(),
        others: others.collect(),
        video,
    })
}

/// A path that no option parser and no protocol handler takes for something else.
pub(crate) fn url(path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from("file:");
    text.push(path);
    text
}

fn ask<T: for<'a> Deserialize<'a>>(
    tools: &Tools,
    path: &Path,
    entries: &[&str],
    file: &OsStr,
) -> Result<(T, Vec<String>), MediaError> {
    let args: Vec<&OsStr> = entries.iter().map(OsStr::new).chain([file]).collect();
    let unreadable = |reason: String| MediaError::Unreadable { path: path.to_owned(), reason };
    let (json, lines) = tools.ffprobe(&args).map_err(|e| match e {
        MediaError::Child { reason, .. } => unreadable(reason.replace(&*file.to_string_lossy(), "it")),
        e => e,
    })?;
    let answer = serde_json::from_slice(&json);
    Ok((answer.map_err(|e| unreadable(format!("ffprobe's answer makes no sense: {e}")))?, lines))
}

fn video(path: &Path, s: &RawStream, frames: &[RawFrame], format: &RawFormat) -> Result<Video, MediaError> {
    // Decoders crop by rules that a header does not always say (Theora): the frames know better.
    let first = frames.first();
    let width = first.and_then(|f| f.width).unwrap_or(s.width);
    let height = first.and_then(|f| f.height).unwrap_or(s.height);
    if width == 0 || height == 0 {
        let reason = "its pictures have no size".into();
        return Err(MediaError::Unreadable { path: path.to_owned(), reason });
    }
    let sides = 1..=MAX_SIDE;
    if !sides.contains(&width) || !sides.contains(&height) || width * height > MAX_AREA {
        return Err(MediaError::TooLarge {
            path: path.to_owned(),
            width,
            height,
            limit: MAX_SIDE,
            area: MAX_AREA,
        });
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
    let read_as = planar(&stored).ok_or_else(|| unsupported(format!("the pixel format {}", s.pix_fmt)))?;
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
    let rotation = s.side_data_list.iter().find_map(|d| d.rotation).unwrap_or(0.0);
    // ffprobe counts anticlockwise.
    let turns = (-rotation / 90.0).rem_euclid(4.0);
    if turns.fract() != 0.0 {
        notes.push(format!("a rotation by {rotation} degrees is not kept: only quarter turns are"));
    }
    let turns = turns as u32 % 4;
    if turns != 0 {
        notes.push(format!("turned upright by {} degrees", turns * 90));
    }
    let interlaced = frames.iter().find(|f| f.interlaced_frame != 0);
    let fields = match (s.field_order.as_deref(), interlaced) {
        (Some(order @ ("tt" | "tb")), _) => Some(format!("top field first, {order}")),
        (Some(order @ ("bb" | "bt")), _) => Some(format!("bottom field first, {order}")),
        (_, Some(f)) if f.top_field_first != 0 => Some("top field first".into()),
        (_, Some(_)) => Some("bottom field first".into()),
        _ => None,
    };
    let Some(time_base) = ratio(&s.time_base) else {
        return Err(MediaError::Unreadable {
            path: path.to_owned(),
            reason: "its video has no clock".into(),
        });
    };
    let rate = [&s.avg_frame_rate, &s.r_frame_rate].into_iter().flatten().find_map(|r| ratio(r));
    let duration = s.duration.as_ref().or(format.duration.as_ref()).and_then(|d| d.parse::<f64>().ok());
    let by_time = duration.zip(rate).map(|(d, r)| (d * r.num as f64 / r.den as f64).round() as usize);
    let counted = s.nb_frames.as_ref().and_then(|n| n.parse::<usize>().ok());
    let hdr = colour.is_hdr().then(|| hdr(frames.iter().flat_map(|f| &f.side_data_list)));
    let sample_aspect = s.sample_aspect_ratio.as_deref().and_then(ratio);
    let sample_aspect = sample_aspect.map_or([1, 1], |r| [r.num as u32, r.den as u32]);
    Ok(Video {
        index: s.index,
        codec: s.codec_name.clone(),
        profile: s.profile.clone(),
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
        time_base,
        rate,
        // An index can list frames that an edit leaves out.
        frames: match (by_time, counted) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        complaints: Vec::new(),
        is_indexed: counted.is_some(),
        ends: duration,
        tags: s.tags.clone(),
        notes,
        read_name: if Layout::from_name(&stored).is_some() { stored } else { read_as.name() },
        read_as,
        decoder,
    })
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
fn scaled(text: Option<&String>, unit: f64) -> Option<u64> {
    let (num, den) = text?.split_once('/')?;
    let value = num.parse::<f64>().ok()? / den.parse::<f64>().ok()?;
    value.is_finite().then(|| (value * unit).round() as u64)
}

fn hdr<'a>(data: impl Iterator<Item = &'a SideData> + Clone) -> Hdr {
    let display = |d: &SideData| {
        let point = |x: &Option<String>, y: &Option<String>| {
            Some(format!("({},{})", scaled(x.as_ref(), 5e4)?, scaled(y.as_ref(), 5e4)?))
        };
        Some(format!(
            "G{}B{}R{}WP{}L({},{})",
            point(&d.green_x, &d.green_y)?,
            point(&d.blue_x, &d.blue_y)?,
            point(&d.red_x, &d.red_y)?,
            point(&d.white_point_x, &d.white_point_y)?,
            scaled(d.max_luminance.as_ref(), 1e4)?,
            scaled(d.min_luminance.as_ref(), 1e4)?
        ))
    };
    let mut of = data.clone().filter(|d| d.side_data_type.starts_with("Mastering display"));
    Hdr {
        master_display: of.find_map(display),
        light_level: data.clone().find_map(|d| Some([d.max_content?, d.max_average?])),
    }
}

/// Frames and complaints of a decoder that goes through the whole stream.
pub(crate) fn count_frames(tools: &Tools, path: &Path) -> Result<(usize, Option<f64>), MediaError> {
    #[derive(Deserialize)]
    struct Counted {
        streams: Vec<Count>,
    }
    #[derive(Deserialize)]
    struct Count {
        nb_read_frames: Option<String>,
        duration: Option<String>,
    }
    let file = url(path);
    let entries = [
        "-v",
        "error",
        "-print_format",
        "json",
        "-select_streams",
        "v:0",
        "-count_frames",
        "-show_entries",
        "stream=nb_read_frames,duration",
        "-i",
    ];
    let args: Vec<&OsStr> = entries.iter().map(OsStr::new).chain([&*file]).collect();
    let (json, lines) = tools.ffprobe_patiently(&args)?;
    let verify = |reason: String| MediaError::Verify { path: path.to_owned(), reason };
    if !lines.is_empty() {
        return Err(verify(plain(&lines)));
    }
    let counted: Counted = serde_json::from_slice(&json).map_err(|e| verify(e.to_string()))?;
    let stream = counted.streams.first().ok_or_else(|| verify("it has no video".into()))?;
    let frames = stream.nb_read_frames.as_ref().and_then(|n| n.parse().ok()).unwrap_or(0);
    Ok((frames, stream.duration.as_ref().and_then(|d| d.parse().ok())))
}
