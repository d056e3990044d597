//! A frame of each shot, before and after, on one sheet.

use std::mem::{replace, swap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use remaster_metrics::{BeforeAfter, Image, Picture, preview as draw};
use remaster_picture::{Frame, resize};
use remaster_restore::Cuts;

use super::device;
use super::few::FewFrames;
use super::networks::Networks;
use crate::compare::FILTER;
use crate::destination::{self, check_file};
use crate::error::Error;
use crate::job::{Context, Job, Prepare};
use crate::limits::Room;
use crate::media::{Lazy, Opened, is_pipe};
use crate::plan::threads;
use crate::request::{Restoration, check_input};
use crate::scenes;

/// A sheet with a frame of each shot, before and after.
#[derive(Clone, Debug)]
pub struct PreviewRequest {
    /// Video, image or folder of images.
    pub input: PathBuf,
    /// The sheet, a PNG; `NAME_preview.png` beside the input if `None`.
    pub output: Option<PathBuf>,
    /// Replace a sheet that exists.
    pub overwrite: bool,
    /// Shots to show, spread over the film.
    pub shots: u16,
    /// What decides the result.
    pub how: Restoration,
}

/// A sheet that was made.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct PreviewOutcome {
    /// What was read.
    pub input: String,
    /// The sheet.
    pub output: String,
    /// Numbers of the frames that are shown.
    pub frames: Vec<u64>,
    /// When they are shown in the film. Absent for pictures, which have no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Vec<f64>>,
}

/// Frames before and behind the middle of a shot that may be shown instead: 10 seconds at 25 per second.
const NEAR: u64 = 250;

/// Pixels of a row, and rows, at which the contrast of a frame is measured.
const SAMPLES: usize = 64;

/// Bytes of the sheet for a frame at most: two pictures of 720 x 720 and their captions, in 8 bits and in floats.
const ROW: u64 = 2 * 760 * 780 * 15;

/// Finds the shots, picks frames and plans their restoration. The job restores them and writes the sheet.
impl Prepare for PreviewRequest {
    type Job = Job<PreviewOutcome>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let Context { machine, control, report } = *context;
        if is_pipe(&self.input) {
            return Err(Error::PreviewPipe);
        }
        let how = &self.how;
        how.check(false)?;
        check_input(&self.input)?;
        let path = self.output.clone().unwrap_or_else(|| beside(&self.input));
        check_file(&path, "png", &[&self.input], self.overwrite)?;
        let room = &Room::of_run(machine, Some(&path));
        let site = device::open(how, room, control, Some(report))?;
        let networks = Networks::open(&how.models, &site)?;
        let threads = threads(&how.limits, room)?;
        let mut tools = Lazy::new(&how.source, machine, control).with_threads(threads);
        report.started("frames", site.about(&networks.names[0], &self.input.display(), &path));
        let allowed = how.limits.allowed(room)?;
        let opened = how.source.open(&self.input, allowed, &mut tools)?;
        let chosen = chosen(&self, opened, context)?;
        let mut opened = how.source.open(&self.input, allowed, &mut tools)?;
        // Frames as they came, restored, and on the sheet.
        let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
        let geometry = how.geometry(opened.source.format());
        let needed = area(geometry.source).saturating_add(area(geometry.shown).saturating_mul(3));
        let needed = needed.saturating_mul(16).saturating_add(ROW).saturating_mul(chosen.len() as u64 + 2);
        if needed > allowed / 4 {
            let needed = needed.saturating_mul(4);
            return Err(Error::Room { what: "a preview of this many shots", needed });
        }
        let (picked, frames) = pick(&mut opened, &chosen)?;
        let has_clock = how.source.has_clock(&opened);
        let mut few = FewFrames::new(how, opened, frames, site, networks, threads, &path)?;
        Ok(Job::new(few.known(&path), move |report| {
            let made = few.restore(&self.input, report)?;
            let start = self.how.source.start.unwrap_or_default().as_secs_f64();
            let seconds: Option<Vec<f64>> =
                has_clock.then(|| picked.iter().map(|p| start + p.seconds).collect());
            let name = self.input.file_name().unwrap_or_default().to_string_lossy();
            let model = Path::new(few.model()).file_stem().unwrap_or_default().to_string_lossy();
            let shown = Shown { name: &name, model: &model, picked: &picked, seconds: seconds.as_deref() };
            let image = shown.sheet(few.frames(), &made)?;
            destination::write_image(&path, &image, self.overwrite)?;
            let (input, output) = (self.input.display().to_string(), path.display().to_string());
            Ok(PreviewOutcome { input, output, frames: picked.iter().map(|p| p.number).collect(), seconds })
        }))
    }
}

/// The default name of a sheet.
fn beside(input: &Path) -> PathBuf {
    let mut name = input.file_stem().unwrap_or_default().to_owned();
    name.push("_preview.png");
    input.with_file_name(name)
}

/// A shot of which a frame is shown.
struct Choice {
    /// Frames that may be shown.
    near: Range<u64>,
    /// The one that is, unless it is dark or flat.
    middle: u64,
}

/// Shots that are spread over the film.
fn chosen(request: &PreviewRequest, opened: Opened, context: &Context<'_, '_>) -> Result<Vec<Choice>, Error> {
    let counted = opened.source.format().frames.filter(|_| opened.counted);
    let cuts = request.how.shots(counted)?;
    let shots = match &cuts {
        Cuts::At(shots) => shots.clone(),
        _ => scenes::find(opened, context.control, context.report)?,
    };
    let starts = if matches!(cuts, Cuts::None) { &[0] } else { shots.starts() };
    let end = shots.frames().or(counted.map(|n| n as u64));
    let most = usize::from(request.shots).min(starts.len());
    let choice = |i: usize| {
        let shot = i * starts.len() / most;
        let (start, next) = (starts[shot], starts.get(shot + 1).copied().or(end));
        let middle = start + next.unwrap_or(start + 1).saturating_sub(start) / 2;
        let last = next.map_or(middle, |next| next.saturating_sub(1).max(middle));
        let behind = if next.is_none() { middle + NEAR } else { last.min(middle + NEAR) };
        Choice { near: start.max(middle.saturating_sub(NEAR))..behind + 1, middle }
    };
    Ok((0..most).map(choice).collect())
}

/// A frame that was picked.
#[derive(Clone, Copy)]
struct Picked {
    number: u64,
    /// When it is shown, counted from the first one that is read.
    seconds: f64,
}

/// A frame that may be shown.
struct Candidate {
    picked: Picked,
    frame: Frame,
    contrast: f32,
}

/// The candidates of a shot.
#[derive(Default)]
struct Candidates {
    middle: Option<Candidate>,
    /// The one with the most contrast.
    best: Option<Candidate>,
}

impl Candidates {
    /// Looks at the next frame of a shot, which it may take in exchange for one that is of no use.
    fn look(&mut self, picked: Picked, is_middle: bool, frame: &mut Frame) {
        let contrast = contrast(frame);
        if is_middle {
            self.middle = Some(Candidate { picked, frame: frame.clone(), contrast });
        }
        match &mut self.best {
            Some(best) if best.contrast >= contrast => {}
            Some(best) => {
                (best.picked, best.contrast) = (picked, contrast);
                swap(&mut best.frame, frame);
            }
            None => {
                let frame = replace(frame, Frame::new(0, 0, 3));
                self.best = Some(Candidate { picked, frame, contrast });
            }
        }
    }

    /// The frame in the middle, unless another one has more than twice its contrast: it may be in a fade, or of one colour.
    fn pick(self) -> Option<Candidate> {
        match (self.middle, self.best) {
            (Some(middle), Some(best)) if best.contrast > 2.0 * middle.contrast => Some(best),
            (middle, best) => middle.or(best),
        }
    }
}

/// How much the luma of a frame varies: its standard deviation over some of the pixels.
fn contrast(frame: &Frame) -> f32 {
    let step = |n: usize| n.div_ceil(SAMPLES).max(1);
    let (mut count, mut sum, mut squares) = (0.0_f32, 0.0_f32, 0.0_f32);
    let rows = frame.data.chunks_exact((frame.width * frame.channels).max(1)).step_by(step(frame.height));
    for pixel in rows.flat_map(|row| row.chunks_exact(frame.channels).step_by(step(frame.width))) {
        if let [r, g, b, ..] = pixel {
            let luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;
            (count, sum, squares) = (count + 1.0, sum + luma, squares + luma * luma);
        }
    }
    let mean = sum / count.max(1.0);
    (squares / count.max(1.0) - mean * mean).max(0.0).sqrt()
}

/// A frame of each choice, in order.
fn pick(opened: &mut Opened, choices: &[Choice]) -> Result<(Vec<Picked>, Vec<Frame>), Error> {
    let base = opened.source.format().time_base;
    let (mut made, mut found) = (Vec::with_capacity(choices.len()), Candidates::default());
    let mut frame = Frame::new(0, 0, 3);
    let (mut choices, mut last) = (choices.iter().peekable(), None);
    for number in 0.. {
        let Some(choice) = choices.peek() else { break };
        let Some(pts) = opened.source.next(&mut frame)? else { break };
        let picked = Picked { number, seconds: pts as f64 * base.num as f64 / base.den as f64 };
        last = Some(picked);
        if choice.near.contains(&number) {
            found.look(picked, number == choice.middle, &mut frame);
        }
        if number + 1 == choice.near.end {
            made.extend(std::mem::take(&mut found).pick());
            choices.next();
        }
    }
    // The film may be shorter than it says.
    made.extend(found.pick());
    // A list of shots may be of another film.
    if let (true, Some(picked)) = (made.is_empty(), last) {
        made.push(Candidate { picked, frame, contrast: 0.0 });
    }
    Ok(made.into_iter().map(|candidate| (candidate.picked, candidate.frame)).unzip())
}

/// What is said on a sheet.
struct Shown<'a> {
    /// The film.
    name: &'a str,
    model: &'a str,
    picked: &'a [Picked],
    /// When frames are shown, if they have a clock.
    seconds: Option<&'a [f64]>,
}

impl Shown<'_> {
    /// A row for each frame.
    fn sheet(&self, before: &[Frame], after: &[Frame]) -> Result<Image, Error> {
        let mut rows = Vec::with_capacity(after.len());
        for (i, (before, after)) in before.iter().zip(after).enumerate() {
            let (width, height) = (after.width, after.height);
            let before = resize(&before.without_alpha(), width, height);
            let after = after.without_alpha();
            let caption = match (self.picked.get(i), self.seconds.and_then(|s| s.get(i))) {
                (Some(picked), Some(seconds)) => format!("{}, frame {}", clock(*seconds), picked.number),
                (Some(picked), None) => format!("frame {}", picked.number),
                (None, _) => String::new(),
            };
            let picture = |frame| Picture::new(width, height, frame);
            rows.push(BeforeAfter::new(picture(&before.data)?, picture(&after.data)?, caption)?);
        }
        let (from, to) = (size(before), size(after));
        let [about, label] = match from == to {
            true => [format!("{from}, restored with {}", self.model), "before".into()],
            false => [
                format!("{from}, restored with {} to {to}", self.model),
                format!("before, resized ({FILTER})"),
            ],
        };
        Ok(draw([self.name, &about], [&label, &format!("after ({})", self.model)], &rows))
    }
}

/// Columns and rows of the first of frames.
fn size(frames: &[Frame]) -> String {
    frames.first().map_or_else(String::new, |frame| format!("{} x {}", frame.width, frame.height))
}

/// A time of a film to the millisecond: `0:01:23.456`.
fn clock(seconds: f64) -> String {
    let thousandths = (seconds.max(0.0) * 1e3).round() as u64;
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    format!("{}:{:02}:{:02}.{rest:03}", whole / 3600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_a_clock() {
        let shown = [0.0, 0.0416, 59.9996, 61.5, 3_723.25, -1.0].map(clock);
        assert_eq!(
            shown,
            ["0:00:00.000", "0:00:00.042", "0:01:00.000", "0:01:01.500", "1:02:03.250", "0:00:00.000"]
        );
    }
}
