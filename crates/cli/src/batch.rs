//! `remaster batch`: many films, one report.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use remaster_compute::CancelToken;
use remaster_media::place;
use serde::Serialize;

use crate::destination::check_file;
use crate::error::CliError;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::media::TargetArgs;
use crate::output::Output;
use crate::progress::ProgressArgs;
use crate::restore::{self, Ran, RecipeArgs, RestoreArgs, SUFFIX, beside};
use crate::units::LocalArgs;

/// Endings of films in a folder.
const FILMS: [&str; 22] = [
    "mkv", "mp4", "m4v", "mov", "webm", "avi", "mpg", "mpeg", "m2v", "vob", "ts", "m2ts", "mts", "wmv",
    "flv", "ogv", "3gp", "dv", "mxf", "nut", "y4m", "divx",
];

/// How long a hook may take.
const HOOK: Duration = Duration::from_secs(600);

/// Lines of a list at most, and bytes of each.
const MOST_LINES: usize = 1_000_000;
const MOST_LINE: u64 = 64 << 10;

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
    how: RecipeArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    /// What was typed of it that decides the results.
    #[arg(skip)]
    pub(crate) words: Vec<String>,
}

/// One film.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    input: PathBuf,
    output: PathBuf,
}

/// What became of a film.
#[derive(Debug, Serialize)]
struct Entry {
    input: String,
    output: String,
    /// `done`, `skipped` or `failed`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    seconds: f64,
    /// What the program for finished films had to say against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook_error: Option<String>,
}

/// The JSON document.
#[derive(Debug, Default, Serialize)]
struct Report {
    films: Vec<Entry>,
    done: usize,
    skipped: usize,
    failed: usize,
    seconds: f64,
}

pub(crate) fn run(args: &BatchArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    if let Some(path) = &args.report {
        check_file(path, "json", &[], true)?;
    }
    let items = items(args)?;
    let (began, inner) = (Instant::now(), out.of_one());
    let mut report = Report::default();
    for (i, item) in items.iter().enumerate() {
        out.say(format_args!("film {} of {}: {}", i + 1, items.len(), item.input.display()));
        let started = Instant::now();
        let ran = restore::film(&args.restoration(item), &cancel, &inner, interrupt);
        if let Err(error) = &ran
            && (cancel.is_cancelled() || error.exit_code() == INTERRUPTED)
        {
            report.write(args.report.as_deref())?;
            return ran.map(drop);
        }
        let (status, error) = match ran {
            Ok(Ran::Done) => ("done", None),
            Ok(Ran::Skipped) => ("skipped", None),
            Err(error) => ("failed", Some(error.with_causes())),
        };
        match status {
            "done" => report.done += 1,
            "skipped" => report.skipped += 1,
            _ => report.failed += 1,
        }
        if let Some(error) = &error {
            out.warn(format_args!("{}: {error}", item.input.display()));
        }
        let hook_error = args.on_done.as_ref().and_then(|hook| call(hook, status, item, &cancel).err());
        if let Some(error) = &hook_error {
            out.warn(format_args!("--on-done: {error}"));
        }
        report.films.push(Entry {
            input: item.input.display().to_string(),
            output: item.output.display().to_string(),
            status,
            error,
            seconds: started.elapsed().as_secs_f64(),
            hook_error,
        });
        report.seconds = began.elapsed().as_secs_f64();
        // After each film: a batch of days may be stopped at any time.
        report.write(args.report.as_deref())?;
    }
    let (failed, films) = (report.failed, report.films.len());
    out.conclude(&report, || {
        let Report { done, skipped, failed, .. } = &report;
        let word = if films == 1 { "film" } else { "films" };
        format!("{films} {word}: {done} restored, {skipped} skipped, {failed} failed")
    });
    if failed > 0 { Err(CliError::Batch { failed, films }) } else { Ok(()) }
}

impl Report {
    fn write(&self, path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| CliError::Write { path: path.to_owned(), source: error.into() })?;
        Ok(place::write(path, text.as_bytes(), true)?)
    }
}

impl BatchArgs {
    fn restoration(&self, item: &Item) -> RestoreArgs {
        RestoreArgs {
            input: item.input.clone(),
            output: Some(item.output.clone()),
            yes: self.yes,
            keep_latents: None,
            how: self.how.clone(),
            target: self.target.clone(),
            local: self.local.clone(),
            progress: self.progress,
            words: self.words.clone(),
            skip_done: true,
        }
    }

    fn output(&self, input: &Path) -> Result<PathBuf, CliError> {
        let output = beside(input)?;
        Ok(match &self.out_dir {
            Some(folder) => folder.join(output.file_name().unwrap_or_default()),
            None => output,
        })
    }
}

/// All films in order, each with an output of its own.
fn items(args: &BatchArgs) -> Result<Vec<Item>, CliError> {
    let mut items = Vec::new();
    for input in &args.inputs {
        for film in films(input)? {
            items.push(Item { output: args.output(&film)?, input: film });
        }
    }
    if let Some(list) = &args.list {
        listed(list, args, &mut items)?;
    }
    if items.is_empty() {
        let named = args.inputs.iter().chain(&args.list).map(|path| path.display().to_string());
        let what = named.collect::<Vec<_>>().join(", ");
        return Err(CliError::NoFilms { what: if what.is_empty() { "nothing".into() } else { what } });
    }
    let mut outputs = BTreeSet::new();
    match items.iter().find(|item| !outputs.insert(&item.output)) {
        Some(item) => Err(CliError::Twice { path: item.output.clone() }),
        None => Ok(items),
    }
}

/// The films that a word names: itself, those of a folder, or those that match a pattern.
fn films(input: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |path: &Path, source| CliError::Read { path: path.to_owned(), source };
    let (folder, pattern) = if input.is_dir() {
        (input, None)
    } else if !input.exists()
        && let Some(name) = input.file_name().and_then(|name| name.to_str())
        && name.contains(['*', '?'])
    {
        (place::parent(input), Some(name))
    } else {
        return Ok(vec![input.to_owned()]);
    };
    let mut films = Vec::new();
    for entry in folder.read_dir().map_err(|source| failed(folder, source))? {
        let path = entry.map_err(|source| failed(folder, source))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let wanted = match pattern {
            Some(pattern) => matches_pattern(pattern, name),
            None => is_film(&path),
        };
        if wanted && path.is_file() {
            films.push(path);
        }
    }
    films.sort();
    Ok(films)
}

/// A file that looks like a film, and not like one that was restored.
fn is_film(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
    let restored = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(SUFFIX));
    FILMS.contains(&ending.as_str()) && !restored
}

/// `*` stands for any characters and `?` for one.
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
fn listed(list: &Path, args: &BatchArgs, items: &mut Vec<Item>) -> Result<(), CliError> {
    let failed = |source| CliError::Read { path: list.to_owned(), source };
    let mut file = BufReader::new(std::fs::File::open(list).map_err(failed)?);
    let folder = place::parent(list);
    for line in 1.. {
        let wrong = |reason: &str| CliError::List { path: list.to_owned(), line, reason: reason.into() };
        let mut text = String::new();
        let read = (&mut file).take(MOST_LINE).read_line(&mut text).map_err(failed)?;
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
        let output = output.map_or_else(|| args.output(&input), Ok)?;
        items.push(Item { input, output });
    }
    Ok(())
}

/// Runs the hook of a film to its end, but not for ever.
fn call(hook: &Path, status: &str, item: &Item, cancel: &CancelToken) -> Result<(), String> {
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
            Ok(None) if began.elapsed() < HOOK && !cancel.is_cancelled() => {
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
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
        // Stars do not take exponential time.
        let long = "a".repeat(2000);
        assert!(!matches_pattern(&"*a".repeat(500).replace("aa", "a"), &format!("{long}b")));
    }

    #[test]
    fn folders_have_films_and_not_results() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.mkv", "a.MP4", "a_upscaled.mp4", "notes.txt", "c.mkv.part"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        std::fs::create_dir(folder.path().join("d.mkv")).unwrap();
        let names = |input: &Path| {
            let films = films(input).unwrap();
            films.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(folder.path()), ["a.MP4", "b.mkv"]);
        assert_eq!(names(&folder.path().join("*.mkv")), ["b.mkv"]);
        assert_eq!(names(&folder.path().join("missing.mkv")), ["missing.mkv"]);
    }
}
