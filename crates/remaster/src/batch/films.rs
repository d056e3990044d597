//! The films of a batch: named, found in folders and by patterns, listed in a file.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use remaster_media::place;
use remaster_units::Manifest;

use crate::error::Error;
use crate::media::{is_film, is_url};
use crate::request::Request;
use crate::restore::{SUFFIX, beside};

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
pub(super) struct Item {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
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
pub(super) struct Films {
    /// In order, each with an output of its own.
    pub(super) items: Vec<Item>,
    /// Films that earlier runs made, which are left out.
    pub(super) results: Vec<PathBuf>,
}

impl Films {
    pub(super) fn of(request: &BatchRequest) -> Result<Self, Error> {
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
        // Names that differ in case alone are one on Windows and macOS.
        let same = |path: &Path| {
            if cfg!(any(windows, target_vendor = "apple")) {
                path.to_string_lossy().to_lowercase().into()
            } else {
                path.to_owned()
            }
        };
        match films.items.iter().find(|item| !outputs.insert(same(&item.output))) {
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
        // An address fails by itself, as a film does.
        && !is_url(input)
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
    // As the system tells names.
    let letters = |text: &str| -> Vec<char> {
        if cfg!(windows) { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    let (pattern, name) = (letters(pattern), letters(name));
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
        // Windows editors write a byte order mark.
        let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
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
