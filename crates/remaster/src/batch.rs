//! Many films, one report.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use remaster_media::place;
use remaster_units::Manifest;
use serde::Serialize;

use crate::control::Control;
use crate::destination::check_file;
use crate::error::{Error, with_causes};
use crate::event::Event;
use crate::job::prepare;
use crate::machine::host::Machine;
use crate::media::is_film;
use crate::numbers::count;
use crate::request::Request;
use crate::restore::{self, Outcome, SUFFIX, beside};
use crate::units::check_devices;
use crate::worker::WorkerProgram;

/// How long a hook may take.
const HOOK: Duration = Duration::from_secs(600);

/// Lines of a list at most, and bytes of each.
const MOST_LINES: usize = 1_000_000;
const MOST_LINE: u64 = 64 << 10;

/// Many films to restore alike.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    /// Videos, folders with videos, or patterns like `*.mkv`.
    pub inputs: Vec<PathBuf>,
    /// A file with a film per line: a path, or input and output with a tab between them.
    pub list: Option<PathBuf>,
    /// Folder for the films; beside each input if `None`.
    pub folder: Option<PathBuf>,
    /// A file for the report (.json), which is written after each film.
    pub report: Option<PathBuf>,
    /// Program to run after each film, with the status, the input and the output as arguments.
    pub on_done: Option<PathBuf>,
    /// How each is restored. Input and output are those of the film.
    pub film: Request,
}

/// One film.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    input: PathBuf,
    output: PathBuf,
}

/// What became of a film.
#[derive(Clone, Debug, Serialize)]
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
        let film = Request {
            input: item.input.clone(),
            output: Some(item.output.clone()),
            skip_done: true,
            ..request.film.clone()
        };
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

impl BatchRequest {
    fn output(&self, input: &Path) -> Result<PathBuf, Error> {
        let output = beside(input)?;
        Ok(match &self.folder {
            Some(folder) => folder.join(output.file_name().unwrap_or_default()),
            None => output,
        })
    }
}

/// What a batch does.
#[derive(Debug, Default)]
struct Films {
    /// In order, each with an output of its own.
    items: Vec<Item>,
    /// Films that earlier runs made, which are left out.
    results: Vec<PathBuf>,
}

impl Films {
    fn of(request: &BatchRequest) -> Result<Self, Error> {
        let mut films = Films::default();
        for input in &request.inputs {
            match expanded(input)? {
                None => films.items.push(Item { input: input.clone(), output: request.output(input)? }),
                Some(found) => {
                    for film in found {
                        films.add(film, request)?;
                    }
                }
            }
        }
        if let Some(list) = &request.list {
            listed(list, request, &mut films)?;
        }
        films.drop_results();
        if films.items.is_empty() {
            let named = request.inputs.iter().chain(&request.list).map(|path| path.display().to_string());
            return Err(Error::NoFilms { what: named.collect::<Vec<_>>().join(", ") });
        }
        let mut outputs = BTreeSet::new();
        match films.items.iter().find(|item| !outputs.insert(&item.output)) {
            Some(item) => Err(Error::Twice { path: item.output.clone() }),
            None => Ok(films),
        }
    }

    /// A film that was found, and not named by itself.
    fn add(&mut self, input: PathBuf, request: &BatchRequest) -> Result<(), Error> {
        match is_result(&input) {
            true => self.results.push(input),
            false => self.items.push(Item { output: request.output(&input)?, input }),
        }
        Ok(())
    }

    /// Leaves out films that are outputs of others: a shell names all that match a pattern.
    fn drop_results(&mut self) {
        let outputs: BTreeSet<PathBuf> = self.items.iter().map(|item| real(&item.output)).collect();
        let (results, items) = std::mem::take(&mut self.items)
            .into_iter()
            .partition(|item| outputs.contains(&real(&item.input)) && is_result(&item.input));
        self.items = items;
        self.results.extend(results.into_iter().map(|item: Item| item.input));
    }
}

/// A path in one way of writing it, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let folder = place::parent(path).canonicalize();
    let name = path.file_name().unwrap_or_default();
    path.canonicalize().or(folder.map(|folder| folder.join(name))).unwrap_or_else(|_| path.to_owned())
}

/// Whether an earlier run made a film: it has a manifest, or our name and what it was made of beside it.
fn is_result(path: &Path) -> bool {
    if Manifest::beside(path).is_file() {
        return true;
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(source) = stem.strip_suffix(SUFFIX) else { return false };
    // What was made of a film may have another ending.
    let Ok(entries) = place::parent(path).read_dir() else { return false };
    entries.flatten().map(|entry| entry.path()).any(|other| {
        let made = || beside(&other).is_ok_and(|made| made.file_name() == path.file_name());
        other.file_stem().is_some_and(|stem| stem == source) && (is_film(&other) || made())
    })
}

/// The films that a folder has or that match a pattern; `None` for a film.
fn expanded(input: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let (folder, pattern) = if input.is_dir() {
        (input, None)
    } else if !input.exists()
        && let Some(name) = input.file_name().and_then(|name| name.to_str())
        && name.contains(['*', '?'])
    {
        (place::parent(input), Some(name))
    } else {
        return Ok(None);
    };
    let mut films = Vec::new();
    let failed = Error::reading(folder);
    for entry in folder.read_dir().map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let wanted = match pattern {
            // Manifests and folders of unfinished work have the names of films in theirs.
            Some(pattern) => matches_pattern(pattern, name) && !name.ends_with(".manifest.json"),
            None => is_film(&path),
        };
        if wanted && path.is_file() {
            films.push(path);
        }
    }
    films.sort();
    Ok(Some(films))
}

/// `*` stands for any characters and `?` for one. Brackets and braces are letters like others: films are named so.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where the last star was, and how much of the name it has taken.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || Some(c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// Films of a list.
fn listed(list: &Path, request: &BatchRequest, films: &mut Films) -> Result<(), Error> {
    let failed = Error::reading(list);
    let mut file = BufReader::new(remaster_disk::read_named(list).map_err(&failed)?);
    let folder = place::parent(list);
    for line in 1.. {
        let wrong = |reason: &str| Error::List { path: list.to_owned(), line, reason: reason.into() };
        let mut text = String::new();
        let read = (&mut file).take(MOST_LINE).read_line(&mut text).map_err(&failed)?;
        if read == 0 {
            break;
        }
        if line > MOST_LINES || read as u64 == MOST_LINE {
            return Err(wrong("the list is too long; split it"));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut fields = text.split('\t').map(|field| folder.join(field));
        let (input, output, more) = (fields.next(), fields.next(), fields.next());
        let Some(input) = input.filter(|_| more.is_none()) else {
            return Err(wrong("expected an input, or an input and an output with a tab between them"));
        };
        match output {
            Some(output) => films.items.push(Item { input, output }),
            None => films.add(input, request)?,
        }
    }
    Ok(())
}

/// Runs the hook of a film to its end, but not for ever.
fn call(hook: &Path, status: &str, item: &Item, control: &Control) -> Result<(), String> {
    let mut child = Command::new(hook)
        .arg(status)
        .args([&item.input, &item.output])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", hook.display()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expected) in [
            ("*.mkv", "a.mkv", true),
            ("*.mkv", "a.mp4", false),
            ("a?.mkv", "ab.mkv", true),
            ("a?.mkv", "a.mkv", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*", "", true),
            ("", "a", false),
            ("**?", "a", true),
            ("Film [1080p]*.mkv", "Film [1080p] 2.mkv", true),
            ("a{b*.mkv", "a{bc.mkv", true),
            ("Caf?.mkv", "Café.mkv", true),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
        // Stars do not take exponential time.
        let long = "a".repeat(2000);
        assert!(!matches_pattern(&"*a".repeat(500), &format!("{long}b")));
    }

    /// Films and results of a request, by their names.
    fn films(inputs: &[&Path], list: Option<&Path>) -> [Vec<String>; 2] {
        let request = BatchRequest {
            inputs: inputs.iter().map(|path| path.to_path_buf()).collect(),
            list: list.map(Path::to_owned),
            folder: None,
            report: None,
            on_done: None,
            film: Request::restore(""),
        };
        let films = Films::of(&request).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        [
            films.items.iter().map(|item| name(&item.input)).collect(),
            films.results.iter().map(|path| name(path)).collect(),
        ]
    }

    #[test]
    fn films_that_were_made_here_are_not_restored_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [
            "b.mkv",
            "a.MP4",
            "a_upscaled.mp4",
            "b_upscaled.mkv",
            "notes.txt",
            "c.mkv.part",
            "sharp.mkv",
            "sharp.mkv.manifest.json",
            "old_upscaled.mkv",
        ] {
            std::fs::write(at(name), b"").unwrap();
        }
        std::fs::create_dir(at("d.mkv")).unwrap();
        // Of a folder and of a pattern. One with our name and nothing it was made of is a film like others.
        let [all, results] = films(&[folder.path()], None);
        assert_eq!(all, ["a.MP4", "b.mkv", "old_upscaled.mkv"]);
        assert_eq!(results, ["a_upscaled.mp4", "b_upscaled.mkv", "sharp.mkv"]);
        assert_eq!(films(&[&at("*.mkv")], None)[0], ["b.mkv", "old_upscaled.mkv"]);
        assert_eq!(films(&[&at("b*")], None)[0], ["b.mkv"]);
        // Named by itself it is meant; beside what it was made of, a shell named it.
        assert_eq!(films(&[&at("b_upscaled.mkv")], None), [vec!["b_upscaled.mkv".to_owned()], vec![]]);
        let both = films(&[&at("b.mkv"), &folder.path().join("./b_upscaled.mkv")], None);
        assert_eq!(both, [["b.mkv"], ["b_upscaled.mkv"]]);
        assert_eq!(films(&[&at("missing.mkv")], None)[0], ["missing.mkv"]);
        // Of a list.
        std::fs::write(at("list"), "b.mkv\nb_upscaled.mkv\nb_upscaled.mkv\tthrice.mkv\n").unwrap();
        let listed = films(&[], Some(&at("list")));
        assert_eq!(listed[1], ["b_upscaled.mkv", "b_upscaled.mkv"]);
    }
}
