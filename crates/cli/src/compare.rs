//! `remaster compare`: how two clips differ, frame by frame.

use std::path::{Path, PathBuf};

use clap::Args;
use remaster_media::{FrameSource, MediaError, appetite, place};
use remaster_metrics::{Borders, Comparison, Metric, Options, Picture, Report, drift_map, plot, sheet};
use remaster_picture::{Frame, resize};
use serde::Serialize;

use crate::destination::{self, check_file};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, Opened, SourceArgs};
use crate::memory::{self, Amount};
use crate::numbers::count;
use crate::output::Output;
use crate::progress::{Progress, ProgressArgs};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Reference clip: video, image, folder of images, or - for y4m on stdin
    pub(crate) a: PathBuf,
    /// Clip to compare with it; if sizes differ, the smaller clip is enlarged
    pub(crate) b: PathBuf,
    /// Fail (exit code 6) below this PSNR, or if frame counts, sizes or rates differ
    #[arg(long, value_name = "DB", value_parser = decibels)]
    min_psnr: Option<f64>,
    /// Compute only PSNR, drift and flicker, in a tenth of the time
    #[arg(long)]
    quick: bool,
    /// Compare at most N frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    frames: Option<u32>,
    /// Look for seams at the borders of tiles of this size [default: anywhere]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(1..))]
    tile: Option<u16>,
    #[command(flatten)]
    source: SourceArgs,
    /// Write frames side by side with their difference (.png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    sheet: Option<PathBuf>,
    /// Write a map of colour drift (.png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    drift: Option<PathBuf>,
    /// Plot every metric over time (.svg)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    plot: Option<PathBuf>,
    /// Overwrite these files if they exist
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    /// Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = memory::ram, help_heading = "Memory")]
    ram: Amount,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// Bytes per pixel that comparing holds: measured 240 at 1080p, 77 with `--quick`.
const PIXEL: u64 = 256;
const PIXEL_QUICK: u64 = 96;
/// Bytes per pixel of a frame that is brought to another size, before that.
const PIXEL_SCALED: u64 = 48;

impl CompareArgs {
    /// Refuses pictures that cannot be written, before the work.
    fn check_outputs(&self) -> Result<(), CliError> {
        let outputs = [(&self.sheet, "png"), (&self.drift, "png"), (&self.plot, "svg")];
        let outputs: Vec<_> =
            outputs.iter().filter_map(|(path, ending)| Some((path.as_ref()?, ending))).collect();
        for (i, (path, ending)) in outputs.iter().enumerate() {
            check_file(path, ending, &[&self.a, &self.b], self.yes)?;
            if outputs[..i].iter().any(|(other, _)| other == path) {
                return Err(CliError::Twice { path: path.to_path_buf() });
            }
        }
        Ok(())
    }
}

fn decibels(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|db| (0.0..=1000.0).contains(db));
    number.ok_or_else(|| format!("`{word}` is not a number of dB between 0 and 1000"))
}

#[derive(Serialize)]
struct Compared {
    a: String,
    b: String,
    /// What each of them is.
    clips: [Clip; 2],
    /// In what they differ that no measure of pictures shows: `frames`, `size`, `rate`.
    mismatches: Vec<&'static str>,
    /// The clip that was brought to the size of the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    resized: Option<Resized>,
    notes: Vec<String>,
    #[serde(flatten)]
    report: Report,
}

/// How a clip got the size at which both were compared.
#[derive(Serialize)]
struct Resized {
    /// `a` or `b`.
    clip: &'static str,
    /// The kind of resampling.
    filter: &'static str,
}

/// One of two clips.
#[derive(Serialize)]
struct Clip {
    width: usize,
    height: usize,
    /// Frames, as far as they were read: `--frames` stops before the end.
    frames: usize,
    /// Frames per second of those that were compared. Absent for one frame, and for pictures, which have no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    fps: Option<f64>,
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
    fn new(opened: Opened, args: &CompareArgs) -> Self {
        let has_clock = args.source.has_clock(&opened);
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

pub(crate) fn run(args: &CompareArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    args.check_outputs()?;
    let cancel = interrupt.watch()?;
    let allowed = memory::allowed(args.ram, true)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = appetite::threads(cores, allowed);
    let mut tools = Lazy::new(&args.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    let a = args.source.open(&args.a, allowed, &mut tools)?;
    let b = args.source.open(&args.b, allowed, &mut tools)?;
    let needed = needed(args, &a, &b, threads);
    if needed > allowed {
        return Err(CliError::Room { what: "comparing frames of this size", needed });
    }
    let (mut a, mut b) = (Reader::new(a, args), Reader::new(b, args));
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
        ssim: !args.quick,
        ssimulacra2: !args.quick && !hdr,
        delta_e: !args.quick && !hdr,
        borders: args.tile.map(usize::from).map(|n| Borders::every(n, n, size[0], size[1])),
        ..Options::default()
    };
    let mut comparison = Comparison::new(size[0], size[1], options)?;
    let most = args.frames.map(|n| n as usize);
    let total = a.source.format().frames.map(|n| most.map_or(n, |most| n.min(most)));
    match total {
        Some(n) => progress.phase_about("compare", n),
        None => progress.phase("compare", None),
    }
    progress.enter("compare");
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
        progress.advance("compare", 1, started.elapsed());
        if cancel.is_cancelled() {
            return Err(CliError::Interrupted);
        }
    }
    // How many more the longer one has.
    for reader in [&mut a, &mut b] {
        while reader.frames > comparison.frames() && more(reader.frames) && reader.next()?.is_some() {
            if cancel.is_cancelled() {
                return Err(CliError::Interrupted);
            }
        }
    }
    let clips = [&a, &b].map(|reader| reader.clip(comparison.frames()));
    let (mismatches, differences) = mismatches(&clips, comparison.frames());
    if shifted > 0.0015 {
        notes.push(format!("timestamps differ by up to {:.1} ms", shifted * 1e3));
    }
    drop((a, b));
    let report = comparison.finish();
    let name =
        |path: &Path| path.file_name().map_or_else(|| "-".into(), |n| n.to_string_lossy().into_owned());
    let names = [name(&args.a), name(&args.b)];
    if let Some(path) = &args.sheet {
        let named = |clip: &str, name: &str| match &resized {
            Some(resized) if resized.clip == clip => format!("{name}, resized ({FILTER})"),
            _ => name.to_owned(),
        };
        let image = sheet(&report, &named("a", &names[0]), &named("b", &names[1]));
        destination::write_image(path, &image, args.yes)?;
    }
    if let Some(path) = &args.drift {
        destination::write_image(path, &drift_map(&report), args.yes)?;
    }
    if let Some(path) = &args.plot {
        let svg = plot(&report, &format!("{} against {}", names[1], names[0]));
        place::write(path, svg.as_bytes(), args.yes)?;
    }
    let _ = progress.finish();
    let psnr = report.pooled.psnr;
    let shown = |p: &Path| p.display().to_string();
    let (a, b) = (shown(&args.a), shown(&args.b));
    let compared = Compared { a, b, clips, mismatches, resized, notes, report };
    out.result(&compared, || describe(&compared));
    for difference in &differences {
        out.warn(difference);
    }
    match (args.min_psnr, psnr) {
        (Some(_), _) if !differences.is_empty() => Err(CliError::Unlike { what: differences.join("; ") }),
        (Some(least), Some(psnr)) if psnr < least => Err(CliError::TooFar { psnr, least }),
        _ => Ok(()),
    }
}

/// What `resize` does, for people.
pub(crate) const FILTER: &str = "bicubic";

/// The size at which clips are compared, and which one has to be resized: the larger one keeps its pixels.
fn common_size(a: [usize; 2], b: [usize; 2]) -> ([usize; 2], Option<Resized>) {
    let area = |[w, h]: [usize; 2]| w.saturating_mul(h);
    let (size, clip) = if area(b) > area(a) { (b, "a") } else { (a, "b") };
    (size, (a != b).then_some(Resized { clip, filter: FILTER }))
}

/// Bytes of memory that comparing two clips takes, whatever their length.
fn needed(args: &CompareArgs, a: &Opened, b: &Opened, threads: usize) -> u64 {
    let pixels =
        |o: &Opened| (o.source.format().width as u64).saturating_mul(o.source.format().height as u64);
    let child =
        |o: &Opened| o.probe.as_ref().map_or(0, |p| args.source.appetite(p, o.source.format(), threads));
    let size = |o: &Opened| [o.source.format().width, o.source.format().height];
    let most = pixels(a).max(pixels(b));
    let frames = most.saturating_mul(if args.quick { PIXEL_QUICK } else { PIXEL });
    let scaled = if size(a) == size(b) { 0 } else { most.saturating_mul(PIXEL_SCALED) };
    [memory::process(false), frames, scaled, child(a), child(b)].into_iter().fold(0, u64::saturating_add)
}

fn describe(compared: &Compared) -> String {
    let report = &compared.report;
    let mut text = format!(
        "{} against {}: {}, {} x {}\n",
        compared.b,
        compared.a,
        count(report.frames, "frame"),
        report.width,
        report.height
    );
    if report.identical {
        text += "all frames are identical\n";
    } else if let Some(psnr) = report.pooled.psnr {
        text += &format!("PSNR over all frames: {psnr:.2} dB\n");
    }
    text += &format!("{:34} {:>10} {:>10} {:>10}\n", "", "mean", "worst", "at frame");
    for metric in Metric::ALL {
        let Some(stat) = report.summary.get(&metric) else { continue };
        let worst = stat.worst(metric);
        text +=
            &format!("{:34} {:>10.4} {:>10.4} {:>10}\n", metric.title(), stat.mean, worst, stat.worst_frame);
    }
    let [r, g, b] = report.drift.mean;
    text += &format!("{:34} r {r:+.2}, g {g:+.2}, b {b:+.2} levels", "colour drift");
    if let Some(largest) = &report.drift.largest {
        let (x, y, levels) = (largest.x, largest.y, largest.levels);
        text += &format!("; largest {levels:+.2} in the block at {x}, {y}");
    }
    text += "\n";
    if let Some(score) = report.seams.score {
        text += &format!("{:34} {score:.2} times the difference elsewhere\n", "seams");
    }
    for note in &compared.notes {
        text += &format!("note: {note}\n");
    }
    text
}
