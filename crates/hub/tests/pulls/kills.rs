//! Downloads that are killed before and after each operation on files, and links and pipes in a cache.
#![cfg(all(unix, debug_assertions))]

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

const CACHE: &str = "REMASTER_HUB_KILL_CACHE";
const URL: &str = "REMASTER_HUB_KILL_URL";
const AT: &str = "REMASTER_HUB_KILL_AT";

/// Not a test of its own: what the killed process does. It says how many points there were.
#[test]
#[ignore = "child: started and killed by the test below"]
fn puller() {
    let (Some(cache), Ok(url)) = (std::env::var_os(CACHE), std::env::var(URL)) else { return };
    let at: u64 = std::env::var(AT).unwrap().parse().unwrap();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    remaster_disk::points::watch(move |_| {
        if COUNT.fetch_add(1, Ordering::Relaxed) + 1 == at {
            std::process::abort();
        }
    });
    let settings = HubSettings { endpoint: url, limits: LIMITS, ..HubSettings::new(Path::new(&cache)) };
    pull(settings, &Content::new(10_000)).unwrap();
    std::fs::write(Path::new(&cache).join("points"), COUNT.load(Ordering::Relaxed).to_string()).unwrap();
}

fn start(cache: &Path, server: &Server, at: u64) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::puller", "--ignored"])
        .env(CACHE, cache)
        .env(URL, server.url())
        .env(AT, at.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// Names of everything in a cache.
fn tree(desk: &Desk) -> BTreeSet<PathBuf> {
    let (mut names, mut folders) = (BTreeSet::new(), vec![desk.0.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            names.insert(path.strip_prefix(desk.0.path()).unwrap().to_owned());
            if path.symlink_metadata().unwrap().is_dir() {
                folders.push(path);
            }
        }
    }
    names.remove(Path::new("points"));
    names
}

#[test]
fn a_download_that_is_killed_at_every_point_is_the_same_file() {
    let content = Content::new(10_000);
    let server = server::hub(&content, server::all);
    let whole = Desk::new();
    assert!(start(whole.0.path(), &server, 0).success());
    let points: u64 = std::fs::read_to_string(whole.0.path().join("points")).unwrap().parse().unwrap();
    assert!(points > 20, "{points}");
    let expected = tree(&whole);
    for at in 1..=points {
        let desk = Desk::new();
        let killed = start(desk.0.path(), &server, at);
        assert_eq!(killed.signal(), Some(6), "point {at}");
        assert!(start(desk.0.path(), &server, 0).success(), "point {at}");
        assert_eq!(tree(&desk), expected, "point {at}");
        is_whole(&desk.repo().join("snapshots").join(COMMIT).join(FILE), &content);
    }
    println!("{points} points found and tried, {points} files compared");
}

#[test]
fn a_link_or_a_pipe_in_the_cache_is_neither_written_nor_waited_for() {
    let content = Content::new(10_000);
    let server = server::hub(&content, server::all);
    let lock = format!(".locks/models--owner--name/{}.lock", content.sha256);
    let partial = format!("models--owner--name/blobs/{}.incomplete", content.sha256);
    for at in [&lock, &partial] {
        for kind in ["link", "dangling link", "pipe"] {
            let desk = Desk::new();
            let outside = desk.0.path().join("outside");
            std::fs::write(&outside, "canary").unwrap();
            let trap = desk.0.path().join(at);
            std::fs::create_dir_all(trap.parent().unwrap()).unwrap();
            match kind {
                "link" => symlink(&outside, &trap).unwrap(),
                "dangling link" => symlink(desk.0.path().join("new"), &trap).unwrap(),
                _ => assert!(Command::new("mkfifo").arg(&trap).status().unwrap().success()),
            }
            let began = Instant::now();
            let error = pull(desk.settings(&server), &content).unwrap_err();
            assert!(matches!(error, HubError::Write { .. }), "{kind} at {at}: {error}");
            assert!(began.elapsed() < Duration::from_secs(5), "{kind} at {at}");
            assert_eq!(std::fs::read(&outside).unwrap(), b"canary");
            assert!(!desk.0.path().join("new").exists());
        }
    }
}
