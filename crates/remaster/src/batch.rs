//! Many films, one report.

mod films;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use remaster_media::place;
use serde::Serialize;

pub use films::BatchRequest;
use films::{Films, Item};

use crate::control::Control;
use crate::destination::check_file;
use crate::error::{Error, with_causes};
use crate::event::Event;
use crate::job::prepare;
use crate::machine::host::Machine;
use crate::media::Scripts;
use crate::numbers::count;
use crate::request::Request;
use crate::restore::{self, Outcome};
use crate::units::check_devices;
use crate::worker::WorkerProgram;

/// How long a hook may take.
const HOOK: Duration = Duration::from_secs(600);

/// What became of a film.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BatchFilm {
    /// What was read.
    pub input: String,
    /// What was written.
    pub output: String,
    /// `done`, `skipped` or `failed`.
    pub status: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Why the program for finished films failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_error: Option<String>,
}

/// What became of all films.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BatchOutcome {
    /// In order.
    pub films: Vec<BatchFilm>,
    /// Films that were restored.
    pub done: usize,
    /// Films that were there already.
    pub skipped: usize,
    /// Films that failed.
    pub failed: usize,
    /// How long it took.
    pub seconds: f64,
}

impl BatchOutcome {
    /// An error if a film failed.
    pub fn check(&self) -> Result<(), Error> {
        match self.failed {
            0 => Ok(()),
            failed => Err(Error::Batch { failed, films: self.films.len() }),
        }
    }

    fn write(&self, path: Option<&Path>) -> Result<(), Error> {
        let Some(path) = path else { return Ok(()) };
        let failed = Error::writing(path);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        Ok(place::write(path, text.as_bytes(), true)?)
    }
}

/// Restores many films: goes on when one fails, and skips those that are done.
pub fn batch(
    request: &BatchRequest,
    machine: &Machine,
    control: &Control,
    worker: &WorkerProgram,
    events: &mut dyn FnMut(Event),
) -> Result<BatchOutcome, Error> {
    if let Some(path) = &request.report {
        check_file(path, "json", &[], request.film.overwrite || is_report(path))?;
    }
    check_devices(&request.film.units.devices, &request.film.how.device, machine)?;
    let Films { items, results } = Films::of(request)?;
    if let [first, rest @ ..] = results.as_slice() {
        let others = match rest.len() {
            0 => String::new(),
            n => format!(" and {}", count(n, "other")),
        };
        events(Event::Message(format!(
            "left out {}{others}: made by an earlier run; name a film alone to restore it again",
            first.display()
        )));
    }
    if let Some(folder) = &request.folder {
        remaster_disk::make_folders(folder).map_err(Error::writing(folder))?;
    }
    let began = Instant::now();
    let mut outcome = BatchOutcome::default();
    for (i, item) in items.iter().enumerate() {
        let started = Instant::now();
        let mut film = Request {
            input: item.input.clone(),
            output: Some(item.output.clone()),
            skip_done: true,
            ..request.film.clone()
        };
        // Names of a batch come out of folders, patterns and lists.
        film.how.source.scripts = Scripts::default();
        let begins =
            |skipped| Event::Film { number: i + 1, of: items.len(), input: item.input.clone(), skipped };
        let done = restore::is_done(&film, machine, control);
        events(begins(matches!(done, Ok(true))));
        let ran = match done {
            Ok(true) => Ok("skipped"),
            Ok(false) => restored(film, machine, control, worker, events),
            Err(error) => Err(error),
        };
        events(Event::Ended);
        if let Err(error) = &ran
            && (control.is_cancelled() || error.is_stop())
        {
            outcome.write(request.report.as_deref())?;
            return ran.map(|_| outcome);
        }
        let (status, error) = match ran {
            Ok(status) => (status, None),
            Err(error) => ("failed", Some(with_causes(&error))),
        };
        match status {
            "done" => outcome.done += 1,
            "skipped" => outcome.skipped += 1,
            _ => outcome.failed += 1,
        }
        if let Some(error) = &error {
            events(Event::Warning(format!("{}: {error}", item.input.display())));
        }
        let hook_error = request.on_done.as_ref().and_then(|hook| call(hook, status, item, control).err());
        if let Some(error) = &hook_error {
            events(Event::Warning(format!("--on-done: {error}")));
        }
        outcome.films.push(BatchFilm {
            input: item.input.display().to_string(),
            output: item.output.display().to_string(),
            status,
            error,
            seconds: started.elapsed().as_secs_f64(),
            hook_error,
        });
        outcome.seconds = began.elapsed().as_secs_f64();
        // After each film: a batch of days may be stopped at any time.
        outcome.write(request.report.as_deref())?;
    }
    Ok(outcome)
}

/// Restores one film.
fn restored(
    film: Request,
    machine: &Machine,
    control: &Control,
    worker: &WorkerProgram,
    events: &mut dyn FnMut(Event),
) -> Result<&'static str, Error> {
    match prepare(film, machine, control, events)?.run(worker, events)? {
        Outcome::Restored(outcome) => {
            events(Event::Restored(outcome));
            Ok("done")
        }
        Outcome::Skipped { .. } => Ok("skipped"),
    }
}

/// Largest existing report that is checked before it is replaced, in bytes.
const MOST_REPORT: u64 = 64 << 20;

/// Whether a file is a report of an earlier batch, which this one may replace.
fn is_report(path: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Earlier {
        films: Vec<serde_json::Value>,
        done: usize,
        skipped: usize,
        failed: usize,
    }
    let mut text = Vec::new();
    let read = remaster_disk::read(path).and_then(|file| file.take(MOST_REPORT).read_to_end(&mut text));
    read.is_ok()
        && serde_json::from_slice::<Earlier>(&text)
            .is_ok_and(|report| report.films.len() == report.done + report.skipped + report.failed)
}

/// Runs the hook of a film to its end, but not for ever.
fn call(hook: &Path, status: &str, item: &Item, control: &Control) -> Result<(), String> {
    let mut command = Command::new(hook);
    command.arg(status).args([&item.input, &item.output]).stdin(Stdio::null()).stdout(Stdio::null());
    // Without a console window, and outside of our job: what it starts may outlive us.
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(
        &mut command,
        windows_sys::Win32::System::Threading::CREATE_NO_WINDOW,
    );
    let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", hook.display()))?;
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{} ended with {status}", hook.display())),
            Ok(None) if began.elapsed() < HOOK && !control.is_cancelled() => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{} did not end in time", hook.display()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
