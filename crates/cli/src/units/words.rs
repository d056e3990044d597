//! Options that decide the result, as words of a plan: taken from what was parsed, and parsed again by a worker.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::args::{Cli, Command as Typed};
use crate::error::CliError;
use crate::restore::RestoreArgs;

/// Options of a restoration that decide its frames, by their names in the parser.
const PINNED: [&str; 28] = [
    "seed",
    "softness",
    "window",
    "input_noise",
    "latent_noise",
    "strength",
    "color",
    "color_pool",
    "dither",
    "ss",
    "to",
    "vf",
    "fps",
    "deinterlace",
    "hdr",
    "damaged",
    "exr",
    "resolution",
    "edges",
    "keep_sar",
    "video",
    "pixel_format",
    "lossless",
    "audio",
    "mode",
    "tile",
    "overlap",
    "ten_bit",
];

/// The words of a plan for what was parsed. `matches` is of the command that has the options of a restoration.
pub(crate) fn of(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut words = Vec::new();
    for arg in command.get_arguments().filter(|arg| PINNED.contains(&arg.get_id().as_str())) {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        if matches!(matches.value_source(id), None | Some(ValueSource::DefaultValue)) {
            continue;
        }
        if !arg.get_action().takes_values() {
            words.extend(matches.get_flag(id).then(|| format!("--{long}")));
            continue;
        }
        // The last one wins, as it does in the parser.
        let value = matches.get_raw(id).and_then(Iterator::last).map(|value| value.to_string_lossy());
        words.extend(value.map(|value| format!("--{long}={value}")));
    }
    words.sort();
    words
}

/// Puts the words of what was typed where the commands that need them find them.
pub(crate) fn remember(command: &mut Typed, cli: &Command, matches: &ArgMatches) {
    let Some((name, matches)) = matches.subcommand() else { return };
    let Some(cli) = cli.find_subcommand(name) else { return };
    match command {
        Typed::Restore(args) => args.words = of(cli, matches),
        Typed::Plan(args) => args.words = of(cli, matches),
        Typed::Batch(args) => args.words = of(cli, matches),
        _ => {}
    }
}

/// A restoration with the settings of a plan, and otherwise as if nothing had been typed.
pub(crate) fn parsed(words: &[String], input: &str, output: &str) -> Result<RestoreArgs, CliError> {
    let wrong = |reason: String| CliError::PlanWords { reason };
    let mut command = Cli::command();
    command.build();
    let restore = command.find_subcommand("restore").ok_or_else(|| wrong("no command".into()))?;
    let known = |word: &String| {
        let name = word.strip_prefix("--").map(|word| word.split('=').next().unwrap_or_default());
        let named = |arg: &&clap::Arg| arg.get_long().is_some() && arg.get_long() == name;
        restore.get_arguments().find(named).is_some_and(|arg| PINNED.contains(&arg.get_id().as_str()))
    };
    if let Some(word) = words.iter().find(|word| !known(word)) {
        let shown: String = word.chars().take(40).collect();
        return Err(wrong(format!("{shown:?} is no setting of a restoration")));
    }
    let start = ["remaster".to_owned(), "restore".into()].into_iter();
    let end = [format!("--output={output}"), "--".into(), input.to_owned()];
    let typed: Vec<OsString> = start.chain(words.iter().cloned()).chain(end).map(Into::into).collect();
    let matches = Cli::command().try_get_matches_from(typed).map_err(|error| wrong(error.to_string()))?;
    match Cli::from_arg_matches(&matches).map_err(|error| wrong(error.to_string()))?.command {
        Typed::Restore(mut args) => {
            args.words = words.to_vec();
            Ok(*args)
        }
        _ => Err(wrong("it is no restoration".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options that decide nothing, that a plan holds in another form, or that plans refuse.
    const OTHERS: &[&str] = &[
        "input",
        "output",
        "yes",
        "keep_latents",
        "model",
        "vae",
        "text",
        "model_dir",
        "scenes",
        "ram",
        "disk",
        "spill",
        "stripes",
        "slice",
        "vram",
        "name",
        "dtype",
        "threads",
        "cpu_path",
        "no_tune",
        "no_collapse",
        "ffmpeg",
        "ffprobe",
        "stall_seconds",
        "progress",
        "streams",
        "help",
        "unit_frames",
        "piece_frames",
        "mix_devices",
        "lossless_units",
        "devices",
        "temp",
        "keep",
        "restart",
        "keep_going",
        "until",
        "wait_disk",
        "checkpoint",
        "no_manifest",
        "embed_manifest",
        "quiet",
        "verbose",
        "json",
        "cancel_on_stdin_close",
        "config",
        "preset",
    ];

    fn pinned(line: &str) -> Vec<String> {
        let typed = format!("remaster {line}");
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from(typed.split_whitespace()).unwrap();
        let mut cli = Cli::from_arg_matches(&matches).unwrap();
        remember(&mut cli.command, &command, &matches);
        match cli.command {
            Typed::Restore(args) => args.words,
            Typed::Plan(args) => args.words,
            Typed::Batch(args) => args.words,
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_option_of_a_restoration_is_pinned_or_known_not_to_matter() {
        let mut command = Cli::command();
        command.build();
        let restore = command.find_subcommand("restore").unwrap();
        for arg in restore.get_arguments() {
            let id = arg.get_id().as_str();
            // Those of the popular tool that have no equivalent change nothing, or are refused.
            let popular = arg.is_hide_set();
            assert!(PINNED.contains(&id) || OTHERS.contains(&id) || popular, "{id}");
        }
        for id in PINNED {
            assert!(restore.get_arguments().any(|arg| arg.get_id().as_str() == id), "{id} is no option");
        }
    }

    #[test]
    fn words_are_the_same_however_they_were_typed_and_are_read_back() {
        let words = ["--color=wavelet", "--dither", "--seed=7", "--video=libx264"];
        assert_eq!(
            pinned("restore a.mkv --video libx264 --seed 7 --ram 4G --color wavelet --dither -o b.mkv"),
            words
        );
        assert_eq!(pinned("restore --dither a.mkv --color=wavelet --seed=7 --video=libx264"), words);
        assert_eq!(pinned("batch a.mkv --dither --color=wavelet --seed=7 --video=libx264"), words);
        assert_eq!(pinned("plan a.mkv --store s --dither --color=wavelet --seed=7 --video=libx264"), words);
        let words = words.map(str::to_owned);
        let args = parsed(&words, "-in put.mkv", "out.mkv").unwrap();
        assert_eq!((args.how.look.seed, args.input.to_str()), (7, Some("-in put.mkv")));
        assert_eq!(args.words, words);
        for word in
            ["--ffmpeg=x", "--ram=1G", "--output=x", "seed=7", "--", "-y", "--seed", "--seed=x", "--see=7"]
        {
            assert!(parsed(&[word.to_owned()], "a", "b").is_err(), "{word}");
        }
    }
}
