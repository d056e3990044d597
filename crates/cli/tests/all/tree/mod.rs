//! The process tree, as `/proc` shows it: parents, command lines and resident memory. Without one there is nothing.

use std::collections::HashMap;
use std::fs::DirEntry;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

/// Wine shows the numbers of another system.
fn processes() -> impl Iterator<Item = DirEntry> {
    let entries = cfg!(unix).then(|| std::fs::read_dir("/proc"));
    entries.into_iter().flatten().flatten().flatten()
}

/// The folder of each process and its words, with a NUL behind each.
pub(crate) fn command_lines() -> impl Iterator<Item = (PathBuf, String)> {
    processes().map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        (entry.path(), String::from_utf8_lossy(&line).into_owned())
    })
}

/// The parent of each process; none where the system does not say.
pub(crate) fn parents() -> HashMap<u32, u32> {
    let mut parents = HashMap::new();
    for entry in processes() {
        let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (id, parent)));
    }
    parents
}

/// The most that a child and its own children hold until it ends.
pub(crate) fn peak(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(resident(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    peak
}

/// Resident bytes of `root` and of all its children; 0 where the system does not say.
fn resident(root: u32) -> u64 {
    let parents = parents();
    let is_ours = |mut id: u32| {
        for _ in 0..64 {
            if id == root {
                return true;
            }
            match parents.get(&id) {
                Some(parent) => id = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().filter(|id| is_ours(**id)).map(|id| status(*id, "VmRSS:")).sum()
}

/// Bytes that a line of a process's status names; 0 once it has ended.
pub(crate) fn status(id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
