//! `remaster batch`: many films, one report.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use remaster_compute::CancelToken;
use remaster_media::place;
use remaster_picture::StillFormat;
use remaster_units::Manifest;
use serde::Serialize;

use crate::destination::check_file;
use crate::error::CliError;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::media::TargetArgs;
use crate::numbers::count;
use crate::output::Output;
use crate::progress::ProgressArgs;
use crate::restore::{self, Ran, RecipeArgs, RestoreArgs, SUFFIX, beside};
use crate::units::{LocalArgs, check_devices};

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
        check_file(path, "json", &[], args.yes || is_report(path))?;
    }
    check_devices(&args.local.devices, &args.how.device)?;
    let Films { items, results } = Films::of(args)?;
    if let [first, rest @ ..] = results.as_slice() {
        let others = match rest.len() {
            0 => String::new(),
            n => format!(" and {}", count(n, "other")),
        };
        out.say(format_args!(
            "left out {}{others}: made by an earlier run; name a film alone to restore it again",
            first.display()
        ));
    }
    if let Some(folder) = &args.out_dir {
        remaster_disk::make_folders(folder)
            .map_err(|source| CliError::Write { path: folder.clone(), source })?;
    }
    let (began, inner) = (Instant::now(), out.of_one());
    let mut report = Report::default();
    for (i, item) in items.iter().enumerate() {
        let title = format!("film {} of {}: {}", i + 1, items.len(), item.input.display());
        let started = Instant::now();
        let restoration = args.restoration(item);
        let ran = match restore::is_done(&restoration, &item.output, &cancel) {
            Ok(true) => {
                out.say(format_args!("{title}: skipped, already restored"));
                Ok(Ran::Skipped)
            }
            Ok(false) => {
                out.say(&title);
                restore::film(&restoration, &cancel, &inner, interrupt)
            }
            Err(error) => {
                out.say(&title);
                Err(error)
            }
        };
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
        format!("{}: {done} restored, {skipped} skipped, {failed} failed", count(films, "film"))
    });
    if failed > 0 { Err(CliError::Batch { failed, films }) } else { Ok(()) }
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

/// What a batch does.
#[derive(Debug, Default)]
struct Films {
    /// In order, each with an output of its own.
    items: Vec<Item>,
    /// Films that earlier runs made, which are left out.
    results: Vec<PathBuf>,
}

impl Films {
    fn of(args: &BatchArgs) -> Result<Self, CliError> {
        let mut films = Films::default();
        for input in &args.inputs {
            match expanded(input)? {
                None => films.items.push(Item { input: input.clone(), output: args.output(input)? }),
                Some(found) => {
                    for film in found {
                        films.add(film, args)?;
                    }
                }
            }
        }
        if let Some(list) = &args.list {
            listed(list, args, &mut films)?;
        }
        films.drop_results();
        if films.items.is_empty() {
            let named = args.inputs.iter().chain(&args.list).map(|path| path.display().to_string());
            return Err(CliError::NoFilms { what: named.collect::<Vec<_>>().join(", ") });
        }
        let mut outputs = BTreeSet::new();
        match films.items.iter().find(|item| !outputs.insert(&item.output)) {
            Some(item) => Err(CliError::Twice { path: item.output.clone() }),
            None => Ok(films),
        }
    }

    /// A film that was found, and not named by itself.
    fn add(&mut self, input: PathBuf, args: &BatchArgs) -> Result<(), CliError> {
        match is_result(&input) {
            true => self.results.push(input),
            false => self.items.push(Item { output: args.output(&input)?, input }),
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
fn expanded(input: &Path) -> Result<Option<Vec<PathBuf>>, CliError> {
    let failed = |path: &Path, source| CliError::Read { path: path.to_owned(), source };
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
    for entry in folder.read_dir().map_err(|source| failed(folder, source))? {
        let path = entry.map_err(|source| failed(folder, source))?.path();
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

/// Refuses a folder with films and without images: a film is one file.
pub(crate) fn refuse_videos(folder: &Path) -> Result<(), CliError> {
    let Ok(entries) = folder.read_dir() else { return Ok(()) };
    let mut films = false;
    for path in entries.flatten().map(|entry| entry.path()) {
        if StillFormat::of_ending(&path).is_some() {
            return Ok(());
        }
        films |= is_film(&path);
    }
    if films { Err(CliError::Videos { path: folder.to_owned() }) } else { Ok(()) }
}

/// A file that looks like a film.
fn is_film(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
    FILMS.contains(&ending.as_str())
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
fn listed(list: &Path, args: &BatchArgs, films: &mut Films) -> Result<(), CliError> {
    let failed = |source| CliError::Read { path: list.to_owned(), source };
    let mut file = BufReader::new(remaster_disk::read_named(list).map_err(failed)?);
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
        match output {
            Some(output) => films.items.push(Item { input, output }),
            None => films.add(input, args)?,
        }
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

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        batch: BatchArgs,
    }

    /// Films and results of a command line, by their names.
    fn films(words: &[&Path]) -> [Vec<String>; 2] {
        let typed = std::iter::once("batch".as_ref()).chain(words.iter().map(|word| word.as_os_str()));
        let batch = <Line as clap::Parser>::parse_from(typed).batch;
        let films = Films::of(&batch).unwrap();
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
        let [all, results] = films(&[folder.path()]);
        assert_eq!(all, ["a.MP4", "b.mkv", "old_upscaled.mkv"]);
        assert_eq!(results, ["a_upscaled.mp4", "b_upscaled.mkv", "sharp.mkv"]);
        assert_eq!(films(&[&at("*.mkv")])[0], ["b.mkv", "old_upscaled.mkv"]);
        assert_eq!(films(&[&at("b*")])[0], ["b.mkv"]);
        // Named by itself it is meant; beside what it was made of, a shell named it.
        assert_eq!(films(&[&at("b_upscaled.mkv")]), [vec!["b_upscaled.mkv".to_owned()], vec![]]);
        let both = films(&[&at("b.mkv"), &folder.path().join("./b_upscaled.mkv")]);
        assert_eq!(both, [["b.mkv"], ["b_upscaled.mkv"]]);
        assert_eq!(films(&[&at("missing.mkv")])[0], ["missing.mkv"]);
        // Of a list.
        std::fs::write(at("list"), "b.mkv\nb_upscaled.mkv\nb_upscaled.mkv\tthrice.mkv\n").unwrap();
        let listed = films(&["--list".as_ref(), &at("list")]);
        assert_eq!(listed[1], ["b_upscaled.mkv", "b_upscaled.mkv"]);
    }
}
