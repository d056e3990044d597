//! What children hold of the machine's memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What all children of a run hold together, sampled now and then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    /// By process group.
    now: Mutex<BTreeMap<u32, u64>>,
    most: AtomicU64,
}

impl Gauge {
    /// Looks at the children of `group`.
    pub(crate) fn sample(&self, group: u32) {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.insert(group, resident(group));
        self.0.most.fetch_max(now.values().sum(), Ordering::Relaxed);
    }

    /// The children of `group` are gone.
    pub(crate) fn forget(&self, group: u32) {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    }

    /// The most that was seen at one time.
    pub(crate) fn most(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }
}

/// Bytes of memory that the processes of a group hold; 0 where the system does not say.
#[cfg(unix)]
pub fn resident(group: u32) -> u64 {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let ids = processes.flatten().filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok());
    let of = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        if group_of(&stat)? != group {
            return None;
        }
        held(&std::fs::read_to_string(format!("/proc/{id}/status")).ok()?)
    };
    ids.filter_map(of).sum()
}

/// Of a process and those that it started: an ffmpeg of a package manager may be a small program that starts the real one.
#[cfg(windows)]
pub fn resident(group: u32) -> u64 {
    crate::group::with_descendants(group).into_iter().filter_map(crate::group::resident).sum()
}

/// The process group in a line of `/proc/N/stat`. The name before it may hold spaces and brackets.
#[cfg(unix)]
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// Resident bytes in a text like `/proc/N/status`.
#[cfg(unix)]
fn held(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_are_read_as_they_are_written() {
        assert_eq!(group_of("42 (a) b) S 1 77 77 0 -1 4194560"), Some(77));
        assert_eq!(group_of("nonsense"), None);
        assert_eq!(held("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(held("Name:\tx\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_and_its_children_count_and_the_most_stays() {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("sh");
        let mut child = command.args(["-c", "sleep 60 & sleep 60"]).process_group(0).spawn().unwrap();
        let gauge = Gauge::default();
        let started = std::time::Instant::now();
        while gauge.most() < 1 << 20 && started.elapsed().as_secs() < 10 {
            gauge.sample(child.id());
        }
        let group = i32::try_from(child.id()).unwrap();
        std::process::Command::new("kill").args(["-9", "--", &format!("-{group}")]).status().unwrap();
        child.wait().unwrap();
        gauge.forget(child.id());
        // A shell and two sleeps.
        assert!(gauge.most() >= 1 << 20, "{}", gauge.most());
        // What was killed takes a moment to go.
        while resident(child.id()) > 0 {
            assert!(started.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
