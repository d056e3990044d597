//! The only place that prints. A reader that went away (`| head`) is no failure of ours, so what cannot
//! be written is dropped: `println!` would panic.

use std::cell::Cell;
use std::error::Error;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::error::CliError;

/// Where results and words go. With `--json` stdout gets exactly one document, whatever happens.
pub(crate) struct Output {
    json: bool,
    answered: Cell<bool>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json, answered: Cell::new(false) }
    }

    /// The result of a command: a JSON document, or `text`.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let text = if self.json {
            serde_json::to_string_pretty(value).unwrap_or_else(|e| failure(&e.to_string(), 5))
        } else {
            text()
        };
        self.answered.set(true);
        stdout(text.trim_end());
    }

    /// A line for people; not part of the result.
    pub(crate) fn say(&self, line: impl Display) {
        stderr(line);
    }

    /// An error with all its causes. A command that found something wrong has given its result already;
    /// the exit code and the result itself then say so.
    pub(crate) fn failed(&self, error: &CliError) {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            // Transparent wrappers repeat their cause.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = inner.source();
        }
        stderr(format_args!("error: {message}"));
        if self.json && !self.answered.get() {
            stdout(failure(&message, error.exit_code()));
        }
    }
}

/// Help, the version, or what is wrong with the arguments. They could not be parsed, so `--json` is
/// looked for by hand.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if error.use_stderr() && std::env::args_os().any(|a| a == "--json") {
        let text = error.to_string();
        let reason = text.split("\n\n").next().unwrap_or_default().trim();
        stdout(failure(reason.strip_prefix("error: ").unwrap_or(reason), code));
    }
    ExitCode::from(code)
}

fn failure(message: &str, exit_code: u8) -> String {
    format!("{:#}", serde_json::json!({ "error": message, "exit_code": exit_code }))
}

fn stdout(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn stderr(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
