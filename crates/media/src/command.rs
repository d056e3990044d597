//! Command lines of an ffmpeg that writes a file.

use std::ffi::OsString;
use std::path::Path;

use crate::nut::TimeBase;
use crate::probe::Probe;
use crate::target::Target;
use crate::whitelist::{opened, url};

/// Seconds of sound and subtitles that a rehearsal copies: enough for muxers that look into the first packets.
const REHEARSAL_SECONDS: f64 = 10.0;

/// Seconds before a part from which on its sound is read: a file may store sound long before the picture it belongs to.
const AHEAD: f64 = 10.0;

/// How much of a clip a file is written for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// One frame.
    Rehearsal,
}

/// What is done with the video that comes through the pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picture {
    /// It is encoded.
    Encoded,
    /// It is copied: it was encoded before.
    Copied,
}

/// A file to be written: video through a pipe, everything else from the input.
pub(crate) struct Order<'a> {
    /// Where it is written.
    pub(crate) part: &'a Path,
    pub(crate) target: &'a Target,
    pub(crate) from: Option<&'a Probe>,
    /// Bytes of a frame.
    pub(crate) frame: usize,
    /// Unit of timestamps.
    pub(crate) clock: TimeBase,
    pub(crate) extent: Extent,
    pub(crate) picture: Picture,
    /// The same bytes whenever it is written: no dates, no random numbers.
    pub(crate) repeats: bool,
}

/// How long a copied frame is shown, which counts for the last one alone: as long as those before it on average. Otherwise it
/// would be the unit of the clock, which headers of a codec have for a variable rate. Versions of ffmpeg differ in the
/// unit of time here, so that no number can stand for it.
const LASTING: &str = "setts=pts=PTS:dts=DTS:duration=round((DTS-STARTDTS)/(N+not(N)))+not(N)*DURATION";

/// What all command lines start with.
const START: [&str; 6] = ["-hide_banner", "-nostdin", "-y", "-v", "error", "-copyts"];

/// A film or a clip with all of its streams.
pub(crate) fn arguments(order: &Order<'_>) -> Vec<OsString> {
    let &Order { part, target, from, frame, clock, extent, picture, repeats } = order;
    let mut args: Vec<OsString> = START.map(Into::into).into();
    // Three frames are enough to see the rate, which is only written into headers; the clock is exact anyway.
    let enough = (3 * frame + (1 << 16)).max(5_000_000).to_string();
    // For the input side too, so that no filter believes it has to convert.
    args.extend(target.tags.iter().map(Into::into));
    args.extend(["-probesize", &enough, "-f", "nut", "-i", "pipe:0"].map(Into::into));
    let cut = from.filter(|probe| !probe.span().is_whole());
    if let Some(probe) = from {
        match cut {
            Some(probe) => args.extend(shifted(probe)),
            None if extent == Extent::Rehearsal => {
                args.extend(["-t".into(), OsString::from(REHEARSAL_SECONDS.to_string())]);
            }
            None => {}
        }
        args.extend(opened(&probe.path));
    }
    args.extend(["-map", "0:v:0"].map(Into::into));
    args.extend(["-c", "copy"].map(Into::into));
    args.extend(target.streams.iter().map(Into::into));
    args.push("-c:v:0".into());
    match picture {
        Picture::Encoded => {
            args.extend(target.encoder.iter().map(Into::into));
            args.extend(["-pix_fmt:v:0".into(), OsString::from(&target.pixel_format)]);
        }
        // What an encoder would say of its frames, a decoder does not always know.
        Picture::Copied => {
            args.extend(["copy", "-field_order:v:0", "progressive", "-bsf:v:0", LASTING].map(Into::into));
        }
    }
    args.extend(target.file.iter().map(Into::into));
    args.extend(target.tags.iter().map(Into::into));
    // The word for the input's own clock differs between versions of ffmpeg; its numbers do not.
    let unit = format!("{}:{}", clock.num, clock.den);
    args.extend(["-fps_mode", "passthrough", "-enc_time_base", &unit].map(Into::into));
    if let Some(probe) = cut {
        args.extend(shortened(probe, clock, extent));
    }
    args.extend(["-muxpreload", "0", "-muxdelay", "0"].map(Into::into));
    if repeats {
        args.extend(["-fflags", "+bitexact"].map(Into::into));
        if let Some(scale) = Some(track_scale(clock)).filter(|_| matches!(target.muxer, "mp4" | "mov")) {
            args.extend(["-movie_timescale".into(), OsString::from(scale.to_string())]);
        }
    }
    // The name of the part must not choose the format.
    args.extend(["-f".into(), target.muxer.into(), url(part)]);
    args
}

/// Options in front of an input of which a part is used: its streams are read from a while before it on, and the part
/// starts at 0.
fn shifted(probe: &Probe) -> Vec<OsString> {
    let start = probe.origin() + probe.span().start_seconds();
    let mut args = vec!["-itsoffset".to_owned(), format!("{:.6}", -start)];
    let seek = start - AHEAD;
    if seek > probe.origin() {
        args.extend(["-seek_timestamp".to_owned(), "1".into(), "-ss".into(), format!("{seek:.6}")]);
    }
    args.into_iter().map(Into::into).collect()
}

/// Options in front of an output that gets a part of an input: what comes before the part is dropped from its streams,
/// and chapters and streams end with it.
fn shortened(probe: &Probe, clock: TimeBase, extent: Extent) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-copypriorss:a", "0"].map(Into::into).into();
    if probe.others.iter().any(|s| s.kind == "subtitle") {
        // `-copypriorss` leaves those alone that are converted.
        args.extend(["-bsf:s", "noise=drop=lt(pts\\,0)"].map(Into::into));
    }
    // Frames start up to a tick later than they should: none may be taken for one behind the end.
    let lasts = probe.span().seconds().map(|s| s + clock.seconds(1));
    let lasts = match extent {
        Extent::Whole => lasts,
        Extent::Rehearsal => Some(lasts.unwrap_or(f64::MAX).min(REHEARSAL_SECONDS)),
    };
    if let Some(seconds) = lasts {
        args.extend(["-t".into(), OsString::from(format!("{seconds:.6}"))]);
    }
    args
}

/// Ticks of a second in the track of a MOV: those of the clock, doubled until there are enough. A file whose first frame is
/// shown later than at 0 says when in ticks of the whole movie, which are milliseconds by default.
fn track_scale(clock: TimeBase) -> u64 {
    let mut scale = clock.den.clamp(1, i32::MAX as u64);
    while scale < 10_000 {
        scale *= 2;
    }
    scale
}

/// A segment of a film: its video alone.
pub(crate) fn segment_arguments(part: &Path, target: &Target, clock: TimeBase) -> Vec<OsString> {
    let mut args: Vec<OsString> = START.map(Into::into).into();
    args.extend(target.tags.iter().map(Into::into));
    // The header says all there is to know, the rate too: what would be guessed from the first frames differs between
    // segments, and so would the headers of their streams.
    args.extend(["-probesize", "32", "-analyzeduration", "0", "-f", "nut", "-i", "pipe:0"].map(Into::into));
    args.extend(["-map", "0:v:0", "-c:v:0"].map(Into::into));
    args.extend(target.encoder.iter().map(Into::into));
    args.extend(["-pix_fmt:v:0".into(), OsString::from(&target.pixel_format)]);
    args.extend(target.tags.iter().map(Into::into));
    let unit = format!("{}:{}", clock.num, clock.den);
    args.extend(["-fps_mode", "passthrough", "-enc_time_base", &unit].map(Into::into));
    // Frames that are held back start before 0 by the clock of decoders, and are not shifted.
    args.extend(["-avoid_negative_ts", "disabled", "-map_metadata", "-1"].map(Into::into));
    args.extend(["-fflags", "+bitexact", "-f", "nut"].map(Into::into));
    args.push(url(part));
    args
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use remaster_picture::Layout;

    use super::*;
    use crate::clip::Format;
    use crate::colour::{Colour, Said};
    use crate::ends::Announced;
    use crate::hdr::{Hdr, MasterDisplay};
    use crate::probe::{Stream, Video};
    use crate::span::Span;
    use crate::target::{Film, SegmentKind, WriteOptions, settle};

    /// What a file can say in words, and numbers that are numbers whatever it says.
    #[derive(Clone, Debug)]
    struct Claims {
        colours: Vec<String>,
        words: Vec<String>,
        display: Option<MasterDisplay>,
        light: Option<[u16; 2]>,
    }

    fn probe(Claims { colours, words, .. }: &Claims) -> Probe {
        let word = |i: usize| words[i % words.len()].clone();
        let layout = Layout::from_name("yuv420p10le").unwrap();
        let tags = |i: usize| BTreeMap::from([("language".into(), word(i)), ("title".into(), word(i + 1))]);
        let said = |i: usize| Some(colours[i].as_str());
        let said =
            Said { matrix: said(0), range: said(1), primaries: said(2), transfer: said(3), siting: said(4) };
        let stream = |index, kind: &str| {
            let (codec, language) = (word(index), Some(word(index + 3)));
            Stream { index, kind: kind.into(), codec, language, cover: false }
        };
        Probe {
            path: "/in.mkv".into(),
            format: word(5),
            duration: None,
            tags: tags(6),
            chapters: 1,
            others: vec![stream(1, "audio"), stream(2, "subtitle"), stream(3, &word(8))],
            span: Span::default(),
            fields: None,
            video: Video {
                index: 0,
                codec: word(9),
                profile: Some(word(10)),
                width: 64,
                height: 48,
                pixel_format: word(11),
                depth: 10,
                alpha: false,
                sample_aspect: [1, 1],
                turns: 0,
                colour: Colour::new(said, &layout, [64, 48]),
                hdr: None,
                fields: None,
                time_base: TimeBase { num: 1, den: 25 },
                rate: None,
                frames: None,
                tags: tags(12),
                notes: Vec::new(),
                complaints: Vec::new(),
                announced: Announced::default(),
                frames_estimated: false,
                order: None,
                ends: None,
                start: None,
                is_reordered: false,
                believed: None,
                read_as: layout,
                read_name: word(13),
                decoder: None,
            },
        }
    }

    /// The arguments for a file that claims so; `None` if it is refused.
    fn line(claims: &Claims) -> Option<Vec<OsString>> {
        let probe = probe(claims);
        let (layout, colour) = (probe.video.read_as, probe.video.colour.clone());
        let hdr = Some(Hdr { master_display: claims.display, light_level: claims.light });
        let even = Format::even([64, 48], layout, colour, TimeBase { num: 25, den: 1 });
        let format = Format { hdr, rate: None, ..even };
        let known = |_: &str| Ok(vec![(format.layout, format.layout.name())]);
        let (path, options) = (Path::new("/out.mkv"), WriteOptions::default());
        let (from, kind) = (Some(&probe), SegmentKind::Final);
        let target = settle(known, &Film { path, format: &format, from, options: &options, kind }).ok()?;
        let clock = TimeBase { num: 1, den: 25 };
        let (part, from, target) = (Path::new("/part"), Some(&probe), &target);
        let (extent, picture) = (Extent::Whole, Picture::Encoded);
        Some(arguments(&Order { part, target, from, frame: 1000, clock, extent, picture, repeats: false }))
    }

    /// Words as files have them, and such as would be options or parameters.
    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            "\\PC{0,12}",
            "[a-z0-9:=,/ -]{0,16}",
            Just("-y".to_owned()),
            Just("-filter_complex".to_owned()),
            Just(":pass=1:stats=/victim".to_owned()),
            Just("a=b\nc=d\0e".to_owned()),
            Just(String::new()),
            Just("x".repeat(200_000)),
            Just("bt709".to_owned()),
            Just("subrip".to_owned()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_a_file_says_changes_no_option(
            colours in proptest::collection::vec(prop_oneof![20 => Just(String::new()), 1 => word()], 5),
            words in proptest::collection::vec(word(), 14),
            display in proptest::option::of((any::<[[u16; 2]; 4]>(), any::<[u32; 2]>())),
            light in any::<Option<[u16; 2]>>(),
        ) {
            let display = display.and_then(|(points, light)| {
                MasterDisplay::new(points.map(|p| p.map(u32::from)), light)
            });
            // A colour that is not known is refused.
            let Some(attacked) = line(&Claims { colours, words, display, light }) else { return Ok(()) };
            let plain = |n: usize, word: &str| vec![word.to_owned(); n];
            let honest = Claims { colours: plain(5, ""), words: plain(14, "subrip"), display: None, light: None };
            let expected = line(&honest).unwrap();
            let options = |args: &[OsString]| {
                let mut kept = Vec::new();
                let mut args = args.iter().map(|a| a.to_string_lossy().into_owned());
                while let Some(arg) = args.next() {
                    match arg.as_str() {
                        // A tag is the value of an option whatever is in it.
                        "-metadata:s:v:0" => {
                            let tag = args.next().unwrap();
                            assert!(tag.starts_with("language=") || tag.starts_with("title="));
                            assert!(!tag.contains('\0') && tag.len() < 5000);
                        }
                        // Ten numbers and two: nothing but digits, and the signs between.
                        "-x265-params" => {
                            let params = args.next().unwrap();
                            let good = |c: char| c.is_ascii_digit() || "GBRWPL(,):=-".contains(c) || c.is_ascii_lowercase();
                            assert!(params.chars().all(good) && params.matches(':').count() <= 4, "{params}");
                            let keys: Vec<&str> = params.split(':').filter_map(|p| p.split('=').next()).collect();
                            let known = ["log-level", "hdr10", "repeat-headers", "master-display", "max-cll"];
                            assert!(keys.iter().all(|k| known.contains(k)), "{params}");
                        }
                        "-color_range" | "-colorspace" | "-color_primaries" | "-color_trc"
                        | "-chroma_sample_location" => {
                            let word = args.next().unwrap();
                            assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{word}");
                            assert!(!word.is_empty() && !word.starts_with('-'), "{word}");
                        }
                        // Which streams go along depends on what they are.
                        "-map" | "-c:s:0" => drop(args.next()),
                        _ => kept.push(arg),
                    }
                }
                kept
            };
            prop_assert_eq!(options(&attacked), options(&expected));
        }
    }
}
