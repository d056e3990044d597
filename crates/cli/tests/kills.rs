//! Runs that are killed before and after each operation on files, and gone on with: the identical command then ends well,
//! the film has the bytes of an undisturbed run, and nothing else is left behind. The same for each kept file that is
//! damaged, cut or lost.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "all/desk.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod desk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use desk::{Desk, bytes, ffmpeg, files};

/// Points that are tried in the gate, in all scenarios together.
const SAMPLE: usize = 66;

/// Damages that are tried in the gate.
const DAMAGES: usize = 24;

const HOW: &str = "--model identity --vae identity --resolution 48 --device cpu --threads 1 --unit-frames 12 --piece-frames 5";

/// With a network that takes frame by frame, whose frames are saved.
const FRAMES: &str = "--model anime --resolution 1x --device cpu --threads 1 --unit-frames 12 --piece-frames 6 --checkpoint 0s";

/// Commands one after the other; the one that is killed is given again.
struct Scenario {
    name: &'static str,
    lines: Vec<String>,
    film: &'static str,
}

fn scenarios() -> Vec<Scenario> {
    let scenario = |name, film, lines: &[&str]| Scenario {
        name,
        film,
        lines: lines.iter().map(|line| line.replace("HOW", HOW).replace("FRAMES", FRAMES)).collect(),
    };
    vec![
        scenario("local", "out.mkv", &["film.mkv -o out.mkv -q --checkpoint 0s HOW"]),
        scenario("elsewhere", "out.mp4", &["film.mkv -o out.mp4 -q --temp temp --checkpoint 0s HOW"]),
        scenario("frames", "out.mkv", &["film.mkv -o out.mkv -q FRAMES"]),
        scenario("in one go", "out.mkv", &["film.mkv -o out.mkv -q --disk 0 HOW"]),
        scenario(
            "units",
            "out.mkv",
            &[
                "plan film.mkv -o out.mkv --store store HOW",
                "unit run -q --plan store --input film.mkv --index 0 --checkpoint 0s --device cpu",
                "unit run -q --plan store --input film.mkv --index 1-2 --checkpoint 0s --device cpu",
                "assemble -q --plan store --input film.mkv -o out.mkv",
            ],
        ),
        scenario(
            "batch",
            "done/film_upscaled.mkv",
            &["batch film.mkv -d done -q --report report.json --checkpoint 0s HOW"],
        ),
    ]
}

/// 24 frames in two shots, made once.
fn film() -> &'static [u8] {
    static FILM: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FILM.get_or_init(|| {
        let desk = Desk::new();
        let graph = "testsrc2=s=32x32:r=25:d=1,format=yuv420p,trim=end_frame=13[a];\
            mandelbrot=s=32x32:r=25:start_scale=0.3,format=yuv420p,trim=end_frame=11[b];[a][b]concat=n=2";
        ffmpeg(&desk, &format!("-f lavfi -i {graph} -c:v libx264 -crf 10 film.mkv"));
        bytes(&desk, "film.mkv")
    })
}

/// A folder with the film and nothing else.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("film.mkv", film());
    for name in ["tmp", "done", "temp"] {
        std::fs::create_dir(desk.join(name)).unwrap();
    }
    desk
}

fn run(desk: &Desk, line: &str, variables: &[(&str, String)]) -> Output {
    let mut command = desk.command(line);
    // Systems look into different ones.
    command.envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, desk.join("tmp"))));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.output().unwrap()
}

fn works(desk: &Desk, line: &str, about: &str) {
    let out = run(desk, line, &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{about}: {line}: {:?}: {said}", out.status);
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
    let (desk, logs) = (desk(), Desk::new());
    let mut points = Vec::new();
    for (i, line) in scenario.lines.iter().enumerate() {
        let log = logs.join(i.to_string());
        let out = run(&desk, line, &[("REMASTER_KILL_LOG", log.display().to_string())]);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        points.push(text.lines().map(str::to_owned).collect());
    }
    Undisturbed { film: bytes(&desk, scenario.film), names: names(&desk), points }
}

/// Whether a process ended as the points end it.
fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
    // STATUS_STACK_BUFFER_OVERRUN, which is also what aborts.
    #[cfg(windows)]
    return status.code() == Some(0xc000_0409_u32 as i32);
}

/// Kills one command of a scenario at a point, gives it again and goes on. True if it was killed.
fn kill(scenario: &Scenario, wanted: &Undisturbed, (at, point): (usize, usize)) -> bool {
    let desk = desk();
    let mut killed = false;
    let said = wanted.points[at].get(point).map_or("", String::as_str);
    let about = format!("{}: killed at point {} of command {at} ({said})", scenario.name, point + 1);
    for (i, line) in scenario.lines.iter().enumerate() {
        if i == at {
            let out = run(&desk, line, &[("REMASTER_KILL_AT", (point + 1).to_string())]);
            killed = was_killed(out.status);
            // Threads come in another order now and then, so that the last point may not be reached.
            assert!(killed || out.status.success(), "{about}: {}", String::from_utf8_lossy(&out.stderr));
        }
        works(&desk, line, &about);
    }
    check(scenario, wanted, &desk, &about);
    killed
}

fn check(scenario: &Scenario, wanted: &Undisturbed, desk: &Path, about: &str) {
    assert!(bytes(desk, scenario.film) == wanted.film, "{about}: another film");
    let names = names(desk);
    let (more, fewer): (Vec<_>, Vec<_>) =
        (names.difference(&wanted.names).collect(), wanted.names.difference(&names).collect());
    assert!(more.is_empty() && fewer.is_empty(), "{about}: left behind {more:?}, missing {fewer:?}");
}

/// Does jobs in two threads, and says all that went wrong.
fn all<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let wrong = Mutex::new(Vec::new());
    remaster_testkit::in_threads(2, 0..jobs.len(), |i| {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&jobs[i])));
        if let Err(panic) = done {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.lock().unwrap().push(text);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), jobs.len(), wrong.join("\n"));
}

/// Kills at `most` points, spread over all of them.
fn kill_at(most: usize) {
    let scenarios = scenarios();
    let wanted: Vec<Undisturbed> = scenarios.iter().map(undisturbed).collect();
    let mut points = Vec::new();
    for (i, wanted) in wanted.iter().enumerate() {
        for (at, list) in wanted.points.iter().enumerate() {
            points.extend((0..list.len()).map(|point| (i, at, point)));
        }
    }
    let tried = some_of(&points, most, 7);
    let killed = AtomicUsize::new(0);
    all(&tried, |(i, at, point)| {
        let was_killed = kill(&scenarios[*i], &wanted[*i], (*at, *point));
        killed.fetch_add(usize::from(was_killed), Ordering::Relaxed);
    });
    let (found, killed, tried) = (points.len(), killed.into_inner(), tried.len());
    println!("{found} points found, {tried} tried, {killed} processes killed, {tried} films compared");
}

/// Some of a list, spread over all of it: a stride that shares no factor with their number comes to each of them, in an
/// order of its own.
fn some_of<T: Copy>(list: &[T], most: usize, first: usize) -> Vec<T> {
    let found = list.len();
    let stride = (found * 5 / 8..).find(|stride| gcd(*stride, found) == 1).unwrap_or(1);
    (0..found.min(most)).map(|i| list[(i * stride + first) % found]).collect()
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
    let folders = ["out.mkv.remaster/store", "store"].map(|name| desk.join(name));
    folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| files(folder)).collect()
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
        run(&desk, line, &[("REMASTER_KILL_AT", point.to_string())]);
        for i in 0..kept_files(&desk).len() {
            jobs.extend([Damage::Flip, Damage::Cut, Damage::Lose].map(|how| (point, i, how)));
        }
    }
    let tried = some_of(&jobs, most, 3);
    all(&tried, |(point, i, how)| {
        let desk = desk();
        run(&desk, line, &[("REMASTER_KILL_AT", point.to_string())]);
        let files = kept_files(&desk);
        // Threads come in another order now and then.
        let Some(file) = files.get(*i) else { return };
        damage(file, *how);
        let name = file.strip_prefix(&*desk).unwrap().display().to_string();
        let about = format!("stopped at point {point}, {how:?} of {name}");
        works(&desk, line, &about);
        check(scenario, &wanted, &desk, &about);
    });
    println!("{} damages of kept files, {} tried and as many films compared", jobs.len(), tried.len());
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
