//! `remaster compare`: how two clips differ, frame by frame.

use std::path::{Path, PathBuf};

use clap::Args;
use remaster_media::{FrameSource, MediaError, appetite};
use remaster_metrics::{
    Borders, Comparison, Image, Metric, Options, Picture, Report, drift_map, plot, sheet,
};
use remaster_picture::png::{self, PngInfo};
use remaster_picture::{Frame, resize};
use serde::Serialize;

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, MediaArgs, Opened};
use crate::memory::{self, Amount};
use crate::output::Output;
use crate::progress::{Progress, ProgressArgs};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// What it should look like: a video, a PNG, a folder of PNGs, or - for y4m.
    pub(crate) a: PathBuf,
    /// What is measured against it. A clip of another size is brought to the size of the first.
    pub(crate) b: PathBuf,
    /// Frames side by side with their difference, as PNG.
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Where colours drift from each other, as PNG.
    #[arg(long, value_name = "FILE")]
    drift: Option<PathBuf>,
    /// Every measure over time, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Look for seams at the borders of tiles of this size [default: anywhere].
    #[arg(long, value_name = "PIXELS")]
    tile: Option<usize>,
    /// Only PSNR, drift and flicker, which take a tenth of the time.
    #[arg(long)]
    quick: bool,
    /// Compare this many frames at most.
    #[arg(long, value_name = "N")]
    frames: Option<usize>,
    /// Fail (exit code 6) if the PSNR over all frames is below this.
    #[arg(long, value_name = "DB")]
    min_psnr: Option<f64>,
    /// Memory that may be used, ffmpeg included: 8G, 80% (of the machine's), -1G (what is free less 1G).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", value_parser = memory::ram)]
    ram: Amount,
    #[command(flatten)]
    media: MediaArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// Bytes per pixel that comparing holds: measured 240 at 1080p, 77 with `--quick`.
const PIXEL: u64 = 256;
const PIXEL_QUICK: u64 = 96;
/// Bytes per pixel of a frame that is brought to another size, before that.
const PIXEL_SCALED: u64 = 48;

#[derive(Serialize)]
struct Compared {
    a: String,
    b: String,
    notes: Vec<String>,
    #[serde(flatten)]
    report: Report,
}

pub(crate) fn run(args: &CompareArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    args.media.refuse_for_compare()?;
    let cancel = interrupt.watch()?;
    let allowed = memory::allowed(args.ram, true)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = appetite::threads(cores, allowed);
    let mut tools = Lazy::new(&args.media, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out.screen());
    let a = args.media.open(&args.a, &mut tools)?;
    let b = args.media.open(&args.b, &mut tools)?;
    let needed = needed(args.quick, &a, &b, threads);
    if needed > allowed {
        return Err(CliError::Room { what: "comparing frames of this size", needed });
    }
    let (mut a, mut b) = (a.source, b.source);
    let size = [a.format().width, a.format().height];
    let mut notes = Vec::new();
    let scaled = [b.format().width, b.format().height] != size;
    if scaled {
        let [width, height] = [b.format().width, b.format().height];
        notes.push(format!("b is {width} x {height} and was brought to {} x {}", size[0], size[1]));
    }
    let hdr = a.format().colour.is_hdr() || b.format().colour.is_hdr();
    if hdr {
        notes.push("delta E and SSIMULACRA2 are for standard range and were left out".into());
    }
    let options = Options {
        ssim: !args.quick,
        ssimulacra2: !args.quick && !hdr,
        delta_e: !args.quick && !hdr,
        borders: args.tile.map(|n| Borders::every(n, n, size[0], size[1])),
        ..Options::default()
    };
    let mut comparison = Comparison::new(size[0], size[1], options)?;
    let total = a.format().frames.map(|n| args.frames.map_or(n, |most| n.min(most)));
    match total {
        Some(n) => progress.phase_about("compare", n),
        None => progress.phase("compare", None),
    }
    progress.enter("compare");
    let (mut first, mut second) = (Frame::new(0, 0, 3), Frame::new(0, 0, 3));
    let mut times = (None, None);
    let mut shifted = 0.0f64;
    while args.frames.is_none_or(|most| comparison.frames() < most) {
        let started = std::time::Instant::now();
        let (x, y) = (next(a.as_mut(), &mut first)?, next(b.as_mut(), &mut second)?);
        let (Some(x), Some(y)) = (x, y) else {
            if let Some((longer, _)) = [("a", x), ("b", y)].iter().find(|(_, t)| t.is_some()) {
                notes.push(format!("{longer} has more frames; {} were compared", comparison.frames()));
            }
            break;
        };
        // Clips may start at other times; what counts is whether they stay together.
        let (x0, y0) = (*times.0.get_or_insert(x), *times.1.get_or_insert(y));
        shifted = shifted.max(((x - x0) - (y - y0)).abs());
        if scaled {
            second = resize(&second, size[0], size[1]);
        }
        let picture = |f: &Frame| -> Vec<f32> { f.without_alpha().data };
        let (p, q) = (picture(&first), picture(&second));
        comparison.push(Picture::new(size[0], size[1], &p)?, Picture::new(size[0], size[1], &q)?)?;
        progress.advance("compare", 1, started.elapsed());
        if cancel.is_cancelled() {
            return Err(CliError::Interrupted);
        }
    }
    if shifted > 0.0015 {
        notes.push(format!("frames are up to {:.1} ms apart in time", shifted * 1e3));
    }
    drop((a, b));
    let report = comparison.finish();
    let name =
        |path: &Path| path.file_name().map_or_else(|| "-".into(), |n| n.to_string_lossy().into_owned());
    let names = [name(&args.a), name(&args.b)];
    if let Some(path) = &args.sheet {
        write_png(path, &sheet(&report, &names[0], &names[1]))?;
    }
    if let Some(path) = &args.drift {
        write_png(path, &drift_map(&report))?;
    }
    if let Some(path) = &args.plot {
        let svg = plot(&report, &format!("{} against {}", names[1], names[0]));
        std::fs::write(path, svg).map_err(|source| CliError::Write { path: path.clone(), source })?;
    }
    let _ = progress.finish();
    let psnr = report.pooled.psnr;
    let shown = |p: &Path| p.display().to_string();
    let compared = Compared { a: shown(&args.a), b: shown(&args.b), notes, report };
    out.result(&compared, || describe(&compared));
    match (args.min_psnr, psnr) {
        (Some(least), Some(psnr)) if psnr < least => Err(CliError::TooFar { psnr, least }),
        _ => Ok(()),
    }
}

/// Bytes of memory that comparing two clips takes, whatever their length.
fn needed(quick: bool, a: &Opened, b: &Opened, threads: usize) -> u64 {
    let pixels =
        |o: &Opened| (o.source.format().width as u64).saturating_mul(o.source.format().height as u64);
    let child = |o: &Opened| {
        o.probe
            .as_ref()
            .map_or(0, |p| appetite::decoder(&p.video.codec, appetite::Size::of(&p.video), threads))
    };
    let frames = pixels(a).saturating_mul(if quick { PIXEL_QUICK } else { PIXEL });
    let scaled = pixels(b).saturating_mul(PIXEL_SCALED);
    [memory::process(false), frames, scaled, child(a), child(b)].into_iter().fold(0, u64::saturating_add)
}

/// The next frame and when it is shown, in seconds.
fn next(source: &mut dyn FrameSource, frame: &mut Frame) -> Result<Option<f64>, MediaError> {
    let base = source.format().time_base;
    Ok(source.next(frame)?.map(|pts| pts as f64 * base.num as f64 / base.den as f64))
}

fn write_png(path: &Path, image: &Image) -> Result<(), CliError> {
    let mut frame = Frame::new(image.width, image.height, 3);
    frame.data.iter_mut().zip(&image.data).for_each(|(to, from)| *to = f32::from(*from) / 255.0);
    png::write(path, &frame, &PngInfo::srgb(8))
        .map_err(|source| MediaError::Picture { path: path.to_owned(), source }.into())
}

fn describe(compared: &Compared) -> String {
    let report = &compared.report;
    let mut text = format!(
        "{} against {}: {} frames of {} x {}\n",
        compared.b, compared.a, report.frames, report.width, report.height
    );
    if report.identical {
        text += "all frames are the same, to the last bit of every sample\n";
    } else if let Some(psnr) = report.pooled.psnr {
        text += &format!("PSNR over all frames {psnr:.2} dB\n");
    }
    text += &format!("{:24} {:>10} {:>10} {:>12}\n", "", "mean", "worst", "at frame");
    for metric in Metric::ALL {
        let Some(stat) = report.summary.get(&metric) else { continue };
        let worst = stat.worst(metric);
        text +=
            &format!("{:24} {:>10.4} {:>10.4} {:>12}\n", metric.title(), stat.mean, worst, stat.worst_frame);
    }
    let [r, g, b] = report.drift.mean;
    text += &format!("colour drift             r {r:+.2}, g {g:+.2}, b {b:+.2} levels");
    if let Some(largest) = &report.drift.largest {
        let (x, y, levels) = (largest.x, largest.y, largest.levels);
        text += &format!("; {levels:+.2} in the block at {x}, {y}");
    }
    text += "\n";
    if let Some(score) = report.seams.score {
        text += &format!("seams                    {score:.2} times what is elsewhere\n");
    }
    for note in &compared.notes {
        text += &format!("note: {note}\n");
    }
    text
}
