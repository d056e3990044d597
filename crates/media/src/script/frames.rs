//! Frames of a script.

use std::io::BufReader;

use remaster_picture::Frame;

use super::{Failed, Script, ended};
use crate::child::{FromChild, Supervised};
use crate::clip::{Format, FrameSource};
use crate::error::MediaError;
use crate::y4m::{MAGIC, STREAM, Y4mReader};

/// Bytes that a script may print before its frames come.
const MOST_PRINTED: usize = 64 << 10;

/// The pipe must be closed before the child is waited for.
type Running = (Y4mReader<BufReader<FromChild>>, Supervised);

/// Frames of a script in order.
pub struct ScriptFrames {
    script: Script,
    running: Option<Running>,
    /// The next frame, counted in all of the clip.
    next: usize,
}

impl Script {
    /// Starts the script at the first frame that is wanted. A frame on its way may take `most` bytes.
    pub fn frames(self, most: u64) -> Result<ScriptFrames, MediaError> {
        let (first, last) = (self.range.start.to_string(), self.range.end.saturating_sub(1).to_string());
        let args = ["-c", "y4m", "-s", &first, "-e", &last].map(AsRef::as_ref);
        let args = args.into_iter().chain([self.file.as_os_str(), "-".as_ref()]);
        let mut child = match self.vspipe.spawn(args) {
            Err(MediaError::NoTool { reason, .. }) => return Err(Failed::Start(reason).of(&self.path)),
            child => child?,
        };
        let Some(stdout) = child.stdout.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let mut input = BufReader::with_capacity(1 << 20, stdout);
        let header = match child.waiting(|| header(&mut input)) {
            Ok(Some(header)) => header,
            Ok(None) => {
                drop(input);
                return Err(self.failed(child, "it gives no frames".into()));
            }
            Err(error) => return Err(MediaError::Script { path: self.path, reason: error.to_string() }),
        };
        let stop = self.vspipe.keeper.stop.clone();
        let reader = Y4mReader::behind(&header, input, self.path.clone(), most, stop)?;
        let (found, told) = (reader.format(), &self.format);
        let of = |format: &Format| (format.width, format.height, format.layout, format.frames);
        if of(found) != of(told) || (self.times.is_none() && found.time_base != told.time_base) {
            let reason = "it gives another clip than it said it would; a script must give the same each time";
            return Err(MediaError::Script { path: self.path, reason: reason.into() });
        }
        let reader = reader.meaning(told.colour.clone(), told.sample_aspect)?;
        let next = self.range.start;
        Ok(ScriptFrames { script: self, running: Some((reader, child)), next })
    }

    /// Why no more comes: the child knows best, unless it ended well.
    fn failed(&self, child: Supervised, reason: String) -> MediaError {
        match ended(child) {
            Err(failed) => failed.of(&self.path),
            Ok(()) => MediaError::Script { path: self.path.clone(), reason },
        }
    }
}

/// The header of the stream; `None` if it ends before. What the script prints lands before it.
fn header(input: &mut BufReader<FromChild>) -> Result<Option<String>, MediaError> {
    let mut printed = 0;
    loop {
        let Some(line) = STREAM.line(input)? else { return Ok(None) };
        if line.starts_with(MAGIC) {
            return Ok(Some(line));
        }
        printed += line.len() + 1;
        if printed > MOST_PRINTED {
            let reason = "the script prints more than 64 KiB before its frames; print to sys.stderr";
            return Err(MediaError::broken("the y4m stream", reason));
        }
    }
}

impl FrameSource for ScriptFrames {
    fn format(&self) -> &Format {
        &self.script.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.next >= self.script.range.end {
            // All that was asked for came; what the script does at its end is no matter of ours.
            self.running = None;
            return Ok(None);
        }
        let Some((reader, child)) = &mut self.running else { return Ok(None) };
        let reason = match child.waiting(|| reader.next(frame)) {
            Ok(Some(_)) => {
                let pts = self.script.shown(self.next);
                self.next += 1;
                return Ok(Some(pts));
            }
            Ok(None) => "it gives too few frames".into(),
            Err(MediaError::Cancelled) => return Err(MediaError::Cancelled),
            Err(error) => error.to_string(),
        };
        // A stream that goes on is none of frames; why it ends, the child may say.
        let is_over = child.waiting(|| reader.is_over());
        match self.running.take() {
            Some((reader, child)) if is_over => {
                drop(reader);
                Err(self.script.failed(child, reason))
            }
            _ => Err(MediaError::Script { path: self.script.path.clone(), reason }),
        }
    }
}
