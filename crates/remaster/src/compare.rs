//! How two clips differ, frame by frame.

use std::path::{Path, PathBuf};

use remaster_media::{FrameSource, MediaError, ffmpeg_memory, place};
use remaster_metrics::{Borders, Comparison, Options, Picture, Report, drift_map, plot, sheet};
use remaster_picture::{Frame, resize};
use serde::Serialize;

use crate::destination::{self, check_file};
use crate::error::Error;
use crate::event::About;
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::{self, Amount, Room};
use crate::media::{Lazy, Opened, Source};

/// Two clips to compare.
#[derive(Clone, Debug)]
pub struct CompareRequest {
    /// Reference clip.
    pub a: PathBuf,
    /// Clip to compare with it; if sizes differ, the smaller clip is enlarged.
    pub b: PathBuf,
    /// Compute only PSNR, drift and flicker, in a tenth of the time.
    pub quick: bool,
    /// Compare at most so many frames.
    pub frames: Option<u32>,
    /// Look for seams at the borders of tiles of this size; anywhere if `None`.
    pub tile: Option<u16>,
    /// How both are read.
    pub source: Source,
    /// A file for frames side by side with their difference (.png).
    pub sheet: Option<PathBuf>,
    /// A file for a map of colour drift (.png).
    pub drift: Option<PathBuf>,
    /// A file for a plot of every metric over time (.svg).
    pub plot: Option<PathBuf>,
    /// Replace files that exist.
    pub overwrite: bool,
    /// Memory, ffmpeg included.
    pub ram: Amount,
}

/// Bytes per pixel that comparing holds: measured 240 at 1080p, 77 with `--quick`.
const PIXEL: u64 = 256;
const PIXEL_QUICK: u64 = 96;
/// Bytes per pixel of a frame that is brought to another size, before that.
const PIXEL_SCALED: u64 = 48;

impl CompareRequest {
    /// Refuses pictures that cannot be written, before the work.
    fn check_outputs(&self) -> Result<(), Error> {
        let outputs = [(&self.sheet, "png"), (&self.drift, "png"), (&self.plot, "svg")];
        let outputs: Vec<_> =
            outputs.iter().filter_map(|(path, ending)| Some((path.as_ref()?, ending))).collect();
        for (i, (path, ending)) in outputs.iter().enumerate() {
            check_file(path, ending, &[&self.a, &self.b], self.overwrite)?;
            if outputs[..i].iter().any(|(other, _)| other == path) {
                return Err(Error::Twice { path: path.to_path_buf() });
            }
        }
        Ok(())
    }
}

/// How two clips differ.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Compared {
    /// Reference clip.
    pub a: String,
    /// The other one.
    pub b: String,
    /// What each of them is.
    pub clips: [Clip; 2],
    /// In what they differ that no measure of pictures shows: `frames`, `size`, `rate`.
    pub mismatches: Vec<&'static str>,
    /// The clip that was brought to the size of the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resized: Option<Resized>,
    /// What may matter.
    pub notes: Vec<String>,
    /// The measures.
    #[serde(flatten)]
    pub report: Report,
    /// The mismatches, in words.
    #[serde(skip)]
    pub differences: Vec<String>,
}

/// How a clip got the size at which both were compared.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Resized {
    /// `a` or `b`.
    pub clip: &'static str,
    /// The kind of resampling.
    pub filter: &'static str,
}

/// One of two clips.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Clip {
    /// Of its frames.
    pub width: usize,
    /// Of its frames.
    pub height: usize,
    /// Frames, as far as they were read: a limit stops before the end.
    pub frames: usize,
    /// Frames per second of those that were compared. Absent for one frame, and for pictures, which have no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
}

/// A clip that is read.
struct Reader {
    source: Box<dyn FrameSource>,
    has_clock: bool,
    frame: Frame,
    frames: usize,
    /// When the first and the last frame that were compared are shown, in seconds.
    first: Option<f64>,
    last: f64,
}

impl Reader {
    fn new(opened: Opened, request: &CompareRequest) -> Self {
        let has_clock = request.source.has_clock(&opened);
        let frame = Frame::new(0, 0, 3);
        Reader { source: opened.source, has_clock, frame, frames: 0, first: None, last: 0.0 }
    }

    fn size(&self) -> [usize; 2] {
        [self.source.format().width, self.source.format().height]
    }

    /// The next frame: whether there is one.
    fn next(&mut self) -> Result<Option<f64>, MediaError> {
        let base = self.source.format().time_base;
        let pts = self.source.next(&mut self.frame)?;
        self.frames += usize::from(pts.is_some());
        Ok(pts.map(|pts| pts as f64 * base.num as f64 / base.den as f64))
    }

    /// Seconds since the first frame.
    fn since_first(&mut self, time: f64) -> f64 {
        self.last = time;
        time - *self.first.get_or_insert(time)
    }

    fn clip(&self, compared: usize) -> Clip {
        let [width, height] = self.size();
        let lasted = self.last - self.first.unwrap_or(self.last);
        let fps = (self.has_clock && lasted > 0.0).then(|| (compared as f64 - 1.0) / lasted);
        Clip { width, height, frames: self.frames, fps }
    }
}

/// Containers round times to a millisecond, at both ends of a clip.
const ROUNDING: f64 = 0.0025;

/// In what two clips differ, and in words.
fn mismatches(clips: &[Clip; 2], compared: usize) -> (Vec<&'static str>, Vec<String>) {
    let [a, b] = clips;
    let (mut kinds, mut words) = (Vec::new(), Vec::new());
    if a.frames != b.frames {
        kinds.push("frames");
        words.push(format!("frame counts differ: {} and {}; compared {compared}", a.frames, b.frames));
    }
    if (a.width, a.height) != (b.width, b.height) {
        kinds.push("size");
        words.push(format!("sizes differ: {} x {} and {} x {}", a.width, a.height, b.width, b.height));
    }
    if let (Some(x), Some(y)) = (a.fps, b.fps) {
        let lasted = |fps: f64| (compared as f64 - 1.0) / fps;
        let apart = (lasted(x) - lasted(y)).abs();
        if apart > ROUNDING && apart > 0.002 * lasted(x).min(lasted(y)) {
            kinds.push("rate");
            words.push(format!("frame rates differ: {x:.3} and {y:.3} fps"));
        }
    }
    (kinds, words)
}

/// Opens both clips. The job measures how they differ: PSNR, SSIM, SSIMULACRA2, delta E, flicker, colour drift and tile seams.
impl Prepare for CompareRequest {
    type Job = Job<Compared>;

    fn prepare(self, &Context { machine, control, report }: &Context<'_, '_>) -> Result<Self::Job, Error> {
        self.check_outputs()?;
        let allowed = limits::allowed(self.ram, &Room::of_run(machine, None))?;
        let threads = ffmpeg_memory::threads(machine.cores, allowed);
        let mut tools = Lazy::new(&self.source, machine, control).with_threads(threads);
        report.started("frames", About::default());
        let a = self.source.open(&self.a, allowed, &mut tools)?;
        let b = self.source.open(&self.b, allowed, &mut tools)?;
        let needed = needed(&self, &a, &b, threads);
        if needed > allowed {
            return Err(Error::Room { what: "comparing frames of this size", needed });
        }
        let (mut a, mut b) = (Reader::new(a, &self), Reader::new(b, &self));
        let mut notes = Vec::new();
        let (size, resized) = common_size(a.size(), b.size());
        if let Some(Resized { clip, filter }) = &resized {
            let (clip, [w, h]) = if *clip == "a" { ("first", a.size()) } else { ("second", b.size()) };
            let [width, height] = size;
            notes.push(format!("resized the {clip} clip from {w} x {h} to {width} x {height} ({filter})"));
        }
        let hdr = [&a, &b].iter().any(|r| r.source.format().colour.is_hdr());
        if hdr {
            notes.push("delta E and SSIMULACRA2 do not apply to HDR and were skipped".into());
        }
        let options = Options {
            ssim: !self.quick,
            ssimulacra2: !self.quick && !hdr,
            delta_e: !self.quick && !hdr,
            borders: self.tile.map(usize::from).map(|n| Borders::every(n, n, size[0], size[1])),
            ..Options::default()
        };
        let mut comparison = Comparison::new(size[0], size[1], options)?;
        let known = Known { notes: notes.clone(), ..Known::default() };
        Ok(Job::new(known, move |report| {
            let most = self.frames.map(|n| n as usize);
            let total = a.source.format().frames.map(|n| most.map_or(n, |most| n.min(most)));
            report.phase_about("compare", total, false);
            report.enter("compare");
            let mut shifted = 0.0f64;
            let more = |frames: usize| most.is_none_or(|most| frames < most);
            while more(comparison.frames()) {
                let started = std::time::Instant::now();
                let (x, y) = (a.next()?, b.next()?);
                let (Some(x), Some(y)) = (x, y) else { break };
                // Clips may start at other times; what counts is whether they stay together.
                shifted = shifted.max((a.since_first(x) - b.since_first(y)).abs());
                for reader in [&mut a, &mut b] {
                    if [reader.frame.width, reader.frame.height] != size {
                        reader.frame = resize(&reader.frame, size[0], size[1]);
                    }
                }
                let picture = |f: &Frame| -> Vec<f32> { f.without_alpha().data };
                let (p, q) = (picture(&a.frame), picture(&b.frame));
                comparison.push(Picture::new(size[0], size[1], &p)?, Picture::new(size[0], size[1], &q)?)?;
                report.advance("compare", 1, started.elapsed());
                tools.control().check()?;
            }
            // How many more the longer one has.
            for reader in [&mut a, &mut b] {
                while reader.frames > comparison.frames() && more(reader.frames) && reader.next()?.is_some() {
                    tools.control().check()?;
                }
            }
            let clips = [&a, &b].map(|reader| reader.clip(comparison.frames()));
            let (mismatches, differences) = mismatches(&clips, comparison.frames());
            if shifted > 0.0015 {
                notes.push(format!("timestamps differ by up to {:.1} ms", shifted * 1e3));
            }
            drop((a, b));
            let measured = comparison.finish();
            self.draw(&measured, resized.as_ref())?;
            let shown = |p: &Path| p.display().to_string();
            let (a, b) = (shown(&self.a), shown(&self.b));
            Ok(Compared { a, b, clips, mismatches, resized, notes, report: measured, differences })
        }))
    }
}

impl CompareRequest {
    /// Writes the pictures that were asked for.
    fn draw(&self, measured: &Report, resized: Option<&Resized>) -> Result<(), Error> {
        let name =
            |path: &Path| path.file_name().map_or_else(|| "-".into(), |n| n.to_string_lossy().into_owned());
        let names = [name(&self.a), name(&self.b)];
        if let Some(path) = &self.sheet {
            let named = |clip: &str, name: &str| match resized {
                Some(resized) if resized.clip == clip => format!("{name}, resized ({FILTER})"),
                _ => name.to_owned(),
            };
            let image = sheet(measured, &named("a", &names[0]), &named("b", &names[1]));
            destination::write_image(path, &image, self.overwrite)?;
        }
        if let Some(path) = &self.drift {
            destination::write_image(path, &drift_map(measured), self.overwrite)?;
        }
        if let Some(path) = &self.plot {
            let svg = plot(measured, &format!("{} against {}", names[1], names[0]));
            place::write(path, svg.as_bytes(), self.overwrite)?;
        }
        Ok(())
    }
}

impl Compared {
    /// An error if the clips are further apart than this, in dB, or differ in what no measure of pictures shows.
    pub fn at_least(&self, least: f64) -> Result<(), Error> {
        match self.report.pooled.psnr {
            _ if !self.differences.is_empty() => Err(Error::Unlike { what: self.differences.join("; ") }),
            Some(psnr) if psnr < least => Err(Error::TooFar { psnr, least }),
            _ => Ok(()),
        }
    }
}

/// Filter of `resize`, for messages.
pub const FILTER: &str = "bicubic";

/// The size at which clips are compared, and which one has to be resized: the larger one keeps its pixels.
fn common_size(a: [usize; 2], b: [usize; 2]) -> ([usize; 2], Option<Resized>) {
    let area = |[w, h]: [usize; 2]| w.saturating_mul(h);
    let (size, clip) = if area(b) > area(a) { (b, "a") } else { (a, "b") };
    (size, (a != b).then_some(Resized { clip, filter: FILTER }))
}

/// Bytes of memory that comparing two clips takes, whatever their length.
fn needed(request: &CompareRequest, a: &Opened, b: &Opened, threads: usize) -> u64 {
    let pixels =
        |o: &Opened| (o.source.format().width as u64).saturating_mul(o.source.format().height as u64);
    let child = |o: &Opened| request.source.ffmpeg_memory(o, threads);
    let size = |o: &Opened| [o.source.format().width, o.source.format().height];
    let most = pixels(a).max(pixels(b));
    let frames = most.saturating_mul(if request.quick { PIXEL_QUICK } else { PIXEL });
    let scaled = if size(a) == size(b) { 0 } else { most.saturating_mul(PIXEL_SCALED) };
    [limits::process(false), frames, scaled, child(a), child(b)].into_iter().fold(0, u64::saturating_add)
}
