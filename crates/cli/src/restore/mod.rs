//! `remaster restore`: a film in, a better film out.

mod args;
mod film;
mod names;
mod networks;
mod numz;
mod preview;
mod recipe;
mod redecode;
mod report;
mod stage;
mod whole;

use std::fs::Metadata;
use std::path::Path;

use remaster_compute::CancelToken;
use remaster_media::MediaError;
use serde::Serialize;

pub(crate) use args::{PoolWord, RecipeArgs, RestoreArgs};
pub(crate) use film::Film;
pub(crate) use names::as_typed;
pub(crate) use names::{SUFFIX, beside};
pub(crate) use networks::{Names, Networks, Place};
pub(crate) use preview::{PreviewArgs, run as preview};
pub(crate) use redecode::{RedecodeArgs, run as redecode};
pub(crate) use report::{PHASES, announce, event, finish};
pub(crate) use stage::{Staged, staged, takes_units};

use crate::batch;
use crate::destination;
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{ENCODER_THREADS, Lazy, TargetArgs, is_pipe, refuse_url};
use crate::output::Output;
use crate::plan::threads;
use crate::tensors;
use crate::units::{self, Standing};

pub(crate) fn run(args: &RestoreArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    match film(args, &interrupt.watch()?, out, interrupt)? {
        Ran::Done => Ok(()),
        Ran::Skipped => {
            let output = match &args.output {
                Some(output) => output.clone(),
                None => beside(&args.input)?,
            };
            let (input, output) = (args.input.display().to_string(), output.display().to_string());
            let report = Skipped { input, output, skipped: true };
            out.conclude(&report, || {
                format!(
                    "{} is done already, with the same input and settings; use -y to make it again",
                    report.output
                )
            });
            Ok(())
        }
    }
}

/// The JSON document of a film that was there already.
#[derive(Debug, Serialize)]
struct Skipped {
    input: String,
    output: String,
    skipped: bool,
}

/// What became of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It was restored.
    Done,
    /// It was there already, of the same input and settings.
    Skipped,
}

/// Restores a film.
pub(crate) fn film(
    args: &RestoreArgs,
    cancel: &CancelToken,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<Ran, CliError> {
    refuse_url(&args.input)?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.input)?,
    };
    let by_units = takes_units(args, &output);
    let replace = args.yes || args.skip_done || by_units && units::may_be_done(&output, &args.local);
    destination::check_frames(&output, &[&args.input], replace, out)?;
    let how = &args.how;
    units::check_devices(&args.local.devices, &how.device)?;
    how.look.finish.refuse()?;
    how.numz.refuse()?;
    check_input(&args.input)?;
    refuse_streams(&args.target)?;
    if let Some(path) = &args.keep_latents {
        if how.numz.compat.is_some() {
            return Err(CliError::NoEffect { flag: "--keep-latents", what: "batches, which share frames" });
        }
        tensors::check_output(path, &args.input, args.yes)?;
    }
    if let Some(warning) = how.numz.warning() {
        out.say(format_args!("warning: {warning}"));
    }
    let before = bytes(&args.input);
    let ran = restored(args, &output, cancel, out, interrupt);
    ran.map_err(|error| match before.zip(bytes(&args.input)) {
        Some((before, now)) if now > before => grown(error, &args.input),
        _ => error,
    })
}

/// What went wrong with an input that grew meanwhile, which fails in many ways: frames that are cut off, another film
/// than the one that was planned, a result with too few frames.
fn grown(error: CliError, path: &Path) -> CliError {
    let of_input = matches!(error, CliError::Media(_) | CliError::Restore(_) | CliError::Units(_));
    match error.exit_code() {
        3 | 6 if of_input => CliError::Growing { path: path.to_owned() },
        _ => error,
    }
}

/// Bytes of a file.
fn bytes(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(Metadata::is_file).map(|about| about.len())
}

/// Restores a film whose options were checked.
fn restored(
    args: &RestoreArgs,
    output: &Path,
    cancel: &CancelToken,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<Ran, CliError> {
    let by_units = takes_units(args, output);
    let there = !args.yes && output.symlink_metadata().is_ok();
    if by_units && there && units::standing(args, output, cancel)? == Standing::Done {
        units::forget(output, &args.local);
        return Ok(Ran::Skipped);
    }
    if !by_units && let Some(ran) = in_one_go(args, output)? {
        return Ok(ran);
    }
    let shared;
    let args = if args.local.devices.is_empty() {
        args
    } else {
        shared = units::for_devices(args, output, out)?;
        &shared
    };
    staged(args, output, cancel, out, interrupt, |stage| {
        // A still has no units.
        if by_units && !stage.is_still() {
            match stage.unit_frames(args.local.cut.unit_frames) {
                Some(frames) => return units::local(stage, frames, out, interrupt),
                None => {
                    out.say(
                        "note: --disk leaves no room to save unfinished work; this run cannot be resumed if it stops",
                    );
                    if let Some(ran) = in_one_go(args, output)? {
                        return Ok(ran);
                    }
                    units::uncut(stage, args.local.cut.unit_frames as usize, out)?;
                    return Ok(Ran::Done);
                }
            }
        }
        if let Some(ran) = in_one_go(args, output)? {
            return Ok(ran);
        }
        whole::run(stage, out)?;
        Ok(Ran::Done)
    })
}

/// Whether a film of a batch is there already, which takes a look at its manifest. Something else in its place is
/// refused, unless nothing says what it is.
pub(crate) fn is_done(args: &RestoreArgs, output: &Path, cancel: &CancelToken) -> Result<bool, CliError> {
    if args.yes || !output.exists() {
        return Ok(false);
    }
    match takes_units(args, output) {
        true => match units::standing(args, output, cancel)? {
            Standing::Done => {
                units::forget(output, &args.local);
                Ok(true)
            }
            Standing::Other => Err(MediaError::Exists { path: output.to_owned() }.into()),
            // A still, or a film that could not be cut into units, has no manifest.
            Standing::Unknown => Ok(false),
        },
        // Only films of units say what they were made of.
        false => Ok(true),
    }
}

/// Refuses what only units can do. Only films of units say what they were made of: another is done if it is there.
fn in_one_go(args: &RestoreArgs, output: &Path) -> Result<Option<Ran>, CliError> {
    args.local.refuse()?;
    Ok((args.skip_done && !args.yes && output.exists()).then_some(Ran::Skipped))
}

/// `remaster plan IN`: what a restoration will take.
pub(crate) fn plan(
    how: &RecipeArgs,
    input: &Path,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    if is_pipe(input) {
        return Err(CliError::PlanPipe);
    }
    let cancel = interrupt.watch()?;
    let device = how.device.settle()?;
    let backend = device.backend()?;
    devices::check_vram(how.vram, &backend)?;
    let (spill, memory) = (how.memory.spill(None)?, how.memory.clone());
    let place = Place { backend, build: device.build(), spill, memory, cancel: &cancel };
    let networks = Networks::imagined(&how.models, &place)?;
    let threads = threads(&how.memory, false)?;
    let mut tools = Lazy::new(&how.source, &cancel, interrupt).with_threads(threads);
    let opened = how.source.open(input, how.memory.allowed(false)?, &mut tools)?;
    let by_units = how.numz.compat.is_none();
    let film =
        Film::new(how, &opened, &place, networks, [threads, ENCODER_THREADS as usize], None, by_units)?;
    drop(opened);
    report::planned(film, input, out);
    Ok(())
}

/// Says that an input is missing before anything else is looked at.
fn check_input(path: &Path) -> Result<(), CliError> {
    if is_pipe(path) {
        return Ok(());
    }
    let missing = |source| MediaError::Open { path: path.to_owned(), source };
    path.metadata().map_err(missing)?;
    batch::refuse_videos(path)
}

/// Other streams come from the input.
fn refuse_streams(target: &TargetArgs) -> Result<(), CliError> {
    let what = "a restoration, which copies from its input";
    match target.streams {
        Some(_) => Err(CliError::NoEffect { flag: "--streams", what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use remaster_units::UnitsError;

    use super::*;

    #[test]
    fn a_film_that_grows_is_said_to_be_incomplete() {
        let path = Path::new("film.ts");
        let other = UnitsError::Input { path: path.into(), reason: "it has 9 bytes instead of 5".into() };
        assert_eq!(
            grown(other.into(), path).to_string(),
            "film.ts is still being written; wait until it is complete"
        );
        let full = CliError::Full { folder: "/tmp".into() };
        assert!(matches!(grown(full, path), CliError::Full { .. }));
        assert!(matches!(grown(CliError::Interrupted, path), CliError::Interrupted));
    }
}
