//! Ends this process at a point of `disk`, for the test that kills runs everywhere. Only builds with debug assertions have
//! it.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use remaster_disk::points;

/// The number of the point at which the process ends.
const AT: &str = "REMASTER_KILL_AT";

/// A file that gets a line for each point.
const LOG: &str = "REMASTER_KILL_LOG";

/// Does as the environment says.
pub(crate) fn arm() {
    let at = std::env::var(AT).ok().and_then(|text| text.parse::<u64>().ok());
    let log = std::env::var_os(LOG)
        .and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok());
    if at.is_none() && log.is_none() {
        return;
    }
    let (count, log) = (AtomicU64::new(0), log.map(Mutex::new));
    points::watch(move |point| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(mut log) = log.as_ref().and_then(|log| log.lock().ok()) {
            let when = if point.after { "after" } else { "before" };
            let _ = writeln!(log, "{when} {:?} {}", point.op, point.folder.join(point.name).display());
        }
        if at == Some(number) {
            die();
        }
    });
}

/// As `kill -9` does it: nothing is cleaned up.
fn die() {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    #[cfg(not(unix))]
    std::process::abort();
}
