//! How worker processes are started: one for each unit on another device.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A program that accepts the arguments of `remaster unit run`.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// Its path.
    pub program: PathBuf,
    /// Environment variables that it does not inherit.
    pub without: Vec<OsString>,
    /// Environment variables that it has beside those of this process.
    pub with: Vec<(OsString, OsString)>,
}

impl WorkerProgram {
    /// This executable. Use it only if it is the command line `remaster`, or if one device restores.
    pub fn this() -> std::io::Result<Self> {
        Ok(WorkerProgram { program: std::env::current_exe()?, without: Vec::new(), with: Vec::new() })
    }

    /// Starts it with pipes and detached from the terminal, so that Ctrl-C reaches this process alone, which cancels the child
    /// by closing its stdin. On Windows the child is killed when this process ends.
    pub fn start(&self, arguments: &[&str]) -> std::io::Result<Child> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        remaster_media::spawn_tied(&mut command)
    }

    /// The status of a child that was started here, once it has ended. On Unix, what it left in its process group is ended, too.
    pub fn reap(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        remaster_media::reap_tied(child)
    }

    /// Ends a child that was started here and not reaped; on Unix with its process group.
    pub fn end(child: &mut Child) {
        remaster_media::end_tied(child);
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for name in &self.without {
            command.env_remove(name);
        }
        command.envs(self.with.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// `--name=value`, for another process. The value may be any path.
pub(crate) fn word(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}
