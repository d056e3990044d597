//! The only place that prints.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the voice of the program")]

use std::error::Error;
use std::io::Write;

use serde::Serialize;

use crate::error::CliError;

/// Where results and words go.
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json }
    }

    /// The result of a command: a JSON document, or `text`.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let text = if self.json {
            serde_json::to_string_pretty(value).unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}"))
        } else {
            text()
        };
        // A reader that went away (`| head`) is no failure of ours.
        let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    }

    /// A line for people; not part of the result.
    pub(crate) fn say(&self, line: impl std::fmt::Display) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    /// An error with all its causes.
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
        eprintln!("error: {message}");
        if self.json {
            println!("{}", serde_json::json!({ "error": message, "exit_code": error.exit_code() }));
        }
    }
}
