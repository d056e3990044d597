//! Restores a film: checks the request, gets everything ready, does the work.

mod card;
#[cfg(feature = "gpu")]
mod card_table;
mod checkpoints;
mod device;
mod few;
mod film;
mod names;
mod networks;
mod phases;
mod planned;
mod preview;
mod recipe;
mod redecode;
mod single_pass;
mod stage;
mod still;

use std::path::{Path, PathBuf};
use std::time::Instant;

use remaster_media::{Format, MediaError};
use remaster_units::Settings;
use serde::{Deserialize, Serialize};

#[cfg(feature = "gpu")]
pub use card_table::card_table;
pub(crate) use film::Film;
pub use names::{SUFFIX, beside};
pub(crate) use networks::{Networks, names};
pub use preview::{PreviewOutcome, PreviewRequest};
pub use redecode::{RedecodeOutcome, RedecodeRequest};
pub(crate) use stage::{PROGRAM, Staged, UPSCALER_ROLE, takes_units, usual_piece};
pub use still::{StillOutcome, StillRequest};

use crate::card::Card;
use crate::control::Control;
use crate::destination;
use crate::device::Device;
use crate::error::{Class, Error};
use crate::event::{Event, Reporter};
use crate::job::{Context, Job, Prepare};
use crate::limits::Room;
use crate::machine::awake::Awake;
use crate::machine::host::Machine;
use crate::media::{Lazy, Target, UnitStart, is_pipe, refuse, refuse_named_pipe, refuse_url, size};
use crate::outcome::{Estimate, FilmOutcome, FilmPlan};
use crate::plan::threads;
use crate::request::{Cut, Request, Restoration, check_input};
use crate::site::Site;
use crate::tensors;
use crate::units::{self, LocalFilm, Standing};
use crate::worker::WorkerProgram;

/// A restoration that is ready to run: the file was opened, networks and devices were found, memory is planned.
pub struct Prepared {
    output: PathBuf,
    /// The input and its size before.
    input: (PathBuf, Option<u64>),
    route: Route,
}

/// How a film is restored.
enum Route {
    /// It is there already, of the same input and settings, with so many frames if that is known.
    Done(Option<usize>),
    /// By units, so that it can be resumed.
    Units(Box<LocalFilm>),
    /// In one go, to the bytes that its units would have.
    Uncut(Box<Staged>, Box<Settings>),
    /// In one go.
    Whole(Box<Staged>),
}

/// What became of a film.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was restored.
    Restored(Box<FilmOutcome>),
    /// It was there already, of the same input and settings.
    #[non_exhaustive]
    Skipped {
        /// Where it is.
        output: PathBuf,
        /// Its frames, if it has a manifest.
        frames: Option<usize>,
    },
}

/// Decides how the film is restored, and opens and plans what that takes.
impl Prepare for Request {
    type Job = Prepared;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Prepared, Error> {
        refuse_url(&self.input)?;
        let output = output_of(&self)?;
        self.how.source.refuse_frames(&self.input)?;
        self.target.refuse_frames(&output)?;
        let by_units = takes_units(&self, &output);
        let replace =
            self.overwrite || self.skip_done || by_units && units::may_be_done(&output, &self.units);
        destination::check_frames_place(&output, &[&self.input], replace)?;
        let how = &self.how;
        units::check_devices(&self.units.devices, &how.device, context.machine)?;
        how.check(self.keep_latents.is_some())?;
        check_input(&self.input)?;
        refuse_streams(&self.target)?;
        if let Some(path) = &self.keep_latents {
            if how.compat.is_some() {
                return Err(Error::NoEffect { flag: "--keep-latents", what: "batches, which share frames" });
            }
            tensors::check_output(path, &self.input, self.overwrite)?;
        }
        let input = (self.input.clone(), size(&self.input));
        let route = staged(self, &output, context).map_err(|error| grown(error, &input))?;
        Ok(Prepared { output, input, route })
    }
}

/// Decides how a film is restored.
fn staged(request: Request, output: &Path, context: &Context<'_, '_>) -> Result<Route, Error> {
    let Context { machine, control, report } = *context;
    let by_units = takes_units(&request, output);
    let there = !request.overwrite && output.symlink_metadata().is_ok();
    if by_units
        && there
        && let Standing::Done { frames } = units::standing(&request, output, machine, control)?
    {
        return Ok(Route::Done(Some(frames)));
    }
    if !by_units && in_one_go(&request, output, control)? {
        return Ok(Route::Done(None));
    }
    destination::check_replaceable(output)?;
    let (request, members) = match request.units.devices.is_empty() {
        true => (request, Vec::new()),
        false => units::for_devices(&request, output, machine, report)?,
    };
    let mut stage = Staged::new(request, output.to_owned(), context)?;
    report.started("frames", stage.film.about(&stage.request.input, output));
    let cut = stage.request.units.cut.clone();
    // A still has no units.
    let by_units = by_units && !stage.is_still();
    if by_units && let Some(frames) = stage.unit_frames(cut.unit_frames) {
        return Ok(Route::Units(Box::new(LocalFilm::prepare(stage, members, frames, report)?)));
    }
    if by_units {
        report.say(
            "note: --disk leaves no room to save unfinished work; this run cannot be resumed if it stops",
        );
    }
    if in_one_go(&stage.request, output, control)? {
        return Ok(Route::Done(None));
    }
    if by_units {
        stage.rehearse(stage.request.overwrite, report)?;
        let settings = stage.settings(&cut, cut.unit_frames as usize)?;
        return Ok(Route::Uncut(Box::new(stage), Box::new(settings)));
    }
    if let (Some(frames), false) = (stage.film.format.frames, stage.film.estimated) {
        stage.check_list(frames)?;
    }
    stage.rehearse(stage.request.overwrite, report)?;
    Ok(Route::Whole(Box::new(stage)))
}

impl Prepared {
    /// Where the film will be.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// True if the run can be paused and stopped at a time.
    pub fn is_resumable(&self) -> bool {
        matches!(self.route, Route::Units(_))
    }

    /// What it will take; `None` if the film is there already. The time is measured if no run told it before.
    pub fn plan(&self, events: &mut dyn FnMut(Event)) -> Option<FilmPlan> {
        Some(self.stage()?.planned(&Reporter::new(events)))
    }

    fn stage(&self) -> Option<&Staged> {
        match &self.route {
            Route::Done(_) => None,
            Route::Units(film) => Some(&film.stage),
            Route::Uncut(stage, _) | Route::Whole(stage) => Some(stage),
        }
    }

    /// Restores the film. Units on other devices are done by processes of `worker`.
    pub fn run(self, worker: &WorkerProgram, events: &mut dyn FnMut(Event)) -> Result<Outcome, Error> {
        let report = &Reporter::new(events);
        let _awake = Awake::new();
        let outcome = match self.route {
            Route::Done(frames) => return Ok(Outcome::Skipped { output: self.output, frames }),
            Route::Units(film) => film.run(worker, report),
            Route::Uncut(stage, settings) => units::uncut(*stage, *settings, report),
            Route::Whole(stage) => single_pass::run(*stage, report),
        };
        let outcome = outcome.map_err(|error| grown(error, &self.input))?;
        Ok(Outcome::Restored(Box::new(outcome)))
    }
}

/// What went wrong with an input that grew meanwhile, which fails in many ways: frames that are cut off, another film
/// than the one that was planned, a result with too few frames.
fn grown(error: Error, (path, before): &(PathBuf, Option<u64>)) -> Error {
    let of_input = matches!(error, Error::Media(_) | Error::Restore(_) | Error::Units(_));
    let grew = before.zip(size(path)).is_some_and(|(before, now)| now > before);
    match error.class() {
        Class::Input | Class::Wrong if of_input && grew => Error::Growing { path: path.clone() },
        _ => error,
    }
}

/// The output that was named, or the default.
pub(crate) fn output_of(request: &Request) -> Result<PathBuf, Error> {
    request.output.clone().map_or_else(|| beside(&request.input), Ok)
}

/// True if a film of a batch is there already, which takes a look at its manifest. Something else in its place is
/// refused, unless nothing says what it is.
pub fn is_done(request: &Request, machine: &Machine, control: &Control) -> Result<bool, Error> {
    let output = output_of(request)?;
    if request.overwrite || !output.exists() {
        return Ok(false);
    }
    match takes_units(request, &output) {
        true => match units::standing(request, &output, machine, control)? {
            Standing::Done { .. } => Ok(true),
            Standing::Other => Err(MediaError::Exists { path: output }.into()),
            // A still, or a film that could not be cut into units, has no manifest.
            Standing::Unknown => Ok(false),
        },
        // Only films of units have a manifest.
        false => Ok(true),
    }
}

/// Refuses what only units can do. Only unit-based films have a manifest; any other existing output counts as done.
fn in_one_go(request: &Request, output: &Path, control: &Control) -> Result<bool, Error> {
    request.units.refuse(control)?;
    Ok(request.skip_done && !request.overwrite && output.exists())
}

/// What a restoration would take. Published networks need not be installed: sizes follow from their shapes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Video, image or folder of images.
    pub input: PathBuf,
    /// What decides the result and the memory.
    #[serde(default)]
    pub how: Restoration,
    /// Plan for this graphics card, which need not be there; one of [`crate::card::CARDS`].
    #[serde(default)]
    pub card: Option<String>,
}

/// Opens the film and plans its memory. The job says how long it takes, which may take a second to measure.
impl Prepare for PlanRequest {
    type Job = Job<FilmPlan>;

    fn prepare(self, &Context { machine, control, .. }: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let PlanRequest { input, how, card } = self;
        let card = card.as_deref().map(Card::named).transpose()?;
        if is_pipe(&input) {
            return Err(Error::PlanPipe);
        }
        refuse_named_pipe(&input)?;
        how.check(false)?;
        let (room, began) = (&Room::of_plan(machine), Instant::now());
        let site = match &card {
            None => device::open(&how, room, control, None)?,
            Some(card) => {
                let Device { name, threads, .. } = &how.device;
                let flags = [("--device", name.is_some()), ("--threads", threads.is_some())];
                refuse(&flags, "a plan for a card that is not there")?;
                Site::imagined(card, &how.device, &how.limits, room, control)?
            }
        };
        let networks = Networks::imagined(&how.models, &site)?;
        let threads = threads(&how.limits, room)?;
        let mut tools = Lazy::new(&how.source, machine, control).with_threads(threads);
        let mut opened = how.source.open(&input, how.limits.allowed(room)?, &mut tools)?;
        let by_units = how.compat.is_none();
        if by_units {
            let units = starts(opened.source.format(), Cut::default().unit_frames);
            let (source, probe) = (&how.source, opened.probe.as_ref());
            opened.notes.extend(source.run_up_note(probe, &units, &mut tools)?);
            let has_long_run_ups = source.has_long_run_ups(probe, &units, &mut tools)?;
            opened.has_long_run_ups = has_long_run_ups;
        }
        let mut film =
            Film::new(&how, &opened, site, networks, threads, (&Target::default(), None), by_units)?;
        (film.surroundings.began, film.surroundings.start) = (began, tools.start());
        let counted = opened.counted;
        Ok(Job::new(film.known(None), move |report| {
            let Some(card) = card else {
                let time = Estimate::of(&film, false, report);
                return Ok(film.planned(&input, counted, time));
            };
            // A card that is not there cannot be timed.
            let plan = film.planned(&input, counted, None);
            Ok(FilmPlan { card: Some(film.on_card(&card)), ..plan })
        }))
    }
}

/// About where units of so many frames begin.
fn starts(format: &Format, unit_frames: u32) -> Vec<UnitStart> {
    let (Some(frames), Some(rate)) = (format.frames, format.rate) else { return Vec::new() };
    let each = unit_frames as usize;
    let seconds = rate.den as f64 / rate.num as f64;
    // What a header says of its frames is not believed beyond 45 days at 50 frames a second.
    let starts = (0..frames.div_ceil(each).min(1 << 17)).map(|unit| unit * each);
    starts.map(|frame| UnitStart { frame, seconds: frame as f64 * seconds }).collect()
}

/// Other streams come from the input.
fn refuse_streams(target: &Target) -> Result<(), Error> {
    refuse(&[("--streams", target.streams.is_some())], "a restoration, which copies from its input")
}

#[cfg(test)]
mod tests {
    use remaster_units::UnitsError;

    use super::*;

    #[test]
    fn a_film_that_grows_is_said_to_be_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.ts");
        std::fs::write(&path, b"123456789").unwrap();
        let other = || UnitsError::Input { path: path.clone(), reason: "it has 9 bytes instead of 5".into() };
        let before = (path.clone(), Some(5));
        assert!(
            grown(other().into(), &before)
                .to_string()
                .ends_with("is still being written; wait until it is complete")
        );
        assert!(matches!(grown(other().into(), &(path.clone(), Some(9))), Error::Units(_)));
        let full = Error::Full { folder: "/tmp".into() };
        assert!(matches!(grown(full, &before), Error::Full { .. }));
        assert!(matches!(grown(Error::Interrupted, &before), Error::Interrupted));
    }
}
