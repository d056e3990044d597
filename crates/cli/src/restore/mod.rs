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

use std::path::Path;

use remaster_compute::CancelToken;
use remaster_media::MediaError;

pub(crate) use args::{RecipeArgs, RestoreArgs};
pub(crate) use film::Film;
pub(crate) use names::as_typed;
pub(crate) use names::{SUFFIX, beside};
pub(crate) use networks::{Networks, Place};
pub(crate) use preview::{PreviewArgs, run as preview};
pub(crate) use redecode::{RedecodeArgs, run as redecode};
pub(crate) use report::{PHASES, announce, event, finish};
pub(crate) use stage::{Staged, staged, takes_units};

use crate::destination;
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, TargetArgs, is_pipe};
use crate::output::Output;
use crate::plan::threads;
use crate::tensors;
use crate::units;

pub(crate) fn run(args: &RestoreArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    film(args, &interrupt.watch()?, out, interrupt).map(drop)
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
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.input)?,
    };
    destination::check_frames(&output, &[&args.input], args.yes || args.skip_done, out)?;
    let how = &args.how;
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
    let by_units = takes_units(args, &output);
    if !by_units && let Some(ran) = in_one_go(args, &output)? {
        return Ok(ran);
    }
    staged(args, &output, cancel, out, interrupt, |stage| {
        // A still has no units.
        if by_units && !stage.is_still() {
            match stage.unit_frames(args.local.cut.unit_frames) {
                Some(frames) => return units::local(stage, frames, out, interrupt),
                None => out.say(
                    "note: --disk leaves no room to save unfinished work; this run cannot be resumed if it stops",
                ),
            }
        }
        if let Some(ran) = in_one_go(args, &output)? {
            return Ok(ran);
        }
        whole::run(stage, out)?;
        Ok(Ran::Done)
    })
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
    let film = Film::new(how, &opened, &place, networks, threads, None, by_units)?;
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
    path.metadata().map(drop).map_err(|source| missing(source).into())
}

/// Other streams come from the input.
fn refuse_streams(target: &TargetArgs) -> Result<(), CliError> {
    let what = "a restoration, which copies from its input";
    match target.streams {
        Some(_) => Err(CliError::NoEffect { flag: "--streams", what }),
        None => Ok(()),
    }
}
