//! `remaster scenes`: where the shots of a clip begin.

use std::path::PathBuf;

use clap::Args;
use remaster_compute::CancelToken;
use remaster_media::{appetite, place};
use remaster_picture::Frame;
use remaster_scenes::{Detector, Shots};

use crate::destination::check_file;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, Opened, SourceArgs};
use crate::memory::{self, Amount};
use crate::numbers::count;
use crate::output::Output;
use crate::progress::{Progress, ProgressArgs};

#[derive(Debug, Args)]
pub(crate) struct ScenesArgs {
    /// Video, folder of images, or - for y4m on stdin
    pub(crate) input: PathBuf,
    /// Write the list to this file (.json) [default: stdout]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(short = 'y', long, requires = "output", help_heading = "Output")]
    yes: bool,
    #[command(flatten)]
    source: SourceArgs,
    /// Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = memory::ram, help_heading = "Memory")]
    ram: Amount,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// Bytes per pixel that reading holds: a frame of 12 or 16, its raw samples, and the pipe.
const PIXEL: u64 = 32;

pub(crate) fn run(args: &ScenesArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    if let Some(path) = &args.output {
        check_file(path, "json", &[&args.input], args.yes)?;
    }
    let cancel = interrupt.watch()?;
    let allowed = memory::allowed(args.ram, true)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = appetite::threads(cores, allowed);
    let mut tools = Lazy::new(&args.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    let opened = args.source.open(&args.input, allowed, &mut tools)?;
    let needed = needed(&opened, threads);
    if needed > allowed {
        return Err(CliError::Room { what: "reading frames of this size", needed });
    }
    let shots = find(opened, &cancel, &mut progress)?;
    let list = shots.to_json();
    if let Some(path) = &args.output {
        place::write(path, list.as_bytes(), args.yes)?;
    }
    let _ = progress.finish();
    match &args.output {
        Some(path) if !out.is_json() => out.conclude(&(), || {
            let frames = usize::try_from(shots.frames().unwrap_or(0)).unwrap_or(usize::MAX);
            let (shots, frames) = (count(shots.starts().len(), "shot"), count(frames, "frame"));
            format!("wrote {}: {shots} in {frames}", path.display())
        }),
        _ => out.raw(list.as_bytes()),
    }
    Ok(())
}

/// Reads a clip to its end and says where its shots begin.
pub(crate) fn find(
    mut opened: Opened,
    cancel: &CancelToken,
    progress: &mut Progress,
) -> Result<Shots, CliError> {
    match opened.source.format().frames {
        Some(n) => progress.phase_about("scenes", n),
        None => progress.phase("scenes", None),
    }
    progress.enter("scenes");
    let (mut detector, mut shots) = (Detector::new(), Shots::default());
    let mut frame = Frame::new(0, 0, 3);
    loop {
        let started = std::time::Instant::now();
        if opened.source.next(&mut frame)?.is_none() {
            break;
        }
        detector.push(&frame).into_iter().for_each(|verdict| shots.record(verdict));
        progress.advance("scenes", 1, started.elapsed());
        if cancel.is_cancelled() {
            return Err(CliError::Interrupted);
        }
    }
    detector.finish().into_iter().for_each(|verdict| shots.record(verdict));
    Ok(shots)
}

/// Bytes of memory that reading takes, whatever the length of the clip.
fn needed(opened: &Opened, threads: usize) -> u64 {
    let format = opened.source.format();
    let pixels = (format.width as u64).saturating_mul(format.height as u64);
    let child = opened
        .probe
        .as_ref()
        .map_or(0, |p| appetite::decoder(&p.video.codec, appetite::Size::of(&p.video), threads));
    [memory::process(false), pixels.saturating_mul(PIXEL), child].into_iter().fold(0, u64::saturating_add)
}
