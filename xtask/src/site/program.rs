//! The program that pages are made from, and a folder that it runs in.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Columns of the terminals in pictures and of the help.
pub(crate) const COLUMNS: usize = 100;

/// Runs commands in a folder of their own with `testdata` beside, without the user's settings and models.
pub(crate) struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// Clones have the folder where commands run; here it is a link.
#[cfg(unix)]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "the site is built on Linux"))
}

impl Program {
    pub(crate) fn new(root: &Path, path: PathBuf, folder: PathBuf) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder.join("home")).map_err(failed)?;
        link(&root.join("testdata"), &folder.join("testdata")).map_err(failed)?;
        Ok(Self { path, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a command of a shell needs to find the program and nothing of the user.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let home = self.folder.join("home");
        let programs = self.path.parent().unwrap_or(&self.path);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([programs.to_owned()].into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("PATH", path.unwrap_or_default()).env("COLUMNS", COLUMNS.to_string());
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME"] {
            command.env(name, &home);
        }
        command
    }

    /// What a command prints. It must succeed.
    pub(crate) fn output(&self, line: &str) -> Result<Vec<u8>, String> {
        let out = self.shell(line).output().map_err(|e| format!("`{line}` cannot be run: {e}"))?;
        match out.status.success() {
            true => Ok(out.stdout),
            false => {
                Err(format!("`{line}` ended with {}\n{}", out.status, String::from_utf8_lossy(&out.stderr)))
            }
        }
    }

    pub(crate) fn text(&self, line: &str) -> Result<String, String> {
        String::from_utf8(self.output(line)?).map_err(|e| format!("`{line}`: {e}"))
    }
}
