//! The segments of a film become the film.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::child::Tools;
use crate::command::{Extent, Order, Picture, arguments};
use crate::encode::PATIENCE;
use crate::error::{MediaError, frames};
use crate::nut::{Next, NutReader, TimeBase, VideoStream};
use crate::outgoing::Outgoing;
use crate::place::PartialFile;
use crate::segment;
use crate::target::{Film, SegmentKind, Target};

/// Bytes that a compressed frame may have beyond its samples: headers, and codecs at a loss.
const MORE: usize = 1 << 20;

/// What FFV1 is called in NUT.
const FFV1: [u8; 4] = *b"FFV1";

/// Makes the file of `film` from `segments`, in their order, with `frames` frames in all; returns what a person should
/// know. Sound, subtitles, chapters, attachments and tags come from the input, as with [`Encoder::create`](crate::Encoder::create).
/// The same segments give the same bytes. The file is put in place whole or not at all.
pub fn join(
    tools: &Tools,
    film: &Film<'_>,
    frames: usize,
    segments: &mut dyn Iterator<Item = Result<PathBuf, MediaError>>,
) -> Result<Vec<String>, MediaError> {
    let mut joint = Joint::new(tools, film, frames)?;
    for (number, path) in segments.enumerate() {
        let path = path?;
        let refused = |reason| MediaError::Segment { number, path: path.clone(), reason };
        joint.append(&path).map_err(|e| match e {
            Trouble::Segment(reason) => refused(reason),
            Trouble::Film(e) => e,
        })?;
    }
    joint.finish()
}

/// What can go wrong with a segment.
enum Trouble {
    /// It is not what it should be, in words.
    Segment(String),
    /// Anything else.
    Film(MediaError),
}

/// A film that segments are added to.
struct Joint<'a> {
    tools: &'a Tools,
    film: &'a Film<'a>,
    target: Target,
    /// Frames that the film should have, and those it has so far.
    frames: usize,
    sent: usize,
    /// Room for the film, until the first segment is there.
    part: Option<PartialFile>,
    open: Option<(Outgoing, VideoStream)>,
    /// Time of the last frame.
    last: Option<i64>,
    data: Vec<u8>,
}

impl<'a> Joint<'a> {
    fn new(tools: &'a Tools, film: &'a Film<'a>, frames: usize) -> Result<Self, MediaError> {
        let target = segment::film(tools, film)?;
        let part = Some(PartialFile::beside(film.path, film.options.overwrite)?);
        Ok(Joint { tools, film, target, frames, sent: 0, part, open: None, last: None, data: Vec::new() })
    }

    /// Bytes of a frame.
    fn frame(&self) -> usize {
        self.target.layout.bytes(self.film.format.width, self.film.format.height).unwrap_or(0)
    }

    /// Adds the frames of one segment.
    fn append(&mut self, path: &Path) -> Result<(), Trouble> {
        let words = |e: std::io::Error| Trouble::Segment(e.to_string());
        let file = remaster_disk::read_named(path).map_err(words)?;
        let limit = self.frame().saturating_mul(4).saturating_add(MORE);
        let reader = NutReader::new(BufReader::with_capacity(1 << 16, file), limit);
        let mut reader = reader.map_err(|e| unreadable(&e))?;
        let stream = reader.stream().clone();
        self.check(&stream).map_err(Trouble::Segment)?;
        let clock = self.film.format.time_base;
        let (mut times, before) = (Vec::new(), self.last);
        loop {
            if self.tools.stopper().is_stopped() {
                return Err(Trouble::Film(MediaError::Cancelled));
            }
            let pts = match reader.frame(&mut self.data).map_err(|e| unreadable(&e))? {
                Next::Frame(pts) => pts,
                Next::TooLong => return Err(Trouble::Segment("a frame is too long to be one".into())),
                Next::End => break,
            };
            let number = times.len();
            let off = || Trouble::Segment(format!("its frame {number} is off the clock of the film"));
            let pts = on_clock(pts, stream.time_base, clock).ok_or_else(off)?;
            if times.is_empty() && !reader.is_key() {
                return Err(Trouble::Segment("its first frame needs another one".into()));
            }
            if before.is_some_and(|last| pts <= last) {
                let words = format!("its frame {number} is shown no later than the last one before it");
                return Err(Trouble::Segment(words));
            }
            if self.sent == self.frames {
                let words = format!("the film would have more than {} frames", self.frames);
                return Err(Trouble::Segment(words));
            }
            times.push(pts);
            self.send(&stream, pts, reader.is_key()).map_err(Trouble::Film)?;
        }
        times.sort_unstable();
        if times.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Trouble::Segment("two of its frames are shown at the same time".into()));
        }
        self.last = times.last().copied().or(self.last);
        if times.is_empty() { Err(Trouble::Segment("it has no frames".into())) } else { Ok(()) }
    }

    /// Says in words why a segment does not fit.
    fn check(&self, stream: &VideoStream) -> Result<(), String> {
        let (width, height) = (self.film.format.width, self.film.format.height);
        let (w, h) = (stream.width, stream.height);
        if (w, h) != (width, height) {
            return Err(format!("its frames have {w}x{h} pixels instead of {width}x{height}"));
        }
        let name = |fourcc: &[u8; 4]| fourcc.escape_ascii().to_string();
        if self.film.kind == SegmentKind::Lossless && stream.fourcc != FFV1 {
            return Err(format!("its codec is {} instead of {}", name(&stream.fourcc), name(&FFV1)));
        }
        let Some((_, first)) = &self.open else { return Ok(()) };
        if stream.fourcc != first.fourcc {
            return Err(format!("its codec is {} instead of {}", name(&stream.fourcc), name(&first.fourcc)));
        }
        let same = [
            ("time base", stream.time_base == first.time_base),
            ("pixel shape", stream.aspect == first.aspect),
            ("order of frames", stream.delay == first.delay),
            ("codec header", stream.specific == first.specific),
        ];
        let other = same.iter().find(|(_, same)| !same);
        other.map_or(Ok(()), |(what, _)| Err(format!("its {what} is not that of the first segment")))
    }

    /// Sends the frame in `data`, and starts ffmpeg for the first one.
    fn send(&mut self, stream: &VideoStream, pts: i64, is_key: bool) -> Result<(), MediaError> {
        if let Some(part) = self.part.take() {
            let outgoing = self.start(part, stream)?;
            self.open = Some((outgoing, stream.clone()));
        }
        let Some((outgoing, _)) = &mut self.open else {
            return Err(MediaError::broken("the frame stream", "it is closed"));
        };
        outgoing.send(pts, is_key, &self.data)?;
        self.sent += 1;
        Ok(())
    }

    fn start(&self, part: PartialFile, stream: &VideoStream) -> Result<Outgoing, MediaError> {
        let Film { path, format, from, kind, .. } = *self.film;
        let args = arguments(&Order {
            part: part.path(),
            target: &self.target,
            from,
            frame: self.frame(),
            clock: format.time_base,
            extent: Extent::Whole,
            picture: match kind {
                SegmentKind::Final => Picture::Copied,
                SegmentKind::Lossless => Picture::Encoded,
            },
            repeats: true,
        });
        let stream =
            VideoStream { time_base: format.time_base, rate: Some(segment::rate(format)), ..stream.clone() };
        let mut outgoing = Outgoing::start(self.tools, path, part, &stream, &args, PATIENCE)?;
        outgoing.note(self.target.notes.iter().chain(&self.target.stream_notes).cloned());
        Ok(outgoing)
    }

    /// All segments were there.
    fn finish(self) -> Result<Vec<String>, MediaError> {
        let reason = format!("its segments have {} instead of {}", frames(self.sent), self.frames);
        let missing = MediaError::Verify { path: self.film.path.to_owned(), reason };
        let Some((mut outgoing, _)) = self.open.filter(|_| self.sent == self.frames) else {
            return Err(missing);
        };
        outgoing.complete()?;
        let notes = outgoing.notes().to_vec();
        outgoing.put()?;
        Ok(notes)
    }
}

/// A segment that is damaged or cut off.
fn unreadable(e: &MediaError) -> Trouble {
    Trouble::Segment(match e {
        MediaError::Io { source, .. } if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            "it is cut off".into()
        }
        MediaError::Io { source, .. } => source.to_string(),
        _ => "it is damaged, or not a segment".into(),
    })
}

/// A time on another clock, if that has it.
fn on_clock(pts: i64, from: TimeBase, to: TimeBase) -> Option<i64> {
    let n = i128::from(pts).checked_mul(i128::from(from.num))?.checked_mul(i128::from(to.den))?;
    let d = i128::from(from.den).checked_mul(i128::from(to.num))?;
    (pts >= 0 && n % d == 0).then(|| i64::try_from(n / d).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_to_another_clock_only_if_it_has_them() {
        let base = |num, den| TimeBase { num, den };
        assert_eq!(on_clock(51_200 * 7, base(1, 51_200), base(1, 25)), Some(175));
        assert_eq!(on_clock(2048, base(1, 51_200), base(1, 25)), Some(1));
        assert_eq!(on_clock(2047, base(1, 51_200), base(1, 25)), None);
        assert_eq!(on_clock(-2048, base(1, 51_200), base(1, 25)), None);
        assert_eq!(on_clock(5_000_000, base(1001, 24_000), base(1001, 24_000)), Some(5_000_000));
        assert_eq!(on_clock(i64::MAX, base(u64::MAX, 1), base(1, u64::MAX)), None);
        assert_eq!(on_clock(i64::MAX, base(2, 1), base(1, 1)), None);
    }
}
