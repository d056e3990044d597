//! What an output file will be: encoder, samples, and which streams go along. Decided before the first frame.

use std::path::Path;

use remaster_picture::{Coding, Kind, Layout};
use serde::{Deserialize, Serialize};

use crate::asked::Encoding;
use crate::child::Tools;
use crate::clip::Format;
use crate::error::MediaError;
use crate::kind::{Container, OutputKind, container};
use crate::nut::fourcc;
use crate::probe::{Probe, Stream};
use crate::quality;
use crate::words::{Words, words};

/// What a person asked for.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Encoder and its options.
    pub video: Option<Encoding>,
    /// Constant quality, where the encoder has it; less is better.
    pub crf: Option<u8>,
    /// Samples, in ffmpeg's words.
    pub pixel_format: Option<String>,
    /// Lose nothing: FFV1.
    pub lossless: bool,
    /// Leave sound out.
    pub no_audio: bool,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// Threads of the encoder, which its memory depends on; `None` for as many as it likes.
    pub threads: Option<usize>,
    /// Text of the tag `REMASTER`, which Matroska and WebM can hold.
    pub tag: Option<String>,
}

/// An output that was decided on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// ffmpeg's name for what writes the file.
    pub(crate) muxer: &'static str,
    /// Samples that go through the pipe and into the encoder.
    pub(crate) layout: Layout,
    /// What the encoder is told; packed RGB may be padded there.
    pub(crate) pixel_format: String,
    pub(crate) coding: Coding,
    /// Arguments that say what the samples mean.
    pub(crate) tags: Vec<&'static str>,
    /// The encoder and its arguments.
    pub(crate) encoder: Vec<String>,
    /// Arguments about how the container holds the video.
    pub(crate) file: Vec<String>,
    /// Arguments for the streams that go along.
    pub(crate) streams: Vec<String>,
    /// Notes about the video.
    pub(crate) notes: Vec<String>,
    /// Notes about the streams that go along.
    pub(crate) stream_notes: Vec<String>,
}

/// What is in the segments of a film.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentKind {
    /// The video of the film as it will be: joining copies it.
    #[default]
    Final,
    /// FFV1 of the samples that the film's encoder takes: joining encodes them, and nothing else is lost.
    Lossless,
}

/// A film that is written in segments.
#[derive(Clone, Copy, Debug)]
pub struct Film<'a> {
    /// Where the film goes; its name says which container and which encoder.
    pub path: &'a Path,
    /// What its frames are.
    pub format: &'a Format,
    /// The file with its sound, subtitles, chapters, attachments and tags.
    pub from: Option<&'a Probe>,
    /// What a person asked for. All segments of a film must have the same.
    pub options: &'a WriteOptions,
    /// What is in its segments.
    pub kind: SegmentKind,
}

/// Codecs that lose nothing: what comes in like that goes out like that.
const LOSSLESS: Words = Words("ffv1 huffyuv ffvhuff utvideo magicyuv rawvideo v210 v410 r210 png qtrle tiff");

pub(crate) fn decide(tools: &Tools, film: &Film<'_>) -> Result<Target, MediaError> {
    settle(|encoder| pixel_formats(tools, encoder), film)
}

/// Pixel formats with how they go through the pipe.
type Samples = Vec<(Layout, String)>;

/// The same without a process: `taken_by` says which pixel formats an encoder takes.
pub(crate) fn settle(
    taken_by: impl FnOnce(&str) -> Result<Samples, MediaError>,
    film: &Film<'_>,
) -> Result<Target, MediaError> {
    let &Film { path, format, from, options, .. } = film;
    let other = || format!("use a name that ends in {}", OutputKind::endings());
    let container = container(path).ok_or_else(|| MediaError::cannot_hold(path, "video", other()))?;
    if options.lossless && !matches!(container, Container::Mkv | Container::Nut) {
        return Err(MediaError::cannot_hold(path, "lossless FFV1", "write .mkv"));
    }
    let mut encoder: Vec<String> = match (&options.video, options.lossless) {
        (Some(asked), _) => asked.words(),
        (None, true) => words("ffv1"),
        (None, false) => default_encoder(container, format, from),
    };
    let Some(name) = encoder.first().cloned() else {
        return Err(MediaError::Encoder { name: String::new() });
    };
    if let Some(crf) = options.crf {
        quality::set(&mut encoder, crf, options.video.is_some())?;
    }
    let supported = taken_by(&name)?;
    let size = [format.width, format.height];
    let (layout, pixel_format) = match &options.pixel_format {
        Some(wanted) => (asked_for(wanted, &name, &supported)?, wanted.clone()),
        None => nearest(&format.layout, &supported, size, name == "ffv1"),
    };
    if format.layout.alpha && !layout.alpha {
        let hint = "write .mkv (FFV1), .mov (ProRes 4444) or .webm (VP9)";
        return Err(MediaError::cannot_hold(path, format!("alpha with {name}"), hint));
    }
    let mut notes = Vec::new();
    if let (Kind::Yuv { .. }, true) = (layout.kind, layout.kind != format.layout.kind) {
        notes.push(format!("converting {} to {}", format.layout, layout));
    }
    if layout.depth < format.layout.depth {
        let [from, to] = [format.layout.depth, layout.depth];
        notes.push(format!("reducing {from} bits to {to}, the most that {name} supports"));
    }
    let mut colour = format.colour.for_layout(&layout, [format.width, format.height]);
    // Broadcasters and players take limited range for granted where a codec cannot say otherwise.
    if matches!(name.as_str(), "prores_ks" | "prores" | "prores_aw" | "dnxhd") && colour.range.value == "pc" {
        colour.range.value = "tv".into();
    }
    extra_options(&mut encoder, format, options);
    if let Some(threads) = options.threads.filter(|_| !encoder.iter().any(|w| w.starts_with("-threads"))) {
        encoder.extend(["-threads:v:0".to_owned(), threads.to_string()]);
    }
    // Players of Apple take no other name.
    let is_hevc = name == "libx265" && matches!(container, Container::Mp4 | Container::Mov);
    let file = if is_hevc { words("-tag:v:0 hvc1") } else { Vec::new() };
    let (mut streams, mut stream_notes) = (Vec::new(), Vec::new());
    if let Some(probe) = from {
        streams = copied(path, container, probe, options, &mut stream_notes)?;
    }
    let unknown = |what| MediaError::Samples { path: path.to_owned(), what };
    let coding = colour.coding().map_err(unknown)?;
    let tags = colour.options().map_err(unknown)?.iter().flat_map(|(flag, word)| [*flag, *word]).collect();
    let muxer = container.muxer();
    Ok(Target { muxer, layout, pixel_format, coding, tags, encoder, file, streams, notes, stream_notes })
}

/// FFV1 in the samples that the encoder of `target` takes, so that encoding later loses nothing more.
pub(crate) fn lossless(tools: &Tools, film: &Film<'_>, target: Target) -> Result<Target, MediaError> {
    let supported = pixel_formats(tools, "ffv1")?;
    let Some(pixel_format) = same_samples(&target, &supported) else {
        let what = format!("{} without loss, since FFV1 does not know it", target.pixel_format);
        return Err(MediaError::cannot_hold(film.path, what, "choose another --pixel-format"));
    };
    let mut encoder = words("ffv1");
    encoder.extend(ffv1_options(film.format));
    Ok(Target { encoder, pixel_format, ..target })
}

/// The name among `supported` for the samples of `target`, if a repacking is all that they need.
fn same_samples(target: &Target, supported: &[(Layout, String)]) -> Option<String> {
    let Layout { kind, depth, alpha } = target.layout;
    let packed = match (kind, depth, alpha) {
        (Kind::Gbr | Kind::Packed, 8, false) => Some("bgr0"),
        (Kind::Gbr | Kind::Packed, 8, true) => Some("bgra"),
        _ => None,
    };
    let own = target.layout.name();
    let named = [target.pixel_format.as_str(), own.as_str()].into_iter().chain(packed);
    named.into_iter().find(|name| supported.iter().any(|(_, s)| s == name)).map(str::to_owned)
}

/// The encoder that a file of this name gets.
pub fn encoder_name(path: &Path, format: &Format, from: Option<&Probe>, options: &WriteOptions) -> String {
    let words = match (&options.video, options.lossless) {
        (Some(asked), _) => asked.words(),
        (None, true) => words("ffv1"),
        (None, false) => container(path).map_or_else(Vec::new, |c| default_encoder(c, format, from)),
    };
    words.into_iter().next().unwrap_or_default()
}

/// Default encoders.
pub const ENCODERS: [&str; 5] = ["libx264", "libx265", "libvpx-vp9", "ffv1", "prores_ks"];

fn default_encoder(container: Container, format: &Format, from: Option<&Probe>) -> Vec<String> {
    let codec = from.map_or("", |p| p.video.codec.as_str());
    let rgb = matches!(format.layout.kind, Kind::Gbr | Kind::Packed);
    let alpha = format.layout.alpha;
    match container {
        Container::Webm => words("libvpx-vp9 -crf 18 -b:v 0 -row-mt 1 -cpu-used 2"),
        Container::Mov if alpha => words("prores_ks -profile:v 4444 -alpha_bits 16"),
        Container::Mov if codec == "prores" => {
            words(&format!("prores_ks -profile:v {}", prores_profile(from)))
        }
        Container::Mkv if alpha || rgb || LOSSLESS.has(codec) => words("ffv1"),
        _ if format.layout.depth > 8 || format.hdr.is_some() => words("libx265 -crf 14 -preset medium"),
        _ => words("libx264 -crf 12 -preset medium"),
    }
}

fn prores_profile(from: Option<&Probe>) -> &'static str {
    match from.and_then(|p| p.video.profile.as_deref()) {
        Some("Proxy") => "proxy",
        Some("LT") => "lt",
        Some("Standard") => "standard",
        Some("4444") => "4444",
        Some("XQ" | "4444 XQ") => "4444xq",
        _ => "hq",
    }
}

/// What an encoder needs beyond what was asked for, to keep what the clip has.
fn extra_options(encoder: &mut Vec<String>, format: &Format, options: &WriteOptions) {
    let name = encoder.first().cloned().unwrap_or_default();
    match name.as_str() {
        "libx265" => {
            // Otherwise it speaks to stderr, where only complaints are expected.
            let mut params = vec!["log-level=error".to_owned()];
            if let Some(hdr) = &format.hdr {
                params.extend(["hdr10=1".into(), "repeat-headers=1".into()]);
                params.extend(hdr.master_display.iter().map(|d| format!("master-display={d}")));
                params.extend(hdr.light_level.iter().map(|[max, avg]| format!("max-cll={max},{avg}")));
            }
            let said = parameters(encoder, "-x265-params");
            *said = format!("{}:{said}", params.join(":")).trim_end_matches(':').into();
        }
        "ffv1" if options.video.is_none() => encoder.extend(ffv1_options(format)),
        "libvpx-vp9" if format.layout.alpha => encoder.extend(words("-auto-alt-ref 0")),
        _ => {}
    }
}

/// The value of an option with parameters for a library, which is added if it is not there. Names may end in the stream
/// that is meant.
pub(crate) fn parameters<'a>(encoder: &'a mut Vec<String>, name: &str) -> &'a mut String {
    let found = encoder.iter().position(|word| is_option(word, name)).filter(|i| i + 1 < encoder.len());
    let at = found.unwrap_or_else(|| {
        encoder.retain(|word| !is_option(word, name));
        encoder.extend([name.to_owned(), String::new()]);
        encoder.len() - 2
    });
    &mut encoder[at + 1]
}

/// Whether a word is the option `name`, whatever stream it is for.
pub(crate) fn is_option(word: &str, name: &str) -> bool {
    word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Default options of FFV1: version 3 has checksums per slice; 16 slices decode on several cores.
/// Small frames cannot have so many.
fn ffv1_options(format: &Format) -> Vec<String> {
    let slices = if format.width.min(format.height) < 256 { 4 } else { 16 };
    words(&format!("-level 3 -g 1 -slices {slices} -slicecrc 1"))
}

/// The samples that a person wants, if they exist and the encoder takes them: ffmpeg would choose others.
fn asked_for(wanted: &str, encoder: &str, supported: &[(Layout, String)]) -> Result<Layout, MediaError> {
    let refused = |allowed: String| MediaError::PixelFormat { name: wanted.to_owned(), allowed };
    let Some(layout) = piped(wanted) else {
        return Err(refused("ffmpeg names such as yuv420p, yuv422p10le, yuv444p12le or gbrp16le".into()));
    };
    if supported.is_empty() || supported.iter().any(|(_, name)| name == wanted) {
        return Ok(layout);
    }
    let names: Vec<&str> = supported.iter().map(|(_, name)| name.as_str()).collect();
    Err(refused(format!("what {encoder} does: {}", names.join(", "))))
}

/// How samples of a pixel format go through the pipe; `None` if they cannot.
fn piped(name: &str) -> Option<Layout> {
    let name = match name {
        "bgr0" | "rgb0" | "bgr24" => "rgb24",
        "bgra" => "rgba",
        other => other,
    };
    Layout::from_name(name).filter(|l| fourcc(l).is_some())
}

/// Pixel formats of an encoder, as ffmpeg lists them; empty if it takes any.
fn pixel_formats(tools: &Tools, name: &str) -> Result<Samples, MediaError> {
    let unknown = || MediaError::Encoder { name: name.to_owned() };
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
        return Err(unknown());
    }
    let text = tools.encoder(name)?.ok_or_else(unknown)?;
    let list = text.lines().find_map(|l| l.trim().strip_prefix("Supported pixel formats:"));
    let known = list.unwrap_or_default().split_whitespace().filter(|n| !n.starts_with("yuvj"));
    Ok(known.filter_map(|n| Some((piped(n)?, n.to_owned()))).collect())
}

/// The samples among `supported` that keep most of `wanted`, and add least to it. Lossy encoders refuse chroma
/// that is shared by pixels of an odd number.
fn nearest(
    wanted: &Layout,
    supported: &[(Layout, String)],
    size: [usize; 2],
    any_size: bool,
) -> (Layout, String) {
    let chroma = |l: &Layout| match l.kind {
        Kind::Gray => 4,
        Kind::Yuv { across, down } => across + down,
        Kind::Gbr | Kind::Packed => 0,
    };
    let rgb = |l: &Layout| matches!(l.kind, Kind::Gbr | Kind::Packed);
    let cost = |l: &Layout| {
        let lost_alpha = u32::from(wanted.alpha && !l.alpha) * 100_000;
        let odd = |n: usize, shift: u32| !any_size && !n.is_multiple_of(1 << shift);
        let uneven = match l.kind {
            Kind::Yuv { across, down } => odd(size[0], across) || odd(size[1], down),
            _ => false,
        };
        let lost_bits = wanted.depth.min(16).saturating_sub(l.depth.min(16)) * 1_000;
        let lost_chroma = chroma(l).saturating_sub(chroma(wanted)) * 300;
        let other_kind = u32::from(rgb(l) != rgb(wanted)) * 100 + u32::from(l.kind != wanted.kind);
        let more_alpha = u32::from(l.alpha && !wanted.alpha) * 50;
        let more = l.depth.abs_diff(wanted.depth) + 20 * chroma(wanted).saturating_sub(chroma(l));
        lost_alpha + u32::from(uneven) * 50_000 + lost_bits + lost_chroma + other_kind + more_alpha + more
    };
    // 16 bits, for samples that the pipe has no name for.
    let deep = Layout { kind: Kind::Gbr, depth: 16, alpha: wanted.alpha };
    let fallback = if fourcc(wanted).is_some() { *wanted } else { deep };
    let best = supported.iter().min_by_key(|(l, _)| cost(l)).cloned();
    best.unwrap_or_else(|| (fallback, fallback.name()))
}

const WEBM_AUDIO: Words = Words("opus vorbis");
/// Others are written as data that no program recognises.
const TS_AUDIO: Words = Words("aac mp1 mp2 mp3 ac3 eac3 dts opus truehd");
const NOT_IN_MP4: Words = Words("vorbis pcm_s16le pcm_s24le pcm_s16be wmav2");

/// Which other streams go along, and how.
fn copied(
    path: &Path,
    container: Container,
    probe: &Probe,
    options: &WriteOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, MediaError> {
    let mut args: Vec<String> = Vec::new();
    let (mut videos, mut subtitles) = (1, 0);
    let refuse = |s: &Stream, hint: &str| {
        let what = format!("stream {} of the input ({} {})", s.index, s.kind, s.codec);
        MediaError::cannot_hold(path, what, hint)
    };
    for s in &probe.others {
        let map = ["-map".to_owned(), format!("1:{}", s.index)];
        match s.kind.as_str() {
            "audio" if options.no_audio => {}
            "audio" => {
                let (is_held, instead) = match container {
                    Container::Webm => (WEBM_AUDIO.has(&s.codec), ".mkv, which takes any audio"),
                    Container::Ts => (TS_AUDIO.has(&s.codec), ".mkv, which takes any audio"),
                    Container::Mp4 => (!NOT_IN_MP4.has(&s.codec), ".mkv or .mov"),
                    _ => (true, ""),
                };
                if !is_held {
                    return Err(refuse(s, &format!("write {instead}, or drop it with --audio none")));
                }
                args.extend(map);
            }
            "subtitle" => {
                let text =
                    matches!(s.codec.as_str(), "subrip" | "ass" | "ssa" | "webvtt" | "mov_text" | "text");
                let coder = match (container, s.codec.as_str()) {
                    (Container::Mkv, "mov_text") => "srt",
                    (Container::Mp4 | Container::Mov, "mov_text" | "dvd_subtitle") => "copy",
                    (Container::Mp4 | Container::Mov, _) if text => "mov_text",
                    (Container::Webm, "webvtt") => "copy",
                    (Container::Webm, _) if text => "webvtt",
                    (Container::Ts, "dvb_subtitle" | "dvb_teletext" | "hdmv_pgs_subtitle") => "copy",
                    (Container::Mp4 | Container::Mov | Container::Webm | Container::Ts, _) => {
                        return Err(refuse(s, "write .mkv, which takes any subtitles"));
                    }
                    _ => "copy",
                };
                if coder != "copy" {
                    notes.push(format!("converting subtitles of stream {} to {coder}", s.index));
                }
                args.extend(map);
                args.extend([format!("-c:s:{subtitles}"), coder.into()]);
                subtitles += 1;
            }
            "attachment" if container == Container::Mkv => args.extend(map),
            "attachment" => return Err(refuse(s, "write .mkv, which takes attachments")),
            "video" if s.cover && !matches!(container, Container::Webm | Container::Ts) => {
                args.extend(map);
                args.extend([format!("-c:v:{videos}"), "copy".into()]);
                args.extend([format!("-disposition:v:{videos}"), "attached_pic".into()]);
                videos += 1;
            }
            _ => notes.push(format!("stream {} ({} {}) dropped", s.index, s.kind, s.codec)),
        }
    }
    if container == Container::Ts && probe.chapters > 0 {
        notes.push(".ts cannot store chapters: dropped".into());
    }
    args.extend(words("-map_metadata 1 -map_chapters 1"));
    // Naming a stream here would switch off the copying of all other streams' tags.
    for key in ["language", "title"] {
        if let Some(value) = probe.video.tags.get(key).filter(|v| !v.is_empty()) {
            match is_argument(value) {
                true => args.extend(["-metadata:s:v:0".to_owned(), format!("{key}={value}")]),
                false => notes.push(format!("{key} of the video stream dropped: it is not plain text")),
            }
        }
    }
    Ok(args)
}

/// Whether a tag can be an argument: the system takes no zero byte in one, and 128 KiB at most.
fn is_argument(value: &str) -> bool {
    value.len() <= 4096 && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(wanted: &str, supported: &[&str]) -> String {
        let list: Vec<_> = supported.iter().filter_map(|n| Some((piped(n)?, (*n).to_owned()))).collect();
        nearest(&Layout::from_name(wanted).unwrap(), &list, [720, 576], false).1
    }

    #[test]
    fn samples_keep_alpha_depth_and_chroma_in_this_order() {
        let x265 = "yuv420p yuv422p yuv444p gbrp yuv420p10le yuv422p10le yuv444p10le gbrp10le yuv420p12le \
            yuv444p12le gray";
        let x265: Vec<&str> = x265.split_whitespace().collect();
        assert_eq!(pick("yuv420p", &x265), "yuv420p");
        assert_eq!(pick("yuv420p10le", &x265), "yuv420p10le");
        assert_eq!(pick("yuv411p", &x265), "yuv420p");
        assert_eq!(pick("yuv422p12le", &x265), "yuv444p12le");
        assert_eq!(pick("rgb48le", &["yuv420p", "yuv444p10le", "yuv444p"]), "yuv444p10le");
        assert_eq!(pick("rgb24", &["gbrp", "yuv444p"]), "gbrp");
        assert_eq!(pick("yuva420p", &["yuv420p", "yuva420p", "yuva444p"]), "yuva420p");
        assert_eq!(pick("yuva444p12le", &["yuv422p10le", "yuv444p10le", "yuva444p10le"]), "yuva444p10le");
        assert_eq!(pick("gray", &["yuv420p", "gray", "gray10le"]), "gray");
        assert_eq!(pick("yuv422p10le", &[]), "yuv422p10le");
        let list: Vec<_> = x265.iter().filter_map(|n| Some((piped(n)?, (*n).to_owned()))).collect();
        let odd = |size| nearest(&Layout::from_name("yuv420p").unwrap(), &list, size, false).1;
        assert_eq!(pick("rgb24", &["bgr0", "gbrp9le"]), "bgr0");
        assert_eq!([odd([720, 405]), odd([321, 180])], ["yuv422p", "yuv444p"]);
    }
}
