//! Runs that are killed before and after each operation on files, and gone on with: the identical command then ends well,
//! the film has the bytes of an undisturbed run, and nothing else is left behind. The same for each kept file that is
//! damaged, cut or lost.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, outside the test functions"
)]
#![cfg(all(unix, debug_assertions))]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

/// Points that are tried in the gate, in all scenarios together.
const SAMPLE: usize = 66;

/// Damages that are tried in the gate.
const DAMAGES: usize = 24;

const HOW: &str = "--model identity --resolution 48 --device cpu --threads 1 --unit-frames 12";

/// Commands one after the other; the one that is killed is given again.
struct Scenario {
    name: &'static str,
    lines: Vec<String>,
    film: &'static str,
}

fn scenarios() -> Vec<Scenario> {
    let lines = |lines: &[&str]| lines.iter().map(|line| line.replace("HOW", HOW)).collect();
    vec![
        Scenario {
            name: "local",
            lines: lines(&["film.mkv -o out.mkv -q --checkpoint 0s HOW --piece-frames 5"]),
            film: "out.mkv",
        },
        Scenario {
            name: "elsewhere",
            lines: lines(&["film.mkv -o out.mp4 -q --temp temp --checkpoint 0s HOW --piece-frames 5"]),
            film: "out.mp4",
        },
        Scenario {
            name: "in one go",
            lines: lines(&["film.mkv -o out.mkv -q --disk 0 HOW --piece-frames 5"]),
            film: "out.mkv",
        },
        Scenario {
            name: "units",
            lines: lines(&[
                "plan film.mkv -o out.mkv --store store HOW --piece-frames 5",
                "unit run -q --plan store --input film.mkv --index 0 --checkpoint 0s --device cpu",
                "unit run -q --plan store --input film.mkv --index 1-2 --checkpoint 0s --device cpu",
                "assemble -q --plan store --input film.mkv -o out.mkv",
            ]),
            film: "out.mkv",
        },
        Scenario {
            name: "batch",
            lines: lines(&[
                "batch film.mkv -d done -q --report report.json --checkpoint 0s HOW --piece-frames 5",
            ]),
            film: "done/film_upscaled.mkv",
        },
    ]
}

/// 24 frames in two shots, made once.
fn film() -> &'static [u8] {
    static FILM: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FILM.get_or_init(|| {
        let desk = tempfile::tempdir().unwrap();
        let graph = "testsrc2=s=32x32:r=25:d=1,format=yuv420p,trim=end_frame=13[a];\
            mandelbrot=s=32x32:r=25:start_scale=0.3,format=yuv420p,trim=end_frame=11[b];[a][b]concat=n=2";
        let path = desk.path().join("film.mkv");
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-f", "lavfi", "-i", graph, "-c:v", "libx264", "-crf", "10"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        std::fs::read(path).unwrap()
    })
}

/// A folder with the film and nothing else.
fn desk() -> TempDir {
    let desk = tempfile::tempdir().unwrap();
    std::fs::write(desk.path().join("film.mkv"), film()).unwrap();
    for name in ["tmp", "done", "temp"] {
        std::fs::create_dir(desk.path().join(name)).unwrap();
    }
    desk
}

fn run(desk: &Path, line: &str, variables: &[(&str, String)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    if let Some(ffmpeg) = std::env::var_os("REMASTER_QUICK_FFMPEG").filter(|name| !name.is_empty()) {
        command.env("REMASTER_FFMPEG", ffmpeg);
    }
    command
        .current_dir(desk)
        .args(line.split_whitespace())
        .env("XDG_CONFIG_HOME", desk.join("none"))
        .env("XDG_CACHE_HOME", desk.join("cache"))
        .env("TMPDIR", desk.join("tmp"))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn works(desk: &Path, line: &str, about: &str) {
    let out = run(desk, line, &[]);
    assert!(
        out.status.success(),
        "{about}: {line}: {:?}: {}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Names of everything below a folder; random names of attempts are all alike.
fn names(folder: &Path) -> BTreeSet<String> {
    fn walk(folder: &Path, below: &str, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            // What is in the cache may go at any time; the next run that writes there cleans up.
            if below.is_empty() && name == "cache" {
                continue;
            }
            let random = name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit());
            let name = format!("{below}/{}", if random { "ID" } else { &name });
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &name, names);
            }
            names.insert(name);
        }
    }
    let mut names_of = BTreeSet::new();
    walk(folder, "", &mut names_of);
    names_of
}

/// What an undisturbed run of a scenario gives.
struct Undisturbed {
    film: Vec<u8>,
    names: BTreeSet<String>,
    /// The points of each of its commands.
    points: Vec<Vec<String>>,
}

fn undisturbed(scenario: &Scenario) -> Undisturbed {
    let (desk, logs) = (desk(), tempfile::tempdir().unwrap());
    let mut points = Vec::new();
    for (i, line) in scenario.lines.iter().enumerate() {
        let log = logs.path().join(i.to_string());
        let out = run(desk.path(), line, &[("REMASTER_KILL_LOG", log.display().to_string())]);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        points.push(text.lines().map(str::to_owned).collect());
    }
    let film = std::fs::read(desk.path().join(scenario.film)).unwrap();
    Undisturbed { film, names: names(desk.path()), points }
}

/// Kills one command of a scenario at a point, gives it again and goes on. True if it was killed.
fn kill(scenario: &Scenario, wanted: &Undisturbed, (at, point): (usize, usize)) -> bool {
    let desk = desk();
    let mut killed = false;
    let said = wanted.points[at].get(point).map_or("", String::as_str);
    let about = format!("{}: killed at point {} of command {at} ({said})", scenario.name, point + 1);
    for (i, line) in scenario.lines.iter().enumerate() {
        if i == at {
            let out = run(desk.path(), line, &[("REMASTER_KILL_AT", (point + 1).to_string())]);
            killed = out.status.signal() == Some(9);
            // Threads come in another order now and then, so that the last point may not be reached.
            assert!(killed || out.status.success(), "{about}: {}", String::from_utf8_lossy(&out.stderr));
        }
        works(desk.path(), line, &about);
    }
    check(scenario, wanted, desk.path(), &about);
    killed
}

fn check(scenario: &Scenario, wanted: &Undisturbed, desk: &Path, about: &str) {
    assert!(std::fs::read(desk.join(scenario.film)).unwrap() == wanted.film, "{about}: another film");
    let names = names(desk);
    let (more, fewer): (Vec<_>, Vec<_>) =
        (names.difference(&wanted.names).collect(), wanted.names.difference(&names).collect());
    assert!(more.is_empty() && fewer.is_empty(), "{about}: left behind {more:?}, missing {fewer:?}");
}

/// Does jobs in two threads, and says all that went wrong.
fn all<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(job)));
                    if let Err(panic) = done {
                        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        wrong.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), jobs.len(), wrong.join("\n"));
}

/// Kills at `most` points, spread over all of them.
fn kill_at(most: usize) {
    let scenarios: Vec<(Scenario, Undisturbed)> = scenarios()
        .into_iter()
        .map(|scenario| {
            let undisturbed = undisturbed(&scenario);
            (scenario, undisturbed)
        })
        .collect();
    let mut points = Vec::new();
    for (i, (_, undisturbed)) in scenarios.iter().enumerate() {
        for (at, list) in undisturbed.points.iter().enumerate() {
            points.extend((0..list.len()).map(|point| (i, at, point)));
        }
    }
    let found = points.len();
    // A stride that shares no factor with their number comes to each of them, in an order of its own.
    let stride = (found * 5 / 8..).find(|stride| gcd(*stride, found) == 1).unwrap_or(1);
    let tried: Vec<_> = (0..found.min(most)).map(|i| points[(i * stride + 7) % found]).collect();
    let killed = AtomicUsize::new(0);
    all(&tried, |(i, at, point)| {
        let (scenario, undisturbed) = &scenarios[*i];
        killed.fetch_add(usize::from(kill(scenario, undisturbed, (*at, *point))), Ordering::Relaxed);
    });
    println!(
        "{found} points found, {} tried, {} processes killed, {} films compared",
        tried.len(),
        killed.into_inner(),
        tried.len()
    );
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[test]
fn a_run_that_is_killed_at_a_sample_of_points_gives_the_same_film() {
    kill_at(SAMPLE);
}

#[test]
#[ignore = "nightly: every kill point"]
fn a_run_that_is_killed_at_every_point_gives_the_same_film() {
    kill_at(usize::MAX);
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    Lose,
}

/// Regular files of a run that was stopped.
fn kept_files(desk: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, files),
                false => files.push(path),
            }
        }
    }
    let mut files = Vec::new();
    for name in ["out.mkv.remaster/store", "store"] {
        if desk.join(name).is_dir() {
            walk(&desk.join(name), &mut files);
        }
    }
    files.sort();
    files
}

fn damage(file: &Path, how: Damage) {
    let mut bytes = std::fs::read(file).unwrap();
    match how {
        Damage::Lose => return std::fs::remove_file(file).unwrap(),
        Damage::Cut => bytes.truncate(bytes.len() / 2),
        Damage::Flip => {
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 0x10;
            }
        }
    }
    std::fs::write(file, bytes).unwrap();
}

/// Stops a local run at several points, damages each file that is kept then, and goes on.
fn damage_at(most: usize) {
    let scenario = &scenarios()[0];
    let wanted = undisturbed(scenario);
    let line = &scenario.lines[0];
    let count = wanted.points[0].len();
    let mut jobs = Vec::new();
    for point in [count / 4, count / 2, count * 3 / 4] {
        let desk = desk();
        run(desk.path(), line, &[("REMASTER_KILL_AT", point.to_string())]);
        for i in 0..kept_files(desk.path()).len() {
            jobs.extend([Damage::Flip, Damage::Cut, Damage::Lose].map(|how| (point, i, how)));
        }
    }
    let found = jobs.len();
    let stride = (found * 5 / 8..).find(|stride| gcd(*stride, found) == 1).unwrap_or(1);
    let tried: Vec<_> = (0..found.min(most)).map(|i| jobs[(i * stride + 3) % found]).collect();
    all(&tried, |(point, i, how)| {
        let desk = desk();
        run(desk.path(), line, &[("REMASTER_KILL_AT", point.to_string())]);
        let files = kept_files(desk.path());
        // Threads come in another order now and then.
        let Some(file) = files.get(*i) else { return };
        damage(file, *how);
        let name = file.strip_prefix(desk.path()).unwrap().display().to_string();
        let about = format!("stopped at point {point}, {how:?} of {name}");
        works(desk.path(), line, &about);
        check(scenario, &wanted, desk.path(), &about);
    });
    println!("{found} damages of kept files, {} tried and as many films compared", tried.len());
}

#[test]
fn a_damaged_file_in_the_state_folder_costs_its_unit_and_not_the_film() {
    damage_at(DAMAGES);
}

#[test]
#[ignore = "nightly: every kill point"]
fn every_damaged_file_in_the_state_folder_costs_its_unit_and_not_the_film() {
    damage_at(usize::MAX);
}
