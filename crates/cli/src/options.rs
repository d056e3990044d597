//! `remaster generate options`: the options of the library's request with what the parser and the help know of them.

use clap::{Arg, ArgAction, Command, CommandFactory};
use remaster::{OptionType, REQUEST_OPTIONS, RequestOption};
use serde::Serialize;

use crate::args::Cli;
use crate::output::Output;

/// Commands that take options of a request.
const COMMANDS: [&str; 4] = ["restore", "plan", "preview", "batch"];

#[derive(Serialize)]
struct Options {
    version: &'static str,
    options: Vec<Described>,
}

/// An option for programs.
#[derive(Serialize)]
struct Described {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
    field: &'static str,
    #[serde(rename = "type")]
    kind: OptionType,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    choices: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<serde_json::Number>,
    many: bool,
    commands: Vec<&'static str>,
    group: String,
    help: String,
}

pub(crate) fn print(out: &Output) {
    let document = Options { version: env!("CARGO_PKG_VERSION"), options: all(&Cli::command()) };
    out.result(&document, || {
        let rows = document.options.iter().map(|option| {
            let name = option.flag.as_deref().unwrap_or(option.name);
            let kind = match option.choices {
                [] => format!("{:?}", option.kind).to_lowercase(),
                choices => choices.join("|"),
            };
            [name.to_owned(), kind, option.default.clone().unwrap_or_default(), option.help.clone()]
        });
        table(&rows.collect::<Vec<_>>())
    });
}

/// Every option of a request that some command shows in its help.
fn all(cli: &Command) -> Vec<Described> {
    let described = |option: &RequestOption| {
        let found =
            COMMANDS.iter().filter_map(|name| Some((*name, find(cli.find_subcommand(name)?, option)?)));
        let found: Vec<(&str, &Arg)> = found.collect();
        let (_, arg) = *found.first()?;
        // Others may use the name for something else, as `plan --frames 65` does.
        let same = |other: &Arg| other.get_value_names() == arg.get_value_names();
        let commands = found.iter().filter(|(_, other)| same(other)).map(|(command, _)| *command).collect();
        let (help, told) = help(arg);
        let set = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let set = set.collect::<Vec<_>>().join(",");
        let default = if set.is_empty() || option.kind == OptionType::Bool { told } else { Some(set) };
        let heading = if arg.is_positional() { "Arguments" } else { "Options" };
        let [min, max] = option.range.map_or([None, None], |range| range.map(|n| number(option.kind, n)));
        Some(Described {
            name: option.name,
            flag: arg.get_long().map(|long| format!("--{long}")),
            field: option.field,
            kind: option.kind,
            choices: option.choices,
            default,
            min,
            max,
            many: matches!(arg.get_action(), ArgAction::Append),
            commands,
            group: arg.get_help_heading().unwrap_or(heading).to_owned(),
            help,
        })
    };
    REQUEST_OPTIONS.iter().filter_map(described).collect()
}

/// The option of a command.
fn find<'a>(command: &'a Command, option: &RequestOption) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match arg.get_long() {
        Some(long) => long.replace('-', "_") == option.name,
        None => arg.is_positional() && arg.get_id() == option.name,
    })
}

/// The line of the help, and the default that it ends with.
fn help(arg: &Arg) -> (String, Option<String>) {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    match text.strip_suffix(']').and_then(|text| text.split_once(" [default: ")) {
        Some((help, default)) => (help.to_owned(), Some(default.to_owned())),
        None => (text, None),
    }
}

fn number(kind: OptionType, value: f64) -> Option<serde_json::Number> {
    match kind {
        OptionType::Integer => Some((value as i64).into()),
        _ => serde_json::Number::from_f64(value),
    }
}

/// Rows with columns below each other.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;

    /// Options of a restoration that are none of a request.
    const OTHERS: &[(&str, &str)] = &[
        ("progress", "what is shown"),
        ("until", "when the run is stopped, which its control decides"),
        ("streams", "a restoration refuses it"),
        ("no_scripts", "permission to run scripts is no part of a request"),
    ];

    fn cli() -> Command {
        let mut cli = Cli::command();
        cli.build();
        cli
    }

    #[test]
    fn every_option_is_in_the_parser_and_the_other_way_round() {
        let cli = cli();
        let restore = cli.find_subcommand("restore").unwrap();
        for option in REQUEST_OPTIONS {
            assert!(find(restore, option).is_some(), "restore has no {}", option.name);
        }
        let shown = restore.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set());
        for id in shown.map(|arg| arg.get_long().unwrap_or(arg.get_id().as_str()).replace('-', "_")) {
            let known = REQUEST_OPTIONS.iter().any(|option| option.name == id);
            let other = id == "help" || OTHERS.iter().any(|(name, _)| *name == id);
            assert!(known != other, "--{id} needs a field or a reason");
        }
    }

    #[test]
    fn types_are_those_of_the_parser() {
        let cli = cli();
        for option in REQUEST_OPTIONS {
            let arg = find(cli.find_subcommand("restore").unwrap(), option).unwrap();
            let value = arg.get_value_parser().type_id();
            let one_of = |types: &[TypeId]| types.iter().any(|kind| value == *kind);
            let integer = one_of(&[
                TypeId::of::<u8>(),
                TypeId::of::<u16>(),
                TypeId::of::<u32>(),
                TypeId::of::<u64>(),
                TypeId::of::<usize>(),
            ]);
            let expected = match arg.get_action() {
                ArgAction::SetTrue => OptionType::Bool,
                _ if integer => OptionType::Integer,
                _ if one_of(&[TypeId::of::<f32>(), TypeId::of::<f64>()]) => OptionType::Number,
                _ if one_of(&[TypeId::of::<PathBuf>()]) => OptionType::Path,
                _ => OptionType::Text,
            };
            assert_eq!(option.kind, expected, "{}", option.name);
            let listed: Vec<String> =
                arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if option.kind != OptionType::Bool && !listed.is_empty() {
                assert_eq!(option.choices, listed, "{}", option.name);
            }
        }
    }

    #[test]
    fn ranges_and_choices_are_those_of_the_parser() {
        let parses = |option: &RequestOption, value: &str| {
            let flag = format!("--{}={value}", option.name.replace('_', "-"));
            Cli::try_parse_from(["remaster", "restore", "film.mkv", &flag]).is_ok()
        };
        for option in REQUEST_OPTIONS {
            for choice in option.choices {
                assert!(parses(option, choice), "{} {choice}", option.name);
            }
            assert!(option.choices.is_empty() || !parses(option, "nonsense"), "{}", option.name);
            let Some([least, most]) = option.range else { continue };
            for (value, fine) in [(least, true), (most, true), (least - 1.0, false), (most + 1.0, false)] {
                assert_eq!(parses(option, &value.to_string()), fine, "{} {value}", option.name);
            }
        }
    }

    #[test]
    fn options_are_described_as_the_help_has_them() {
        let options = all(&cli());
        assert_eq!(options.len(), REQUEST_OPTIONS.len());
        let of = |name: &str| {
            let option = options.iter().find(|option| option.name == name).unwrap();
            serde_json::to_value(option).unwrap()
        };
        let resolution = of("resolution");
        assert_eq!(resolution["commands"], serde_json::json!(["restore", "plan", "preview", "batch"]));
        assert_eq!(of("frames")["commands"], serde_json::json!(["restore"]));
        assert_eq!((&of("input")["flag"], &of("seed")["default"]), (&serde_json::Value::Null, &"42".into()));
        assert_eq!((&of("fps")["default"], &of("ram")["default"]), (&"25".into(), &"-512M".into()));
        let crf = of("crf");
        assert_eq!((&crf["min"], &crf["max"], &crf["group"]), (&0.into(), &63.into(), &"Output".into()));
        assert_eq!([&of("devices")["many"], &of("temp")["many"]], [true, false]);
        for option in &options {
            assert!(!option.help.is_empty() && !option.help.contains("[default"), "{}", option.name);
        }
    }
}
