//! The config file with its presets, and options of the environment. They become arguments that are put before those that
//! were typed, so that the parser checks all alike. What was typed wins over the environment, and that over the file.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};
use thiserror::Error;
use toml::{Table, Value};

use crate::environment;
use crate::habits;
use crate::typed::{command, leaf, said};

/// What is wrong with the config file. Wrong usage, all of it.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not valid TOML: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("--preset {name} needs a config file, but {reason}; create one or name it with --config")]
    NoFile { name: String, reason: String },
    #[error("{path} has no [preset.{name}]; known presets: {known}")]
    NoPreset { path: PathBuf, name: String, known: String },
    #[error("{place}: unknown key `{key}`; {hint}")]
    Unknown { place: String, key: String, hint: String },
    #[error("{place}: `{key}` {reason}")]
    Key { place: String, key: String, reason: String },
    #[error("{place}: {reason}")]
    Refused { place: String, reason: String },
}

/// Keys that say where settings come from cannot be settings, nor can the permission to run a script.
const NOT_IN_A_FILE: [&str; 5] = ["config", "preset", "help", "version", "script"];

/// Why there are no arguments to run with.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Help, or what is wrong with what was typed.
    Usage(clap::Error),
    /// The same, and what to type instead.
    Habit(clap::Error, String),
    Config(ConfigError),
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Refusal::Config(error)
    }
}

/// Parses `typed` together with what the environment and the config file say for that command. `home` is the user's own
/// file, `set` are options of the environment.
pub(crate) fn parse(
    cli: Command,
    typed: Vec<OsString>,
    home: Option<PathBuf>,
    set: &[(&'static str, OsString)],
) -> Result<ArgMatches, Refusal> {
    // First only to see which command it is and what was typed: a required flag may be in the file.
    let seen = cli.clone().ignore_errors(true).try_get_matches_from(&typed).map_err(Refusal::Usage)?;
    let (words, leaf) = leaf(&seen);
    let mut built = cli.clone();
    built.build();
    let refused = |error: clap::Error| match habits::instead(&error, &built, &words, &typed) {
        Some(instead) => Refusal::Habit(error, instead),
        None => Refusal::Usage(error),
    };
    if words.is_empty() {
        return cli.try_get_matches_from(&typed).map_err(refused);
    }
    let config = seen.try_get_one::<PathBuf>("config").ok().flatten().cloned();
    let preset = seen.try_get_one::<String>("preset").ok().flatten().map(String::as_str);
    let mut settings = match File::find(config, preset, home)? {
        Some(file) => file.settings(&built, &words, preset)?,
        None => Vec::new(),
    };
    for (key, value) in set {
        if let Some(arg) = long(command(&built, &words), key) {
            settings.retain(|setting| setting.key != *key);
            settings.push(from_environment(arg, key, value)?);
        }
    }
    settings.retain(|setting| !setting.typed(leaf));

    let at = position(&built, &typed, &words);
    loop {
        let mut all = typed[..at].to_vec();
        all.extend(settings.iter().flat_map(|s| s.words.iter().map(OsString::from)));
        all.extend_from_slice(&typed[at..]);
        let error = match cli.clone().try_get_matches_from(all) {
            Ok(matches) => return Ok(matches),
            Err(error) => error,
        };
        let flag = said(&error, ContextKind::InvalidArg);
        let prior = said(&error, ContextKind::PriorArg);
        let index = |flags: &[String]| settings.iter().position(|s| flags.iter().any(|f| s.is(f)));
        match (error.kind(), index(&flag), index(&prior)) {
            // What was typed wins over what it cannot go with.
            (ErrorKind::ArgumentConflict, Some(i), None) | (ErrorKind::ArgumentConflict, None, Some(i)) => {
                settings.remove(i);
            }
            // Of two settings the nearer one wins.
            (ErrorKind::ArgumentConflict, Some(i), Some(j)) if settings[i].rank != settings[j].rank => {
                settings.remove(if settings[i].rank < settings[j].rank { i } else { j });
            }
            (_, Some(i), _) => {
                let text = error.to_string();
                let reason = text.split("\n\n").next().unwrap_or_default();
                let reason = reason.strip_prefix("error: ").unwrap_or(reason).trim().to_owned();
                return Err(ConfigError::Refused { place: settings[i].place.clone(), reason }.into());
            }
            _ => return Err(refused(error)),
        }
    }
}

/// Whether a path is the device of the system that is empty: `--config /dev/null` is a run without a config file.
fn is_null_device(path: &Path) -> bool {
    match cfg!(windows) {
        true => path.as_os_str().eq_ignore_ascii_case("NUL"),
        false => path == Path::new("/dev/null"),
    }
}

/// Bytes of a config file at most: a thousand times the usual size.
const MOST: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    if is_null_device(path) {
        return Ok(text);
    }
    remaster_disk::read_named(path)?.take(MOST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        0..=MOST => Ok(text),
        _ => Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is larger than 1 MiB")),
    }
}

/// An option that the environment sets.
fn from_environment(arg: &clap::Arg, key: &str, value: &OsStr) -> Result<Setting, ConfigError> {
    let place = environment::variable(key);
    let Some(value) = value.to_str() else {
        return Err(ConfigError::Refused { place, reason: "the value is not valid UTF-8".into() });
    };
    let words = vec![format!("--{key}={value}")];
    Ok(Setting { place, key: key.to_owned(), id: arg.get_id().to_string(), words, rank: 2 })
}

struct File {
    path: PathBuf,
    table: Table,
}

/// A key of the file as arguments.
#[derive(Debug)]
struct Setting {
    /// File and table, for errors.
    place: String,
    key: String,
    id: String,
    words: Vec<String>,
    /// 0 from the top of the file, 1 from the preset, 2 from the environment.
    rank: u8,
}

impl Setting {
    fn typed(&self, leaf: &ArgMatches) -> bool {
        let source = leaf.try_contains_id(&self.id).is_ok().then(|| leaf.value_source(&self.id)).flatten();
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    }

    /// Whether an error's `--key <VALUE>` is this one.
    fn is(&self, flag: &str) -> bool {
        let name = flag.split([' ', '=']).next().unwrap_or_default();
        name.strip_prefix("--") == Some(&self.key)
    }
}

impl File {
    fn find(
        config: Option<PathBuf>,
        preset: Option<&str>,
        home: Option<PathBuf>,
    ) -> Result<Option<Self>, ConfigError> {
        let path = match (config, home) {
            (Some(path), _) => path,
            (None, Some(path)) if path.exists() => path,
            (None, home) => {
                let Some(name) = preset.map(str::to_owned) else { return Ok(None) };
                let reason = home.map_or("this system has no place for one".into(), |p| {
                    format!("there is no {}", p.display())
                });
                return Err(ConfigError::NoFile { name, reason });
            }
        };
        let text = read(&path).map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let table = text.parse::<Table>();
        let table = table.map_err(|e| ConfigError::Toml {
            path: path.clone(),
            reason: e.to_string().trim_end().to_owned(),
        })?;
        Ok(Some(File { path, table }))
    }

    /// What the file sets for the command `words`, the preset's keys instead of the same ones at the top.
    fn settings(
        &self,
        cli: &Command,
        words: &[String],
        preset: Option<&str>,
    ) -> Result<Vec<Setting>, ConfigError> {
        let file = self.path.display().to_string();
        let mut top = self.table.clone();
        let presets = match top.remove("preset") {
            None => Table::new(),
            Some(Value::Table(presets)) => presets,
            Some(_) => {
                let reason = "must hold tables like [preset.fast]; choose one with --preset";
                return Err(wrong(&file, "preset", reason));
            }
        };
        // All of it is checked, not only what is used: a wrong key should not wait for the day it matters.
        for (name, preset) in &presets {
            let place = format!("{file}, [preset.{name}]");
            let Value::Table(preset) = preset else {
                return Err(wrong(&file, &format!("preset.{name}"), "must be a table, like [preset.fast]"));
            };
            preset.keys().try_for_each(|key| known(cli, words, &place, key))?;
        }
        top.keys().try_for_each(|key| known(cli, words, &file, key))?;

        let chosen = match preset {
            None => Table::new(),
            Some(name) => match presets.get(name) {
                Some(Value::Table(table)) => table.clone(),
                _ => {
                    let names: Vec<&str> = presets.keys().map(String::as_str).collect();
                    let known = if names.is_empty() { "none".into() } else { names.join(", ") };
                    return Err(ConfigError::NoPreset { path: self.path.clone(), name: name.into(), known });
                }
            },
        };
        let leaf = command(cli, words);
        let mut settings = Vec::new();
        for (key, value) in top.iter().filter(|(key, _)| !chosen.contains_key(*key)) {
            // At the top stand defaults for every command that takes them.
            if let Some(arg) = long(leaf, key) {
                settings.push(setting(&file, 0, arg, key, value)?);
            }
        }
        for (key, value) in &chosen {
            let place = format!("{file}, [preset.{}]", preset.unwrap_or_default());
            let Some(arg) = long(leaf, key) else {
                let reason = format!("has no effect on `remaster {}`; remove it", words.join(" "));
                return Err(wrong(&place, key, &reason));
            };
            settings.push(setting(&place, 1, arg, key, value)?);
        }
        Ok(settings)
    }
}

fn wrong(place: &str, key: &str, reason: &str) -> ConfigError {
    ConfigError::Key { place: place.to_owned(), key: key.to_owned(), reason: reason.to_owned() }
}

/// Refuses a key that no command has.
fn known(cli: &Command, words: &[String], place: &str, key: &str) -> Result<(), ConfigError> {
    if NOT_IN_A_FILE.contains(&key) {
        return Err(wrong(place, key, "is only allowed on the command line"));
    }
    if anywhere(cli, key) {
        return Ok(());
    }
    // The parser knows best which flag is meant.
    let mut line = vec!["remaster".to_owned()];
    line.extend_from_slice(words);
    line.push(format!("--{key}"));
    let error = cli.clone().try_get_matches_from(line).err();
    let near = error.map(|e| said(&e, ContextKind::SuggestedArg)).unwrap_or_default();
    let hint = match near.first().map(|f| f.trim_start_matches('-')) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let leaf = command(cli, words);
            let keys: Vec<&str> = leaf.get_arguments().filter_map(|a| a.get_long()).collect();
            let keys: Vec<&str> = keys.into_iter().filter(|k| !NOT_IN_A_FILE.contains(k)).collect();
            format!("`remaster {}` accepts {}", words.join(" "), keys.join(", "))
        }
    };
    Err(ConfigError::Unknown { place: place.to_owned(), key: key.to_owned(), hint })
}

fn setting(place: &str, rank: u8, arg: &clap::Arg, key: &str, value: &Value) -> Result<Setting, ConfigError> {
    let wrong = |reason| wrong(place, key, reason);
    let word = |value: &Value| match value {
        Value::String(s) => Ok(s.clone()),
        Value::Integer(n) => Ok(n.to_string()),
        Value::Float(x) => Ok(x.to_string()),
        Value::Boolean(b) => Ok(b.to_string()),
        _ => Err(wrong("must be a string, a number, true, false, or a list of these")),
    };
    let words = match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => vec![format!("--{key}")],
        (ArgAction::SetTrue, Value::Boolean(false)) => vec![],
        (ArgAction::SetTrue, _) => return Err(wrong("must be true or false")),
        (_, Value::Array(list)) => {
            let list = list.iter().map(word).collect::<Result<Vec<_>, _>>()?;
            match arg.get_value_delimiter() {
                Some(comma) => vec![format!("--{key}={}", list.join(&comma.to_string()))],
                None => list.iter().map(|word| format!("--{key}={word}")).collect(),
            }
        }
        // With `=`, so that -1G is a value.
        (_, value) => vec![format!("--{key}={}", word(value)?)],
    };
    Ok(Setting { place: place.to_owned(), key: key.to_owned(), id: arg.get_id().to_string(), words, rank })
}

fn long<'a>(command: &'a Command, key: &str) -> Option<&'a clap::Arg> {
    command.get_arguments().find(|a| a.get_long() == Some(key))
}

fn anywhere(command: &Command, key: &str) -> bool {
    long(command, key).is_some() || command.get_subcommands().any(|c| anywhere(c, key))
}

/// Index after the last word of the command. Values of flags are skipped: a preset may be called `vae`.
fn position(cli: &Command, typed: &[OsString], words: &[String]) -> usize {
    let (mut command, mut words, mut at) = (cli, words.iter().peekable(), 1);
    while let Some(next) = words.peek() {
        let Some(word) = typed.get(at).map(|w| w.to_string_lossy()) else { break };
        let takes_value = word
            .strip_prefix("--")
            .and_then(|name| long(command, name))
            .is_some_and(|arg| arg.get_num_args().is_some_and(|n| n.takes_values()));
        at += if takes_value { 2 } else { 1 };
        if let Some(inner) = command.find_subcommand(word.as_ref())
            && inner.get_name() == next.as_str()
            && !takes_value
        {
            command = inner;
            words.next();
        }
    }
    at.min(typed.len())
}

/// The user's own config file, by the custom of the system.
pub(crate) fn home() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").filter(|p| p.is_absolute()).or_else(|| {
        if cfg!(windows) {
            return set("APPDATA");
        }
        let home = std::env::home_dir()?;
        Some(home.join(if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" }))
    })?;
    Some(base.join(Path::new("remaster").join("config.toml")))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use remaster_testkit::hostile::{Counting, attack};

    use super::*;
    use crate::args::Cli;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn settings_go_behind_the_words_of_the_command() {
        let mut cli = Cli::command();
        cli.build();
        for (line, path, at) in [
            ("remaster vae encode in.png", "vae encode", 3),
            ("remaster --json vae --json encode in.png", "vae encode", 5),
            ("remaster --preset vae vae encode vae", "vae encode", 5),
            ("remaster --preset=vae vae encode", "vae encode", 4),
            ("remaster doctor", "doctor", 2),
        ] {
            let path: Vec<String> = path.split(' ').map(str::to_owned).collect();
            assert_eq!(position(&cli, &words(line), &path), at, "{line}");
        }
    }

    #[test]
    fn no_word_of_a_broken_line_gets_lost() {
        // Whatever is typed, without a config file the parser's own answer comes out.
        for line in [
            "remaster",
            "remaster vae",
            "remaster nonsense",
            "remaster vae encode --wrong",
            "remaster --help",
        ] {
            let plain = Cli::command().try_get_matches_from(words(line)).unwrap_err();
            match parse(Cli::command(), words(line), None, &[]) {
                Err(Refusal::Usage(error) | Refusal::Habit(error, _)) => {
                    assert_eq!(error.to_string(), plain.to_string(), "{line}")
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn mutated_files_are_read_or_refused_and_take_little_memory() {
        let good = [
            "ram = \"-2G\"\nweights = \"a file\"\nsides = [64, 128]\nyes = true\nslice = 8\nmin-psnr = 30.5\n\
             [preset.fast]\ndtype = \"bf16\"\nslice = 16\nno-collapse = true\n[preset.slow]\nstripes = 4\n",
            "threads = 1\n# a comment\n[preset]\nfast = { dtype = \"f16\", \"ram\" = '''80%''', tile = 0x40 }\n",
            "preset.fast.slice = 0b100\npreset.fast.disk = \"\"\"1\\u0047\"\"\"\nprogress = \"none\"\n",
        ];
        let good: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
        let lines = [
            "remaster vae encode in.png -o out.safetensors --preset fast",
            "remaster plan --network decode --height 64 --width 64 --preset fast",
            "remaster vae roundtrip in.png -o out.png",
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        for (n, bytes) in good.iter().enumerate() {
            std::fs::write(file.path(), bytes).unwrap();
            let read = parse(Cli::command(), words(lines[1]), Some(file.path().to_owned()), &[]);
            assert!(read.is_ok(), "{n}: {read:?}");
        }
        let mut turn = 0;
        attack("config", &good, 64 << 20, |bytes| {
            std::fs::write(file.path(), bytes).unwrap();
            turn += 1;
            if let Ok(matches) =
                parse(Cli::command(), words(lines[turn % 3]), Some(file.path().to_owned()), &[])
            {
                drop(Cli::from_arg_matches(&matches));
            }
        });
    }
}
