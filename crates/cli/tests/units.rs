//! Films by units: killed and gone on with, done elsewhere and joined, on several devices, in batches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]
#![cfg(unix)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn ffmpeg(args: &[&str]) {
    let out = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// 97 frames in three shots, with sound.
fn three_shots(folder: &Path) {
    let graph = "testsrc2=s=64x48:r=25:d=4,format=yuv420p,trim=end_frame=40[a];\
        mandelbrot=s=64x48:r=25:start_scale=0.3,format=yuv420p,trim=end_frame=27[b];\
        smptebars=s=64x48:r=25:d=4,format=yuv420p,trim=end_frame=30[c];[a][b][c]concat=n=3";
    let film = folder.join("film.mp4");
    let sine = "sine=frequency=440:duration=3.88";
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        graph,
        "-f",
        "lavfi",
        "-i",
        sine,
        "-c:v",
        "libx264",
        "-crf",
        "8",
        "-c:a",
        "aac",
        "-metadata",
        "title=Holiday",
        film.to_str().unwrap(),
    ]);
}

/// 260 frames without a cut.
fn one_shot(folder: &Path) {
    let film = folder.join("tape.mkv");
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "mandelbrot=s=64x48:r=25:start_scale=0.3",
        "-frames:v",
        "260",
        "-c:v",
        "libx264",
        "-crf",
        "8",
        "-pix_fmt",
        "yuv420p",
        film.to_str().unwrap(),
    ]);
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    command
        .current_dir(folder)
        .args(line.split_whitespace())
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .stdin(Stdio::null());
    command
}

fn remaster(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

fn works(folder: &Path, line: &str) -> String {
    let out = remaster(folder, line);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{line}: {said}");
    format!("{}{said}", String::from_utf8_lossy(&out.stdout))
}

fn refused(folder: &Path, line: &str, code: i32, words: &[&str]) {
    let out = remaster(folder, line);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{line}: {said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{line}: no `{word}` in {said}"));
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !["cache", "none", "said"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// Numbers that look random and are the same in every run of the test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Processes that were started by this one, and theirs.
fn descendants(of: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (pid, parent)));
    }
    let mut found = vec![of];
    let mut i = 0;
    while i < found.len() {
        let at = found[i];
        found.extend(parents.iter().filter(|(_, parent)| *parent == at).map(|(pid, _)| *pid));
        i += 1;
    }
    found.split_off(1)
}

fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// No run of these films takes this long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether a run ended within the time, and how.
fn ended(child: &mut Child, within: Duration) -> Option<bool> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.success());
        }
        if began.elapsed() >= within {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the run at a random moment: itself, all of its processes, or one child. True if it made the film all the same.
fn end(child: &mut Child, dice: &mut Dice, longest: Duration) -> bool {
    if let Some(made) = ended(child, longest.mul_f64(dice.roll(1000) as f64 / 1000.0)) {
        return made;
    }
    let children = descendants(child.id());
    match (dice.roll(4), children.len() as u64) {
        (0, 1..) => {
            kill(children[dice.roll(children.len() as u64) as usize]);
            // It ends with an error, or it did not need that child any more.
            return ended(child, LIMIT).unwrap_or_else(|| {
                let left = descendants(child.id());
                left.iter().copied().chain([child.id()]).for_each(kill);
                panic!("a run without one of its children did not end in {LIMIT:?}; it had {left:?}")
            });
        }
        (1, _) => children.iter().copied().chain([child.id()]).for_each(kill),
        _ => kill(child.id()),
    }
    let _ = child.wait();
    // Children of a dead parent end by themselves; the next run must not care.
    false
}

/// Runs a command, which is killed `kills` times in all, as often as it takes; returns how often it was started.
fn with_kills(folder: &Path, line: &str, output: &str, expected: &[u8], kills: usize, seed: u64) -> usize {
    let mut dice = Dice(seed);
    let began = Instant::now();
    works(folder, line);
    let longest = began.elapsed().mul_f64(1.1);
    assert_eq!(bytes(folder, output), expected, "undisturbed");
    std::fs::remove_file(folder.join(output)).unwrap();
    let mut starts = 0;
    let mut killed = 0;
    while killed < kills {
        // The machine may become slower while this runs: a run gets more time after each kill, so that the film is made.
        let mut most = longest;
        loop {
            starts += 1;
            let mut run = command(folder, line);
            let before = || String::from_utf8_lossy(&bytes(folder, "said")).into_owned();
            assert!(starts < 10 * kills + 10, "no run makes the film: {}", before());
            let said = std::fs::File::create(folder.join("said")).unwrap();
            let mut child = run.stdout(Stdio::null()).stderr(said).process_group(0).spawn().unwrap();
            if end(&mut child, &mut dice, most) || folder.join(output).exists() {
                break;
            }
            killed += 1;
            most = most.mul_f64(1.3);
        }
        // Whatever was the last thing that a killed run did, the film is whole, and it is the film.
        if !folder.join(output).exists() {
            works(folder, line);
        }
        assert_eq!(bytes(folder, output), expected, "after {killed} kills");
        std::fs::remove_file(folder.join(output)).unwrap();
        let _ = std::fs::remove_dir_all(folder.join(format!("{output}.remaster")));
    }
    starts
}

/// How often runs are killed: REMASTER_KILLS in all, or a few.
fn kills() -> usize {
    std::env::var("REMASTER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

const THREE: &str = "film.mp4 -o out.mkv -q --model identity --resolution 96 --unit-frames 50 --piece-frames 10 \
    --checkpoint 0s --no-manifest";
const ONE: &str = "tape.mkv -o out.mp4 -q --model identity --resolution 48 --window 17 --unit-frames 100 --piece-frames 30 \
    --checkpoint 0s --no-manifest";

#[test]
fn a_film_that_is_killed_is_the_same_film() {
    let folder = tempfile::tempdir().unwrap();
    three_shots(folder.path());
    works(folder.path(), &THREE.replace("out.mkv", "ref.mkv"));
    let expected = bytes(folder.path(), "ref.mkv");
    let starts = with_kills(folder.path(), THREE, "out.mkv", &expected, kills() / 2, 0x5eed);
    assert!(starts > kills() / 2);
    let left = names(folder.path());
    assert!(left.iter().all(|name| ["film.mp4", "ref.mkv"].contains(&name.as_str())), "{left:?}");
}

#[test]
fn a_tape_without_cuts_that_is_killed_is_the_same_tape() {
    let folder = tempfile::tempdir().unwrap();
    one_shot(folder.path());
    works(folder.path(), &ONE.replace("out.mp4", "ref.mp4"));
    let expected = bytes(folder.path(), "ref.mp4");
    with_kills(folder.path(), ONE, "out.mp4", &expected, kills() / 2, 0xf11f);
}

/// Whether there is a file of this name below a folder.
fn holds(folder: &Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name() == name || holds(&entry.path(), name))
}

/// Another film under the name of the one that is restored: nothing of it gets into the result or into what is kept.
#[test]
fn a_film_that_is_replaced_meanwhile_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    ffmpeg(&[
        "-i",
        at.join("film.mp4").to_str().unwrap(),
        "-vf",
        "negate",
        "-c:a",
        "copy",
        at.join("other.mp4").to_str().unwrap(),
    ]);
    let how = "-q --model formula:tiny-3b --resolution 32x32 --device cpu --dtype f32 --unit-frames 50 --piece-frames 10 \
        --checkpoint 0s --no-manifest";
    works(at, &format!("film.mp4 -o ref.mkv {how}"));
    let line = format!("film.mp4 -o out.mkv {how}");
    let run = command(at, &line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !holds(&at.join("out.mkv.remaster"), "done.json") {
        assert!(began.elapsed() < Duration::from_secs(300), "no unit was done");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::rename(at.join("film.mp4"), at.join("kept.mp4")).unwrap();
    std::fs::rename(at.join("other.mp4"), at.join("film.mp4")).unwrap();
    let out = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("film.mp4 is not the film that was planned"), "{said}");
    assert!(!at.join("out.mkv").exists());
    std::fs::rename(at.join("kept.mp4"), at.join("film.mp4")).unwrap();
    works(at, &line);
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn units_of_a_tape_are_the_tape() {
    let folder = tempfile::tempdir().unwrap();
    one_shot(folder.path());
    // Lossless, so that only the frames count.
    let line = |cut: &str, to: &str| {
        format!(
            "tape.mkv -o {to} -q --model formula:tiny-3b --resolution 32x32 --window 17 --device cpu --dtype f32 \
             --lossless {cut}"
        )
    };
    works(folder.path(), &line("--unit-frames 100 --piece-frames 25", "cut.mkv"));
    works(folder.path(), &line("", "whole.mkv"));
    let frames = |name: &str| {
        let out = Command::new("ffmpeg")
            .args(["-v", "error", "-i", folder.path().join(name).to_str().unwrap()])
            .args(["-map", "0:v", "-f", "framemd5", "-"])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let (cut, whole) = (frames("cut.mkv"), frames("whole.mkv"));
    assert_eq!(cut.lines().filter(|line| !line.starts_with('#')).count(), 260);
    assert_eq!(cut, whole);
}

#[test]
fn a_plan_is_done_anywhere_and_joined_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    let how = "--model identity --resolution 96 --unit-frames 45 --piece-frames 20";
    works(at, &format!("film.mp4 -o here.mkv {how} --no-manifest"));
    works(at, &format!("plan film.mp4 -o there.mkv --store store {how}"));
    refused(at, "assemble --plan store", 3, &["3 of 3 units are not done", "unit 0"]);
    refused(at, "unit run --plan store --index 3", 2, &["no unit 3", "the plan has 3"]);
    refused(at, "unit run --plan nowhere --index 0", 3, &["nowhere"]);
    let said: Value = serde_json::from_str(&works(at, "unit run --plan store --index 0,2 --json")).unwrap();
    assert_eq!(said["done"], serde_json::json!([0, 2]));
    refused(at, "assemble --plan store", 3, &["1 of 3 units", "unit 1"]);
    let said: Value = serde_json::from_str(&works(at, "unit run --plan store --index 0-2 --json")).unwrap();
    assert_eq!((&said["done"], &said["elsewhere"]), (&serde_json::json!([1]), &serde_json::json!([0, 2])));
    works(at, "assemble --plan store");
    assert_eq!(bytes(at, "there.mkv"), bytes(at, "here.mkv"));
    works(at, "assemble --plan store -o again.mkv");
    assert_eq!(bytes(at, "again.mkv"), bytes(at, "here.mkv"));
    refused(at, "assemble --plan store", 2, &["there.mkv", "exists"]);
    refused(at, "assemble --plan store -o other.mp4", 2, &["other.mp4", "container"]);

    // Settings travel with the film if somebody wants that.
    works(at, "assemble --plan store -o told.mkv --embed-manifest");
    let tags = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "format_tags=REMASTER", "-of", "default=nk=1:nw=1"])
        .arg(at.join("told.mkv"))
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&tags.stdout).unwrap();
    assert_eq!(
        (&told["frames"], &told["settings"]["mix"]),
        (&serde_json::json!(97), &serde_json::json!(false))
    );
    refused(
        at,
        "film.mp4 -o told.mp4 --model identity --resolution 96 --embed-manifest",
        2,
        &["told.mp4", ".mkv"],
    );

    // The film and its manifest belong together.
    assert!(works(at, "verify there.mkv").contains("as it was written"));
    let mut film = bytes(at, "there.mkv");
    let middle = film.len() / 2;
    film[middle] ^= 1;
    std::fs::write(at.join("there.mkv"), film).unwrap();
    refused(at, "verify there.mkv", 6, &["there.mkv", "not what"]);
    refused(at, "verify film.mp4", 3, &["manifest"]);

    // Another film under the same name, and a plan that somebody changed.
    std::fs::write(at.join("film.mp4"), bytes(at, "here.mkv")).unwrap();
    refused(at, "assemble --plan store -o late.mkv", 3, &["film.mp4", "not the film that was planned"]);
    let plan = String::from_utf8(bytes(at, "store/plan.json")).unwrap();
    std::fs::write(at.join("store/plan.json"), plan.replace("--resolution=96", "--resolution=97")).unwrap();
    refused(at, "assemble --plan store -o late.mkv", 3, &["plan.json", "damaged"]);
}

#[test]
fn unfinished_work_is_for_the_same_settings_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    let line = "film.mp4 -o out.mkv --model identity --resolution 96 --unit-frames 45";
    works(at, &format!("{line} --keep"));
    assert!(at.join("out.mkv.remaster").is_dir());
    std::fs::remove_file(at.join("out.mkv")).unwrap();
    refused(at, &format!("{line} --seed 7"), 2, &["out.mkv.remaster", "--seed=7", "--restart"]);
    refused(at, &line.replace("identity", "formula:tiny-3b"), 2, &["other models"]);
    assert!(works(at, line).contains("3 of 3 units are done"));
    assert!(!at.join("out.mkv.remaster").exists());
    std::fs::remove_file(at.join("out.mkv")).unwrap();
    works(at, &format!("{line} --keep"));
    std::fs::remove_file(at.join("out.mkv")).unwrap();
    works(at, &format!("{line} --seed 7 --restart"));
    assert!(!at.join("out.mkv.remaster").exists());
    // What fails before there is work leaves nothing behind.
    refused(at, "film.mp4 -o no.mkv --model identity --video libnone", 2, &["libnone"]);
    assert!(!at.join("no.mkv.remaster").exists());
    refused(at, "film.mp4 -o no.png --model identity --devices cpu,cpu", 2, &["--devices"]);
    let encoder = "film.mp4 -o no.mkv --model identity --resolution 96 --video mpeg4";
    refused(at, encoder, 2, &["mpeg4", "--mix-devices"]);
    works(at, &format!("{encoder} --mix-devices"));
}

#[test]
fn several_devices_and_a_killed_child_make_the_same_film() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    let how = "--model identity --resolution 96 --unit-frames 20 --piece-frames 10 --no-manifest -q";
    works(at, &format!("film.mp4 -o ref.mkv {how} --device cpu"));
    let line = format!("film.mp4 -o out.mkv {how} --devices cpu,cpu");
    let mut child = command(at, &line).process_group(0).spawn().unwrap();
    // One child of the run, and not its ffmpegs.
    let began = Instant::now();
    let worker = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "no child");
        let is_worker = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"unit"))
        };
        if let Some(pid) = descendants(child.id()).into_iter().find(is_worker) {
            break pid;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    kill(worker);
    assert!(child.wait().unwrap().success());
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn a_unit_that_is_left_has_the_frames_of_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    works(at, "plan film.mp4 -o out.mkv --store store --model nano --resolution 96 --unit-frames 45");
    works(at, "unit run --plan store --index 1,2");
    works(at, "unit run --plan store --index 0 --leave");
    let said: Value = serde_json::from_str(&works(at, "assemble --plan store --json -q")).unwrap();
    assert_eq!((&said["left"], &said["frames"]), (&serde_json::json!([0]), &serde_json::json!(97)));
    assert!(works(at, "verify out.mkv").contains("not restored"));
}

#[test]
fn a_run_stops_at_the_time_of_day_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    let line = "film.mp4 -o out.mkv --model identity --resolution 96 --unit-frames 20 --piece-frames 3 --no-manifest";
    works(at, &line.replace("out.mkv", "ref.mkv"));
    let date = Command::new("date").args(["-d", "+1 seconds", "+%H:%M:%S"]).output().unwrap();
    let until = String::from_utf8(date.stdout).unwrap();
    refused(at, &format!("{line} --until {}", until.trim()), 130, &["--until", "again"]);
    assert!(at.join("out.mkv.remaster").is_dir() && !at.join("out.mkv").exists());
    assert!(works(at, line).contains("resuming"));
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn a_hostile_plan_reaches_no_option() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    works(at, "plan film.mp4 -o out.mkv --store store --model identity --resolution 96");
    let sealed: Value = serde_json::from_slice(&bytes(at, "store/plan.json")).unwrap();
    for word in
        ["--ffmpeg=/bin/false", "--output=/etc/passwd", "-y", "--keep-latents=/x", "--config=x", "--", "x"]
    {
        let mut body = sealed["body"].clone();
        body["plan"]["settings"]["words"] = serde_json::json!([word]);
        forge(&at.join("store/plan.json"), body);
        refused(at, "unit run --plan store --index 0", 2, &["settings of the plan"]);
        refused(at, "assemble --plan store -o a.mkv", 2, &["settings of the plan"]);
    }
    let changes: [(&str, Value); 5] = [
        ("/plan/piece_frames", serde_json::json!(0)),
        ("/plan/time_base/den", serde_json::json!(0)),
        ("/plan/frames", serde_json::json!(u64::MAX)),
        ("/plan/version", serde_json::json!(9)),
        ("/plan/units", serde_json::json!([])),
    ];
    for (place, value) in changes {
        let mut body = sealed["body"].clone();
        *body.pointer_mut(place).unwrap() = value;
        forge(&at.join("store/plan.json"), body);
        refused(at, "unit run --plan store --index 0", 3, &["plan"]);
    }
}

/// Writes a plan with a right hash, as somebody with write access could.
fn forge(path: &Path, body: Value) {
    use std::io::Write;
    let body = body.to_string();
    let mut hash = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    hash.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let hash = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap();
    let text = format!(
        "{{\"format\":\"remaster plan\",\"version\":1,\"sha256\":\"{}\",\"body\":{body}}}\n",
        &hash[..64]
    );
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_batch_goes_on_skips_what_is_done_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let films = at.join("films");
    std::fs::create_dir(&films).unwrap();
    three_shots(&films);
    std::fs::write(films.join("broken.mkv"), b"no film").unwrap();
    std::fs::write(films.join("notes.txt"), b"no film").unwrap();
    let hook = at.join("hook");
    std::fs::write(&hook, "#!/bin/sh\necho \"$1 $2 $3\" >> hooked\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let line = "batch films -d out --model identity --resolution 96 --report report.json --on-done ./hook";
    std::fs::create_dir(at.join("out")).unwrap();
    refused(at, line, 3, &["1 of 2 films failed", "broken.mkv"]);
    let report: Value = serde_json::from_slice(&bytes(at, "report.json")).unwrap();
    assert_eq!((&report["done"], &report["failed"]), (&serde_json::json!(1), &serde_json::json!(1)));
    let film = at.join("out/film_upscaled.mp4");
    let first = std::fs::read(&film).unwrap();
    // Once more: what is done is skipped, whatever else failed.
    std::fs::remove_file(films.join("broken.mkv")).unwrap();
    works(at, line);
    let report: Value = serde_json::from_slice(&bytes(at, "report.json")).unwrap();
    assert_eq!((&report["done"], &report["skipped"]), (&serde_json::json!(0), &serde_json::json!(1)));
    assert_eq!(std::fs::read(&film).unwrap(), first);
    let hooked = String::from_utf8(bytes(at, "hooked")).unwrap();
    let statuses: Vec<&str> = hooked.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["failed", "done", "skipped"]);
    // With other settings it is another film, and nothing is overwritten unasked.
    refused(at, &format!("{line} --seed 3"), 3, &["exists"]);
    works(at, &format!("{line} --seed 3 -y"));
    // A list, with outputs of its own.
    std::fs::write(at.join("list.txt"), "# films\nfilms/film.mp4\tlisted.mkv\n\n").unwrap();
    works(at, "batch --list list.txt --model identity --resolution 96 -q");
    assert!(at.join("listed.mkv").is_file());
    refused(at, "batch --model identity", 2, &["no films"]);
    std::fs::write(at.join("list.txt"), "a\tb\tc\n").unwrap();
    refused(at, "batch --list list.txt", 2, &["list.txt", "line 1"]);
}

/// A small file system in memory; `None` where that is not allowed.
fn small_disk(folder: &Path, megabytes: u64) -> Option<Mounted> {
    std::fs::create_dir_all(folder).unwrap();
    let size = format!("size={megabytes}m");
    let mount = ["-t", "tmpfs", "-o", &size, "tmpfs", folder.to_str().unwrap()];
    let done = Command::new("mount").args(mount).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then(|| Mounted(folder.to_owned()))
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    three_shots(at);
    let Some(disk) = small_disk(&at.join("disk"), 64) else { return };
    let how = "--model identity --resolution 96 --unit-frames 30 --piece-frames 10 --no-manifest --lossless \
        --checkpoint 0s --disk 4G --spill .";
    works(at, &format!("film.mp4 -o ref.mkv {how} -q"));
    std::fs::write(disk.0.join("ballast"), vec![0; (64 << 20) - (1 << 18)]).unwrap();
    refused(
        at,
        &format!("film.mp4 -o disk/out.mkv {how} --wait-disk 0s"),
        4,
        &["nothing is lost", "make room", "same command again"],
    );
    let line = format!("film.mp4 -o disk/out.mkv {how} --wait-disk 2m");
    let mut child =
        command(at, &line).stderr(std::fs::File::create(at.join("said")).unwrap()).spawn().unwrap();
    let said = || String::from_utf8_lossy(&bytes(at, "said")).into_owned();
    while !said().contains("waiting") && ended(&mut child, Duration::from_millis(100)).is_none() {}
    std::fs::remove_file(disk.0.join("ballast")).unwrap();
    assert_eq!(ended(&mut child, LIMIT), Some(true), "{}", said());
    let said = said();
    assert!(said.contains("waiting up to 2 min") && said.contains("space is available again"), "{said}");
    assert_eq!(bytes(at, "disk/out.mkv"), bytes(at, "ref.mkv"));
}
