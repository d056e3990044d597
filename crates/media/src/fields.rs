//! Interlaced video: how it is found, and which filter makes frames of it.

use std::ffi::OsString;

use remaster_picture::Kind;
use serde::{Deserialize, Serialize};

use crate::child::Tools;
use crate::error::MediaError;
use crate::nut::TimeBase;
use crate::probe::{Probe, Video};
use crate::weave::Weave;
use crate::whitelist::opened;
use crate::words::Words;

/// Frames of a sample; three of them are looked at. Enough for a cut or two, and for forty rounds of 3:2 pulldown.
const SAMPLE: usize = 200;

/// Longest time for a sample. 200 frames of 1080i take 2 s on two cores.
const SAMPLE_SECONDS: u64 = 30;

/// Heights of interlaced pictures: of NTSC, PAL and HD, with and without the lines around them. Other heights were
/// scaled, and scaling destroys fields.
const HEIGHTS: [usize; 7] = [480, 486, 512, 576, 608, 1080, 1088];

/// What people capture tapes with: cropped captures have other heights.
const CAPTURES: Words =
    Words("ffv1 huffyuv ffvhuff utvideo magicyuv lagarith rawvideo v210 dvvideo mjpeg mpeg2video prores");

/// Codecs without fields.
const PROGRESSIVE: Words = Words("vp8 vp9 av1 theora gif apng webp");

/// What to do with interlaced video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deinterlace {
    /// Deinterlace what is marked as interlaced or looks like it.
    #[default]
    Auto,
    /// Deinterlace: one frame for each frame.
    On,
    /// Deinterlace: one frame for each field, at twice the rate.
    Double,
    /// Undo 3:2 pulldown: four frames for five.
    Ivtc,
    /// Take the frames as they are.
    Off,
}

/// Which field of a frame is shown first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Top,
    Bottom,
    /// Every frame says so itself.
    Each,
}

/// What is done about fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Treatment {
    /// For ffmpeg; `None` leaves frames as they are.
    pub(crate) filter: Option<String>,
    /// Frames that come out for frames that go in.
    pub(crate) frames: [u64; 2],
    /// Unit of timestamps, in which new times are whole numbers.
    pub(crate) clock: TimeBase,
    /// For people.
    pub(crate) note: Option<String>,
}

impl Treatment {
    /// A frame depends on those around it alone, and not on how many came before.
    pub(crate) fn is_local(&self) -> bool {
        self.frames[0] >= self.frames[1]
    }
}

/// Frames of the samples of a film, by what the filter `idet` takes them for. All that is decided about fields follows from
/// them and from what the file says, so that whoever looks decides alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    top: usize,
    bottom: usize,
    progressive: usize,
    /// Frames with a field of the frame before.
    repeated: usize,
    /// Those that look interlaced, by how their lines fit together; none if that was not looked at.
    weave: Weave,
}

impl Fields {
    fn interlaced(&self) -> usize {
        self.top + self.bottom
    }

    /// Frames that move enough to tell.
    fn told(&self) -> usize {
        self.interlaced() + self.progressive
    }

    /// `idet` takes a few frames of progressive clips for interlaced, and the other way round: the majority counts. Of
    /// fine patterns it takes all of them.
    fn is_interlaced(&self) -> bool {
        self.told() >= 5 && self.interlaced() > self.progressive && self.weave.woven >= self.weave.whole
    }

    /// 3:2 pulldown shows two of five frames with a field of the frame before; other video has next to none.
    fn is_telecined(&self) -> bool {
        self.told() >= 20 && (self.repeated * 4 > self.told()) && (self.repeated * 5 < self.told() * 3)
    }

    fn order(&self) -> Order {
        if self.bottom > self.top { Order::Bottom } else { Order::Top }
    }
}

/// Decides what is done, and looks at the frames where that is needed and was not done before.
pub(crate) fn decide(tools: &Tools, probe: &Probe, wish: Deinterlace) -> Result<Treatment, MediaError> {
    Ok(treat(&probe.video, wish, look(tools, probe, wish)?))
}

/// Looks at samples of the whole film, whatever part of it is used, where that is needed.
pub(crate) fn look(tools: &Tools, probe: &Probe, wish: Deinterlace) -> Result<Fields, MediaError> {
    if let Some(fields) = probe.fields {
        return Ok(fields);
    }
    let video = &probe.video;
    let marked = video.order;
    let look = match (wish, marked) {
        (Deinterlace::Off, _) => false,
        (Deinterlace::Auto, Some(_)) => is_ntsc(video.rate),
        (Deinterlace::Auto, None) => may_be_interlaced(video),
        (Deinterlace::On | Deinterlace::Double | Deinterlace::Ivtc, _) => marked.is_none(),
    };
    if !look {
        return Ok(Fields::default());
    }
    let mut seen = samples(tools, probe)?;
    // What is marked or asked for is deinterlaced whatever it looks like.
    if wish == Deinterlace::Auto && marked.is_none() && seen.is_interlaced() {
        for (at, _) in places(video) {
            seen.weave.add(tools, probe, opening(probe, at))?;
        }
    }
    Ok(seen)
}

/// What is done with a clip whose samples look like `seen`.
fn treat(video: &Video, wish: Deinterlace, seen: Fields) -> Treatment {
    let fields = video.fields.as_deref().unwrap_or_default();
    let found = format!("{} of {} sampled frames", seen.interlaced(), seen.told());
    let film = is_ntsc(video.rate) && seen.is_telecined();
    let (how, note) = match (wish, video.order) {
        (Deinterlace::Off, _) => (Deinterlace::Off, None),
        (Deinterlace::Auto, marked) if film && can_match(video) && (marked.is_some() || seen.is_interlaced()) => (
            Deinterlace::Ivtc,
            Some("3:2 pulldown detected: restoring film frames; use --deinterlace on or off if this is wrong".into()),
        ),
        (Deinterlace::Auto, Some(_)) => {
            (Deinterlace::On, Some(format!("interlaced ({fields}): deinterlacing; disable with --deinterlace off")))
        }
        (Deinterlace::Auto, None) if seen.is_interlaced() => (
            Deinterlace::On,
            Some(format!(
                "looks interlaced ({found}) but is not flagged: deinterlacing; disable with --deinterlace off"
            )),
        ),
        (Deinterlace::Auto, None) => (Deinterlace::Off, None),
        (Deinterlace::Ivtc, _) if !can_match(video) => (
            Deinterlace::On,
            Some(format!("3:2 pulldown can only be undone in 8-bit YUV, not {}: deinterlacing", video.pixel_format)),
        ),
        (how, _) => (how, None),
    };
    let order = video.order.unwrap_or(if seen.interlaced() > 0 { seen.order() } else { usual(video) });
    let parity = match order {
        Order::Top => "tff",
        Order::Bottom => "bff",
        Order::Each => "auto",
    };
    let bwdif = |mode: &str, deint: &str| format!("bwdif=mode={mode}:parity={parity}:deint={deint}");
    let clock = video.time_base;
    let (filter, frames, clock) = match how {
        Deinterlace::Off | Deinterlace::Auto => (None, [1, 1], clock),
        Deinterlace::On => (Some(bwdif("send_frame", "all")), [1, 1], clock),
        Deinterlace::Double => (Some(bwdif("send_field", "all")), [2, 1], clock.times(1, 2)),
        Deinterlace::Ivtc => {
            let clock = film_clock(video);
            let (num, den, rest) = (clock.num, clock.den, bwdif("send_frame", "interlaced"));
            let filter =
                format!("settb={num}/{den},fieldmatch=order={parity}:combmatch=full,{rest},decimate");
            (Some(filter), [4, 5], clock)
        }
    };
    Treatment { filter, frames, clock, note }
}

/// A hundredth of a frame of the film: its frames are evenly apart then, and the first is at most 0.3 ms off.
fn film_clock(video: &Video) -> TimeBase {
    let film = video.rate.map(|rate| rate.times(400, 5)).map(|r| TimeBase { num: r.den, den: r.num });
    film.filter(|c| c.den < 1 << 31).unwrap_or(video.time_base)
}

/// 30000/1001 frames per second, or what people write instead.
fn is_ntsc(rate: Option<TimeBase>) -> bool {
    rate.is_some_and(|r| (29.9..=30.1).contains(&(r.num as f64 / r.den as f64)))
}

/// Whether a clip that is not marked is worth looking at: it has the height and the rate of interlaced video.
fn may_be_interlaced(video: &Video) -> bool {
    let height =
        HEIGHTS.contains(&video.height) || CAPTURES.has(&video.codec) && (400..=1088).contains(&video.height);
    let rate = video.rate.is_none_or(|r| (24.5..=30.5).contains(&(r.num as f64 / r.den as f64)));
    height && rate && video.turns == 0 && !PROGRESSIVE.has(&video.codec)
}

/// What `fieldmatch` takes; ffmpeg would turn anything else into it.
fn can_match(video: &Video) -> bool {
    video.depth == 8
        && !video.alpha
        && matches!(video.read_as.kind, Kind::Yuv { across, down } if across + down < 3)
}

/// The order where nothing tells.
fn usual(video: &Video) -> Order {
    if video.codec == "dvvideo" { Order::Bottom } else { Order::Top }
}

/// Where samples are taken, in seconds, and how many frames: at the start, in the middle and at the end.
fn places(video: &Video) -> Vec<(f64, usize)> {
    let rate = video.rate.map_or(25.0, |r| r.num as f64 / r.den as f64);
    let ends = video.ends.unwrap_or(0.0);
    let long = SAMPLE as f64 / rate;
    if ends < 3.5 * long {
        return vec![(0.0, 3 * SAMPLE)];
    }
    [0.0, (ends - long) / 2.0, ends - 1.25 * long].map(|at| (at, SAMPLE)).into()
}

/// What `idet` says of all samples.
fn samples(tools: &Tools, probe: &Probe) -> Result<Fields, MediaError> {
    let mut all = Fields::default();
    for (at, frames) in places(&probe.video) {
        let seen = sample(tools, probe, at, frames)?;
        all.top += seen.top;
        all.bottom += seen.bottom;
        all.progressive += seen.progressive;
        all.repeated += seen.repeated;
    }
    Ok(all)
}

/// Options that open the video at a place, in seconds.
fn opening(probe: &Probe, at: f64) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["-hide_banner", "-nostdin", "-v", "quiet", "-noautorotate"].map(Into::into).into();
    if at > 0.0 {
        args.extend(["-noaccurate_seek", "-ss", &format!("{at:.3}")].map(Into::into));
    }
    args.extend(opened(&probe.path));
    args.extend(["-map".into(), OsString::from(format!("0:{}", probe.video.index))]);
    args
}

fn sample(tools: &Tools, probe: &Probe, at: f64, frames: usize) -> Result<Fields, MediaError> {
    let mut args = opening(probe, at);
    let frames = frames.to_string();
    let filter = "idet,metadata=mode=print:file=pipe\\\\:1:direct=1";
    let rest = ["-frames:v", &frames, "-fps_mode", "passthrough", "-vf", filter, "-f", "null", "-"];
    args.extend(rest.map(Into::into));
    let text = tools.ffmpeg_for(SAMPLE_SECONDS, &args)?;
    Ok(count(&String::from_utf8_lossy(&text)))
}

/// Counts what `idet` said of each frame.
fn count(text: &str) -> Fields {
    let mut seen = Fields::default();
    for line in text.lines() {
        match line.trim().strip_prefix("lavfi.idet.") {
            Some("multiple.current_frame=tff") => seen.top += 1,
            Some("multiple.current_frame=bff") => seen.bottom += 1,
            Some("multiple.current_frame=progressive") => seen.progressive += 1,
            Some("repeated.current_frame=top" | "repeated.current_frame=bottom") => seen.repeated += 1,
            _ => {}
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_judged_by_their_majority() {
        let seen = |top, bottom, progressive, repeated| {
            let weave = Weave::default();
            Fields { top, bottom, progressive, repeated, weave }
        };
        assert!(seen(0, 550, 40, 3).is_interlaced());
        assert_eq!(seen(0, 550, 40, 3).order(), Order::Bottom);
        assert!(!seen(10, 0, 500, 0).is_interlaced());
        assert!(!seen(2, 0, 0, 0).is_interlaced(), "too few to tell");
        assert!(!seen(0, 0, 0, 0).is_interlaced());
        let weave = |woven, whole| Fields { weave: Weave { woven, whole }, ..seen(590, 0, 10, 0) };
        assert!(weave(120, 20).is_interlaced() && !weave(3, 140).is_interlaced());
        assert!(seen(560, 0, 40, 230).is_telecined());
        assert!(!seen(560, 0, 40, 20).is_telecined());
        assert!(!seen(0, 0, 600, 0).is_telecined());
    }

    #[test]
    fn the_words_of_idet_are_counted() {
        let text = "frame:0    pts:0       pts_time:0\nlavfi.idet.repeated.current_frame=neither\n\
            lavfi.idet.single.current_frame=tff\nlavfi.idet.multiple.current_frame=tff\n\
            frame:1    pts:1\nlavfi.idet.repeated.current_frame=top\nlavfi.idet.multiple.current_frame=progressive\n\
            lavfi.idet.multiple.tff=12.00";
        let expected = Fields { top: 1, progressive: 1, repeated: 1, ..Fields::default() };
        assert_eq!(count(text), expected);
        assert_eq!(count("\u{1b}[0m garbage=\n=\n"), Fields::default());
    }
}
