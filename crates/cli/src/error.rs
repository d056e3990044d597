//! Errors in words, and the exit code of each.

use std::io;
use std::path::PathBuf;

use remaster::{Class, Error};
use remaster_bench::BenchError;
use remaster_doctor::DoctorError;
#[cfg(feature = "serve")]
use remaster_serve::{BadHost, ServeError};

use crate::config::ConfigError;

/// What the parser refuses, for programs.
pub(crate) const USAGE: &str = "usage";

/// A panic, for programs.
pub(crate) const INTERNAL: &str = "internal";

/// What a command can fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Run(#[from] Error),
    #[error("--json and -o - both write to stdout; use --progress json for a summary on stderr")]
    JsonPipe,
    #[error(
        "a terminal cannot show frames; pipe them, as in `remaster ... -o - | ffplay -`, or name a file with -o"
    )]
    Terminal,
    #[error("cannot write the result to stdout")]
    Stdout { source: io::Error },
    #[error(
        "no golden files in {path}; use a folder like testdata with tiny_*.safetensors or dit_*.safetensors files"
    )]
    NoGolden { path: PathBuf },
    #[error(transparent)]
    Doctor(#[from] DoctorError),
    #[error(
        "{failed} of {total} comparisons exceed the tolerance: this build computes wrong numbers on this device; update its driver or use --device cpu, and report it"
    )]
    Unhealthy { failed: usize, total: usize },
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Host(#[from] BadHost),
    #[cfg(feature = "serve")]
    #[error("no folder for jobs is known; name one with --state")]
    NoState,
    #[cfg(feature = "serve")]
    #[error("cannot read the token in {path}")]
    TokenFile { path: PathBuf, source: io::Error },
    #[error("cannot read stdin")]
    Stdin { source: io::Error },
    #[error("stdin holds no task; this command is for programs that start it")]
    Task { source: serde_json::Error },
    #[error("cannot install the Ctrl-C handler")]
    Handler { source: ctrlc::Error },
}

impl CliError {
    /// A word for programs, which never changes, and the exit code's class.
    fn kind_and_class(&self) -> (&'static str, Class) {
        match self {
            CliError::Run(error) | CliError::Bench(BenchError::Run(error)) => (error.kind(), error.class()),
            CliError::Doctor(DoctorError::Compute { source, .. }) => Error::kind_and_class_of_engine(source),
            CliError::JsonPipe => ("stdout-used-twice", Class::Usage),
            CliError::Terminal => ("stdout-is-terminal", Class::Usage),
            CliError::Stdout { .. } => ("stdout-not-writable", Class::Input),
            CliError::NoGolden { .. } | CliError::Doctor(DoctorError::Golden(_)) => ("goldens", Class::Input),
            CliError::Unhealthy { .. } => ("wrong-numbers", Class::Wrong),
            CliError::Bench(BenchError::NoCard { .. }) => ("no-card", Class::Usage),
            CliError::Bench(BenchError::Floor { .. }) => ("too-slow", Class::Wrong),
            CliError::Config(_) => ("config-file", Class::Usage),
            #[cfg(feature = "serve")]
            CliError::Serve(error) => {
                let class = match error {
                    ServeError::NoToken(_) | ServeError::Token(_) => Class::Usage,
                    ServeError::State { .. }
                    | ServeError::Folder { .. }
                    | ServeError::Listen { .. }
                    | ServeError::Taken(_) => Class::Input,
                    _ => Class::Device,
                };
                ("server", class)
            }
            #[cfg(feature = "serve")]
            CliError::Host(_) | CliError::NoState => (USAGE, Class::Usage),
            #[cfg(feature = "serve")]
            CliError::TokenFile { .. } => ("not-readable", Class::Input),
            CliError::Stdin { .. } => ("stdin", Class::Input),
            CliError::Task { .. } => (USAGE, Class::Usage),
            CliError::Handler { .. } => ("signal-handler", Class::Device),
        }
    }

    /// A word for programs, which never changes.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind_and_class().0
    }

    /// As documented in `remaster --help`.
    pub(crate) fn exit_code(&self) -> u8 {
        self.kind_and_class().1.exit_code()
    }

    /// True if the run was stopped on request.
    pub(crate) fn is_stop(&self) -> bool {
        self.kind_and_class().1 == Class::Stopped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Kinds of the command line alone.
    const OWN: [&str; 12] = [
        USAGE,
        INTERNAL,
        "stdout-used-twice",
        "stdout-is-terminal",
        "stdout-not-writable",
        "goldens",
        "wrong-numbers",
        "no-card",
        "too-slow",
        "config-file",
        "signal-handler",
        "server",
    ];

    #[test]
    fn every_kind_is_documented_and_every_documented_kind_is_one() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md")).unwrap();
        let (_, table) = page.split_once("| Kind | Meaning |\n|---|---|\n").unwrap();
        let cells = table.lines().map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
        let words = cells.flat_map(|cell| cell.split(", "));
        let documented: Vec<&str> = words.map(|word| word.trim_matches('`')).collect();
        let (known, listed): (BTreeSet<_>, BTreeSet<_>) =
            (Error::kinds().chain(OWN).collect(), documented.iter().copied().collect());
        assert_eq!(known, listed);
        assert_eq!(listed.len(), documented.len(), "a kind is documented twice");
        let plain = |kind: &&str| kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(known.iter().all(plain), "{known:?}");
    }
}
