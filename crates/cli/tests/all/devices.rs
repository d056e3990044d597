//! Films on several devices at once: one bad device among good ones, stop, pause, kills, limits and exit codes.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::desk::{
    Desk, LIMIT, bytes, command, ended, ends, private, refused, remove, said, signal, three_shots, until,
    works,
};
use crate::tree::{command_lines, parents};

/// `film.mp4`: 97 frames in three shots.
fn film() -> Desk {
    Desk::of_shots([40, 27, 30], "film.mp4")
}

/// Runs it with children that fail as `fault` says.
fn with_fault(folder: &Path, line: &str, fault: &str) -> Output {
    command(folder, line).env("REMASTER_TEST_UNIT", fault).output().unwrap()
}

/// How many processes of this program work on units in a folder.
fn workers(folder: &Path) -> usize {
    command_lines().filter(|(process, line)| is_worker(folder, process, line)).count()
}

/// Whether a process works on units in a folder.
fn is_worker(folder: &Path, process: &Path, line: &str) -> bool {
    let folder = folder.canonicalize().unwrap();
    let works_there = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder);
    line.split('\0').nth(1) == Some("unit") && works_there
}

/// A run whose frames take a tenth of a second each.
fn slow(folder: &Path, line: &str) -> Child {
    let mut command = command(folder, line);
    command.env("REMASTER_TEST_UNIT", "slow:").stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a run that has ended said on stderr.
fn words(run: &mut Child) -> String {
    let mut text = String::new();
    run.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn pieces(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        usize::from(name.starts_with("piece") || name == "done.json") + pieces(&entry.path())
    };
    entries.flatten().map(count).sum()
}

const HOW: &str = "--model identity --vae identity --dtype f32 --resolution 96 --unit-frames 20 --piece-frames 10 --no-manifest";

/// Work that takes a while: a network, and a unit as long as its shot.
const SLOW: &str = "--model formula:tiny-3b --resolution 64x48 --dtype f32 --unit-frames 40 \
    --piece-frames 4 --window 5 --no-manifest";

#[test]
fn a_name_that_is_not_listed_is_refused_at_once() {
    let at = &Desk::new();
    at.put("film.mp4", b"never opened");
    for names in ["vulkan:9,cpu", "cpu,gpu0", "cpu,", "cpu,nonsense"] {
        for line in ["film.mp4", "batch film.mp4"] {
            refused(at, &format!("{line} {HOW} --devices {names}"), 2, &["remaster devices"]);
        }
    }
    let help = works(at, "restore --help");
    assert!(help.contains("vulkan:0,vulkan:1") && !help.contains("gpu0"), "{help}");
}

#[test]
fn devices_of_two_kinds_are_refused_and_named() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {HOW} --devices cpu,reference");
    refused(at, &line, 2, &["cpu (cpu", "reference (reference", "--mix-devices"]);
    assert!(!at.join("out.mkv.remaster").exists());
    works(at, &format!("{line} --mix-devices"));
    assert!(at.join("out.mkv").is_file());
    refused(at, &format!("film.mp4 {HOW} --devices cpu,cpu --vram 1G"), 2, &["--vram"]);
}

#[test]
fn a_film_on_two_devices_is_the_film_on_one_also_with_odd_names() {
    let at = &Desk::of_shots([40, 27, 30], "-film.mp4");
    let how = HOW.replace("--model identity --vae identity", "--model formula:tiny-3b");
    works(at, &format!("{how} -o ref.mkv --device cpu -- -film.mp4"));
    works(at, &format!("{how} -o out.mkv --devices cpu,cpu -- -film.mp4"));
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
    // Two processes have one thread each, and half of the memory.
    let line = format!("{how} -o=-two.mkv --devices cpu,cpu --threads 2 --ram 2G -- -film.mp4");
    ends(&with_fault(at, &line, "words"), 3, &["--threads=1", "--ram=", "--input=-film.mp4"]);
}

#[test]
fn a_bad_device_is_set_aside_and_the_film_is_made() {
    let at = &film();
    works(at, &format!("film.mp4 -o ref.mkv {HOW} --device cpu"));
    let line = format!("film.mp4 -o out.mkv {HOW} --devices reference,cpu --mix-devices --keep-going");
    for (fault, words) in [
        // It cannot even start.
        ("start:reference", &["reference is not used any more", "the device is gone"][..]),
        // It fails in the middle of each unit.
        (
            "device:reference",
            &["failed on reference", "reference is not used any more", "the device is gone"][..],
        ),
        // It crashes.
        ("abort:reference", &["reference is not used any more", "signal"]),
    ] {
        let out = with_fault(at, &line, fault);
        ends(&out, 0, words);
        assert_eq!(said(&out).matches("not used any more").count(), 1, "{fault}: {}", said(&out));
        assert!(!said(&out).contains("keeps its input frames"), "{}", said(&out));
        assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"), "{fault}");
        remove(at, "out.mkv");
    }
    // With no device left nothing is passed through.
    for fault in ["start:", "device:"] {
        let out = with_fault(at, &line, fault);
        ends(&out, 5, &["no device is left", "the device is gone"]);
        assert!(!at.join("out.mkv").exists());
    }
}

/// Ends the workers of a run with a signal that they cannot object to, as a system does that is out of memory, each when it has
/// begun to work. Returns how many that were.
fn killed_workers(at: &Path, run: &mut Child) -> usize {
    let mut killed = Vec::new();
    let began = Instant::now();
    while run.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < LIMIT, "it goes on without its workers");
        for (process, _) in command_lines().filter(|(process, line)| is_worker(at, process, line)) {
            let pid: u32 = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            // It has begun when it reads the film.
            let reads = parents().values().any(|parent| *parent == pid);
            if !killed.contains(&pid) && reads {
                assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
                killed.push(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.len()
}

#[test]
fn a_film_is_not_passed_through_because_its_workers_are_killed() {
    let at = &film();
    for devices in ["--devices cpu", "--devices cpu,cpu"] {
        let line = format!("film.mp4 -o out.mkv {SLOW} {devices} --keep-going --json");
        let mut command = command(at, &line);
        command.env("REMASTER_TEST_UNIT", "slow:").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().unwrap();
        let killed = killed_workers(at, &mut run);
        let out = run.wait_with_output().unwrap();
        ends(&out, 4, &["unit-failed", "its process was killed"]);
        let text = said(&out);
        assert!(
            killed >= 3 && !text.contains("keeps its input") && !text.contains("add --keep-going"),
            "{text}"
        );
        assert!(!at.join("out.mkv").exists());
    }
    // A driver that crashes is none either.
    let line = format!("film.mp4 -o out.mkv {HOW} --devices cpu --keep-going");
    ends(&with_fault(at, &line, "abort:"), 5, &["failed 3 times", "signal"]);
    assert!(!at.join("out.mkv").exists());
    works(at, &line);
}

#[test]
fn a_device_that_computed_wrong_numbers_is_disabled_at_its_first_failure() {
    let at = &film();
    works(at, &format!("film.mp4 -o ref.mkv {HOW} --device cpu"));
    let line = format!("film.mp4 -o out.mkv {HOW} --devices reference,cpu --mix-devices --keep-going");
    let out = with_fault(at, &line, "wrong:reference");
    ends(&out, 0, &["reference is not used any more and what it made is made again", "conv is off"]);
    assert!(!said(&out).contains("failed on reference") && !said(&out).contains("keeps"), "{}", said(&out));
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
    remove(at, "out.mkv");
    let out = with_fault(at, &line, "wrong:");
    ends(&out, 5, &["no device is left", "what it made is not used", "conv is off"]);
    assert!(!at.join("out.mkv").exists());
}

#[test]
fn exit_codes_of_children_are_obeyed() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {HOW} --devices cpu,cpu --keep-going");
    for (fault, code, words) in [
        ("usage:", 2, &["--no-such-thing"][..]),
        ("damage:", 6, &["not what it should be"]),
        ("panic:", 101, &["internal error"]),
        ("full:", 4, &["free some space"]),
    ] {
        let out = with_fault(at, &line, fault);
        ends(&out, code, words);
        let said = said(&out);
        assert!(!said.contains("trying") && !said.contains("keeps its input"), "{fault}: {said}");
        assert!(!said.contains("--help"), "{said}");
    }
    works(at, &line);
}

#[test]
fn a_unit_that_fails_is_tried_again_with_less_and_then_left_if_asked() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {HOW} --devices cpu,cpu --ram 4G");
    let out = with_fault(at, &line, "unit:0");
    ends(&out, 3, &["unit 0 failed 3 times", "--keep-going"]);
    // The third attempt had half the memory of the first.
    let said = said(&out);
    let ram: Vec<u64> = said
        .lines()
        .filter_map(|line| line.split("ram Bytes(").nth(1)?.split(')').next()?.parse().ok())
        .collect();
    assert!(ram.len() >= 3 && ram[ram.len() - 1] == ram[0] / 2, "{ram:?} {said}");
    let out = with_fault(at, &format!("{line} --keep-going"), "unit:0");
    ends(&out, 0, &["unit 0 keeps its input frames"]);
    // Such a film is not done, unless that is asked for again.
    remove(at, "out.mkv");
    let line = line.replace("--no-manifest", "");
    ends(&with_fault(at, &format!("{line} --keep-going"), "unit:0"), 0, &["unit 0 keeps its input frames"]);
    refused(at, &line, 2, &["out.mkv has frames that were not restored, of units 0", "-y"]);
    assert!(works(at, &format!("{line} --keep-going")).contains("done already"));
    works(at, &format!("{line} -y"));
    assert!(works(at, &line).contains("done already"));
}

#[test]
fn several_devices_stop_at_the_time_of_day_behind_a_piece() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {SLOW} --devices cpu,cpu");
    works(at, &format!("film.mp4 -o ref.mkv {SLOW} --device cpu"));
    let date = Command::new("date").args(["-d", "+3 seconds", "+%H:%M:%S"]).output().unwrap();
    let time = String::from_utf8(date.stdout).unwrap();
    // Each frame takes a tenth of a second, so that a unit is not done in time.
    let out = with_fault(at, &format!("{line} --until {}", time.trim()), "slow:");
    ends(&out, 130, &["--until", "again"]);
    assert_eq!(workers(at), 0, "children are left");
    assert!(!at.join("out.mkv").exists());
    works(at, &line);
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn children_end_with_their_parent_however_it_ends() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {SLOW} --devices cpu,cpu,cpu");
    for name in ["KILL", "TERM", "INT"] {
        let mut run = slow(at, &line);
        until("no children", || workers(at) >= 2);
        signal(&run, name);
        let asked = Instant::now();
        let code = ended(&mut run, LIMIT).unwrap();
        until("children are left", || workers(at) == 0);
        assert!(asked.elapsed() < Duration::from_secs(10), "{name}: {:?}", asked.elapsed());
        let text = words(&mut run);
        if name != "KILL" {
            assert_eq!(code, 130, "{name}");
            assert!(text.contains("stopped") && !text.contains("error:"), "{text}");
        }
    }
    works(at, &line);
}

#[test]
fn progress_counts_frames_on_several_devices_and_from_where_a_run_was_stopped() {
    let at = &film();
    let line = format!("film.mp4 -o out.mkv {SLOW} --devices cpu,cpu --progress json");
    let mut run = slow(at, &line);
    until("no piece", || pieces(&at.join("out.mkv.remaster")) >= 3);
    signal(&run, "INT");
    ended(&mut run, LIMIT).unwrap();
    let text = words(&mut run);
    let done = |text: &str, phases: &[&str]| -> Vec<u64> {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let of = |line: serde_json::Value| {
            phases.iter().any(|phase| line["phase"] == **phase).then(|| line["done"].as_u64()).flatten()
        };
        lines.filter(|line| line["event"] == "progress").filter_map(of).collect()
    };
    // A line shows the first phase that is not done: three pieces may be decoded between two lines.
    let counts = done(&text, &["encode", "restore", "decode"]);
    assert!(counts.iter().any(|n| *n > 0 && *n < 97), "{text}");
    let text = works(at, &line);
    let at_frame = text.split("resuming at frame ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let first = *done(&text, &["decode"]).first().unwrap();
    assert!(at_frame.parse::<u64>().unwrap() > 0 && first >= at_frame.parse().unwrap(), "{at_frame} {text}");
    assert!(text.contains("of 97"), "{text}");
}

/// A terminal for a run: what is written to it is typed there.
fn on_a_terminal(folder: &Path, line: &str) -> Child {
    let typed = format!("'{}' {line}", env!("CARGO_BIN_EXE_remaster"));
    let mut command = Command::new("script");
    command.args(["-qfec", &typed, "shown"]).current_dir(folder).env("TERM", "xterm");
    private(&mut command, folder);
    command.env("REMASTER_TEST_UNIT", "slow:").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// `p` makes a run wait and go on: of the first film of a batch and of the second, in this process and in others.
#[test]
fn a_key_pauses_every_film_and_all_devices() {
    let at = &Desk::new();
    // Two units each.
    three_shots(at, [24, 20, 12], "a.mp4");
    three_shots(at, [24, 20, 12], "b.mp4");
    for (name, device) in [("one", "--device cpu"), ("two", "--devices cpu,cpu")] {
        let line = format!("batch a.mp4 b.mp4 -d {name} {SLOW} {device}");
        let mut run = on_a_terminal(at, &line);
        let mut keys = run.stdin.take().unwrap();
        let shown =
            || String::from_utf8_lossy(&std::fs::read(at.join("shown")).unwrap_or_default()).into_owned();
        for (number, film) in ["a", "b"].into_iter().enumerate() {
            let store = at.join(format!("{name}/{film}_upscaled.mp4.remaster"));
            until("no piece", || pieces(&store) > 0);
            std::io::Write::write_all(&mut keys, b"p").unwrap();
            until("not paused", || shown().matches("paused; press p to resume").count() == number + 1);
            // What had begun when the key was pressed ends; then nothing moves.
            let (mut before, mut since) = (pieces(&store), Instant::now());
            while since.elapsed() < Duration::from_secs(4) {
                std::thread::sleep(Duration::from_millis(50));
                if pieces(&store) != before {
                    (before, since) = (pieces(&store), Instant::now());
                }
                assert!(store.exists(), "{name} {film}: it goes on while it is paused");
            }
            assert!(shown().contains("paused, "), "the bar says it");
            std::io::Write::write_all(&mut keys, b"p").unwrap();
            until("not resumed", || shown().matches("note: resumed").count() == number + 1);
        }
        assert_eq!(ended(&mut run, LIMIT), Some(0), "{}", shown());
        assert_eq!(shown().matches("wrote ").count(), 2, "{}", shown());
        remove(at, "shown");
    }
}
