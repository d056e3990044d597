//! What is typed by habit from other tools, and what to type instead.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use crate::typed::{command, said};

/// Options of other tools, and ours.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["-i", "--input", "--in"], "name the input without an option, as in `remaster film.mkv -o out.mkv`"),
    (&["--scale", "--upscale", "--factor", "--outscale", "-s"], "use --resolution 2x, or --resolution 4k"),
    (&["--size", "--res", "--target-resolution"], "use --resolution, as in --resolution 1080p"),
    (
        &["-c", "--codec", "--vcodec", "--encoder", "--video-codec"],
        "encoders go into --video, as in --video 'libx265 -preset slow'",
    ),
    (
        &["-b", "--bitrate", "-preset", "-tune", "-profile"],
        "encoder options go into --video, as in --video 'libx264 -crf 18'",
    ),
    (&["--quality", "-p"], "use --crf 18; less is better"),
    (
        &["--gpu", "--gpu-id", "--cuda", "-g"],
        "use --device, with a name from `remaster devices`, such as vulkan:0",
    ),
    (&["--fp16", "--half"], "use --dtype f16"),
    (&["--bf16"], "use --dtype bf16"),
    (&["--start"], "use --ss TIME"),
    (&["--end", "--duration", "-t"], "use --to TIME"),
    (&["--overwrite", "--force", "-f"], "use -y to overwrite the output"),
    (&["--outdir", "--output-dir", "--out-dir"], "use -o FILE, or `remaster batch -d DIR` for many films"),
];

/// A better sentence than the parser's, where there is one. `cli` is built.
pub(crate) fn instead(
    error: &clap::Error,
    cli: &Command,
    words: &[String],
    typed: &[OsString],
) -> Option<String> {
    let first = |kind| said(error, kind).into_iter().next();
    match error.kind() {
        ErrorKind::UnknownArgument => unknown(&first(ContextKind::InvalidArg)?, cli, words, typed),
        ErrorKind::InvalidSubcommand if words.is_empty() => {
            let word = first(ContextKind::InvalidSubcommand)?;
            let names = cli.get_subcommands().map(Command::get_name);
            let next = match nearest(&word, names) {
                Some(near) => format!("did you mean `remaster {near}`?"),
                None => "`remaster -h` lists the commands".into(),
            };
            Some(format!("`{word}` is neither a command nor a file; {next}"))
        }
        _ => None,
    }
}

fn unknown(word: &str, cli: &Command, words: &[String], typed: &[OsString]) -> Option<String> {
    let leaf = command(cli, words);
    let films = ["restore", "preview", "batch"].contains(&leaf.get_name());
    if !word.starts_with('-') {
        let restores = leaf.get_name() == "restore";
        return restores
            .then(|| format!("name the output with -o {word}; for several films use `remaster batch`"));
    }
    // A number below 0 looks like an option.
    if word[1..].starts_with(|c: char| c.is_ascii_digit()) {
        let at =
            typed.iter().position(|typed| typed.to_str().is_some_and(|typed| typed.starts_with(word)))?;
        let option = typed.get(at.checked_sub(1)?)?.to_str().filter(|option| option.starts_with('-'))?;
        return Some(format!("{option} takes no number below 0"));
    }
    // `-crf 18` is seen as `-c`.
    let whole = typed.iter().filter_map(|typed| typed.to_str()).find(|typed| typed.starts_with(word));
    let names = [word, whole.unwrap_or(word)].map(|name| name.split(['=', ':']).next().unwrap_or(name));
    let habit = OPTIONS.iter().find(|(options, _)| names.iter().any(|name| options.contains(name)));
    if let (true, Some((_, instead))) = (films, habit) {
        return Some(format!("there is no option {}; {instead}", names[1]));
    }
    let name = word.strip_prefix("--")?.split('=').next()?;
    let longs = leaf.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
    let next = match nearest(name, longs) {
        Some(near) => format!("did you mean --{near}?"),
        None => format!("`remaster {} --help` lists the options", words.join(" ")),
    };
    Some(format!("there is no option --{name}; {next}"))
}

/// The name that was probably meant: a third of the letters may differ. Of two that are as near, the one with the same
/// number of letters: letters are swapped more often than forgotten.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.len() / 3).max(1);
    let near = names.map(|name| (distance(word, name), name.len().abs_diff(word.len()), name));
    near.filter(|(distance, ..)| *distance <= most).min().map(|(.., name)| name)
}

/// Letters to insert, remove, replace or swap with a neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // A word as long as an argument can be is not compared with every option.
    if a.len().abs_diff(b.len()) > 16 {
        return usize::MAX;
    }
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let same = usize::from(a[i] != b[j]);
            let mut least = (rows[i][j] + same).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        let names = ["mode", "model", "resolution", "stall-seconds", "seed", "strength"];
        for (word, meant) in [
            ("modle", Some("model")),
            ("modl", Some("mode")),
            ("mdoel", Some("model")),
            ("resolutoin", Some("resolution")),
            ("sead", Some("seed")),
            ("scale", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names.into_iter()), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), names.into_iter()), None);
    }
}
