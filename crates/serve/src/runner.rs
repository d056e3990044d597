//! What a device does: one job after the other, each in a process of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster::{Request, Task, Units};
use serde_json::{Value, json};

use crate::app::{App, Film};
use crate::child::{self, Ended, NO_PROCESS};
use crate::fetch::{self, FetchError, Limits};
use crate::job::{Job, Media};
use crate::jobs::End;
use crate::space::Within;

/// How often unfinished work is saved: a kill loses this much, and so does a pause or a cancellation of work that takes
/// longer than that to be saved.
const CHECKPOINT: Duration = Duration::from_secs(60);

/// How long the process of a server that was killed may take to end. Its film is busy until then.
const PREDECESSOR: Duration = Duration::from_secs(15);

/// How long a job waits for a machine that cannot start a process: a program that is being replaced, too many processes.
const AGAIN: Duration = Duration::from_secs(10);

/// How often the newest picture is looked for.
const LOOK: Duration = Duration::from_millis(500);

/// How long a film may take to be fetched, and how long without a byte.
const FETCH: Duration = Duration::from_secs(6 * 3600);
const SILENCE: Duration = Duration::from_secs(60);

/// The folder of pictures of a job.
pub(crate) const NEWEST: &str = "newest";

/// The file of a fetched film.
const FETCHED: &str = "fetched";

/// Works on jobs until the server stops.
pub(crate) fn run(app: &Arc<App>, slot: usize) {
    let device = app.settings.devices.get(slot).cloned();
    while let Some(job) = app.jobs.take(slot) {
        let end = restore(app, &job, device.clone());
        app.jobs.ended(&job.id, slot, end);
    }
}

fn restore(app: &App, job: &Job, device: Option<String>) -> End {
    let film = match film(app, job) {
        Ok(film) => film,
        Err(end) => return end,
    };
    let request = match request(app, job, &film, device) {
        Ok(request) => request,
        Err(end) => return end,
    };
    let stop = || app.jobs.should_stop(&job.id);
    let (mut memory, mut looked) = (None, Instant::now());
    let names = app.names(job, &film);
    let mut line = |text: &str| {
        app.jobs.line(&job.id, &plain(text, &names));
        memory = used(text).or(memory);
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Some(at) = newest(app, &job.id) {
                app.jobs.pictured(&job.id, at);
            }
        }
    };
    let mut request = Box::new(request);
    let begun = Instant::now();
    let ended = loop {
        let task = Task::Restore(request.clone());
        match child::run(&app.worker, &task, None, &stop, &mut line) {
            Err(Ended::Failed { kind, .. })
                if kind == "output-busy" && begun.elapsed() < PREDECESSOR && !stop() =>
            {
                std::thread::sleep(Duration::from_millis(250));
            }
            // Every other job would fail in the same way, so this one waits.
            Err(Ended::Failed { kind, error }) if kind == NO_PROCESS && !stop() => {
                app.jobs.line(&job.id, &json!({"event": "warning", "text": error}).to_string());
                let until = Instant::now() + AGAIN;
                while Instant::now() < until && !stop() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            // The device or the program is another one than before, so what was made does not fit.
            Err(Ended::Failed { kind, error }) if is_other_run(&kind) && !request.units.restart => {
                let text = format!(
                    "the film begins anew, and what was restored of it is dropped: {}",
                    plain(&error, &names)
                );
                line(&json!({"event": "warning", "text": text}).to_string());
                request.units.restart = true;
            }
            ended => break ended,
        }
    };
    if let Some(at) = newest(app, &job.id) {
        app.jobs.pictured(&job.id, at);
    }
    match ended {
        Ok(document) => End::Done { frames: document.get("frames").and_then(Value::as_u64), memory },
        Err(Ended::Stopped) => End::Stopped,
        Err(Ended::Failed { error, kind }) => End::Failed { error: plain(&error, &names), kind },
    }
}

/// Kinds of errors that mean that unfinished work is of other settings.
fn is_other_run(kind: &str) -> bool {
    matches!(kind, "other-run" | "other-machine" | "other-input" | "other-model" | "devices-differ")
}

/// The film of a job. One on another host is fetched first.
fn film(app: &App, job: &Job) -> Result<Film, End> {
    match &job.media {
        Media::Url { url } => {
            fetched(app, job, url)?;
            Ok(Film::at(app.jobs.path(&job.id).join(FETCHED), &job.name))
        }
        media => app.film(media).map_err(|problem| End::Failed {
            error: problem.detail().to_owned(),
            kind: "not-readable".to_owned(),
        }),
    }
}

/// The request of a job.
fn request(app: &App, job: &Job, film: &Film, device: Option<String>) -> Result<Request, End> {
    let failed = |error: String, kind: &str| End::Failed { error, kind: kind.to_owned() };
    let folder = app.jobs.path(&job.id);
    let made = app.jobs.folder(&job.id).and_then(|folder| folder.make_folder(NEWEST));
    made.map_err(|error| failed(format!("the folder of the job cannot be used: {error}"), "not-writable"))?;
    let mut how = job.how.clone();
    how.device.name = device;
    // Those of this server, which may be another one than that which took the job.
    let ours = &app.settings.how;
    how.limits = ours.limits.clone();
    how.models.folder.clone_from(&ours.models.folder);
    how.source.programs = ours.source.programs.clone();
    Ok(Request {
        input: film.path.clone(),
        output: Some(folder.join(job.result())),
        overwrite: false,
        skip_done: true,
        keep_latents: None,
        how,
        target: remaster::Target { newest: Some(folder.join(NEWEST)), ..job.target.clone() },
        units: Units { checkpoint: CHECKPOINT, ..Units::default() },
    })
}

/// Fetches the film of a job into its folder, unless it is there.
fn fetched(app: &App, job: &Job, url: &str) -> Result<(), End> {
    let failed = |error: String, kind: &str| End::Failed { error, kind: kind.to_owned() };
    let disk = |error: std::io::Error| failed(format!("the film cannot be kept: {error}"), "input-output");
    let folder = app.jobs.folder(&job.id).map_err(disk)?;
    if folder.about(FETCHED).is_ok() {
        return Ok(());
    }
    let limits = Limits { bytes: app.uploads.most(), total: FETCH, idle: SILENCE };
    let stop = || app.jobs.should_stop(&job.id);
    let mut wrong = None;
    let written = folder.write_whole(FETCHED, |file| {
        let mut within = Within { file, share: app.uploads.share() };
        fetch::fetch(url, &app.settings.hosts, limits, &stop, &mut within).map(drop).map_err(|error| {
            wrong = Some(error);
            std::io::ErrorKind::Other.into()
        })
    });
    match (written, wrong) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(_)) if stop() => Err(End::Stopped),
        (Err(_), Some(FetchError::Write(error))) if error.kind() == std::io::ErrorKind::StorageFull => {
            let error = "the disk of the server is full; remove old results, then retry this job";
            Err(failed(error.to_owned(), "disk-full"))
        }
        (Err(_), Some(error)) => Err(failed(remaster::with_causes(&error), "download")),
        (Err(error), None) => Err(disk(error)),
    }
}

/// Memory in a line of progress: the most that was used, and what was planned.
fn used(line: &str) -> Option<[u64; 2]> {
    let line: Value = serde_json::from_str(line).ok()?;
    Some([line.get("peak_bytes")?.as_u64()?, line.get("planned_bytes")?.as_u64()?])
}

/// The moment of the newest picture of a job, in milliseconds.
pub(crate) fn newest(app: &App, id: &str) -> Option<u64> {
    let folder = app.jobs.folder(id).and_then(|folder| folder.folder(NEWEST)).ok()?;
    let moment = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".jpg")?.parse::<u64>().ok();
    folder.names(64).ok()?.into_iter().filter_map(moment).max()
}

/// A text without paths of the server: clients know films by their names.
fn plain(text: &str, names: &[(String, String)]) -> String {
    names.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name))
}

impl App {
    /// Paths of a job, and what clients call them. Paths may stand in JSON.
    fn names(&self, job: &Job, film: &Film) -> Vec<(String, String)> {
        let folder = self.jobs.path(&job.id);
        let named = [(folder.join(job.result()), job.output_name()), (film.path.clone(), job.name.clone())];
        let both = |(path, name): (std::path::PathBuf, String)| {
            let inner = |text: String| {
                serde_json::to_string(&text).map_or(text, |json| json.trim_matches('"').to_owned())
            };
            let path = path.display().to_string();
            let (path_in_json, name_in_json) = (inner(path.clone()), inner(name.clone()));
            [(path_in_json, name_in_json), (path, name)]
        };
        named.into_iter().flat_map(both).collect()
    }
}
