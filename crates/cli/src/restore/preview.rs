//! `remaster preview`: a frame of each shot, before and after, on one sheet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use remaster_compute::CancelToken;
use remaster_media::{Format, FrameSink, FrameSource, MediaError};
use remaster_picture::{Frame, resize};
use remaster_pipeline::Footage;
use remaster_restore::{Cuts, Film as Whole};
use remaster_scenes::Shots;

use super::args::RecipeArgs;
use super::film::{Film, label};
use super::networks::{Networks, Place};
use super::{check_input, report};
use crate::destination::{self, check_file};
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, Opened, is_pipe};
use crate::output::Output;
use crate::plan::threads;
use crate::progress::{Progress, ProgressArgs};
use crate::scenes;

#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// Video, image or folder of images
    pub(crate) input: PathBuf,
    /// Sheet to write (.png) [default: NAME_preview.png, beside the input]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the sheet if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    /// Shots to show, spread over the film
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Output")]
    shots: u16,
    #[command(flatten)]
    how: RecipeArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// Columns of a picture on the sheet; a larger one is reduced.
const COLUMNS: usize = 960;
/// Pixels between pictures.
const GAP: usize = 8;

pub(crate) fn run(args: &PreviewArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    if is_pipe(&args.input) {
        return Err(CliError::PreviewPipe);
    }
    let how = &args.how;
    how.look.finish.refuse()?;
    how.numz.refuse()?;
    check_input(&args.input)?;
    let path = args.output.clone().unwrap_or_else(|| beside(&args.input));
    check_file(&path, "png", &[&args.input], args.yes)?;
    let cancel = interrupt.watch()?;
    let device = how.device.settle()?;
    let backend = device.tuned_backend(out)?;
    devices::check_vram(how.vram, &backend)?;
    let (spill, memory) = (how.memory.spill(Some(&path))?, how.memory.clone());
    let place = Place { backend, build: device.build(), spill, memory, cancel: &cancel };
    let networks = Networks::open(&how.models, &place)?;
    let threads = threads(&how.memory, true)?;
    let mut tools = Lazy::new(&how.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    progress.about(label(&place, &networks, &args.input, &path));
    let allowed = how.memory.allowed(true)?;
    let opened = how.source.open(&args.input, allowed, &mut tools)?;
    let chosen = chosen(args, opened, &cancel, &mut progress)?;
    let mut opened = how.source.open(&args.input, allowed, &mut tools)?;
    // Frames as they came, restored, and on the sheet.
    let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
    let geometry = how.geometry(opened.source.format());
    let needed = area(geometry.source).saturating_add(area(geometry.shown).saturating_mul(3));
    let needed = needed.saturating_mul(16 * chosen.len() as u64);
    if needed > allowed / 4 {
        let needed = needed.saturating_mul(4);
        return Err(CliError::Room { what: "a preview of this many shots", needed });
    }
    let frames = pick(&mut opened, &chosen)?;
    let (count, format) =
        (frames.len(), Format { frames: Some(frames.len()), ..opened.source.format().clone() });
    let frames = Arc::new(frames);
    let stills = || Box::new(Stills { frames: Arc::clone(&frames), next: 0, format: format.clone() });
    let opened = Opened { source: stills(), counted: true, ..opened };
    let mut film = Film::new(how, &opened, &place, networks, threads, Some(&path), false)?;
    // Each frame is a shot of its own.
    film.recipe.cuts = match Shots::new((0..count as u64).collect(), None) {
        Ok(shots) => Cuts::At(shots),
        Err(source) => return Err(CliError::Scenes { path: args.input.clone(), source }),
    };
    report::announce(&film, &args.input, true, out, &mut progress);
    let made = Made::default();
    let footage = Footage { source: stills(), again: Some(Box::new(|| Ok(stills()))) };
    let sink = Box::new(made.clone());
    film.restore(Whole { footage, input: stills(), sink, keep: None }, &mut progress)?;
    let made = made.0.lock().unwrap_or_else(PoisonError::into_inner);
    let sheet = sheet(&frames, &made);
    destination::write_png(&path, &sheet, args.yes)?;
    let _ = progress.finish();
    let (input, output) = (args.input.display().to_string(), path.display().to_string());
    let told = Told { input, output, frames: chosen };
    let plural = if count == 1 { "" } else { "s" };
    out.conclude(&told, || format!("wrote {}: {count} frame{plural}, before and after", told.output));
    Ok(())
}

/// The JSON document.
#[derive(serde::Serialize)]
struct Told {
    input: String,
    output: String,
    /// Numbers of the frames that are shown.
    frames: Vec<u64>,
}

/// The name of a sheet that nobody named.
fn beside(input: &Path) -> PathBuf {
    let mut name = input.file_stem().unwrap_or_default().to_owned();
    name.push("_preview.png");
    input.with_file_name(name)
}

/// The frames in the middle of shots that are spread over the film.
fn chosen(
    args: &PreviewArgs,
    opened: Opened,
    cancel: &CancelToken,
    progress: &mut Progress,
) -> Result<Vec<u64>, CliError> {
    let counted = opened.source.format().frames.filter(|_| opened.counted);
    let cuts = args.how.cuts(counted)?;
    let shots = match &cuts {
        Cuts::At(shots) => shots.clone(),
        _ => scenes::find(opened, cancel, progress)?,
    };
    let starts = if matches!(cuts, Cuts::None) { &[0] } else { shots.starts() };
    let end = shots.frames().or(counted.map(|n| n as u64));
    let most = usize::from(args.shots).min(starts.len());
    let middle = |i: usize| {
        let shot = i * starts.len() / most;
        let next = starts.get(shot + 1).copied().or(end).unwrap_or(starts[shot] + 1);
        starts[shot] + next.saturating_sub(starts[shot]) / 2
    };
    Ok((0..most).map(middle).collect())
}

/// The frames with these numbers, in order.
fn pick(opened: &mut Opened, numbers: &[u64]) -> Result<Vec<Frame>, CliError> {
    let mut frames = Vec::with_capacity(numbers.len());
    let mut frame = Frame::new(0, 0, 3);
    let mut number = 0;
    while frames.len() < numbers.len() && opened.source.next(&mut frame)?.is_some() {
        if numbers.contains(&number) {
            frames.push(frame.clone());
        }
        number += 1;
    }
    // A list of shots may be of another film.
    if frames.is_empty() {
        frames.push(frame);
    }
    Ok(frames)
}

/// Before on the left, after on the right, a row for each frame.
fn sheet(before: &[Frame], after: &[Frame]) -> Frame {
    let [width, height] = after.first().map_or([1, 1], |frame| {
        let width = frame.width.clamp(1, COLUMNS);
        [width, (frame.height * width / frame.width.max(1)).max(1)]
    });
    let rows = before.len().min(after.len()).max(1);
    let mut sheet = Frame::new(2 * width + GAP, rows * (height + GAP) - GAP, 3);
    for (row, pair) in before.iter().zip(after).enumerate() {
        for (column, frame) in [pair.0, pair.1].into_iter().enumerate() {
            let small = resize(&frame.without_alpha(), width, height);
            for y in 0..height {
                let to = sheet.row_mut(row * (height + GAP) + y);
                to[3 * column * (width + GAP)..][..3 * width].copy_from_slice(small.row(y));
            }
        }
    }
    sheet
}

/// Frames from memory.
struct Stills {
    frames: Arc<Vec<Frame>>,
    next: usize,
    format: Format,
}

impl FrameSource for Stills {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(next) = self.frames.get(self.next) else { return Ok(None) };
        frame.clone_from(next);
        self.next += 1;
        Ok(Some(self.next as i64 - 1))
    }
}

/// Frames into memory.
#[derive(Clone, Default)]
struct Made(Arc<Mutex<Vec<Frame>>>);

impl FrameSink for Made {
    fn write(&mut self, frame: &Frame, _: i64) -> Result<(), MediaError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(frame.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}
