//! Options that can be set in the environment: `REMASTER_MODEL=7b` is `--model 7b` for every command that has it.

use std::ffi::OsString;

use crate::habits;

/// Options of every day, by their long names. What is typed wins over them, and they win over the config file.
pub(crate) const OPTIONS: [&str; 12] = [
    "model",
    "vae",
    "resolution",
    "device",
    "dtype",
    "threads",
    "ram",
    "vram",
    "disk",
    "spill",
    "color",
    "progress",
];

/// Variables with a meaning of their own.
const OTHERS: [&str; 7] = [
    "REMASTER_MODEL_DIR",
    "REMASTER_FFMPEG",
    "REMASTER_FFPROBE",
    "REMASTER_VSPIPE",
    "REMASTER_CPU_PATH",
    "REMASTER_STALL_SECONDS",
    "REMASTER_TOKEN",
];

/// Of tests and of the scripts around them, which a program that they start inherits.
const TESTS: &[&str] = &[
    "BINARY",
    "BOUNDS",
    "BUILD",
    "CI",
    "CORPUS",
    "FARM",
    "FAULT",
    "FAULTS",
    "FFMPEGS",
    "FUZZ",
    "GONE",
    "HELD",
    "HOSTILE",
    "KILL",
    "KILLS",
    "LACKS",
    "LIES",
    "MESA",
    "MOTO",
    "NIGHTLY",
    "PEERS",
    "PHOTOS",
    "PLAN",
    "POS",
    "PROMISE",
    "PUBLISHED",
    "QUICK",
    "RCLONE",
    "REQUIRE",
    "SEEKS",
    "SLOT",
    "SMALL",
    "STORE",
    "TEST",
    "WEED",
    "WRITE",
];

const PREFIX: &str = "REMASTER_";

/// The variable of an option.
pub(crate) fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.to_ascii_uppercase().replace('-', "_"))
}

/// Options that are set, with their values. An empty one counts as none.
pub(crate) fn set() -> Vec<(&'static str, OsString)> {
    let value = |option| std::env::var_os(variable(option)).filter(|value| !value.is_empty());
    OPTIONS.into_iter().filter_map(|option| Some((option, value(option)?))).collect()
}

/// Warnings about variables that look like ours and do nothing.
pub(crate) fn warnings() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(|name| is_unknown(name)).collect();
    unknown.sort();
    unknown.iter().map(|name| unread(name)).collect()
}

fn is_unknown(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let ours = OPTIONS.into_iter().any(|option| variable(option) == name) || OTHERS.contains(&name);
    !ours && !TESTS.contains(&rest.split('_').next().unwrap_or_default())
}

fn unread(name: &str) -> String {
    let known: Vec<String> =
        OPTIONS.into_iter().map(variable).chain(OTHERS.iter().map(|name| (*name).to_owned())).collect();
    let near = habits::nearest(name, known.iter().map(String::as_str));
    let hint = near.map_or("docs/cli.md lists those that are".into(), |near| format!("did you mean {near}?"));
    format!("the variable {name} is not used; {hint}")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_variable_is_an_option_of_a_restoration_and_documented() {
        let mut cli = Cli::command();
        cli.build();
        let restore = cli.find_subcommand("restore").unwrap();
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md")).unwrap();
        for option in OPTIONS {
            assert!(restore.get_arguments().any(|arg| arg.get_long() == Some(option)), "{option}");
            assert!(page.contains(&format!("`{}`", variable(option))), "{option}");
        }
        for name in OTHERS.iter().filter(|name| **name != "REMASTER_STALL_SECONDS") {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn a_mistyped_variable_is_noticed_and_those_of_tests_are_not() {
        let expected = "the variable REMASTER_MODLE is not used; did you mean REMASTER_MODEL?";
        assert_eq!(unread("REMASTER_MODLE"), expected);
        for name in ["REMASTER_MODLE", "REMASTER_SCALE", "REMASTER_"] {
            assert!(is_unknown(name), "{name}");
        }
        for name in ["REMASTER_MODEL", "REMASTER_MODEL_DIR", "REMASTER_TEST_PANIC", "REMASTERED", "HOME"] {
            assert!(!is_unknown(name), "{name}");
        }
    }
}
