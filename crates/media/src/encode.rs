//! A file written by ffmpeg: frames from us, everything else from the input.

use std::path::Path;

use remaster_picture::{Coding, Frame, Layout};

use crate::child::Tools;
use crate::clip::{Format, FrameSink, SampleSink};
use crate::command::{Extent, Order, Picture, arguments, segment_arguments};
use crate::error::MediaError;
use crate::nut::{VideoStream, fourcc};
use crate::outgoing::Outgoing;
use crate::place::PartialFile;
use crate::probe::Probe;
use crate::segment;
use crate::target::{Film, SegmentKind, Target, WriteOptions, decide};

/// Slow presets hold a frame back for a while, and the end of a long file has to be rewritten.
pub(crate) const PATIENCE: u64 = 600;

/// Encoders open and take a frame within a second; slow ones that are still at it after this many are believed.
const REHEARSAL_PATIENCE: u64 = 30;

/// A file on its way out.
pub struct Encoder {
    outgoing: Outgoing,
    layout: Layout,
    coding: Coding,
    /// Samples of the last frame.
    bytes: Vec<u8>,
    /// Bytes of the samples of a frame.
    frame_bytes: usize,
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
        let film = Film { path, format, from, options, kind: SegmentKind::Final };
        Encoder::start(tools, &film, Extent::Whole)
    }

    /// Starts an encoder for frames of a segment of `film`: `path` becomes a NUT file, whatever its name, with the video
    /// alone. Frames keep the times that they have in the film, which start anywhere from 0 on. The same frames give the
    /// same bytes if the encoder [repeats](crate::repeats), whatever the machine. [`join`](crate::join) makes the film of
    /// segments.
    pub fn segment(tools: &Tools, path: &Path, film: &Film<'_>) -> Result<Self, MediaError> {
        let target = segment::decide(tools, film)?;
        let part = PartialFile::beside(path, film.options.overwrite)?;
        let stream = VideoStream { rate: Some(segment::rate(film.format)), ..raw(&target, film.format) };
        let args = segment_arguments(part.path(), &target, film.format.time_base);
        let outgoing = Outgoing::start(tools, path, part, &stream, &args, PATIENCE)?;
        Ok(Encoder::of(target, film.format, outgoing))
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
        let film = Film { path, format, from, options, kind: SegmentKind::Final };
        let started = Encoder::start(tools, &film, Extent::Rehearsal);
        let done = started.and_then(|mut encoder| {
            encoder.write(&frame, 0)?;
            encoder.outgoing.complete()
        });
        match done {
            // It has opened, took the frame and had nothing to say: it is slow, not wrong.
            Err(MediaError::Stalled { .. }) => Ok(()),
            Err(MediaError::Child { reason, .. } | MediaError::Verify { reason, .. }) => Err(refused(reason)),
            // Space can be made.
            Err(MediaError::Io { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull => {
                Err(MediaError::NoSpace { folder: crate::place::parent(path).to_owned() })
            }
            Err(MediaError::Io { source, .. }) => Err(refused(source.to_string())),
            done => done,
        }
    }

    fn start(tools: &Tools, film: &Film<'_>, extent: Extent) -> Result<Self, MediaError> {
        let &Film { path, format, from, options, .. } = film;
        let target = decide(tools, film)?;
        let part = PartialFile::beside(path, options.overwrite)?;
        let args = arguments(&Order {
            part: part.path(),
            target: &target,
            from,
            frame: target.layout.bytes(format.width, format.height).unwrap_or(0),
            clock: format.time_base,
            extent,
            picture: Picture::Encoded,
            repeats: false,
        });
        let patience = if extent == Extent::Whole { PATIENCE } else { REHEARSAL_PATIENCE };
        // One frame does not tell its rate, and some encoders refuse what the clock of a file would mean as one.
        let rate = Some(segment::rate(format)).filter(|_| extent == Extent::Rehearsal);
        let stream = VideoStream { rate, ..raw(&target, format) };
        let outgoing = Outgoing::start(tools, path, part, &stream, &args, patience)?;
        let streams = target.stream_notes.clone();
        let mut encoder = Encoder::of(target, format, outgoing);
        encoder.outgoing.note(streams);
        Ok(encoder)
    }

    fn of(target: Target, format: &Format, mut outgoing: Outgoing) -> Self {
        outgoing.note(target.notes);
        let Target { layout, coding, .. } = target;
        let frame_bytes = layout.bytes(format.width, format.height).unwrap_or(0);
        Encoder { outgoing, layout, coding, bytes: Vec::new(), frame_bytes }
    }

    /// What a person should know about how the clip is written.
    pub fn notes(&self) -> &[String] {
        self.outgoing.notes()
    }

    /// How samples are written.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// Samples on their way into an encoder.
fn raw(target: &Target, format: &Format) -> VideoStream {
    let fourcc = fourcc(&target.layout).unwrap_or(*b"RGB0");
    let stream = VideoStream::raw([format.width, format.height], fourcc, format.time_base);
    VideoStream { aspect: format.sample_aspect.map(u64::from), ..stream }
}

impl FrameSink for Encoder {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.layout.pack(frame, &self.coding, &mut self.bytes)?;
        self.outgoing.send(pts, true, &self.bytes)
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        self.outgoing.complete()?;
        self.outgoing.put()
    }
}

impl SampleSink for Encoder {
    fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    fn samples(&self) -> &[u8] {
        &self.bytes
    }

    fn write_samples(&mut self, samples: &[u8], pts: i64) -> Result<(), MediaError> {
        if samples.len() != self.frame_bytes {
            let reason = format!("a frame has {} bytes instead of {}", samples.len(), self.frame_bytes);
            return Err(MediaError::broken("the saved frames", reason));
        }
        self.outgoing.send(pts, true, samples)
    }
}
