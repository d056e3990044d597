//! Files that end early: what a container says of its own end, against what came out of it.
//!
//! ffmpeg decodes what is there. That a file was cut shows in its complaints for some containers alone; for the others its
//! headers, its index and the times of its packets are compared with the frames, each with its like: chunks with chunks,
//! the end of the video with its last frame, that of the file with the last packet of any stream. docs/formats.md lists
//! what each container says.

mod asf;
mod avi;
mod film;
mod flv;
mod gaps;
mod mp4;
mod packets;
mod places;
mod rm;
mod ts;

use std::path::Path;

use crate::child::{Stop, Tools};
use crate::error::MediaError;
use crate::probe::Video;

pub(crate) use film::{End, Given};
use gaps::{Gap, Gaps};
use packets::Packets;
use places::Places;
use ts::Loss;

/// What a file lacks by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Frames of the video.
    Frames {
        /// Those that are there.
        got: usize,
        /// Those that are announced.
        stated: usize,
    },
    /// Bytes of pictures or sound.
    Bytes {
        /// Those that are there.
        has: u64,
        /// Those that are announced.
        needs: u64,
    },
}

impl Fault {
    /// As the error for the file at `path`.
    pub(crate) fn error(self, path: &Path) -> MediaError {
        let path = path.to_owned();
        match self {
            Fault::Frames { got, stated } => MediaError::Truncated { path, got, stated },
            Fault::Bytes { has, needs } => MediaError::CutOff { path, has, needs },
        }
    }
}

/// How a container says when its video ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Clock {
    /// It does not, or what ffprobe says is a guess from the size of the file.
    #[default]
    Silent,
    /// By the times of its samples, from that of the first one on.
    Samples,
    /// By the length of each stream, to the frame.
    Streams,
    /// By the length of the longest stream, to about a second, which each of them has.
    Rough,
    /// By the length of the longest stream, to about a second: some encoders round it.
    File,
    /// By the time of the last packet, which says nothing of packets that were cut off. Those of a transport stream have
    /// counters.
    Transport,
    Program,
}

/// What is read of a file beside what ffprobe says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Structure {
    /// Nothing.
    #[default]
    Unread,
    Avi,
    Mp4,
    Asf,
    Flv,
    Rm,
}

/// Seconds that a header is believed: four months.
const MAX_SECONDS: f64 = 1e7;

/// Demuxers, how their files say when they end, and how they are built. All others guess, or go through the file.
const CONTAINERS: [(&str, Clock, Structure); 14] = [
    ("avi", Clock::Silent, Structure::Avi),
    ("mov", Clock::Samples, Structure::Mp4),
    ("matroska", Clock::File, Structure::Unread),
    ("nut", Clock::File, Structure::Unread),
    ("flv", Clock::File, Structure::Flv),
    ("live_flv", Clock::File, Structure::Flv),
    ("asf", Clock::Rough, Structure::Asf),
    ("rm", Clock::Rough, Structure::Rm),
    ("wtv", Clock::Rough, Structure::Unread),
    ("ivf", Clock::Streams, Structure::Unread),
    ("mxf", Clock::Streams, Structure::Unread),
    ("gxf", Clock::Streams, Structure::Unread),
    ("mpegts", Clock::Transport, Structure::Unread),
    ("mpeg", Clock::Program, Structure::Unread),
];

/// Seconds that the end of a whole file may be off where it is rounded.
const ROUGH_SECONDS: f64 = 1.0;

/// Frames that it may be off where it is not: rounding alone, or a picture that is a field longer than others.
const STREAM_FRAMES: f64 = 0.75;
const SAMPLE_FRAMES: f64 = 1.5;

/// Packets behind the last frame that a decoder need not make a frame of: the second field of a picture, and one that was
/// cut off where a recording stopped. Those of a pulldown have no frame for one of five.
const LOST_PACKETS: usize = 2;
const LOST_PACKETS_OF_PULLDOWN: usize = 5;

/// What a file announces about its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    clock: Clock,
    structure: Structure,
    /// What it lacks, as its headers show.
    pub(crate) fault: Option<Fault>,
    /// Its boxes were not all looked at.
    has_more_boxes: bool,
    /// Frames are counted by an index.
    is_counted: bool,
    /// Chunks that are large enough for a picture, where others may hold none.
    pictures: Option<usize>,
    /// When the video ends, and when the longest stream does, in seconds on the clock of the file.
    video: Option<f64>,
    file: Option<f64>,
    /// Number of the video's packets in a transport stream.
    pid: Option<u16>,
}

/// What ffprobe says about lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    /// Frames are counted by an index.
    pub(crate) is_counted: bool,
    /// When the stream begins, in seconds.
    pub(crate) start: Option<f64>,
    /// Seconds of the stream, and of the file.
    pub(crate) stream: Option<f64>,
    pub(crate) file: Option<f64>,
    /// Number of the stream in its container.
    pub(crate) id: Option<u16>,
}

impl Announced {
    /// What ffprobe's words about a file of the format `format` are worth.
    pub(crate) fn by(format: &str, lengths: Lengths) -> Self {
        let container = format.split(',').next().unwrap_or_default();
        let known = CONTAINERS.iter().find(|(name, ..)| *name == container);
        let (clock, structure) =
            known.map_or_else(Default::default, |(_, clock, structure)| (*clock, *structure));
        let start = lengths.start.unwrap_or(0.0);
        let (video, file) = match clock {
            Clock::Silent => (None, None),
            Clock::Samples | Clock::Transport | Clock::Program => (lengths.stream.map(|s| s + start), None),
            // A writer that cannot go back leaves the largest number.
            Clock::Streams => (lengths.stream.filter(|seconds| *seconds < MAX_SECONDS), None),
            // One length for all streams: that of the longest.
            Clock::Rough => (None, lengths.stream),
            // No stream of these has a length of its own: one that has is a guess from bit rates, and so is the file's.
            Clock::File => (None, lengths.file.filter(|_| lengths.stream.is_none())),
        };
        // ffprobe reads the number from the header of an AVI.
        let is_counted = lengths.is_counted && structure != Structure::Avi;
        Announced { clock, structure, is_counted, video, file, pid: lengths.id, ..Announced::default() }
    }

    /// Whether gaps between its frames say something.
    fn is_stream(&self) -> bool {
        matches!(self.clock, Clock::Transport | Clock::Program)
    }
}

/// Reads what the headers of the file at `path` announce, of which `video` is the video that is used.
pub(crate) fn look(stop: &Stop, path: &Path, video: &mut Video) -> Result<(), MediaError> {
    let announced = &mut video.announced;
    if announced.structure == Structure::Unread {
        return Ok(());
    }
    let mut file = places(stop, path)?;
    match announced.structure {
        Structure::Unread => {}
        Structure::Mp4 => {
            let mp4 = mp4::look(&mut file, mp4::FEW_BOXES);
            (announced.fault, announced.file) = (mp4.fault, mp4.seconds);
            announced.has_more_boxes = !mp4.is_all;
        }
        Structure::Asf => announced.fault = asf::look(&mut file),
        Structure::Flv => announced.fault = flv::look(&mut file),
        Structure::Rm => announced.fault = rm::look(&mut file),
        Structure::Avi => {
            if let Some(avi) = avi::look(&mut file, video.index) {
                announced.fault = avi.fault;
                if let Some(chunks) = avi.chunks {
                    (announced.is_counted, announced.pictures) = (true, Some(chunks.pictures));
                    (video.frames, video.frames_estimated) = (Some(chunks.filled), false);
                    video.ends = avi.step.map(|step| step * chunks.all as f64).or(video.ends);
                }
            }
        }
    }
    // Who was stopped saw a part of the file.
    if stop.is_stopped() { Err(MediaError::Cancelled) } else { Ok(()) }
}

fn places(stop: &Stop, path: &Path) -> Result<Places, MediaError> {
    Places::open(path, stop).map_err(|source| MediaError::Open { path: path.to_owned(), source })
}

/// What came out of a file whose decoder came to its end. Times are in seconds on the clock of the file.
#[derive(Clone, Copy, Debug)]
struct Came {
    /// When the first frame of all is shown, and the last one that was decoded.
    first: f64,
    last: f64,
    /// How long a frame is shown.
    frame: f64,
    /// When the part that is used ends.
    until: Option<f64>,
    /// Pulldown was undone.
    is_thinned: bool,
}

impl Came {
    /// When the last frame has been shown.
    fn end(&self) -> f64 {
        self.last + self.frame
    }

    /// Seconds from `end` up to when something ends by the words of the file, as far as they belong to the part.
    fn lacks(&self, stated: f64, end: f64) -> f64 {
        let whole = stated - end;
        self.until.map_or(whole, |until| whole.min(until - end))
    }

    /// The same where the file may count from its first frame or from 0, which differs between writers.
    fn lacks_either(&self, stated: f64, end: f64) -> f64 {
        self.lacks(stated, end).min(stated - (end - self.first))
    }
}

impl Announced {
    /// What is missing by the headers alone, of a file that was read to its end.
    fn missing_bytes(&self, tools: &Tools, path: &Path) -> Result<Option<Fault>, MediaError> {
        if self.fault.is_some() || !self.has_more_boxes {
            return Ok(self.fault);
        }
        let found = mp4::look(&mut places(tools.stopper(), path)?, mp4::ALL_BOXES);
        if tools.stopper().is_stopped() { Err(MediaError::Cancelled) } else { Ok(found.fault) }
    }

    /// Why the frames of the stream `index` are not all that there should be. Packets are only looked at where the last
    /// frame comes early, which takes as long as reading the file.
    fn missing_frames(
        &self,
        tools: &Tools,
        path: &Path,
        index: usize,
        came: Came,
    ) -> Result<Option<String>, MediaError> {
        let lacks_video = |end| {
            self.video.map_or(0.0, |stated| match self.clock {
                Clock::Streams => came.lacks_either(stated, end),
                _ => came.lacks(stated, end),
            })
        };
        let lacks_file = |end| self.file.map_or(0.0, |stated| came.lacks_either(stated, end));
        let allowed = match self.clock {
            Clock::Streams => STREAM_FRAMES * came.frame,
            Clock::Samples | Clock::Transport | Clock::Program => SAMPLE_FRAMES * came.frame,
            Clock::Silent | Clock::Rough | Clock::File => ROUGH_SECONDS,
        };
        let (lacks, file_lacks) = (lacks_video(came.end()), lacks_file(came.end()));
        if lacks <= allowed && file_lacks <= ROUGH_SECONDS {
            return Ok(None);
        }
        let packets = match Packets::read(tools, path, index, came.last + came.frame / 4.0) {
            Ok(packets) => packets,
            Err(MediaError::Child { reason, .. }) => return Ok(Some(reason)),
            Err(error) => return Err(error),
        };
        let lasts = |seconds: f64| format!("{:.1} s", seconds - came.first);
        let unused = if came.is_thinned { LOST_PACKETS_OF_PULLDOWN } else { LOST_PACKETS };
        if packets.later > unused {
            let (came, end) = (lasts(came.end()), lasts(packets.video_end));
            return Ok(Some(format!("its frames end after {came}, but its packets after {end}")));
        }
        let is_cut = !self.is_stream() && lacks_video(packets.video_end) > allowed;
        let is_cut = is_cut || lacks_file(packets.end) > ROUGH_SECONDS;
        let all = came.end() + lacks.max(file_lacks);
        Ok(is_cut.then(|| format!("its video ends after {} of {}", lasts(came.end()), lasts(all))))
    }
}

impl Announced {
    /// What is missing of a stream whose frames have `gaps`. All of a transport stream is read if it has some.
    fn lost(&self, tools: &Tools, path: &Path, codec: &str, gaps: &Gaps) -> Result<Option<Loss>, MediaError> {
        let pid = match (self.clock, self.pid) {
            (Clock::Transport, Some(pid)) if !gaps.found.is_empty() => pid,
            (Clock::Program, _) => return Ok(gaps.rare().map(Loss::Jump)),
            _ => return Ok(None),
        };
        let failed = |source| MediaError::Open { path: path.to_owned(), source };
        let mut file = Places::open_ahead(path, tools.stopper(), ts::AHEAD).map_err(failed)?;
        let loss = ts::look(&mut file, pid, codec, &gaps.found);
        if tools.stopper().is_stopped() { Err(MediaError::Cancelled) } else { Ok(loss) }
    }
}

#[cfg(test)]
mod tests;
