//! One frame of a film as a picture: as it is, and restored.

use std::path::{Path, PathBuf};
use std::time::Duration;

use remaster_media::{MediaError, is_still, place};
use remaster_picture::{Frame, StillInfo, png, resize};
use serde::{Deserialize, Serialize};

use super::device;
use super::few::FewFrames;
use super::networks::Networks;
use crate::destination::check_file;
use crate::error::Error;
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::Room;
use crate::media::{Lazy, is_pipe};
use crate::plan::threads;
use crate::request::{Restoration, check_input};
use crate::seconds;

/// A frame of a film, to look at before or beside its restoration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StillRequest {
    /// Video, image or folder of images.
    pub input: PathBuf,
    /// The first frame from this time on, counted from the first that is restored.
    #[serde(with = "seconds")]
    pub at: Duration,
    /// The frame as it is, a PNG. Replaced if it exists.
    pub before: PathBuf,
    /// The frame restored, a PNG; it is not restored if `None`. The first picture gets its size then.
    pub after: Option<PathBuf>,
    /// Pixels of a row at most.
    pub width: Option<usize>,
    /// How it is read and restored.
    pub how: Restoration,
}

/// Pictures of a frame that were made.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StillOutcome {
    /// Of both pictures.
    pub width: usize,
    /// Of both pictures.
    pub height: usize,
}

/// Reads the frame, and plans its restoration. The job writes the pictures.
impl Prepare for StillRequest {
    type Job = Job<StillOutcome>;

    fn prepare(mut self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let Context { machine, control, report } = *context;
        if is_pipe(&self.input) {
            return Err(Error::PreviewPipe);
        }
        self.how.check(false)?;
        check_input(&self.input)?;
        for path in [Some(&self.before), self.after.as_ref()].into_iter().flatten() {
            check_file(path, "png", &[&self.input], true)?;
        }
        let room = &Room::of_run(machine, Some(&self.before));
        let (threads, allowed) = (threads(&self.how.limits, room)?, self.how.limits.allowed(room)?);
        let mut tools = Lazy::new(&self.how.source, machine, control).with_threads(threads);
        // A picture has no time.
        if !is_still(&self.input) && !self.at.is_zero() {
            let start = self.first(allowed, &mut tools)?;
            self.how.source.start = Some(start.saturating_add(self.at));
        }
        let how = &self.how;
        let mut opened = how.source.open(&self.input, allowed, &mut tools)?;
        let mut frame = Frame::new(0, 0, 3);
        if opened.source.next(&mut frame)?.is_none() {
            return Err(MediaError::Empty { path: self.input }.into());
        }
        let Some(after) = self.after.clone() else {
            return Ok(Job::new(Known::default(), move |_| self.write(&frame, &self.before)));
        };
        let site = device::open(how, room, control, Some(report))?;
        let networks = Networks::open(&how.models, &site)?;
        report.started("frames", site.about(&networks.names[0], &self.input.display(), &after));
        let mut few = FewFrames::new(how, opened, vec![frame], site, networks, threads, &after)?;
        Ok(Job::new(few.known(&after), move |report| {
            let made = few.restore(&self.input, report)?;
            let (Some(before), Some(made)) = (few.frames().first(), made.first()) else {
                return Err(MediaError::Empty { path: self.input }.into());
            };
            let before = resize(&before.without_alpha(), made.width, made.height);
            self.write(&before, &self.before)?;
            self.write(made, &after)
        }))
    }
}

impl StillRequest {
    /// When the first frame of the part is shown. A part seldom begins with a frame: of 29.97 per second the first one behind
    /// 60 s is 27 ms later, nearly a frame.
    fn first(&self, allowed: u64, tools: &mut Lazy) -> Result<Duration, Error> {
        let start = self.how.source.start.unwrap_or_default();
        if start.is_zero() {
            return Ok(start);
        }
        let mut source = self.how.source.open(&self.input, allowed, tools)?.source;
        let pts = source.next(&mut Frame::new(0, 0, 3))?;
        let seconds = source.format().time_base.seconds(pts.unwrap_or(0));
        Ok(start.saturating_add(Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }

    /// Writes a picture, smaller if it is too wide.
    fn write(&self, frame: &Frame, path: &Path) -> Result<StillOutcome, Error> {
        let mut frame = frame.without_alpha();
        if let Some(width) = self.width.filter(|width| (1..frame.width).contains(width)) {
            let height = (frame.height * width).div_ceil(frame.width).max(1);
            frame = resize(&frame, width, height);
        }
        let failed = |source| MediaError::Picture { path: path.to_owned(), source };
        let bytes = png::encode(&frame, &StillInfo::srgb(8)).map_err(failed)?;
        place::write(path, &bytes, true)?;
        Ok(StillOutcome { width: frame.width, height: frame.height })
    }
}
