//! Clips to look into or to compare, and batches of films, as typed.

use std::path::{Path, PathBuf};

use clap::Args;
use remaster::{Amount, BatchRequest, CompareRequest, Request, ScenesRequest, Source};

use super::ProgressArgs;
use super::media::{ProgramArgs, SourceArgs, TargetArgs};
use super::restore::RecipeArgs;
use super::units::LocalArgs;
use super::whole::at_least;

/// `remaster compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Reference clip: video, image, folder of images, VapourSynth script, or - for y4m on stdin
    pub(crate) a: PathBuf,
    /// Clip to compare with it; if sizes differ, the smaller clip is enlarged
    pub(crate) b: PathBuf,
    /// Fail (exit code 6) below this PSNR, or if frame counts, sizes or rates differ
    #[arg(long, value_name = "DB", value_parser = decibels)]
    pub(crate) min_psnr: Option<f64>,
    /// Compute only PSNR, drift and flicker, in a tenth of the time
    #[arg(long)]
    quick: bool,
    /// Compare at most N frames
    #[arg(long, value_name = "N", value_parser = at_least(1u32))]
    frames: Option<u32>,
    /// Look for seams at the borders of tiles of this size [default: anywhere]
    #[arg(long, value_name = "PIXELS", value_parser = at_least(1u16))]
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
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = remaster::ram, help_heading = "Memory")]
    ram: Amount,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster scenes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScenesArgs {
    /// Video, folder of images, VapourSynth script, or - for y4m on stdin
    pub(crate) input: PathBuf,
    /// Write the list to this file (.json) [default: stdout]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(short = 'y', long, requires = "output", help_heading = "Output")]
    yes: bool,
    #[command(flatten)]
    source: SourceArgs,
    /// Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "-512M", hide_default_value = true, value_parser = remaster::ram, help_heading = "Memory")]
    ram: Amount,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Video file or VapourSynth script
    pub(crate) input: PathBuf,
    #[command(flatten)]
    programs: ProgramArgs,
}

/// `remaster batch`.
#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// Videos, folders with videos, or patterns like '*.mkv'
    inputs: Vec<PathBuf>,
    /// Also restore the films listed in FILE, one per line
    ///
    /// A line is a path, or input and output with a tab between them. Empty lines and lines that start with # are skipped;
    /// relative paths are relative to the folder of the list.
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Write films to this folder [default: beside each input]
    #[arg(short = 'd', long, value_name = "DIR", help_heading = "Output")]
    out_dir: Option<PathBuf>,
    /// Overwrite outputs that exist
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    /// Write the report to this file (.json)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Program to run after each film
    ///
    /// It gets the status (done, skipped or failed), the input and the output as arguments, and has 10 minutes.
    #[arg(long, value_name = "PROGRAM", help_heading = "Output")]
    on_done: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: RecipeArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl CompareArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> CompareRequest {
        let CompareArgs { a, b, quick, frames, tile, sheet, drift, plot, ram, .. } = self.clone();
        let (source, overwrite) = (self.source.typed(&[&a, &b]), self.yes);
        CompareRequest { a, b, quick, frames, tile, source, sheet, drift, plot, overwrite, ram }
    }
}

impl ProbeArgs {
    /// How it is read.
    pub(crate) fn source(&self) -> Source {
        let (programs, scripts) = (self.programs.programs(), self.programs.typed(&[&self.input]));
        Source { programs, scripts, ..Source::default() }
    }
}

impl ScenesArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> ScenesRequest {
        let ScenesArgs { input, output, yes: overwrite, source, ram, .. } = self.clone();
        let source = source.typed(&[&input]);
        ScenesRequest { input, output, overwrite, source, ram }
    }
}

impl BatchArgs {
    /// The same for the library.
    pub(crate) fn request(&self) -> BatchRequest {
        BatchRequest {
            inputs: self.inputs.clone(),
            list: self.list.clone(),
            folder: self.out_dir.clone(),
            report: self.report.clone(),
            on_done: self.on_done.clone(),
            film: Request {
                overwrite: self.yes,
                ..self.how.request(Path::new(""), &self.target, &self.local)
            },
        }
    }
}

fn decibels(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|db| (0.0..=1000.0).contains(db));
    number.ok_or_else(|| format!("`{word}` is not a number of dB between 0 and 1000"))
}
