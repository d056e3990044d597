//! A file written by ffmpeg: frames from us, everything else from the input.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use remaster_picture::{Coding, Frame, Layout};

use crate::child::{ToChild, Tools, Watched, plain};
use crate::clip::{Format, FrameSink};
use crate::door::{opened, url};
use crate::error::MediaError;
use crate::nut::{NutWriter, RawStream, TimeBase, fourcc};
use crate::place::{self, Part};
use crate::probe::{Probe, count_frames};
use crate::target::{Target, WriteOptions, decide};

/// Slow presets hold a frame back for a while, and the end of a long file has to be rewritten.
const PATIENCE: u64 = 600;

/// Encoders open and take a frame within a second; slow ones that are still at it after this many are believed.
const REHEARSAL_PATIENCE: u64 = 30;

/// Seconds of sound and subtitles that a rehearsal copies: enough for muxers that look into the first packets.
const REHEARSAL_SECONDS: f64 = 10.0;

/// Seconds before a part from which on its sound is read: a file may store sound long before the picture it belongs to.
const AHEAD: f64 = 10.0;

/// A disk with fewer bytes left is full: file systems give out blocks of up to 64 KiB.
const FULL: u64 = 1 << 16;

/// A file on its way out.
pub struct Encoder {
    tools: Tools,
    path: PathBuf,
    writer: Option<NutWriter<BufWriter<ToChild>>>,
    child: Option<Watched>,
    layout: Layout,
    coding: Coding,
    bytes: Vec<u8>,
    frames: usize,
    notes: Vec<String>,
    /// The last field: the child must be gone before its file is removed, or it makes it again.
    part: Part,
}

/// How much of a clip an encoder is started for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// One frame.
    Rehearsal,
}

impl Encoder {
    /// Starts an encoder for frames of `format`. Sound, subtitles, chapters, attachments and tags come from
    /// the file behind `from`.
    pub fn create(
        tools: &Tools,
        path: &Path,
        format: &Format,
        from: Option<&Probe>,
        options: &WriteOptions,
    ) -> Result<Self, MediaError> {
        Encoder::start(tools, path, format, from, options, Extent::Whole)
    }

    /// Writes one frame with the settings of [`Encoder::create`] and throws it away. What an encoder or a container
    /// refuses is refused here, before there is work to lose.
    pub fn rehearse(
        tools: &Tools,
        path: &Path,
        format: &Format,
        from: Option<&Probe>,
        options: &WriteOptions,
    ) -> Result<(), MediaError> {
        let refused = |reason: String| MediaError::Rehearsal { path: path.to_owned(), reason };
        let frame = Frame::new(format.width, format.height, format.channels());
        let started = Encoder::start(tools, path, format, from, options, Extent::Rehearsal);
        let done = started.and_then(|mut encoder| {
            encoder.write(&frame, 0)?;
            encoder.complete()
        });
        match done {
            // It has opened, took the frame and had nothing to say: it is slow, not wrong.
            Err(MediaError::Stalled { .. }) => Ok(()),
            Err(MediaError::Child { reason, .. } | MediaError::Verify { reason, .. }) => Err(refused(reason)),
            Err(MediaError::Io { source, .. }) => Err(refused(source.to_string())),
            done => done,
        }
    }

    fn start(
        tools: &Tools,
        path: &Path,
        format: &Format,
        from: Option<&Probe>,
        options: &WriteOptions,
        extent: Extent,
    ) -> Result<Self, MediaError> {
        let target = decide(tools, path, format, from, options)?;
        let part = Part::beside(path, options.overwrite)?;
        let tag = fourcc(&target.layout).unwrap_or(*b"RGB0");
        let stream = RawStream {
            width: format.width,
            height: format.height,
            fourcc: tag,
            time_base: format.time_base,
            aspect: format.sample_aspect.map(u64::from),
        };
        let bytes = target.layout.bytes(format.width, format.height).unwrap_or(0);
        let args = arguments(part.path(), &target, from, bytes, format.time_base, extent);
        let patience = if extent == Extent::Whole { PATIENCE } else { REHEARSAL_PATIENCE };
        let mut child = tools.spawn("the encoder", &args, patience, true)?;
        let Some(stdin) = child.stdin.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let mut encoder = Encoder {
            tools: tools.clone(),
            path: path.to_owned(),
            part,
            writer: None,
            child: Some(child),
            layout: target.layout,
            coding: target.coding,
            bytes: Vec::new(),
            frames: 0,
            notes: target.notes,
        };
        let writer = NutWriter::new(BufWriter::with_capacity(1 << 16, stdin), &stream);
        encoder.writer = Some(writer.map_err(|e| encoder.failed(e))?);
        Ok(encoder)
    }

    /// What a person should know about how the clip is written.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How samples are written.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A pipe that broke: the child says why.
    fn failed(&mut self, e: MediaError) -> MediaError {
        drop(self.writer.take());
        match self.child.take().map(Watched::finish) {
            Some(Err(why)) => self.full(why),
            Some(Ok(lines)) if !lines.is_empty() => {
                self.full(MediaError::Child { what: "the encoder", reason: plain(&lines) })
            }
            _ => self.full(e),
        }
    }

    /// A full disk has many symptoms, a file without its index among them.
    fn full(&self, e: MediaError) -> MediaError {
        let folder = place::parent(&self.path);
        let said = match &e {
            MediaError::Child { reason, .. } | MediaError::Verify { reason, .. } => {
                reason.contains("No space left") || reason.contains("quota exceeded")
            }
            MediaError::Io { .. } => false,
            _ => return e,
        };
        let full = || remaster_disk::free_space(folder).is_some_and(|free| free < FULL);
        if said || full() { MediaError::NoSpace { folder: folder.to_owned() } } else { e }
    }

    /// All frames were written: waits for the file and reads it back.
    fn complete(&mut self) -> Result<(), MediaError> {
        if let Some(writer) = self.writer.take() {
            let flushed = writer.into_inner().flush();
            flushed.map_err(|source| {
                self.failed(MediaError::Io { doing: "pass frames through the pipe".into(), source })
            })?;
        }
        if let Some(child) = self.child.take() {
            let lines = child.finish().map_err(|e| self.full(e))?;
            if !lines.is_empty() {
                self.notes.push(plain(&lines));
            }
        }
        let verify = |reason: String| {
            let words = self.notes.last().filter(|n| n.contains("No space left"));
            let reason = words.map_or(reason, Clone::clone);
            self.full(MediaError::Verify { path: self.path.clone(), reason })
        };
        let frames = count_frames(&self.tools, self.part.path()).map_err(|e| match e {
            MediaError::Cancelled => e,
            MediaError::Child { reason, .. } | MediaError::Verify { reason, .. } => {
                // The name of a part means nothing to anybody.
                verify(reason.replace(&*url(self.part.path()).to_string_lossy(), "it"))
            }
            e => verify(e.to_string()),
        })?;
        if frames != self.frames {
            return Err(verify(format!("it has {frames} frames instead of {}", self.frames)));
        }
        Ok(())
    }
}

fn arguments(
    part: &Path,
    target: &Target,
    from: Option<&Probe>,
    frame: usize,
    clock: TimeBase,
    extent: Extent,
) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["-hide_banner", "-nostdin", "-y", "-v", "error", "-copyts"].map(Into::into).into();
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
    args.extend(target.encoder.iter().map(Into::into));
    args.extend(["-pix_fmt:v:0".into(), OsString::from(&target.pixel_format)]);
    args.extend(target.tags.iter().map(Into::into));
    // The word for the input's own clock differs between versions of ffmpeg; its numbers do not.
    let unit = format!("{}:{}", clock.num, clock.den);
    args.extend(["-fps_mode", "passthrough", "-enc_time_base", &unit].map(Into::into));
    if let Some(probe) = cut {
        args.extend(shortened(probe, clock, extent));
    }
    args.extend(["-muxpreload", "0", "-muxdelay", "0"].map(Into::into));
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
    let tick = clock.num as f64 / clock.den as f64;
    let lasts = probe.span().seconds().map(|s| s + tick);
    let lasts = match extent {
        Extent::Whole => lasts,
        Extent::Rehearsal => Some(lasts.unwrap_or(f64::MAX).min(REHEARSAL_SECONDS)),
    };
    if let Some(seconds) = lasts {
        args.extend(["-t".into(), OsString::from(format!("{seconds:.6}"))]);
    }
    args
}

impl FrameSink for Encoder {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.layout.pack(frame, &self.coding, &mut self.bytes)?;
        let Ok(pts) = u64::try_from(pts) else {
            return Err(MediaError::broken("the clock", format!("a frame has the negative timestamp {pts}")));
        };
        let (Some(writer), Some(child)) = (&mut self.writer, &self.child) else {
            return Err(MediaError::broken("the frame stream", "it is closed"));
        };
        let bytes = &self.bytes;
        child.waiting(|| writer.frame(pts, bytes)).map_err(|e| self.failed(e))?;
        self.frames += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        self.complete()?;
        self.part.put()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::colour::{Colour, Said};
    use crate::hdr::{Hdr, MasterDisplay};
    use crate::nut::TimeBase;
    use crate::probe::{Stream, Video};
    use crate::span::Span;
    use crate::target::settle;

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
        let stream = |index, kind: &str| Stream {
            index,
            kind: kind.into(),
            codec: word(index),
            language: Some(word(index + 3)),
            cover: false,
        };
        Probe {
            path: "/in.mkv".into(),
            format: word(5),
            duration: None,
            tags: tags(6),
            chapters: 1,
            others: vec![stream(1, "audio"), stream(2, "subtitle"), stream(3, &word(8))],
            span: Span::default(),
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
                is_indexed: false,
                frames_estimated: false,
                order: None,
                ends: None,
                start: None,
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
        let format = Format {
            width: 64,
            height: 48,
            layout: probe.video.read_as,
            colour: probe.video.colour.clone(),
            hdr: Some(Hdr { master_display: claims.display, light_level: claims.light }),
            sample_aspect: [1, 1],
            time_base: probe.video.time_base,
            rate: None,
            frames: None,
        };
        let known = |_: &str| Ok(vec![(format.layout, format.layout.name())]);
        let (path, options) = (Path::new("/out.mkv"), WriteOptions::default());
        let target = settle(known, path, &format, Some(&probe), &options).ok()?;
        let clock = TimeBase { num: 1, den: 25 };
        Some(arguments(Path::new("/part"), &target, Some(&probe), 1000, clock, Extent::Whole))
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
