//! Folders, programs and disks of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Writes a script that can be run.
#[cfg(unix)]
pub fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// A command that is run as root, if this user is root or may use sudo without a password, as on GitHub.
pub fn rooted(program: &str) -> Command {
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", program]);
    if is_root() { Command::new(program) } else { sudo }
}

#[cfg(target_os = "linux")]
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0)
}

/// Elsewhere no test mounts anything.
#[cfg(not(target_os = "linux"))]
fn is_root() -> bool {
    true
}

/// A small file system in memory, until it is dropped.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// At a folder, with options of tmpfs such as `size=8m`; `None` where that is not allowed.
    pub fn new(folder: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        // Anybody may write there: that is how tmpfs comes.
        let mut mount = rooted("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Mounted(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rooted("umount").arg("-l").arg(&self.0).status();
    }
}
