//! The shortest way to type it: `remaster film.mkv`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};
/// What was typed, with `restore` in front of a film that was named without a command, `batch` in front of several, and
/// with ffmpeg's one-dash names as long options.
pub(crate) fn as_typed(cli: &Command, typed: Vec<OsString>) -> Vec<OsString> {
    let long = |word: OsString| match word.to_str() {
        Some(short @ ("-ss" | "-to" | "-vf" | "-crf")) => format!("-{short}").into(),
        _ => word,
    };
    let mut typed: Vec<OsString> = typed.into_iter().map(long).collect();
    let (options, names) = names(cli, &typed);
    let Some(first) = names.first() else { return typed };
    // Behind `--` everything is a name.
    if !options && !is_film(cli, first) {
        return typed;
    }
    let command = match names.as_slice() {
        // A second name that is not there was meant for the result; the parser says how to name that.
        [_, second] if !Path::new(second).exists() => "restore",
        [_, _, ..] => "batch",
        // The shells of Windows do not expand patterns.
        [film] if is_pattern(film) => "batch",
        _ => "restore",
    };
    typed.insert(1, command.into());
    typed
}

/// Words that are neither options nor their values; and whether the first of them stands behind `--`.
fn names<'a>(cli: &Command, typed: &'a [OsString]) -> (bool, Vec<&'a OsStr>) {
    let commands = ["restore", "batch"].map(|name| cli.find_subcommand(name));
    let known: Vec<&Arg> =
        commands.into_iter().flatten().chain([cli]).flat_map(Command::get_arguments).collect();
    let (mut behind, mut found) = (false, Vec::new());
    let mut words = typed.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(text) = word.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            found.push(word.as_os_str());
            continue;
        };
        if text == "--" {
            behind = found.is_empty();
            found.extend(words.by_ref().map(OsString::as_os_str));
            break;
        }
        let alone = text.split_once('=').map_or(text, |(option, _)| option);
        match known.iter().find(|arg| is_named(arg, alone)) {
            // What follows is its value, and neither a film nor a command.
            Some(arg) if arg.get_action().takes_values() && alone == text => drop(words.next()),
            Some(_) => {}
            // The parser will refuse it, or it is another command's: what follows may be anything.
            None if found.is_empty() => {}
            None => break,
        }
    }
    (behind, found)
}

/// Whether the word after all options is an input: a file that is there, or something that looks like one. What is left
/// may be a command that was mistyped.
fn is_film(cli: &Command, word: &OsStr) -> bool {
    let named = |c: &Command| c.get_name() == word || c.get_all_aliases().any(|alias| alias == word);
    let looks = |text: &str| text == "-" || text.contains(['.', '/', '\\']);
    let is_command = word == "help" || cli.get_subcommands().any(named);
    !is_command && (looks(&word.to_string_lossy()) || Path::new(word).exists())
}

/// Whether a film that does not exist is a pattern of names in a folder. An address is none: it is refused as one.
fn is_pattern(film: &OsStr) -> bool {
    let name = Path::new(film).file_name().unwrap_or_default().to_string_lossy();
    let film = Path::new(film);
    name.contains(['*', '?']) && !film.exists() && !remaster::is_url(film)
}

/// Whether an option as typed, without a value behind it, is this one.
fn is_named(arg: &Arg, text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        // `-o` takes the next word, `-oFILE` has its value.
        None => arg.get_short().is_some_and(|short| text.chars().nth(1) == Some(short)) && text.len() == 2,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn typed(words: &str) -> String {
        let words = std::iter::once("remaster").chain(words.split_whitespace()).map(OsString::from);
        let typed = as_typed(&Cli::command(), words.collect());
        typed[1..].iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_film_alone_is_restored() {
        for (words, expected) in [
            ("film.mkv", "restore film.mkv"),
            ("film.mkv -o out.mp4", "restore film.mkv -o out.mp4"),
            ("-q --resolution 720 film.mkv", "restore -q --resolution 720 film.mkv"),
            ("-", "restore -"),
            ("-o out.mp4 film.mkv", "restore -o out.mp4 film.mkv"),
            ("--config my.toml probe film.mkv", "--config my.toml probe film.mkv"),
            ("--config my.toml film.mkv", "restore --config my.toml film.mkv"),
            ("--dit_model a.gguf film.mkv", "restore --dit_model a.gguf film.mkv"),
            ("--preset plan film.mkv", "restore --preset plan film.mkv"),
            ("doctr", "doctr"),
            ("nonsense --json", "nonsense --json"),
            ("restore film.mkv", "restore film.mkv"),
            ("-q restore film.mkv", "-q restore film.mkv"),
            ("plan film.mkv", "plan film.mkv"),
            ("vae encode a -o b", "vae encode a -o b"),
            ("--help", "--help"),
            ("help plan", "help plan"),
            ("-q -- -film.mkv", "restore -q -- -film.mkv"),
            ("*.mkv", "batch *.mkv"),
            ("what?/film.mkv", "restore what?/film.mkv"),
            ("https://host/film.mkv?part=1", "restore https://host/film.mkv?part=1"),
            ("-V", "-V"),
            ("", ""),
            ("film.mkv -ss 1:00 -to 2:00 -vf crop=1:2", "restore film.mkv --ss 1:00 --to 2:00 --vf crop=1:2"),
        ] {
            assert_eq!(typed(words), expected, "{words}");
        }
    }

    #[test]
    fn several_films_are_a_batch_and_a_second_name_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.mkv", "b.mkv"].map(|name| {
            std::fs::write(folder.path().join(name), b"").unwrap();
            folder.path().join(name).display().to_string()
        });
        assert_eq!(typed(&format!("{a} -q --seed 7 {b}")), format!("batch {a} -q --seed 7 {b}"));
        assert_eq!(typed(&format!("-- {a} {b}")), format!("batch -- {a} {b}"));
        assert_eq!(typed(&format!("{a} -o {b}")), format!("restore {a} -o {b}"));
        // Those that are missing are named by the batch.
        assert_eq!(typed(&format!("{a} {b} missing.mkv")), format!("batch {a} {b} missing.mkv"));
        assert_eq!(typed(&format!("compare {a} {b}")), format!("compare {a} {b}"));
        assert_eq!(typed(&format!("{a} out.mp4")), format!("restore {a} out.mp4"));
        // The word after an unknown option may be its value.
        assert_eq!(typed(&format!("{a} --crf {b}")), format!("restore {a} --crf {b}"));
    }
}
