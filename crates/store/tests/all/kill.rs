//! A worker that is killed at any moment leaves whole commits only.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{bytes, folder, notes};
use remaster_store::{Journal, Sweep};

const FOLDER: &str = "REMASTER_STORE_KILL_TEST";
const UNITS: u32 = 100_000;

/// Not a test of its own: what the killed process does.
#[test]
#[ignore = "child: started and killed by the test below"]
fn worker() {
    let Some(place) = std::env::var_os(FOLDER) else { return };
    let journal = Journal::make(folder(Path::new(&place)), UNITS, "{}").unwrap();
    let scratch = tempfile::tempdir_in(&place).unwrap();
    let file = scratch.path().join("segment");
    let done = journal.done().unwrap();
    for unit in (0..UNITS).filter(|unit| !done.contains(unit)) {
        // Three parts.
        std::fs::write(&file, bytes(u64::from(unit), 150_000)).unwrap();
        let mut attempt = journal.attempt(unit).unwrap();
        attempt.put_file("segment", &file).unwrap();
        attempt.put_bytes("small", bytes(u64::from(unit), 100)).unwrap();
        attempt.commit(notes()).unwrap();
    }
}

#[test]
fn thirty_kills_leave_whole_commits_only() {
    let place = crate::common::quick_folder();
    let out = crate::common::quick_folder();
    let mut checked = 0;
    for round in 0..30_u64 {
        let before = std::fs::read_dir(place.path().join("units")).map_or(0, Iterator::count);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::worker", "--ignored"])
            .env(FOLDER, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Until it is at work, and then a moment of another length each time.
        let start = Instant::now();
        let at_work = || std::fs::read_dir(place.path().join("units")).map_or(0, Iterator::count) > before;
        while !at_work() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();

        let journal = Journal::make(folder(place.path()), UNITS, "{}").unwrap();
        let commits = journal.commits().unwrap().whole;
        for commit in &commits[checked..] {
            let unit = u64::from(commit.unit);
            for (file, expected) in commit.files.iter().zip([bytes(unit, 150_000), bytes(unit, 100)]) {
                let to = out.path().join("file");
                journal.fetch(commit, file, &to).unwrap();
                assert!(std::fs::read(&to).unwrap() == expected, "unit {unit} after kill {round}");
            }
        }
        let units: Vec<u32> = commits.iter().map(|commit| commit.unit).collect();
        assert_eq!(units, (0..commits.len() as u32).collect::<Vec<_>>(), "nothing that was done is lost");
        checked = commits.len();
    }
    let journal = Journal::open(folder(place.path())).unwrap();
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    println!("{checked} units, then {cleaned:?}");
    assert!(checked > 0);
    let left = journal.store().list("units").unwrap().count();
    assert_eq!(left, 3 * checked, "two files and a record each");
}
