//! Text around the generated help.

use std::ffi::OsString;

use clap::Command;

/// Everyday commands, in the order of a first session.
const EVERYDAY: [&str; 7] = ["restore", "preview", "plan", "batch", "serve", "models", "doctor"];

/// The others, by what they are for.
const OTHERS: [(&str, &[&str]); 5] = [
    ("Films", &["probe", "scenes", "compare", "verify", "redecode"]),
    ("Machines", &["devices", "tune", "bench"]),
    ("Farms", &["unit", "assemble"]),
    ("Latents", &["vae"]),
    ("Program", &["completions", "man", "generate", "licenses"]),
];

/// Below the commands of `remaster -h`.
const OPTIONS: &str = "  -q, --quiet          Print errors only
  -v, --verbose        Print details: the plan, the ffmpeg in use, a full summary
      --json           Print the result as one JSON document
      --preset <NAME>  Apply [preset.NAME] from the config file
  -h, --help           Print this help; --help has examples and exit codes
  -V, --version        Print version

`remaster COMMAND -h` shows the options of a command, `remaster restore -h` those of a film.
";

/// The same command line with a short `remaster -h`, unless everything was asked for.
pub(crate) fn short(cli: Command, typed: &[OsString]) -> Command {
    let asked = typed.iter().any(|word| word == "--help") || typed.get(1).is_some_and(|word| word == "help");
    if asked {
        return cli;
    }
    let text = of(&cli);
    cli.override_help(text)
}

fn of(cli: &Command) -> String {
    let heading = |words: &str| format!("\x1b[1m\x1b[4m{words}:\x1b[0m");
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\n{} remaster [OPTIONS] <FILM>\n", about(cli), heading("Usage"));
    text += &format!("       remaster [OPTIONS] <COMMAND>\n\n{}\n", heading("Commands"));
    for command in EVERYDAY.into_iter().filter_map(|name| cli.find_subcommand(name)) {
        text += &format!("  {:9} {}\n", command.get_name(), about(command));
    }
    text += &format!("\n{}\n", heading("More commands"));
    for (what, names) in OTHERS {
        // Some builds have fewer.
        let there: Vec<&str> =
            names.iter().copied().filter(|name| cli.find_subcommand(name).is_some()).collect();
        text += &format!("  {what:9} {}\n", there.join(", "));
    }
    text + &format!("\n{}\n{OPTIONS}", heading("Options"))
}

/// Below `remaster --help`.
pub(crate) const LONG: &str = "\
Examples:
  remaster film.mkv                   Restore a film to film_upscaled.mkv
  remaster film.mkv -o out.mp4 --resolution 4k
                                      Choose the name and the size
  remaster clip.mp4 --model anime     Try it without downloading a model
  remaster models pull 3b             Download a model
  remaster plan film.mkv              See how much memory, disk and time it takes
  remaster preview film.mkv           See a frame of each shot before and after
  remaster scenes film.mkv -o shots.json
                                      List where shots begin
  remaster compare a.mkv b.mkv        Measure the difference between two videos
  remaster doctor                     Check that this machine is ready

Exit codes:
  0    success
  2    invalid usage: an option, a value or the config file
  3    a file, a folder, ffmpeg or the network cannot be used
  4    not enough memory or disk space allowed
  5    the device failed
  6    a check failed: wrong numbers, a damaged or unknown model file
  101  internal error: a bug, please report it
  130  stopped; no partial files are left

Results go to stdout (one document with --json), messages to stderr.
Settings can be stored in a config file with presets; see docs/cli.md.";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_has_a_place_in_the_short_help() {
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
        let there: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let listed = EVERYDAY.into_iter().chain(OTHERS.iter().flat_map(|(_, names)| names.iter().copied()));
        let listed: BTreeSet<&str> =
            listed.filter(|name| !["tune", "serve"].contains(name) || there.contains(name)).collect();
        assert_eq!(listed, there);
    }
}
