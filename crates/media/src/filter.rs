//! Filters of ffmpeg between its decoder and us: against fields, and those that a person puts in front.
//!
//! What a person's filters make of frames, ffmpeg tells best by doing it: the first frame goes through them into a
//! file, and what is in that file is what will come.

use std::ffi::OsString;
use std::io::Read;

use remaster_picture::Layout;

use crate::child::{Tools, plain};
use crate::colour::{Colour, Tag};
use crate::error::MediaError;
use crate::fields::Treatment;
use crate::hdr::Hdr;
use crate::nut::TimeBase;
use crate::place::Scratch;
use crate::probe::{Probe, Video, probe};
use crate::whitelist::{opened, url};

/// Filters that look far ahead and slow ones on large frames take a while for the first frame.
const PATIENCE: u64 = 60;

/// Frames as they come from ffmpeg.
#[derive(Clone, Debug)]
pub(crate) struct Filtered {
    /// For ffmpeg; `None` leaves frames as they are.
    pub(crate) filter: Option<String>,
    pub(crate) size: [usize; 2],
    pub(crate) layout: Layout,
    /// Its name for ffmpeg.
    pub(crate) pixel_format: String,
    pub(crate) colour: Colour,
    pub(crate) hdr: Option<Hdr>,
    pub(crate) sample_aspect: [u32; 2],
    /// Quarter turns that are left to do.
    pub(crate) turns: u32,
    pub(crate) rate: Option<TimeBase>,
    /// Unit of timestamps, in which new times are whole numbers or next to it.
    pub(crate) clock: TimeBase,
    /// The filters show another number of frames than are decoded.
    pub(crate) is_other_rate: bool,
}

/// Frames behind the treatment of `fields` and behind `filters`, if there are some.
pub(crate) fn decide(
    tools: &Tools,
    source: &Probe,
    fields: &Treatment,
    filters: Option<&str>,
) -> Result<Filtered, MediaError> {
    let video = &source.video;
    let [out, of] = fields.frames;
    let plain = Filtered {
        filter: fields.filter.clone(),
        size: [video.width, video.height],
        layout: video.read_as,
        pixel_format: video.read_name.clone(),
        colour: video.colour.clone(),
        hdr: video.hdr.clone(),
        sample_aspect: video.sample_aspect,
        turns: video.turns,
        rate: video.rate.map(|rate| rate.times(out, of)),
        clock: fields.clock,
        is_other_rate: false,
    };
    let Some(filters) = filters else { return Ok(plain) };
    let chain = chain(video, fields, filters);
    let seen = rehearse(tools, source, &chain, filters)?;
    // The rate of a file of one frame is what ffmpeg believes; for frames that come as before the average is better.
    let believed = video.believed.map(|rate| rate.times(out, of));
    let same = |rate: TimeBase| [plain.rate, believed].into_iter().flatten().any(|r| is_near(r, rate));
    let other = seen.rate.filter(|rate| !same(*rate));
    // The rehearsal's encoder may have asked for another range, as FFV1 does in ffmpeg 9; here there is none.
    let range = &seen.colour.range.value;
    Ok(Filtered {
        filter: Some(format!("{chain},scale=out_range={range}")),
        size: [seen.width, seen.height],
        layout: seen.read_as,
        pixel_format: seen.read_name,
        hdr: video.hdr.clone().filter(|_| seen.colour.is_hdr()),
        colour: told(&video.colour, seen.colour),
        sample_aspect: seen.sample_aspect,
        turns: video.turns,
        rate: other.or(plain.rate),
        clock: other.and_then(hundredth).unwrap_or(plain.clock),
        is_other_rate: other.is_some(),
    })
}

/// A hundredth of a frame: filters that make frames put them on or next to it.
fn hundredth(rate: TimeBase) -> Option<TimeBase> {
    TimeBase::new(rate.den, rate.num.checked_mul(100)?).filter(|c| c.num < 1 << 31 && c.den < 1 << 31)
}

/// Matroska rounds the time of a frame to nanoseconds.
fn is_near(a: TimeBase, b: TimeBase) -> bool {
    let rate = |r: TimeBase| r.num as f64 / r.den as f64;
    (rate(a) / rate(b) - 1.0).abs() < 1e-4
}

/// All filters in a row: what we guess of colours is said first, so that no filter guesses something else; a person's
/// filters see frames upright and without fields.
fn chain(video: &Video, fields: &Treatment, filters: &str) -> String {
    let mut parts: Vec<String> = fields.filter.iter().cloned().collect();
    let Colour { matrix, range, primaries, transfer, .. } = &video.colour;
    let tags =
        [("range", range), ("color_primaries", primaries), ("color_trc", transfer), ("colorspace", matrix)];
    let guessed: Vec<String> =
        tags.iter().filter(|(_, tag)| tag.guessed).map(|(key, tag)| format!("{key}={}", tag.value)).collect();
    if !guessed.is_empty() {
        parts.push(format!("setparams={}", guessed.join(":")));
    }
    // Frames are turned back behind a person's filters: we turn them ourselves, with chroma where it belongs.
    let (upright, back) = match video.turns {
        1 => (Some("transpose=clock"), Some("transpose=cclock")),
        2 => (Some("hflip,vflip"), Some("hflip,vflip")),
        3 => (Some("transpose=cclock"), Some("transpose=clock")),
        _ => (None, None),
    };
    parts.extend(upright.map(Into::into));
    // The names of both ends, which ffmpeg lets people write, would have no neighbours here.
    let filters = filters.trim();
    let filters = filters.strip_prefix("[in]").unwrap_or(filters);
    parts.push(filters.strip_suffix("[out]").unwrap_or(filters).to_owned());
    parts.extend(back.map(Into::into));
    parts.join(",")
}

/// What is known of colours behind filters. What was guessed before stays a guess.
fn told(before: &Colour, after: Colour) -> Colour {
    let tag =
        |before: &Tag, after: Tag| Tag { guessed: before.guessed && before.value == after.value, ..after };
    Colour {
        matrix: tag(&before.matrix, after.matrix),
        range: tag(&before.range, after.range),
        primaries: tag(&before.primaries, after.primaries),
        transfer: tag(&before.transfer, after.transfer),
        // Filters that know nothing of it leave it out.
        siting: if after.siting.guessed { before.siting.clone() } else { after.siting },
    }
}

/// Sends the first frame through the filters and looks at it.
fn rehearse(tools: &Tools, source: &Probe, chain: &str, filters: &str) -> Result<Video, MediaError> {
    let refused = |reason| MediaError::Filters { filters: filters.to_owned(), reason };
    // Newer versions of ffmpeg take nothing for a filter.
    if filters.trim().is_empty() {
        return Err(refused("there is no filter".into()));
    }
    let failed = |source| MediaError::Io { doing: "make a temporary folder".into(), source };
    let folder = Scratch::new(None).map_err(failed)?;
    let path = folder.path().join("frame.mkv");
    let mut args: Vec<OsString> =
        ["-hide_banner", "-nostdin", "-v", "error", "-noautorotate", "-copyts"].map(Into::into).into();
    if let Some(decoder) = source.video.decoder {
        args.extend(["-c:v", decoder].map(Into::into));
    }
    args.extend(opened(&source.path));
    let map = format!("0:{}", source.video.index);
    args.extend(["-map", &map, "-vf", chain, "-frames:v", "1", "-fps_mode", "passthrough"].map(Into::into));
    args.extend(["-noautoscale", "-c:v", "ffv1", "-f", "matroska"].map(Into::into));
    args.push(url(&path));
    let mut child = tools.spawn("the filters", &args, PATIENCE, false)?;
    if let Some(stdout) = child.stdout.take() {
        // Filters can print; that is dropped.
        let _ = child.waiting(|| std::io::copy(&mut stdout.take(1 << 20), &mut std::io::sink()));
    }
    let lines = match child.finish() {
        Ok(lines) => lines,
        Err(MediaError::Child { reason, .. }) => return Err(refused(reason)),
        Err(e) => return Err(e),
    };
    match probe(tools, &path) {
        // A file without a frame has no time of its first frame.
        Ok(seen) if seen.video.start.is_none() => Err(refused("no frame comes out of them".into())),
        Ok(seen) => Ok(seen.video),
        Err(MediaError::TooLarge { width, height, limit, area, .. }) => {
            let path = source.path.clone();
            Err(MediaError::TooLarge { path, width, height, limit, area })
        }
        Err(MediaError::Samples { what, .. }) => {
            Err(MediaError::Samples { path: source.path.clone(), what: format!("{what} behind the filters") })
        }
        Err(MediaError::Cancelled) => Err(MediaError::Cancelled),
        Err(_) if lines.is_empty() => Err(refused("no frame comes out of them".into())),
        Err(_) => Err(refused(plain(&lines))),
    }
}
