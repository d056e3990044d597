//! ffmpeg as a decoder: how it is started, and where in a file.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::PathBuf;

use crate::child::{FromChild, Supervised, Tools, plain};
use crate::entry::Entry;
use crate::error::MediaError;
use crate::filter::Filtered;
use crate::nut::{Next, NutReader};
use crate::probe::Probe;
use crate::whitelist::opened;

/// A decoder gives a frame of the largest size in seconds; deinterlacing and slow disks take longer.
const PATIENCE: u64 = 60;

/// For a question about a film that has an answer in any case.
const SHORT_PATIENCE: u64 = 10;

/// Containers whose times survive a jump into the middle. In others frames have no times of their own, or times begin
/// anew somewhere: they are read from the start.
const SEEKABLE: [&str; 4] = ["mov", "matroska", "mpegts", "nut"];

/// Seconds before a part at which decoding starts. Where no frame that needs none before it comes in time, because the
/// file has few of them or the wrong place was found, the next one is tried, and at last the start of the file.
const RUN_UPS: [f64; 2] = [4.0, 20.0];

/// Seconds before a part by which decoding must have begun: a decoder that starts in the middle complains about frames
/// that it has not seen, for a few frames, and filters look back.
pub(crate) const SETTLED: f64 = 1.0;

/// Both go together: the pipe must be closed before the child is waited for.
pub(crate) type Running = (NutReader<BufReader<FromChild>>, Supervised);

/// How ffmpeg is started.
pub(crate) struct Launch {
    pub(crate) tools: Tools,
    pub(crate) path: PathBuf,
    /// Arguments before the place to start at, the input, and what comes behind the filters.
    args: [Vec<OsString>; 3],
    filter: Option<String>,
    entry: Entry,
    /// Frames are the same wherever decoding begins.
    is_local: bool,
    /// When the first frame of all is shown, and when decoding must have begun, in seconds on the clock of the file.
    origin: f64,
    settled: f64,
    /// Bytes of a frame.
    length: usize,
}

impl Launch {
    /// Prepares to decode `probe`. What is wanted begins `start` seconds after its first frame, and is the same wherever decoding
    /// begins if it `is_local`.
    pub(crate) fn new(
        tools: &Tools,
        probe: &Probe,
        (threads, is_local): (Option<usize>, bool),
        filtered: &Filtered,
        start: f64,
    ) -> Self {
        let mut before: Vec<OsString> =
            ["-hide_banner", "-nostdin", "-v", "error", "-noautorotate", "-copyts"].map(Into::into).into();
        if let Some(decoder) = probe.video.decoder {
            before.extend(["-c:v", decoder].map(Into::into));
        }
        if let Some(threads) = threads {
            before.extend(["-threads".into(), OsString::from(threads.to_string())]);
        }
        let mut input = opened(&probe.path);
        input.extend(["-map".into(), OsString::from(format!("0:{}", probe.video.index))]);
        // Without autoscale a change of size shows as a frame of another length; otherwise ffmpeg would
        // scale in silence. The word for the input's own clock differs between versions; its numbers do not.
        let clock = format!("{}:{}", filtered.clock.num, filtered.clock.den);
        let mut behind: Vec<OsString> =
            ["-noautoscale", "-fps_mode", "passthrough", "-enc_time_base", &clock].map(Into::into).into();
        behind.extend(
            ["-pix_fmt", &filtered.pixel_format, "-c:v", "rawvideo", "-f", "nut", "pipe:1"].map(Into::into),
        );
        let [width, height] = filtered.size;
        Launch {
            tools: tools.clone(),
            path: probe.path.clone(),
            args: [before, input, behind],
            filter: filtered.filter.clone(),
            entry: Entry::of(&probe.video),
            is_local,
            origin: probe.origin(),
            settled: probe.origin() + start - SETTLED,
            length: filtered.layout.bytes(width, height).unwrap_or(usize::MAX / 4),
        }
    }

    fn start(&self, at: Option<f64>, patience: u64) -> Result<Running, MediaError> {
        let [before, input, behind] = &self.args;
        let mut args = before.clone();
        if let Some(at) = at {
            // By the clock of the file, and from the key frame there on.
            args.extend(["-noaccurate_seek", "-seek_timestamp", "1", "-ss"].map(Into::into));
            args.push(format!("{at:.6}").into());
        }
        args.extend_from_slice(input);
        let proof = at.and_then(|_| self.entry.filter(self.settled));
        let filters: Vec<&str> = proof.iter().chain(&self.filter).map(String::as_str).collect();
        if !filters.is_empty() {
            args.extend(["-vf".into(), OsString::from(filters.join(","))]);
        }
        args.extend_from_slice(behind);
        let mut child = self.tools.spawn("the decoder", &args, patience, false)?;
        let Some(stdout) = child.stdout.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let stdout = BufReader::with_capacity(1 << 20, stdout);
        match child.waiting(|| NutReader::new(stdout, self.length)) {
            Ok(reader) => Ok((reader, child)),
            // The pipe is closed with the reader that was not made.
            Err(_) => Err(match child.finish() {
                Ok(lines) if lines.is_empty() => MediaError::Empty { path: self.path.clone() },
                Ok(lines) => MediaError::cut_off(&self.path, &plain(&lines)),
                Err(MediaError::Child { reason, .. }) => MediaError::cut_off(&self.path, &reason),
                Err(e) => e,
            }),
        }
    }

    /// Starts at the last of `places`, or at the one before it if nothing comes from there. Also returns whether that is
    /// in the middle of the file. A decoder that is silent there may look for a frame to begin with, in vain; but how long it
    /// takes, and what a machine does to it, must not decide about frames.
    pub(crate) fn start_at_last(&self, places: &mut Vec<Option<f64>>) -> Result<(Running, bool), MediaError> {
        loop {
            let place = places.pop().flatten();
            match self.start(place, PATIENCE) {
                Ok(running) => return Ok((running, place.is_some())),
                Err(MediaError::Cancelled) => return Err(MediaError::Cancelled),
                Err(e @ (MediaError::Stalled { .. } | MediaError::Died { .. })) if !self.is_local => {
                    return Err(e);
                }
                Err(e) if place.is_none() => return Err(e),
                Err(_) => {}
            }
        }
    }

    /// Seconds of the film that are decoded before what is wanted, from the first of `places` that will do.
    pub(crate) fn run_up(&self, places: &[Option<f64>]) -> Result<f64, MediaError> {
        let wanted = self.settled + SETTLED;
        for place in places.iter().rev().flatten() {
            match self.first_from(*place) {
                Ok(Some(first)) if first <= self.settled => return Ok(wanted - first),
                Err(MediaError::Cancelled) => return Err(MediaError::Cancelled),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(wanted - self.origin)
    }

    /// When the first frame is shown that comes from a place in the middle.
    fn first_from(&self, place: f64) -> Result<Option<f64>, MediaError> {
        let (mut reader, child) = self.start(Some(place), SHORT_PATIENCE)?;
        let clock = reader.stream().time_base;
        match child.waiting(|| reader.frame(&mut Vec::new()))? {
            Next::Frame(pts) => Ok(Some(clock.seconds(pts))),
            Next::TooLong | Next::End => Ok(None),
        }
    }
}

impl Probe {
    /// Returns false for films that are always decoded from their start: frames have no times of their own, or nothing shows
    /// which of them stands alone.
    pub fn is_seekable(&self) -> bool {
        let container = self.format.split(',').next().unwrap_or_default();
        self.video.start.is_some() && SEEKABLE.contains(&container) && Entry::of(&self.video) != Entry::Start
    }
}

/// Where to start for frames that are shown `start` seconds after the first of a file: the first choice is the last of the
/// list.
pub(crate) fn places(probe: &Probe, start: f64) -> Vec<Option<f64>> {
    let mut places = vec![None];
    if probe.is_seekable() {
        let run_ups = RUN_UPS.iter().rev().filter(|seconds| start > **seconds + SETTLED);
        places.extend(run_ups.map(|seconds| Some(probe.origin() + start - seconds)));
    }
    places
}
