//! ffmpeg as a decoder: how it is started, and where in a file.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::PathBuf;

use crate::child::{FromChild, Supervised, Tools, plain};
use crate::error::MediaError;
use crate::nut::NutReader;
use crate::probe::Probe;

/// A decoder gives a frame of the largest size in seconds; deinterlacing and slow disks take longer.
const PATIENCE: u64 = 60;

/// Containers whose times survive a jump into the middle. In others frames have no times of their own, or times begin
/// anew somewhere: they are read from the start.
const SEEKABLE: [&str; 4] = ["mov", "matroska", "mpegts", "nut"];

/// Seconds before a part at which decoding starts. Where the frames that come begin too late, because the file has few
/// key frames or the wrong place was found, the next one is tried, and at last the start of the file.
const RUN_UPS: [f64; 2] = [4.0, 20.0];

/// Seconds before a part from which on frames are whole: a decoder that starts in the middle complains about frames
/// that it has not seen, for a few frames.
pub(crate) const SETTLED: f64 = 1.0;

/// Both go together: the pipe must be closed before the child is waited for.
pub(crate) type Running = (NutReader<BufReader<FromChild>>, Supervised);

/// How ffmpeg is started.
pub(crate) struct Launch {
    pub(crate) tools: Tools,
    pub(crate) path: PathBuf,
    /// Arguments before and behind the place to start at.
    pub(crate) args: [Vec<OsString>; 2],
    /// Bytes of a frame.
    pub(crate) length: usize,
}

impl Launch {
    fn start(&self, at: Option<f64>) -> Result<Running, MediaError> {
        let [before, behind] = &self.args;
        let mut args = before.clone();
        if let Some(at) = at {
            // By the clock of the file, and from the key frame there on.
            args.extend(["-noaccurate_seek", "-seek_timestamp", "1", "-ss"].map(Into::into));
            args.push(format!("{at:.6}").into());
        }
        args.extend_from_slice(behind);
        let mut child = self.tools.spawn("the decoder", &args, PATIENCE, false)?;
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

    /// Starts at the last of `places`, or at the one before it if nothing comes from there. Also says whether that is
    /// in the middle of the file.
    pub(crate) fn start_at_last(&self, places: &mut Vec<Option<f64>>) -> Result<(Running, bool), MediaError> {
        loop {
            let place = places.pop().flatten();
            match self.start(place) {
                Ok(running) => return Ok((running, place.is_some())),
                Err(e @ (MediaError::Cancelled | MediaError::Stalled { .. })) => return Err(e),
                Err(e) if place.is_none() => return Err(e),
                Err(_) => {}
            }
        }
    }
}

/// Where to start for frames that are shown `start` seconds after the first of a file: the first choice is the last of the
/// list.
pub(crate) fn places(probe: &Probe, start: f64) -> Vec<Option<f64>> {
    let mut places = vec![None];
    let container = probe.format.split(',').next().unwrap_or_default();
    if probe.video.start.is_some() && SEEKABLE.contains(&container) {
        let run_ups = RUN_UPS.iter().rev().filter(|seconds| start > **seconds + SETTLED);
        places.extend(run_ups.map(|seconds| Some(probe.origin() + start - seconds)));
    }
    places
}
