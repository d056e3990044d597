//! One file for each command: arguments to a call, an outcome to text.

pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod film;
pub(crate) mod licenses;
pub(crate) mod models;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod probe;
pub(crate) mod redecode;
pub(crate) mod restore;
pub(crate) mod scenes;
#[cfg(feature = "serve")]
pub(crate) mod serve;
#[cfg(feature = "gpu")]
pub(crate) mod tune;
pub(crate) mod unit;
pub(crate) mod vae;
pub(crate) mod verify;
pub(crate) mod work;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use remaster::numbers::{clock, count};
use remaster::{WorkerProgram, is_pipe};
use serde::Serialize;

use crate::args::ProgressMode;
use crate::environment;
use crate::error::CliError;
use crate::output::Output;

/// Refuses to mix frames with a document, or to show them to a person.
pub(crate) fn check_stdout(output: Option<&Path>, out: &Output) -> Result<(), CliError> {
    let check = |output| check_frames(output, out.is_json(), std::io::stdout().is_terminal());
    output.map_or(Ok(()), check)
}

fn check_frames(output: &Path, json: bool, terminal: bool) -> Result<(), CliError> {
    match (is_pipe(output), json, terminal) {
        (true, true, _) => Err(CliError::JsonPipe),
        (true, false, true) => Err(CliError::Terminal),
        _ => Ok(()),
    }
}

/// Workers are processes of this program. They get their options on their command line alone.
pub(crate) fn worker() -> WorkerProgram {
    // Where the system does not say which program this is, the one in PATH is.
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("remaster"));
    let without = environment::OPTIONS.iter().map(|option| OsString::from(environment::variable(option)));
    WorkerProgram { program, without: without.collect(), with: Vec::new() }
}

/// Says what came out. Where stdout carries the frames it is said on stderr; `--progress json` has said it already.
pub(crate) fn conclude<T: Serialize>(
    report: &T,
    text: impl FnOnce() -> String,
    output: &Path,
    mode: ProgressMode,
    out: &Output,
) {
    match (is_pipe(output), mode) {
        (false, _) => out.conclude(report, text),
        (true, ProgressMode::Json) => {}
        (true, _) => out.say(text().trim_end()),
    }
}

/// How many frames, if that is known.
pub(crate) fn frames(number: Option<usize>, estimated: bool, unknown: &str) -> String {
    let about = if estimated { "about " } else { "" };
    number.map_or(unknown.to_owned(), |n| format!("{about}{}", count(n, "frame")))
}

/// `12.3 s`, or as on a clock from a minute on.
pub(crate) fn took(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { clock(seconds.round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_not_written_to_a_terminal() {
        let (pipe, file) = (Path::new("-"), Path::new("out.mkv"));
        let error = check_frames(pipe, false, true).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("name a file with -o"), "{error}");
        assert!(check_frames(pipe, false, false).is_ok() && check_frames(file, true, true).is_ok());
        assert!(matches!(check_frames(pipe, true, true), Err(CliError::JsonPipe)));
    }
}
