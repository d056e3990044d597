//! Frames of a file, decoded by ffmpeg.

use std::io::ErrorKind;

use remaster_picture::{Coding, Frame, turn};

use crate::asked::Filters;
use crate::child::{Supervised, Tools, plain};
use crate::clip::{Format, FrameSource, Late};
use crate::colour::Colour;
use crate::ends::{End, Given};
use crate::error::{MediaError, frames};
use crate::excerpt::{Excerpt, Position};
use crate::fields::{self, Deinterlace, Treatment};
use crate::filter::{self, Filtered};
use crate::launch::{Launch, Running, SETTLED, places};
use crate::nut::{Next, TimeBase};
use crate::probe::{MAX_FRAMES, Probe};
use crate::span::{Span, Ticks};

/// What to do with material that is not plain.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// What to do with interlaced video.
    pub deinterlace: Deinterlace,
    /// Filters of ffmpeg that frames go through, behind deinterlacing.
    pub filters: Option<Filters>,
    /// Pass PQ and HLG through as numbers.
    pub keep_hdr: bool,
    /// Read EXRs, whose light becomes the sRGB curve.
    pub exr: bool,
    /// Use what a decoder can make of damaged files.
    pub keep_damaged: bool,
    /// Threads of the decoder, which its memory depends on; `None` for as many as ffmpeg likes.
    pub threads: Option<usize>,
}

/// A file on its way through a decoder.
pub struct Decoder {
    launch: Launch,
    format: Format,
    keep_damaged: bool,
    running: Option<Running>,
    /// Places to start at if this one turns out to be too late.
    earlier: Vec<Option<f64>>,
    /// Decoding began in the middle, and frames may be broken.
    is_unsettled: bool,
    part: Option<FileSpan>,
    excerpt: Excerpt,
    /// When the first frame of all is shown, if decoding begins where the excerpt says and not where the film does.
    jump: Option<(i64, TimeBase)>,
    coding: Coding,
    turns: u32,
    stored: [usize; 2],
    bytes: Vec<u8>,
    upright: Frame,
    /// Frames that were given.
    frames: usize,
    /// Frames that came up to the first one that was given.
    lead: usize,
    /// Times of the first and the last frame that were decoded.
    first: Option<i64>,
    last: Option<i64>,
    end: End,
    notes: Vec<String>,
    late: Late,
}

/// The part of a file that is asked for.
struct FileSpan {
    span: Span,
    /// When the first frame of all is shown; raw streams tell with that frame.
    origin: Option<(i64, TimeBase)>,
}

impl FileSpan {
    /// On the clock of the frames, of which the first that is decoded is shown at `pts`.
    fn ticks(&mut self, pts: i64, clock: TimeBase) -> Ticks {
        let origin = *self.origin.get_or_insert((pts, clock));
        self.span.on(clock, origin)
    }
}

/// About how many frames come.
fn expected(probe: &Probe, [out, of]: [u64; 2], filtered: &Filtered) -> Option<usize> {
    let (video, span) = (&probe.video, probe.span());
    if span.is_whole() && !filtered.is_other_rate {
        return video.frames.map(|n| (n as u64 * out).div_ceil(of) as usize);
    }
    let seconds = span.end_in(video.ends)? - span.start_seconds();
    let frames = seconds * filtered.rate.map(|r| r.num as f64 / r.den as f64)?;
    Some((frames.round() as usize).clamp(1, MAX_FRAMES))
}

/// About how many frames are in an excerpt.
fn lasting(Excerpt { first, end }: Excerpt, clock: TimeBase, rate: Option<TimeBase>) -> Option<usize> {
    let lasts = clock.seconds(end?.saturating_sub(first.unwrap_or(0)));
    let frames = lasts * rate.map(|r| r.num as f64 / r.den as f64)?;
    Some((frames.round() as usize).clamp(1, MAX_FRAMES))
}

/// Whether frames of a film are the same wherever decoding begins. Filters of a person and 3:2 pulldown count frames from where
/// they start, and what is made of damage depends on what was decoded before: there the film is read from its start.
fn is_local(options: &ReadOptions, fields: &Treatment) -> bool {
    options.filters.is_none() && fields.is_local() && !options.keep_damaged
}

/// Ticks in which a decoder that starts in the middle settles.
fn settling(clock: TimeBase) -> i64 {
    (SETTLED * clock.den as f64 / clock.num as f64).ceil() as i64
}

impl Decoder {
    /// Starts to decode what `probe` found.
    pub fn open(tools: &Tools, probe: &Probe, options: ReadOptions) -> Result<Self, MediaError> {
        Decoder::start(tools, probe, options, None)
    }

    /// Starts to decode some frames of what [`Decoder::open`] with the same `probe` and `options` decodes, in ticks of
    /// `clock`, its time base. Frames and times are the same: it begins in the middle only where that changes nothing.
    /// Whether to deinterlace is decided for the whole file; have it [looked at](Probe::looked_at) once.
    pub fn excerpt(
        tools: &Tools,
        probe: &Probe,
        options: ReadOptions,
        clock: TimeBase,
        excerpt: Excerpt,
    ) -> Result<Self, MediaError> {
        let decoder = Decoder::start(tools, probe, options, Some((clock, excerpt)))?;
        if decoder.format.time_base != clock {
            return Err(excerpt.missing());
        }
        Ok(decoder)
    }

    /// Returns the seconds of the film that [`Decoder::excerpt`] decodes before a frame that is shown `at` seconds after the
    /// first one: all of them, if it begins with the film.
    pub fn run_up(tools: &Tools, probe: &Probe, options: ReadOptions, at: f64) -> Result<f64, MediaError> {
        let at = probe.span().start_seconds() + at;
        let fields = fields::decide(tools, probe, options.deinterlace)?;
        if !is_local(&options, &fields) {
            return Ok(at);
        }
        let filtered = filter::decide(tools, probe, &fields, None)?;
        Launch::new(tools, probe, (options.threads, true), &filtered, at).run_up(&places(probe, at))
    }

    fn start(
        tools: &Tools,
        probe: &Probe,
        options: ReadOptions,
        excerpt: Option<(TimeBase, Excerpt)>,
    ) -> Result<Self, MediaError> {
        let (path, video) = (probe.path.clone(), &probe.video);
        if !video.complaints.is_empty() && !options.keep_damaged {
            return Err(MediaError::Damaged { path, frame: 0, reason: plain(&video.complaints) });
        }
        let is_all = probe.span().is_whole() && excerpt.is_none();
        if let Some(fault) = video.announced.fault.filter(|_| is_all && !options.keep_damaged) {
            return Err(fault.error(&path));
        }
        let hdr = |colour: &Colour| match colour.is_hdr() && !options.keep_hdr {
            true => Err(MediaError::Hdr { path: path.clone(), transfer: colour.transfer.value.clone() }),
            false => Ok(()),
        };
        // Filters can turn HDR into something else.
        if options.filters.is_none() {
            hdr(&video.colour)?;
        }
        let fields = fields::decide(tools, probe, options.deinterlace)?;
        let filtered = filter::decide(tools, probe, &fields, options.filters.as_ref().map(Filters::text))?;
        hdr(&filtered.colour)?;
        let unsupported = |what| MediaError::Samples { path: probe.path.clone(), what };
        let coding = filtered.colour.coding().map_err(unsupported)?;
        let is_local = is_local(&options, &fields);
        let jump =
            excerpt.filter(|_| is_local).and_then(|(clock, excerpt)| Some(clock.seconds(excerpt.first?)));
        let span = probe.span();
        let begin = match (jump, span.is_whole()) {
            (None, _) => span.start_seconds(),
            (Some(first), true) => first - probe.origin(),
            (Some(first), false) => span.start_seconds() + first,
        };
        let launch = Launch::new(tools, probe, (options.threads, is_local), &filtered, begin);
        let mut earlier = places(probe, begin);
        let ((reader, child), is_seeked) = launch.start_at_last(&mut earlier)?;
        // The frames know best: ffmpeg 9 crops Theora where its ffprobe does not. Larger than what was admitted is no
        // matter of cropping.
        let seen = [reader.stream().width, reader.stream().height];
        let stored = filtered.size;
        let stored = if (0..2).all(|i| (1..=stored[i]).contains(&seen[i])) { seen } else { stored };
        let turned = filtered.turns % 2 == 1;
        let [width, height] = if turned { [stored[1], stored[0]] } else { stored };
        let [a, b] = filtered.sample_aspect;
        let format = Format {
            width,
            height,
            layout: filtered.layout,
            frames: match excerpt {
                Some((clock, excerpt)) if !excerpt.is_whole() => lasting(excerpt, clock, filtered.rate),
                _ => expected(probe, fields.frames, &filtered),
            },
            colour: filtered.colour,
            hdr: filtered.hdr,
            sample_aspect: if turned { [b, a] } else { [a, b] },
            time_base: reader.stream().time_base,
            rate: filtered.rate,
        };
        let origin = video.start.map(|start| (start, video.time_base));
        let part = (!span.is_whole()).then_some(FileSpan { span, origin });
        Ok(Decoder {
            launch,
            format,
            keep_damaged: options.keep_damaged,
            running: Some((reader, child)),
            earlier,
            is_unsettled: is_seeked,
            excerpt: excerpt.map(|(_, excerpt)| excerpt).unwrap_or_default(),
            jump: jump.and(origin),
            end: End::of(probe, is_all, options.filters.is_none(), !fields.is_local()),
            part,
            coding,
            turns: filtered.turns,
            stored,
            bytes: Vec::new(),
            upright: Frame::new(0, 0, 3),
            frames: 0,
            lead: 0,
            first: None,
            last: None,
            notes: fields.note.into_iter().collect(),
            late: Late::default(),
        })
    }

    /// What a person should know about how the file is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What a person should know when the file was read.
    pub fn late(&self) -> Late {
        self.late.clone()
    }

    fn damaged(&self, reason: String) -> MediaError {
        MediaError::Damaged { path: self.launch.path.clone(), frame: self.frames, reason }
    }

    /// Complaints of the decoder are the only sign of damage: its exit code is 0 then.
    fn judge(&self, child: &Supervised) -> Result<(), MediaError> {
        if let Some(trouble) = child.trouble() {
            return Err(trouble);
        }
        let lines = child.lines();
        if lines.is_empty() || self.keep_damaged || self.is_unsettled {
            return Ok(());
        }
        Err(self.damaged(plain(&lines)))
    }

    /// No frame comes any more: the child says whether that is the end.
    fn end(&mut self) -> Result<(), MediaError> {
        let Some((reader, child)) = self.running.take() else { return Ok(()) };
        drop(reader);
        let complaint = match child.finish() {
            Ok(lines) if lines.is_empty() => None,
            Ok(lines) => Some(plain(&lines)),
            Err(MediaError::Child { reason, .. }) => Some(reason),
            Err(e) => return Err(e),
        };
        // What ffmpeg says is enough.
        let is_known = complaint.is_some() || self.frames == 0;
        let missing = if is_known { None } else { self.missing()? };
        if !self.keep_damaged {
            return match (complaint, missing) {
                (Some(reason), _) => Err(self.damaged(reason)),
                (None, _) if self.frames == 0 => Err(self.empty()),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(()),
            };
        }
        if self.frames == 0 {
            return Err(self.empty());
        }
        let stated = self.format.frames.filter(|n| *n > self.frames);
        let got = self.frames;
        let got = stated.map_or_else(|| frames(got), |n| format!("{got} of about {n} frames"));
        match (complaint, missing) {
            (Some(words), _) => {
                self.late.add(format!("the input is damaged: {got} decoded; ffmpeg reports: {words}"));
            }
            (None, Some(MediaError::Damaged { reason, .. })) => {
                self.late.add(format!("the input is damaged: {got} decoded; {reason}"));
            }
            (None, Some(_)) => self.late.add(format!("the input is cut off: {got} decoded")),
            (None, None) => {}
        }
        Ok(())
    }

    /// Not a single frame came.
    fn empty(&self) -> MediaError {
        match &self.part {
            _ if self.excerpt.first.is_some() => self.excerpt.missing(),
            Some(part) => part.span.empty(&self.launch.path, self.lasted()),
            None => MediaError::Empty { path: self.launch.path.clone() },
        }
    }

    /// When the first frame of the file is shown, in seconds.
    fn origin(&self) -> Option<f64> {
        let origin = self.part.as_ref().and_then(|part| part.origin).or(self.jump);
        let first = self.first.map(|pts| self.format.time_base.seconds(pts));
        origin.map(|(pts, base)| base.seconds(pts)).or(first)
    }

    /// Seconds from the first frame of the file to the last that was decoded.
    fn lasted(&self) -> Option<f64> {
        Some(self.format.time_base.seconds(self.last?) - self.origin()?)
    }

    /// Why the file is not whole, or should have had more frames, now that its decoder came to its end.
    fn missing(&mut self) -> Result<Option<MediaError>, MediaError> {
        let given = Given {
            frames: self.frames,
            stated: self.format.frames,
            first: self.origin(),
            last: self.last.map(|pts| self.format.time_base.seconds(pts)),
            until: self.part.as_ref().and_then(|part| part.span.end_in(None)),
        };
        self.end.missing(&self.launch.tools, &self.launch.path, given, &self.late)
    }

    /// Samples of the next frame go into `bytes`; its time by the clock of the file is returned.
    fn decoded(&mut self) -> Result<Option<i64>, MediaError> {
        let Some((reader, child)) = &mut self.running else { return Ok(None) };
        let read = child.waiting(|| reader.frame(&mut self.bytes));
        if let Some((_, child)) = &self.running {
            self.judge(child)?;
        }
        let size_change = || MediaError::SizeChange { path: self.launch.path.clone(), frame: self.frames };
        let pts = match read {
            Ok(Next::Frame(pts)) => pts,
            Ok(Next::TooLong) => return Err(size_change()),
            Ok(Next::End) => {
                self.end()?;
                return Ok(None);
            }
            Err(e) => {
                // A pipe that ends in the middle of a frame: the child says why.
                if matches!(&e, MediaError::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof) {
                    self.end()?;
                }
                return Err(e);
            }
        };
        let [width, height] = self.stored;
        if Some(self.bytes.len()) != self.format.layout.bytes(width, height) {
            return Err(size_change());
        }
        // Muxers refuse clocks that stand still or run back.
        if self.last.is_some_and(|last| pts <= last) && !self.keep_damaged {
            let reason = format!("frame {} is shown no later than the one before it", self.frames);
            return Err(self.damaged(reason));
        }
        self.last = Some(pts);
        self.first.get_or_insert(pts);
        self.end.add(pts, self.format.time_base);
        Ok(Some(pts))
    }

    /// The next frame of the part, with its time there.
    fn decoded_part(&mut self) -> Result<Option<i64>, MediaError> {
        loop {
            let is_first = self.last.is_none();
            let can_restart = self.frames == 0 && !self.earlier.is_empty();
            let pts = match self.decoded() {
                Err(e @ (MediaError::Cancelled | MediaError::Stalled { .. })) => return Err(e),
                Err(_) if can_restart => {
                    self.restart()?;
                    continue;
                }
                Err(e) => return Err(e),
                Ok(None) => return Ok(None),
                Ok(Some(pts)) => pts,
            };
            self.lead += usize::from(self.frames == 0);
            let clock = self.format.time_base;
            let ticks = self.part.as_mut().map(|part| part.ticks(pts, clock));
            if self.is_unsettled {
                let settled = self.settled(pts, ticks);
                if is_first && pts > settled {
                    self.restart()?;
                    continue;
                }
                self.is_unsettled = pts < settled;
                if let (false, Some((_, child))) = (self.is_unsettled, &self.running) {
                    child.forgive();
                }
            }
            let shown = match ticks {
                Some(ticks) if ticks.is_over(pts) => return self.leave().map(|()| None),
                Some(ticks) if pts < ticks.first => continue,
                Some(ticks) => ticks.shown(pts),
                None => pts,
            };
            match self.excerpt.position(shown, self.frames) {
                Position::Before => {}
                Position::Inside => return Ok(Some(shown)),
                Position::Behind => return self.leave().map(|()| None),
                // Times are others where decoding began in the middle.
                Position::Wrong if can_restart => self.restart()?,
                Position::Wrong => return Err(self.excerpt.missing()),
            }
        }
    }

    /// The time from which on frames are whole, if decoding began before it.
    fn settled(&self, pts: i64, ticks: Option<Ticks>) -> i64 {
        let clock = self.format.time_base;
        let shift = ticks.map_or(0, |ticks| ticks.shift);
        match (self.excerpt.first.filter(|_| self.jump.is_some()), &self.part) {
            (Some(first), _) => first.saturating_add(shift).saturating_sub(settling(clock)),
            (None, Some(part)) => {
                part.span.sooner(SETTLED).on(clock, part.origin.unwrap_or((pts, clock))).first
            }
            (None, None) => i64::MIN,
        }
    }

    /// Starts again from further ahead.
    fn restart(&mut self) -> Result<(), MediaError> {
        self.running = None;
        (self.first, self.last) = (None, None);
        let (running, is_seeked) = self.launch.start_at_last(&mut self.earlier)?;
        (self.running, self.is_unsettled) = (Some(running), is_seeked);
        Ok(())
    }

    /// The part is over; what is behind it is not asked for.
    fn leave(&mut self) -> Result<(), MediaError> {
        let lines = self.running.take().map(|(_, child)| child.lines()).unwrap_or_default();
        if self.frames == 0 {
            return Err(self.empty());
        }
        if !lines.is_empty() {
            let (got, words) = (frames(self.frames), plain(&lines));
            self.late.add(format!("the input is damaged: {got} decoded; ffmpeg reports: {words}"));
        }
        Ok(())
    }
}

impl FrameSource for Decoder {
    fn format(&self) -> &Format {
        &self.format
    }

    fn lead(&self) -> usize {
        self.lead.saturating_sub(1)
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(pts) = self.decoded_part()? else { return Ok(None) };
        self.frames += 1;
        let [width, height] = self.stored;
        if self.turns == 0 {
            shape(frame, width, height, self.format.channels());
            self.format.layout.unpack(&self.bytes, &self.coding, frame)?;
        } else {
            shape(&mut self.upright, width, height, self.format.channels());
            self.format.layout.unpack(&self.bytes, &self.coding, &mut self.upright)?;
            *frame = turn(&self.upright, self.turns);
        }
        Ok(Some(pts))
    }
}

/// Makes room without giving memory back and forth.
pub(crate) fn shape(frame: &mut Frame, width: usize, height: usize, channels: usize) {
    (frame.width, frame.height, frame.channels) = (width, height, channels);
    frame.data.resize(width * height * channels, 0.0);
}
