//! `remaster verify`: checks a finished film against its manifest.

use std::path::PathBuf;

use clap::Args;
use remaster_media::count_frames;
use remaster_units::Manifest;
use serde::Serialize;

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::Programs;
use crate::numbers::{count, grouped};
use crate::output::Output;

/// `remaster verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyFilmArgs {
    /// A film that was restored, with its manifest beside it
    pub(crate) film: PathBuf,
    #[command(flatten)]
    pub(crate) programs: Programs,
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    film: String,
    manifest: Manifest,
    /// Units whose frames are those of the input.
    left: usize,
}

pub(crate) fn run(args: &VerifyFilmArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let manifest = Manifest::of(&args.film)?;
    let other = |reason: String| CliError::Verify { path: args.film.clone(), reason };
    if !manifest.is(&args.film)? {
        return Err(other("its content is not what was written".into()));
    }
    let frames = count_frames(&args.programs.find(&cancel)?, &args.film)?;
    if frames != manifest.frames {
        return Err(other(format!("it has {} instead of {}", count(frames, "frame"), manifest.frames)));
    }
    let left = manifest.units.iter().filter(|unit| unit.left).count();
    let report = Report { film: args.film.display().to_string(), manifest, left };
    out.result(&report, || {
        let Report { manifest: Manifest { settings, units, sha256, frames, .. }, .. } = &report;
        let mut text = format!("{} is as it was written\n", report.film);
        let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
        line("frames", format!("{} in {}", grouped(*frames), count(units.len(), "unit")));
        if report.left > 0 {
            line("not restored", count(report.left, "unit"));
        }
        for model in &settings.models {
            line(&model.role, model.name.clone());
        }
        line("settings", serde_json::to_string(&settings.request).unwrap_or_default());
        line("device", format!("{}, {}", settings.numerics.backend, settings.numerics.dtype));
        line("program", format!("remaster {}, {}", settings.numerics.program, settings.numerics.encoder));
        let seconds: u64 = units.iter().map(|unit| unit.milliseconds / 1000).sum();
        line("time", format!("{seconds} s"));
        line("sha256", sha256.to_string());
        text
    });
    Ok(())
}
