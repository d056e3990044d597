//! The end of a film that is decoded.

use std::path::Path;

use super::{Announced, Came, Gap, Gaps, Loss};
use crate::child::Tools;
use crate::clip::Late;
use crate::error::MediaError;
use crate::nut::TimeBase;
use crate::probe::{Probe, Video};

/// Seconds of a frame where no rate is known.
const FRAME: f64 = 0.1;

/// What is compared when a decoder comes to the end of its file.
pub(crate) struct End {
    announced: Announced,
    /// All of the film is read.
    is_all: bool,
    /// Frames and their times are those of the file: filters of a person leave out some and change others.
    is_plain: bool,
    /// Pulldown is undone: one of five frames is left out.
    is_thinned: bool,
    gaps: Option<Gaps>,
    /// Number and codec of the stream.
    index: usize,
    codec: String,
    /// How long a frame is shown.
    frame: f64,
}

/// What a decoder gave. Times are in seconds on the clock of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    /// Frames that it gave, and about how many were expected.
    pub(crate) frames: usize,
    pub(crate) stated: Option<usize>,
    /// When the first frame of all is shown, and the last one that was decoded.
    pub(crate) first: Option<f64>,
    pub(crate) last: Option<f64>,
    /// Seconds from the first frame to the end of the part that is used.
    pub(crate) until: Option<f64>,
}

impl End {
    /// Of a film that is decoded from `probe`.
    pub(crate) fn of(probe: &Probe, is_all: bool, is_plain: bool, is_thinned: bool) -> Self {
        let video = &probe.video;
        let frame = frame_seconds(video);
        let announced = video.announced.clone();
        let has_gaps = is_all && is_plain && !is_thinned && announced.is_stream();
        let gaps = has_gaps.then(|| Gaps::of(frame));
        let (index, codec) = (video.index, video.codec.clone());
        End { announced, is_all, is_plain, is_thinned, gaps, index, codec, frame }
    }

    /// The next frame is shown at `pts`.
    pub(crate) fn add(&mut self, pts: i64, clock: TimeBase) {
        if let Some(gaps) = &mut self.gaps {
            gaps.add(pts, clock);
        }
    }

    /// Why the file at `path`, whose decoder came to its end, is not whole or should have given more frames. What may be
    /// missing is told to `late`.
    pub(crate) fn missing(
        &mut self,
        tools: &Tools,
        path: &Path,
        given: Given,
        late: &Late,
    ) -> Result<Option<MediaError>, MediaError> {
        let Given { frames, stated, first, last, until } = given;
        if let Some(fault) = self.announced.missing_bytes(tools, path)? {
            return Ok(Some(fault.error(path)));
        }
        if !self.is_plain {
            return Ok(None);
        }
        // One part in a hundred: averages of variable rates and edits at both ends are not exact.
        let stated = stated.filter(|_| self.is_all && self.announced.is_counted);
        let pictures = self.announced.pictures.map(|n| if self.is_thinned { n * 4 / 5 } else { n });
        let stated = stated.map(|n| pictures.map_or(n, |pictures| n.min(pictures)));
        if let Some(stated) = stated.filter(|n| frames + 2 < n - n / 100) {
            return Ok(Some(MediaError::Truncated { path: path.to_owned(), got: frames, stated }));
        }
        let Some((first, last)) = first.zip(last) else { return Ok(None) };
        let until = until.map(|until| first + until);
        let came = Came { first, last, frame: self.frame, until, is_thinned: self.is_thinned };
        let damaged = |frame, reason| Some(MediaError::Damaged { path: path.to_owned(), frame, reason });
        if let Some(reason) = self.announced.missing_frames(tools, path, self.index, came)? {
            return Ok(damaged(frames, reason));
        }
        let Some(gaps) = self.gaps.take() else { return Ok(None) };
        let times = |Gap { from, to, .. }: Gap| {
            format!("no frame is shown between {:.2} s and {:.2} s", from - first, to - first)
        };
        Ok(match self.announced.lost(tools, path, &self.codec, &gaps)? {
            Some(Loss::Packets(gap)) => damaged(gap.frame, format!("packets are missing: {}", times(gap))),
            Some(Loss::Jump(gap)) => {
                late.add(format!("{}: packets are missing there, or the film was cut", times(gap)));
                None
            }
            None => None,
        })
    }
}

/// How long a frame is shown at most, if all of them are shown equally long.
fn frame_seconds(video: &Video) -> f64 {
    let rates = [video.rate, video.believed].into_iter().flatten();
    rates.map(|r| r.den as f64 / r.num as f64).reduce(f64::max).unwrap_or(FRAME)
}
